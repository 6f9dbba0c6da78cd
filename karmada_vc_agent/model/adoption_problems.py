"""Validation of what a virtual cluster takes over: namespaces of the host, its own former names."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from karmada_vc_agent.model.dns_label import DNS_LABEL, DNS_LABEL_RULE
from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

SYSTEM_NAMESPACES = ("kube-*", "karmada-*", "kubeedge", "default")
"""Patterns of namespaces that run the host, or through which all its pods reach it."""
SYSTEM_TEXT = (
    "belongs to the host itself: no virtual cluster may adopt kube-*, karmada-*, kubeedge or "
    "default"
)
DNS_LABEL_TEXT = f"is not a valid namespace: at most 63 {DNS_LABEL_RULE}"
FORMER_NAME_TEXT = (
    f"is not a valid Cluster name: at most {CLUSTER_NAME_MAX_LENGTH} {DNS_LABEL_RULE}"
)


def adoption_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield (path, problem or None) of what a virtual cluster takes over."""
    for index, namespace in enumerate(vc.adopt_namespaces):
        where = f"adoptNamespaces[{index}]"
        yield where, _namespace_problem(namespace)
        if namespace in vc.adopt_namespaces[:index]:
            yield where, f'"{namespace}" is listed twice'
    for index, name in enumerate(vc.former_names):
        where = f"formerNames[{index}]"
        if len(name) > CLUSTER_NAME_MAX_LENGTH or not DNS_LABEL.fullmatch(name):
            yield where, f'"{name}" {FORMER_NAME_TEXT}'
        if name == vc.name and index:
            yield where, f'"{name}" is the name it has now; list it first, or not at all'
        if name in vc.former_names[:index]:
            yield where, f'"{name}" is listed twice'


def _namespace_problem(namespace: str) -> str | None:
    if any(fnmatchcase(namespace, pattern) for pattern in SYSTEM_NAMESPACES):
        return f'"{namespace}" {SYSTEM_TEXT}'
    if not DNS_LABEL.fullmatch(namespace):
        return f'"{namespace}" {DNS_LABEL_TEXT}'
    return None
