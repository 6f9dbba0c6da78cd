"""Indexes of the pods of the host: their nodes, and where those wait that have none."""

from collections.abc import Callable, Iterable

from karmada_vc_agent.model.core import Pod

PODS_BY_NODE = "node"
PENDING_BY_NAMESPACE = "namespace of pending pod"
PENDING_BY_SELECTOR = "nodeSelector of pending pod"


def pod_indexes() -> dict[str, Callable[[Pod], Iterable[str]]]:
    """Return the indexes that the store of pods needs."""
    return {
        PODS_BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
        PENDING_BY_NAMESPACE: lambda pod: () if pod.spec.node_name else (pod.metadata.namespace,),
        PENDING_BY_SELECTOR: lambda pod: (
            () if pod.spec.node_name else [f"{k}={v}" for k, v in pod.spec.node_selector.items()]
        ),
    }
