"""The Secrets of the checkpoint on the host: read once, then written key by key.

Each write carries the version that was seen last. Whoever wrote meanwhile, as a leader before, is
read again and overwritten: what the leader knows counts. So is a Secret after a write of which no
answer came.
"""

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping

from karmada_vc_agent.checkpoint.entries import identity
from karmada_vc_agent.checkpoint.shards import secret_names
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
)
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object, is_map_of_texts

ATTEMPTS = 5
Changes = Mapping[str, bytes | None]
"""Key of a Secret -> its new content, None = it is removed."""


class CheckpointSecrets:
    """What the Secrets have, by number and key: identity and size of each entry."""

    def __init__(self, host: ApiClient, namespace: str, agent: str) -> None:
        self._host = host
        self._namespace = namespace
        self._agent = agent
        self._names = secret_names(agent)
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._versions: dict[int, str] = {}
        self._entries: dict[int, dict[str, tuple[str, int]]] = {}
        self._doubtful: set[int] = set()
        self.surprises = 0
        """How often a Secret was not as it was left; what is known to be in it may be lost."""

    async def load(self) -> list[dict[str, str]]:
        """Return the data of all Secrets. Raises KubeError."""
        return await asyncio.gather(*(self._read(number) for number in range(len(self._names))))

    def identity(self, number: int, key: str) -> str:
        """Return the identity of an entry, "" where there is none."""
        return self._entries.get(number, {}).get(key, ("", 0))[0]

    def sizes(self, number: int) -> dict[str, int]:
        """Return the bytes of each entry of a Secret."""
        return {key: size for key, (_, size) in self._entries.get(number, {}).items()}

    async def settle(self) -> None:
        """Read again what was written without an answer. Raises KubeError."""
        for number in tuple(self._doubtful):
            self.surprises += 1
            await self._read(number)
            self._doubtful.discard(number)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield (number, key) of all entries."""
        for number, found in self._entries.items():
            for key in list(found):
                yield number, key

    async def write(self, number: int, changes: Changes) -> None:
        """Write some entries of a Secret, as far as they differ. Raises KubeError."""
        wanted = {key: new for key, new in changes.items() if self._differs(number, key, new)}
        if not wanted:
            return
        for attempt in range(ATTEMPTS):
            try:
                await self._write(number, wanted)
            except (AlreadyExistsError, ConflictError, NotFoundError):
                if attempt == ATTEMPTS - 1:
                    raise
                self._doubtful.add(number)
                await self.settle()
            except ApiError:
                raise
            except BaseException:
                self._doubtful.add(number)
                raise
            else:
                return

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
        data = secret.get("data")
        found: dict[str, str] = data if is_map_of_texts(data) and isinstance(data, dict) else {}
        self._versions[number] = str(secret["metadata"]["resourceVersion"])
        self._entries[number] = {key: _measured(text) for key, text in found.items()}
        return found

    def _path(self, number: int) -> str:
        return f"{self._collection}/{self._names[number]}"

    def _secret(self, number: int, data: Mapping[str, str]) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self._names[number],
                "namespace": self._namespace,
                "labels": {AGENT_LABEL: self._agent},
            },
            "data": dict(data),
        }


def _measured(text: str) -> tuple[str, int]:
    """Return identity and size of an entry as a Secret has it."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "?", len(text)
    return identity(content), len(content)
