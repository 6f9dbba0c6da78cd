"""Services, whose addresses all virtual clusters share."""

import re
from collections.abc import Mapping

from karmada_vc_agent.model.objects import Object, dig, metadata_map
from karmada_vc_agent.model.well_known import BALANCER_POOL_LABEL
from karmada_vc_agent.translation.names import Direction

_NO_ADDRESS = "None"
_EXTERNAL_NAME = "spec.externalName"


def drop_addresses(obj: Object) -> None:
    """Drop, in place, what the host allocates: cluster IPs but None, the health check port.

    On updates Retain restores the host's values. Source: rewriting-rules 4.3.
    """
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("clusterIP") != _NO_ADDRESS:
        spec.pop("clusterIP", None)
    if spec.get("clusterIPs") != [_NO_ADDRESS]:
        spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)


def keep_to_pool(obj: Object, required: Mapping[str, str]) -> None:
    """Have, in place, K3s balance a Service on own nodes alone, if these are chosen by their pool.

    Source: rewriting-rules 4.3.
    """
    if dig(obj, "spec", "type") == "LoadBalancer" and BALANCER_POOL_LABEL in required:
        metadata_map(obj, "labels")[BALANCER_POOL_LABEL] = required[BALANCER_POOL_LABEL]


def own_service(name: str, cluster_domain: str) -> re.Match[str] | None:
    """Return the parts of an externalName that refers to a Service of the cluster, or None.

    Forms: `<x>.<namespace>.svc`, with or without the cluster domain, with or without a final dot.
    """
    ending = rf"\.svc(?:\.{re.escape(cluster_domain)})?\.?"
    return re.fullmatch(rf"(?P<before>.+\.)(?P<namespace>[^.]+)(?P<after>{ending})", name)


def rewrite_external_name(obj: Object, cluster_domain: str, direction: Direction) -> None:
    """Map, in place, the namespace in an externalName that refers to a Service of the cluster.

    Refuses ReferenceForbidden on the way to the host. Source: rewriting-rules 4.3.
    """
    spec = obj.get("spec")
    name = spec.get("externalName") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(name, str):
        return
    match = own_service(name, cluster_domain)
    if match:
        namespace = direction.namespace(match["namespace"], _EXTERNAL_NAME)
        spec["externalName"] = match["before"] + namespace + match["after"]
