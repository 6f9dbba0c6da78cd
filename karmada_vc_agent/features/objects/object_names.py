"""Names of VirtualCluster objects: their paths, and the values of their status."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from karmada_vc_agent.model.domain import AGENT_LABEL, DOMAIN

KIND: Final = "VirtualCluster"
OBJECTS: Final = "virtualclusters"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{DOMAIN}/{VERSION}"
PATH: Final = f"/apis/{API_VERSION}/{OBJECTS}"

DeletionPolicy = Literal["Delete", "Preserve"]
"""What becomes of the objects of Works when the VirtualCluster object is deleted."""

Phase = Literal["Pending", "Active", "Paused", "Refused", "Deleting"]
"""Not served yet; served; served as it was; not to be served as it is; being deleted."""

PRESERVE: Final[DeletionPolicy] = "Preserve"
DELETION_POLICIES: tuple[DeletionPolicy, ...] = get_args(DeletionPolicy)
PHASES: tuple[Phase, ...] = get_args(Phase)


def finalizer(agent: str) -> str:
    """Return the finalizer that an agent holds objects by; each has its own."""
    return f"{DOMAIN}/{agent}"


def is_for(agent: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether an object is for an agent: it names that one in a label, or none."""
    return bool((metadata.get("labels") or {}).get(AGENT_LABEL, agent) == agent)
