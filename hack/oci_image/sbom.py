"""What is in an image, as a CycloneDX document."""

import json
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from generate.requirements import FOLDER
from oci_image.debian import SUITE, Package

Json = dict[str, Any]
_PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
_NAMESPACE = uuid.UUID("8a3cc4a8-43f7-4a0c-8ffb-0b5bd6f31b5c")


def of_requirements() -> list[Json]:
    """Return a component for each pin of requirements/agent.txt."""
    text = (FOLDER / "agent.txt").read_text()
    return [
        _component(name, version, f"pkg:pypi/{name.lower()}@{version}")
        for name, version in _PIN.findall(text)
    ]


def of_debian(packages: Iterable[Package]) -> list[Json]:
    """Return a component for each Debian package."""
    return [
        _component(
            package.name,
            package.version,
            f"pkg:deb/debian/{_escaped(package.name)}@{_escaped(package.version)}"
            f"?arch={package.architecture}&distro={SUITE}",
        )
        for package in packages
    ]


def of_base_image(reference: str) -> list[Json]:
    """Return the component of a base image, `name:tag@sha256:...`."""
    name, _, found = reference.partition("@")
    name, _, tag = name.rpartition(":")
    short = name.rpartition("/")[2]
    purl = f"pkg:oci/{short}@{found.replace(':', '%3A')}?repository_url={name}&tag={tag}"
    return [{**_component(short, tag, purl), "type": "container"}]


def write(
    path: Path,
    version: str,
    subject: str,
    components: list[Json],
    epoch_s: int,
    kind: str = "container",
) -> None:
    """Write the document. subject: name and digest; the same one gives the same document."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, subject)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch_s, UTC).isoformat(),
            "component": {
                "type": kind,
                "bom-ref": "subject",
                "name": "karmada-vc-agent",
                "version": version,
                "description": subject,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": "subject", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def _escaped(text: str) -> str:
    return quote(text, safe=".-_~")


def _component(name: str, version: str, purl: str) -> Json:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
