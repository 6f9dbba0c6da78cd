"""Services, whose addresses all virtual clusters share."""

import re

from karmada_vc_agent.model.objects import dig, metadata_map
from karmada_vc_agent.model.well_known import BALANCER_POOL_LABEL
from karmada_vc_agent.translation.draft import Draft, Returning

_NO_ADDRESS = "None"
_EXTERNAL_NAME = "spec.externalName"


def rewrite_service(draft: Draft) -> None:
    """Drop what the host allocates, map the namespace in `externalName` (rewriting-rules 4.3).

    Headless stays headless; on updates Retain restores the host's values. Refuses
    ReferenceForbidden.
    """
    spec = draft.obj.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("clusterIP") != _NO_ADDRESS:
        spec.pop("clusterIP", None)
    if spec.get("clusterIPs") != [_NO_ADDRESS]:
        spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    _map_external_name(draft)


def keep_to_pool(draft: Draft) -> None:
    """Have K3s balance a Service on own nodes, if they are a pool (rewriting-rules 4.3)."""
    required = draft.context.vc.required_selector
    if dig(draft.obj, "spec", "type") == "LoadBalancer" and BALANCER_POOL_LABEL in required:
        metadata_map(draft.obj, "labels")[BALANCER_POOL_LABEL] = required[BALANCER_POOL_LABEL]


def restore_service(returning: Returning) -> None:
    """Restore the virtual name of the namespace in `externalName`."""
    _map_external_name(returning)


def own_service(name: str, cluster_domain: str) -> re.Match[str] | None:
    """Return the parts of an externalName that refers to a Service of the cluster, or None.

    Forms: `<x>.<namespace>.svc`, with or without the cluster domain, with or without a final dot.
    """
    ending = rf"\.svc(?:\.{re.escape(cluster_domain)})?\.?"
    return re.fullmatch(rf"(?P<before>.+\.)(?P<namespace>[^.]+)(?P<after>{ending})", name)


def _map_external_name(part: Draft | Returning) -> None:
    name = dig(part.obj, "spec", "externalName")
    if isinstance(name, str) and (match := own_service(name, part.context.settings.cluster_domain)):
        namespace = part.direction.namespace(match["namespace"], _EXTERNAL_NAME)
        part.obj["spec"]["externalName"] = match["before"] + namespace + match["after"]
