"""The order in which the manifests of one Work are applied, and which run concurrently.

Karmada applies them in the order of the list (contract 5.4), and authors of Works rely on it: a
ServiceAccount before its token, a role before its binding, a LimitRange before the pods. So the
order is kept, except that what all others may need is first. Neighbours of kinds that never need
each other are applied concurrently. Why: docs/adr/0026.
"""

from collections.abc import Mapping, Sequence

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind, Object, key_of

_FIRST = frozenset((kinds.NAMESPACE, kinds.CUSTOM_RESOURCE_DEFINITION))

_PEERS: tuple[frozenset[GroupKind], ...] = (
    _FIRST,
    # Admission and identity of pods, and their bindings.
    frozenset(
        (
            GroupKind("", "LimitRange"),
            GroupKind("", "ResourceQuota"),
            kinds.PERSISTENT_VOLUME,
            kinds.SERVICE_ACCOUNT,
            GroupKind("networking.k8s.io", "IngressClass"),
            GroupKind("networking.k8s.io", "NetworkPolicy"),
            GroupKind("node.k8s.io", "RuntimeClass"),
            GroupKind("policy", "PodDisruptionBudget"),
            kinds.CLUSTER_ROLE,
            kinds.ROLE,
            kinds.PRIORITY_CLASS,
            kinds.STORAGE_CLASS,
        )
    ),
    # What pods read, and their permissions.
    frozenset(
        (
            kinds.CONFIG_MAP,
            kinds.PERSISTENT_VOLUME_CLAIM,
            GroupKind("", "Secret"),
            kinds.CLUSTER_ROLE_BINDING,
            kinds.ROLE_BINDING,
        )
    ),
    # Pods, and what depends on them.
    frozenset(
        (
            kinds.POD,
            kinds.DAEMON_SET,
            kinds.DEPLOYMENT,
            kinds.REPLICA_SET,
            kinds.STATEFUL_SET,
            GroupKind("autoscaling", "HorizontalPodAutoscaler"),
            GroupKind("batch", "CronJob"),
            kinds.JOB,
            GroupKind("networking.k8s.io", "Ingress"),
        )
    ),
)
"""Kinds of one row do not need each other.

A kind in no row is applied alone: custom ones, whose webhooks may need anything; Services, since of
two with the same fixed node port the first one gets it.
"""

ObjectId = tuple[GroupKind, str, str]
"""Kind, virtual namespace and name."""

ROWS: Mapping[GroupKind, int] = {kind: row for row, peers in enumerate(_PEERS) for kind in peers}


def batches(manifests: Sequence[Object]) -> list[list[int]]:
    """Return the manifests as indices into the list: batches in order, concurrent within each.

    manifests: from the hub, of any shape. An object that is listed twice is in two batches.
    """
    keys = [object_id(manifest) for manifest in manifests]
    rows = [ROWS.get(kind) for kind, *_ in keys]
    result: list[list[int]] = []
    batch: set[object] = set()
    for place in sorted(range(len(keys)), key=lambda place: rows[place] != 0):
        row = rows[place]
        if row is None or not result or rows[result[-1][0]] != row or keys[place] in batch:
            result.append([])
            batch.clear()
        result[-1].append(place)
        batch.add(keys[place])
    return result


def object_id(manifest: Object) -> ObjectId:
    """Return what identifies the object of a manifest, at whatever version."""
    key = key_of(manifest)
    return key.gvk.group_kind, key.namespace, key.name
