"""Which Works a change concerns besides its own: those to be synced again.

Keys are (virtual cluster, name of the Work). Nothing here writes or enqueues.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator

from karmada_vc_agent.apply import causes
from karmada_vc_agent.apply.grounds import Ground
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, work_name
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
)
from karmada_vc_agent.views.claims import Claim, claim_of, claims_in
from karmada_vc_agent.views.hub_clusters import HubClusters
from karmada_vc_agent.views.interpreter_rules import Concerns
from karmada_vc_agent.views.node_groups import NODE_GROUP
from karmada_vc_agent.views.works import WorkKey, Works, namespaces_used


class AffectedWorks:
    """Finds Works of the virtual clusters that are served.

    refused: the Works refused on a ground, and about what; None = about anything.
    depending_on_claims: the Works, as `<execution namespace>/<name>`, whose translation depends on
    the claims of a virtual cluster.
    """

    def __init__(
        self,
        virtual_clusters: Container[str],
        works: Works,
        clusters: HubClusters,
        refused: Callable[[Ground, str | None], Iterable[WorkKey]],
        depending_on_claims: Callable[[str], Iterable[str]],
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._works = works
        self._clusters = clusters
        self._refused = refused
        self._depending_on_claims = depending_on_claims
        self._scopes: dict[GroupVersionKind, bool] = {}

    def by_id(self, work: str) -> list[WorkKey]:
        """Return the key of `<execution namespace>/<name>`, None if its cluster is not served."""
        namespace, _, name = work.partition("/")
        cluster = cluster_of_execution_namespace(namespace) or ""
        return [(cluster, name)] if cluster in self._virtual_clusters else []

    def of_clusters(self, clusters: Iterable[str]) -> Iterator[WorkKey]:
        """Yield all Works of some virtual clusters."""
        return ((cluster, name) for cluster in clusters for name in self._works.names(cluster))

    # --- the hub ------------------------------------------------------------------------

    def by_work(self, cluster: str, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works in the namespaces of a deleted Work: they may wait for its deletion."""
        if old is not None and new is None:
            for namespace in namespaces_used(old):
                yield cluster, work_name("Namespace", namespace, "")

    def by_cluster(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works of a Cluster that is being deleted."""
        name = (new or old or {"metadata": {"name": ""}})["metadata"]["name"]
        if name in self._virtual_clusters and self._clusters.is_deleting(name):
            yield from self.of_clusters((name,))

    def by_meaning(self, clusters: Iterable[str], concerns: Concerns) -> Iterator[WorkKey]:
        """Yield the Works with objects whose interpretation changed."""
        for cluster in clusters:
            for work in self._works.with_kind(cluster, concerns):
                yield cluster, work

    # --- the host -----------------------------------------------------------------------

    def by_nodes(self, cluster: str) -> Iterable[WorkKey]:
        """Return the Works that were refused because of the nodes of a virtual cluster."""
        return self._refused(Ground.OWN_NODES, cluster)

    def by_node_group(self, old: Object | None, new: Object | None) -> Iterable[WorkKey]:
        """Return the Works that were refused because of a NodeGroup."""
        group = new or old
        if group is None or dig(old, "spec") == dig(new, "spec"):
            return ()
        return self._refused(Ground.NODE_GROUP, group["metadata"]["name"])

    def by_served_kinds(self, served: ServedApis) -> Iterator[WorkKey]:
        """Yield the Works that were refused because of a kind that is newly served or rescoped."""
        scopes = {gvk: resource.namespaced for gvk, resource in served.by_kind.items()}
        if not self._scopes:
            yield from self._refused(Ground.KIND, "")
        for gvk in [gvk for gvk, scope in scopes.items() if self._scopes.get(gvk) != scope]:
            yield from self._refused(Ground.KIND, "/".join(gvk))
            if gvk == NODE_GROUP:
                yield from self._refused(Ground.NODE_GROUP, None)  # nobody watched them before
        self._scopes = scopes

    def by_namespace(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works affected by a change of a host namespace, or of its claim."""
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        if before != after:
            for claim in claims_in(old, new):
                if claim.cluster in self._virtual_clusters:
                    yield from self._by_claim(claim)
        namespace = new or old
        if namespace is not None and (old is None or new is None or _marks(old) != _marks(new)):
            yield from self._refused(Ground.HOST_NAMESPACE, namespace["metadata"]["name"])

    def _by_claim(self, claim: Claim) -> Iterator[WorkKey]:
        # Its Work, if there is one, takes over a namespace that was claimed on demand.
        yield claim.cluster, work_name("Namespace", claim.namespace, "")
        for work in self._depending_on_claims(claim.cluster):
            yield from self.by_id(work)
        yield from self._refused(Ground.OWN_NAMESPACES, claim.cluster)


def released_clusters(old: Object | None, new: Object | None) -> list[str]:
    """Return the virtual clusters that lost a host namespace; their Works may wait for that."""
    return [claim.cluster for claim in claims_in(old, None)] if new is None else []


def healed_by_object(old: Object | None, new: Object | None) -> Callable[[Hashable], bool] | None:
    """Return the causes that a deleted object ends: others wait for the last object of a kind."""
    if old is None or new is not None:
        return None
    gvk = gvk_of(old)
    return causes.without_objects(f"{gvk.group}/{gvk.kind}")


def healed_by_kinds(served: ServedApis) -> Callable[[Hashable], bool]:
    """Return the causes that newly served kinds end."""
    return causes.served_now(served.by_kind)


def _marks(obj: Object) -> tuple[Object, Object]:
    return labels_of(obj), annotations_of(obj)
