"""The Secrets of the checkpoint on the host: read once, then written key by key.

Each write carries the last version. After a conflict with another writer, as an earlier leader, the
Secret is read again and overwritten: the state of the leader counts. So it is after a write without
a result. One that cannot be read, as after its encryption key was lost, loses its content.
"""

import asyncio
import base64
import binascii
from collections import defaultdict
from collections.abc import Iterator, Mapping

from karmada_vc_agent.features.checkpoint.entries import (
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
from karmada_vc_agent.model.domain import AGENT_LABEL, secret_names
from karmada_vc_agent.model.objects import Object, is_map_of_texts

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
        self._namespace = namespace
        self._agent = agent
        self.names = secret_names(agent)
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._versions: dict[int, str] = {}
        self._entries: dict[int, dict[str, tuple[str, int]]] = {}
        self._doubtful: set[int] = set()
        self._unreadable: set[int] = set()
        self._left_out: set[str] = set()
        self.unread: dict[str, str] = {}
        """Name of a Secret that could not be read -> why."""
        self.surprises = 0
        """How often a Secret was not as it was left; its cached content may be lost."""

    async def load(self, attempts: int = ATTEMPTS) -> list[dict[str, str]]:
        """Return the data of all Secrets, {} for one that cannot be read.

        Raises KubeError if that is not about one Secret.
        """
        numbers = range(len(self.names))
        return await asyncio.gather(*(self._load(number, attempts) for number in numbers))

    async def _load(self, number: int, attempts: int) -> dict[str, str]:
        for pause_s in (*[READ_PAUSE_S] * (attempts - 1), 0.0):
            try:
                data = await self._read(number)
            except _OF_ALL:
                raise
            except KubeError as error:
                self.unread[self.names[number]] = str(error)
                await asyncio.sleep(pause_s)
            else:
                self.unread.pop(self.names[number], None)
                return data
        self._doubtful.add(number)
        return {}

    @property
    def exist(self) -> bool:
        """Return whether there is any of them."""
        return bool(self._versions)

    @property
    def too_large(self) -> frozenset[str]:
        """Return the virtual clusters of which not everything fits."""
        return frozenset(map(cluster_of_key, self._left_out))

    def identity(self, number: int, key: str) -> str:
        """Return the identity of an entry, "" where there is none."""
        return self._entries.get(number, {}).get(key, ("", 0))[0]

    def doubt_all(self) -> None:
        """Have all Secrets read again: the host was restored, or they could not be read."""
        self._doubtful.update(range(len(self.names)))
        self._unreadable.clear()

    async def settle(self) -> None:
        """Read again what may differ from how it was left, as far as it can be read.

        Raises KubeError if it is the same for all of them.
        """
        for number in self._doubtful - self._unreadable:
            try:
                await self._settle(number)
            except _OF_ALL:
                raise
            except KubeError:  # the next write to it raises
                self._unreadable.add(number)

    async def _settle(self, number: int) -> None:
        before = self._versions.get(number), self._entries.get(number)
        await self._read(number)
        self.surprises += before != (self._versions.get(number), self._entries.get(number))
        self._doubtful.discard(number)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield (number, key) of all entries."""
        for number, entries in self._entries.items():
            for key in list(entries):
                yield number, key

    async def write_bounded(self, number: int, changes: Changes) -> None:
        """Write some entries of a Secret; what does not fit is left out. Raises KubeError."""
        sizes = {key: size for key, (_, size) in self._entries.get(number, {}).items()}
        sizes |= {key: len(new) for key, new in changes.items() if new is not None}
        sizes = {k: size for k, size in sizes.items() if changes.get(k, b"") is not None}
        dropped = left_out(sizes)
        await self.write(number, {**changes, **dict.fromkeys(dropped)})
        self._left_out = (self._left_out - changes.keys()) | dropped

    def forget_left_out(self, cluster: str) -> None:
        """Forget what did not fit of a virtual cluster."""
        self._left_out = {key for key in self._left_out if cluster_of_key(key) != cluster}

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
                "namespace": self._namespace,
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
