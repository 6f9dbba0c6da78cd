"""The Secrets of the checkpoint on the host: read once, then written key by key.

Each write carries the last version. After a conflict with another writer, as an earlier leader, the
Secret is read again and overwritten: the state of the leader counts. So it is after a write without
a result. One that cannot be read, as after its encryption key was lost, loses its content.
"""

import asyncio
import base64
import binascii
import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from karmada_vc_agent.features.checkpoint.entries import (
    LARGEST_SECRET,
    cluster_of_key,
    identity,
    left_out,
    place_of,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    PageError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
)
from karmada_vc_agent.kube.tasks import retry_on
from karmada_vc_agent.model.domain import AGENT_LABEL, secret_names
from karmada_vc_agent.model.objects import Object, is_map_of_texts

FIRST_S = 10.0
"""The first retry is that of the next write, 5 s later: most refusals end by then."""
LONGEST_S = 300.0
"""To encode 10,000 Works takes 2 s, and a host that refuses them once mostly continues to."""


class Failures:
    """The last error of each write: of a virtual cluster, or of another key."""

    def __init__(self) -> None:
        self.errors: dict[str, KubeError] = {}
        self._times: dict[str, int] = {}
        self._due_at: dict[str, float] = {}

    def is_due(self, key: str) -> bool:
        """Return whether to try it now."""
        return key not in self.errors or _now() >= self._due_at[key]

    def failed(self, key: str, error: KubeError) -> int:
        """Note an error; return how many there were in a row."""
        times = self._times[key] = self._times.get(key, 0) + 1
        pause_s = 0.0 if times == 1 else min(LONGEST_S, FIRST_S * 2.0 ** min(times - 2, 10))
        self.errors[key], self._due_at[key] = error, _now() + pause_s
        return times

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Forget what is not to be written any more."""
        for key in self.errors.keys() - keys:
            self.passed(key)

    def passed(self, key: str) -> None:
        """Note that it was written."""
        self.errors.pop(key, None)
        self._times.pop(key, None)


def _now() -> float:
    return asyncio.get_running_loop().time()


_log = logging.getLogger(__name__)

ATTEMPTS = 5
READ_PAUSE_S = 1.0
"""Between two attempts to read a Secret that the host has, and fails to show."""
_OF_ALL = (UnreachableError, UnreadableError, ForbiddenError, UnauthorizedError, PageError)
"""Errors that are not about one Secret: they do not show what is kept."""
Changes = Mapping[str, bytes | None]
"""Key of a Secret -> its new content, None = it is removed."""


class CheckpointSecrets:
    """The Secrets by number, and the identity and size of each entry by key."""

    def __init__(self, host: ApiClient, namespace: str, agent: str) -> None:
        self._host = host
        self.namespace = namespace
        self._agent = agent
        self.names = secret_names(agent)
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._versions: dict[int, str] = {}
        self._entries: dict[int, dict[str, tuple[str, int]]] = {}
        self._doubtful: set[int] = set()
        self._unread = Failures()
        self._left_out: dict[str, tuple[int, int]] = {}
        self.unread: dict[str, str] = {}
        """Name of a Secret that could not be read -> why."""
        self.surprises = 0
        """How often a Secret was not as it was left; its cached content may be lost."""

    async def load(self) -> list[dict[str, str]]:
        """Return the data of all Secrets, {} for one that cannot be read.

        Raises KubeError if that is not about one Secret.
        """
        return await asyncio.gather(*(self._load(number) for number in range(len(self.names))))

    async def _load(self, number: int) -> dict[str, str]:
        async def read() -> dict[str, str] | KubeError:
            try:
                return await self._read(number)
            except _OF_ALL as error:
                return error  # no retry: it is not about this Secret

        try:
            data = await retry_on(KubeError, ATTEMPTS, read, READ_PAUSE_S)
        except KubeError as error:
            self._doubtful.add(number)
            self.unread[self.names[number]] = str(error)
            extra = {"secret": self.names[number], "reason": str(error)}
            _log.warning("Cannot read a part of the checkpoint; delete the Secret", extra=extra)
            return {}
        if isinstance(data, KubeError):
            raise data
        return data

    async def peek(self) -> list[dict[str, str]]:
        """Return the data of all Secrets as they can be read now, without a retry or log.

        Raises KubeError if that is not about one Secret.
        """
        return await asyncio.gather(*(self._peek(number) for number in range(len(self.names))))

    async def _peek(self, number: int) -> dict[str, str]:
        try:
            return await self._read(number)
        except _OF_ALL:
            raise
        except KubeError as error:
            self.unread[self.names[number]] = str(error)
            return {}

    @property
    def exist(self) -> bool:
        """Return whether there is any of them."""
        return bool(self._versions)

    @property
    def too_large(self) -> dict[str, frozenset[str]]:
        """Return virtual cluster -> keys that did not fit."""
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for key in self._left_out:
            keys[cluster_of_key(key)].add(key)
        return {cluster: frozenset(own) for cluster, own in keys.items()}

    def identity(self, number: int, key: str) -> str:
        """Return the identity of an entry, "" where there is none."""
        return self._entries.get(number, {}).get(key, ("", 0))[0]

    def _sizes(self, number: int) -> dict[str, int]:
        """Return the bytes of each entry of a Secret."""
        return {key: size for key, (_, size) in self._entries.get(number, {}).items()}

    def doubt_all(self) -> None:
        """Have all Secrets read again: the host was restored, or they could not be read."""
        self._doubtful.update(range(len(self.names)))

    async def settle(self) -> None:
        """Read again what may differ from how it was left, as far as it can be read.

        Raises KubeError if it is the same for all of them.
        """
        for number in tuple(self._doubtful):
            if not self._unread.is_due(self.names[number]):
                continue
            try:
                await self._settle(number)
            except _OF_ALL:
                raise
            except KubeError as error:  # the next write to it raises
                self._unread.failed(self.names[number], error)

    async def _settle(self, number: int) -> None:
        before = self._versions.get(number), self._entries.get(number)
        await self._read(number)
        self._unread.passed(self.names[number])
        self.surprises += before != (self._versions.get(number), self._entries.get(number))
        self._doubtful.discard(number)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield (number, key) of all entries."""
        for number, entries in self._entries.items():
            for key in list(entries):
                yield number, key

    async def write_bounded(self, number: int, changes: Changes) -> None:
        """Write some entries of a Secret; what does not fit is left out. Raises KubeError."""
        sizes = self._sizes(number)
        sizes |= {key: len(new) for key, new in changes.items() if new is not None}
        sizes = {k: size for k, size in sizes.items() if changes.get(k, b"") is not None}
        dropped = left_out(sizes)
        await self.write(number, {**changes, **dict.fromkeys(dropped)})
        for key in changes:
            self._left_out.pop(key, None)
        self._left_out |= {key: (number, sizes[key]) for key in dropped}

    def parts_that_fit(self, cluster: str) -> set[int]:
        """Return the parts of the Works of a virtual cluster that did not fit, and would now."""
        return {
            int(key.rpartition(".")[2])
            for key, (number, size) in self._left_out.items()
            if cluster_of_key(key) == cluster
            and sum(self._sizes(number).values()) + size <= LARGEST_SECRET
        }

    def forget_left_out(self, cluster: str, but: str = "") -> None:
        """Forget what did not fit of a virtual cluster. but: prefix of keys to keep."""
        self._left_out = {
            key: place
            for key, place in self._left_out.items()
            if cluster_of_key(key) != cluster or (but and key.startswith(but))
        }

    async def write(self, number: int, changes: Changes) -> None:
        """Write some entries of a Secret, as far as they differ. Raises KubeError."""
        if number in self._doubtful:
            await self._settle(number)
        changes = {key: new for key, new in changes.items() if self._differs(number, key, new)}
        if not changes:
            return
        for attempt in range(ATTEMPTS):
            try:
                await self._write(number, changes)
            except (AlreadyExistsError, ConflictError, NotFoundError):
                if attempt == ATTEMPTS - 1:
                    raise
                self._doubtful.add(number)
                await self._settle(number)
            except BaseException as error:
                if not _is_refusal(error):
                    self._doubtful.add(number)
                raise
            else:
                return

    async def remove(self, cluster: str) -> bool:
        """Remove all entries of a virtual cluster; return whether there were any. Raises KubeError.

        Its Cluster first: without it nothing of the rest is used.
        """
        removed: defaultdict[int, dict[str, bytes | None]] = defaultdict(dict)
        for number, key in self:
            if cluster_of_key(key) == cluster:
                removed[number][key] = None
        home = place_of(cluster, 0)
        for number in sorted(removed, key=lambda each: each != home):
            await self.write(number, removed[number])
        self.forget_left_out(cluster)
        return bool(removed)

    def _differs(self, number: int, key: str, new: bytes | None) -> bool:
        return self.identity(number, key) != (identity(new) if new is not None else "")

    async def _write(self, number: int, changes: Changes) -> None:
        data = {
            key: base64.b64encode(new).decode() if new is not None else None
            for key, new in changes.items()
        }
        version = self._versions.get(number)
        if version is None:
            filled = {key: text for key, text in data.items() if text is not None}
            answer = await self._host.create(self._collection, self._secret(number, filled))
        else:
            patch = {"metadata": {"resourceVersion": version}, "data": data}
            answer = await self._host.merge_patch(self._path(number), patch)
        self._take(number, answer)

    async def _read(self, number: int) -> dict[str, str]:
        try:
            return self._take(number, await self._host.get(self._path(number)))
        except NotFoundError:
            self._versions.pop(number, None)
            self._entries.pop(number, None)
            return {}

    def _take(self, number: int, secret: Object) -> dict[str, str]:
        value = secret.get("data")
        data: dict[str, str] = value if is_map_of_texts(value) and isinstance(value, dict) else {}
        self._versions[number] = str(secret["metadata"]["resourceVersion"])
        self._entries[number] = {key: _measured(text) for key, text in data.items()}
        return data

    def _path(self, number: int) -> str:
        return f"{self._collection}/{self.names[number]}"

    def _secret(self, number: int, data: Mapping[str, str]) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.names[number],
                "namespace": self.namespace,
                "labels": {AGENT_LABEL: self._agent},
            },
            "data": dict(data),
        }


def _is_refusal(error: BaseException) -> bool:
    """Return whether nothing was written; a server that failed may have written before."""
    return isinstance(error, ApiError) and error.status < 500


def _measured(text: str) -> tuple[str, int]:
    """Return identity and size of an entry as a Secret has it."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "?", len(text)
    return identity(content), len(content)
