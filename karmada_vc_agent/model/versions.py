"""The agent's own version, the versions that it was measured with, and what to say of others."""

import re
from collections.abc import Iterator

from karmada_vc_agent.model.objects import Object, dig, maps_at

OWN = "0.1.0"
OLDEST, NEWEST = (1, 30), (1, 37)
"""Minor versions of hosts: those of `hack/compatibility/pairs.py`."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})([.+-][\w.+-]*)?", re.ASCII)
MANIFESTS_VARIABLE = "MANIFESTS_VERSION"
"""Set by the manifest: of which version it is."""
_FIELDS_OF_WORKS = {
    "spec.suspendDispatching": "no Work can be suspended",
    "spec.preserveResourcesOnDeletion": (
        "objects are deleted with their Works, also by leave --preserve-resources"
    ),
    "status.manifestStatuses[].health": "Karmada learns no health of objects",
}


def _minor(version: str) -> tuple[int, int] | None:
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2])) if match else None


def is_too_old(version: str) -> bool:
    """Return whether a host of this version of Kubernetes serves no policies for sure."""
    minor = _minor(version)
    return minor is not None and minor < OLDEST


def unconfined(version: str) -> str:
    """Return why neither `join` nor the agent accepts a host that serves no policies."""
    return (
        f"Kubernetes {version or 'of an unknown version'} there serves no "
        "ValidatingAdmissionPolicy, so nothing would confine the agent and its tenants; use 1.30 "
        "or newer, or join with --unconfined to do without"
    )


def not_measured(version: str) -> str:
    """Return what to say of a host of a version that was not measured, "" of any other."""
    minor = _minor(version)
    if minor is None or OLDEST <= minor <= NEWEST:
        return ""
    nearest = "{}.{}".format(*(OLDEST if minor < OLDEST else NEWEST))
    return (
        f"the host runs Kubernetes {version}, which was not measured; the nearest that was is "
        f"{nearest}: see docs/compatibility.md"
    )


def missing_fields(definition: Object | None) -> Iterator[str]:
    """Yield which fields the CRD of Works lacks that the agent uses, each with what is lost."""
    for version in maps_at(definition, "spec", "versions"):
        if version.get("name") == "v1alpha1":
            for path, lost in _FIELDS_OF_WORKS.items():
                schema = dig(version, "schema", "openAPIV3Schema")
                for name in path.split("."):
                    schema = dig(schema, "properties", name.removesuffix("[]"))
                    schema = dig(schema, "items") if name.endswith("[]") else schema
                if schema is None:
                    yield f"its Works have no {path}: {lost}"
