"""Kubeconfigs with everything embedded, written and read back."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from control_planes import pki


@dataclass(frozen=True, slots=True)
class Access:
    """What it takes to talk to one API server."""

    server: str
    ca: bytes
    client: pki.KeyPair


def render(context: str, access: Access) -> str:
    """Return a kubeconfig of one context; cluster and user have the same name."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "clusters": [
            {
                "name": context,
                "cluster": {
                    "server": access.server,
                    "certificate-authority-data": _encode(access.ca),
                },
            }
        ],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": _encode(access.client.certificate),
                    "client-key-data": _encode(access.client.key),
                },
            }
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def write(path: Path, context: str, access: Access) -> None:
    pki.write_private(path, render(context, access).encode())


def read(path: Path) -> Access:
    """Read back what `write` wrote."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    user = document["users"][0]["user"]
    return Access(
        server=cluster["server"],
        ca=base64.b64decode(cluster["certificate-authority-data"]),
        client=pki.KeyPair(
            base64.b64decode(user["client-certificate-data"]),
            base64.b64decode(user["client-key-data"]),
        ),
    )


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
