"""Where the kubeconfig of the hub is kept: its file, and the Secret that file may come from."""

import asyncio
import base64
import os
import tempfile
from pathlib import Path
from typing import Protocol

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.objects import dig

SECRET_NAME = "karmada-kubeconfig"  # noqa: S105 - a Secret's name and key, as Karmada has them


class KubeconfigStore(Protocol):
    """One place; `str()` names it in messages."""

    async def read(self) -> bytes | None:
        """Return the kubeconfig, None where there is none. Raises KubeError, OSError."""

    async def write(self, content: bytes) -> None:
        """Replace what was read. Raises KubeError, OSError."""

    def is_writable(self) -> bool:
        """Whether there is a point in trying."""


class FileStore:
    """A kubeconfig on disk; a mounted Secret is one that cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        """Return the path."""
        return str(self._path)

    async def read(self) -> bytes | None:
        """Return the content of the file."""
        return await asyncio.to_thread(self._path.read_bytes)

    async def write(self, content: bytes) -> None:
        """Replace the file by one for its owner only; no reader ever sees a part of it."""
        await asyncio.to_thread(self._replace, content)

    def _replace(self, content: bytes) -> None:
        path = self._path.resolve()  # a link stays a link
        # mkstemp makes it 0600, whatever mode the old one had: a private key is in it
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            Path(draft).replace(path)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise

    def is_writable(self) -> bool:
        """Whether the file and its folder may be written."""
        path = self._path.resolve()
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


class SecretStore:
    """The Secret of the host that Karmada's tools make for an agent (contract 1.7)."""

    def __init__(self, host: ApiClient, namespace: str) -> None:
        self._host = host
        self._name = f"Secret {namespace}/{SECRET_NAME}"
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET_NAME}"
        self._version = ""

    def __str__(self) -> str:
        """Return what and where it is."""
        return self._name

    async def read(self) -> bytes | None:
        """Return the kubeconfig in the Secret."""
        try:
            secret = await self._host.get(self._path)
        except NotFoundError:
            return None
        self._version = secret["metadata"]["resourceVersion"]
        content = dig(secret, "data", SECRET_NAME)
        return base64.b64decode(content) if content else None

    async def write(self, content: bytes) -> None:
        """Replace the kubeconfig that was read last, and nothing else in the Secret."""
        metadata = {"resourceVersion": self._version}
        data = {SECRET_NAME: base64.b64encode(content).decode()}
        answer = await self._host.merge_patch(self._path, {"metadata": metadata, "data": data})
        self._version = answer["metadata"]["resourceVersion"]

    def is_writable(self) -> bool:
        """Whether it may be written is for the host to say."""
        return True
