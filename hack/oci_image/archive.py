"""An image as one file: an OCI layout that podman, skopeo, kind, containerd and docker load."""

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oci_image.layers import Layer, digest
from oci_image.platforms import Platform

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_INDEX = "application/vnd.oci.image.index.v1+json"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """What is in an image, and how it runs.

    name: with its tag, as a container engine is to know it. run: the fields of `config.config`.
    layers: each with what made it.
    """

    name: str
    platform: Platform
    layers: Sequence[tuple[Layer, str]]
    run: Json
    epoch_s: int
    labels: dict[str, str] = field(default_factory=dict)


def write(image: Image, path: Path) -> str:
    """Write the archive; return the digest of the image's manifest."""
    created = datetime.fromtimestamp(image.epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = _encoded(
        {
            "created": created,
            "architecture": image.platform.architecture,
            "os": "linux",
            "config": {**image.run, "Labels": image.labels},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer, _ in image.layers]},
            "history": [{"created": created, "created_by": made} for _, made in image.layers],
        }
    )
    blobs = [config, *(layer.blob for layer, _ in image.layers)]
    manifest = _encoded(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, blob) for blob in blobs[1:]],
            "annotations": image.labels,
        }
    )
    full_name = _full_name(image.name)
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [
            {
                **_descriptor(_MANIFEST, manifest),
                "platform": {"os": "linux", "architecture": image.platform.architecture},
                "annotations": {
                    "io.containerd.image.name": full_name,
                    "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
                },
            }
        ],
    }
    of_docker = [
        {
            "Config": _place(config),
            "RepoTags": [image.name],
            "Layers": [_place(blob) for blob in blobs[1:]],
        }
    ]
    files = {
        "oci-layout": _encoded({"imageLayoutVersion": "1.0.0"}),
        "index.json": _encoded(index),
        "manifest.json": _encoded(of_docker),
        **{_place(blob): blob for blob in (*blobs, manifest)},
    }
    _write_tar(files, path, image.epoch_s)
    return digest(manifest)


def _write_tar(files: dict[str, bytes], path: Path, epoch_s: int) -> None:
    unfinished = path.with_name(f".{path.name}")
    with tarfile.open(unfinished, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), epoch_s, 0o644
            archive.addfile(member, io.BytesIO(content))
    unfinished.rename(path)


def _full_name(name: str) -> str:
    """Return a name as containerd has it: `docker.io/library/x:1` for `x:1`."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    is_registry = "." in first or ":" in first or first == "localhost"
    return name if is_registry else f"docker.io/{name}"


def _place(blob: bytes) -> str:
    return f"blobs/{digest(blob).replace(':', '/')}"


def _descriptor(media_type: str, blob: bytes) -> Json:
    return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}


def _encoded(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
