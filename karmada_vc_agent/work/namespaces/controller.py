"""Corrects the claimed host namespaces, and creates `default` (rewriting-rules 1)."""

from collections.abc import Callable, Container, Iterator, Mapping

from karmada_vc_agent.cluster.claims import Claims, claims_in
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.domain import CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.model.objects import Object, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import (
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.translation.refusal import RefusedError
from karmada_vc_agent.work.namespaces import default_objects
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter, Pair, left_behind

DEFAULT_NAMESPACE = VirtualNamespace("default")
"""Karmada never sends a Work for it (contract 10.1), so the agent creates it itself."""


def keys_of_cluster(
    clusters: HubClusters,
    claims: Claims,
    virtual_clusters: Mapping[str, VirtualCluster],
    old: Object | None,
    new: Object | None,
) -> Iterator[Pair]:
    """Yield `default` and what is to be taken over of a virtual cluster whose Cluster is ours."""
    cluster = new or old
    name = cluster["metadata"]["name"] if cluster else ""
    if name in virtual_clusters and clusters.ours(name) is not None:
        for namespace in (DEFAULT_NAMESPACE, *left_behind(claims, virtual_clusters, name)):
            yield name, namespace


def keys_of_namespace(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[Pair]:
    """Yield the virtual namespaces that a host namespace is, or was, claimed for."""
    for claim in claims_in(old, new):
        if claim.cluster in virtual_clusters:
            yield claim.cluster, claim.namespace


def keys_of_object(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[Pair]:
    """Yield the virtual namespace of a default object that changed."""
    obj = new or old or {}
    labels = labels_of(obj)
    cluster = labels.get(CLUSTER_LABEL, "")
    if cluster in virtual_clusters and gvk_of(obj) in default_objects.RESOURCES:
        yield cluster, VirtualNamespace(labels.get(NAMESPACE_LABEL, ""))


async def reconcile_namespace(
    writer: NamespaceWriter,
    claims: Claims,
    virtual_clusters: Mapping[str, VirtualCluster],
    is_registered: Callable[[str], bool],
    pair: Pair,
) -> None:
    """Correct one claimed namespace; create `default`, take over what a former name had.

    is_registered: the Cluster of a virtual cluster is on the hub and not being deleted.
    """
    cluster, namespace = pair
    vc = virtual_clusters.get(cluster)
    if vc is None:
        return
    if namespace in claims.of(cluster):
        await writer.correct(vc, namespace)
        return
    is_left = namespace in left_behind(claims, virtual_clusters, cluster)
    is_default = namespace == DEFAULT_NAMESPACE and vc.namespaces == "Always"
    if (is_left or is_default) and is_registered(cluster):
        try:
            await writer.claim(vc, namespace)
        except RefusedError as error:
            raise RetryError(error.refusal.detail) from error
