"""Which Works a change concerns besides its own: those to be synced again.

Keys are (virtual cluster, name of the Work). Nothing here writes, remembers or enqueues. Those that
were refused are in `work_memory.py`, by what they depend on.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator

from karmada_vc_agent.cluster.claims import Claim, claim_of, claims_in
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, work_name
from karmada_vc_agent.model.objects import Object, gvk_of
from karmada_vc_agent.work import causes
from karmada_vc_agent.work.interpreter_rules import Concerns
from karmada_vc_agent.work.works import WorkKey, Works, namespaces_used


class AffectedWorks:
    """Finds Works of the virtual clusters that are served.

    depending_on_claims: the Works, as `<execution namespace>/<name>`, whose translation depends on
    the claims of a virtual cluster.
    """

    def __init__(
        self,
        virtual_clusters: Container[str],
        works: Works,
        clusters: HubClusters,
        depending_on_claims: Callable[[str], Iterable[str]],
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._works = works
        self._clusters = clusters
        self._depending_on_claims = depending_on_claims

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

    def by_namespace(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works affected by a change of the claim on a host namespace."""
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        if before != after:
            for claim in claims_in(old, new):
                if claim.cluster in self._virtual_clusters:
                    yield from self._by_claim(claim)

    def _by_claim(self, claim: Claim) -> Iterator[WorkKey]:
        # Its Work, if there is one, takes over a namespace that was claimed on demand.
        yield claim.cluster, work_name("Namespace", claim.namespace, "")
        for work in self._depending_on_claims(claim.cluster):
            yield from self.by_id(work)


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
