"""Where the kubeconfig of the hub is stored: its file, and the Secret behind it."""

import asyncio
import base64
import os
import tempfile
from pathlib import Path

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.objects import dig

SECRET_NAME = "karmada-kubeconfig"  # noqa: S105 - a Secret's name and key, as Karmada has them


class FileStore:
    """A kubeconfig on disk; a mounted Secret is not writable."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        """Return the path."""
        return str(self._path)

    async def read(self) -> bytes | None:
        """Return the content of the file. Raises OSError."""
        return await asyncio.to_thread(self._path.read_bytes)

    async def write(self, content: bytes) -> None:
        """Replace the file atomically by one that only its owner can read. Raises OSError."""
        await asyncio.to_thread(self._replace, content)

    def _replace(self, content: bytes) -> None:
        path = self._path.resolve()  # keep a symbolic link
        # mkstemp makes it 0600, whatever the mode of the old one: it contains a private key
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
        """Return whether the file and its folder may be written."""
        path = self._path.resolve()
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


class SecretStore:
    """The Secret of the host that Karmada's tools create for an agent (contract 1.7)."""

    def __init__(self, host: ApiClient, namespace: str) -> None:
        self._host = host
        self._name = f"Secret {namespace}/{SECRET_NAME}"
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET_NAME}"
        self._version = ""

    def __str__(self) -> str:
        """Return kind, namespace and name."""
        return self._name

    async def read(self) -> bytes | None:
        """Return the kubeconfig in the Secret, None if there is none. Raises KubeError."""
        try:
            secret = await self._host.get(self._path)
        except NotFoundError:
            return None
        self._version = secret["metadata"]["resourceVersion"]
        content = dig(secret, "data", SECRET_NAME)
        return base64.b64decode(content) if content else None

    async def write(self, content: bytes) -> None:
        """Replace the kubeconfig that was read last, and no other key. Raises KubeError."""
        metadata = {"resourceVersion": self._version}
        data = {SECRET_NAME: base64.b64encode(content).decode()}
        answer = await self._host.merge_patch(self._path, {"metadata": metadata, "data": data})
        self._version = answer["metadata"]["resourceVersion"]

    def is_writable(self) -> bool:
        """Return True: the host decides."""
        return True


KubeconfigStore = FileStore | SecretStore
"""One place; `str()` names it in messages."""
