"""Adopts workloads that run without restarting their pods, where that is possible (ADR 35)."""

from collections.abc import Callable

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.model.domain import CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.model.objects import Object, key_of, labels_of
from karmada_vc_agent.translation import adopted_pods
from karmada_vc_agent.views.kept_placements import KeptPlacements

_DRY_RUN = {"dryRun": "All"}


class Adoptions:
    """Decides which adopted workloads keep the placement of their pods; it is told to `kept`.

    owns_node: whether a node is one of a virtual cluster's: (virtual cluster, node).
    """

    def __init__(
        self, host: ApiClient, kept: KeptPlacements, owns_node: Callable[[str, str], bool]
    ) -> None:
        self._host = host
        self._kept = kept
        self._owns_node = owns_node

    async def settle(
        self, resource: Resource, wanted: Object, live: Object, as_user: str
    ) -> tuple[Object, bool]:
        """Return what to write, and whether it keeps the live placement. Raises KubeError.

        wanted: merged, retained, and with placement asserted.
        """
        cluster, key = labels_of(wanted).get(CLUSTER_LABEL, ""), key_of(wanted)
        kept = None
        if adopted_pods.may_keep(live):
            kept = await self._keep(resource, wanted, live, as_user)
        if kept is None:
            self._kept.settled(cluster, key)
            return adopted_pods.without_mark(wanted), False
        virtual = labels_of(wanted).get(NAMESPACE_LABEL, "")
        self._kept.note(cluster, key, f"{key.gvk.kind} {virtual}/{key.name}")
        return kept, True

    def gone(self, desired: Object) -> None:
        """Take note of an object that is removed or released."""
        self._kept.settled(labels_of(desired).get(CLUSTER_LABEL, ""), key_of(desired))

    def forget_cluster(self, cluster: str) -> None:
        """Forget a Cluster that is gone."""
        self._kept.forget_cluster(cluster)

    async def _keep(
        self, resource: Resource, wanted: Object, live: Object, as_user: str
    ) -> Object | None:
        kept = adopted_pods.with_placement_of(live, wanted)
        if kept is None:
            return None
        key, cluster = key_of(wanted), labels_of(wanted).get(CLUSTER_LABEL, "")
        found = await self._host.get(f"/api/v1/namespaces/{key.namespace}/pods")
        pods = adopted_pods.pods_of(live, found.get("items") or ())
        owns = self._owns_node
        if not adopted_pods.run_in_place(live, wanted, pods, lambda node: owns(cluster, node)):
            return None
        # Only the host knows whether a manifest says the same as what it has, defaults included.
        path = resource.path(key.namespace, key.name)
        try:
            answer = await self._host.replace(path, kept, as_user, _DRY_RUN)
        except InvalidError:
            return None
        if not adopted_pods.same_pods(answer, live):
            return None
        return live if adopted_pods.says_the_same(answer, live) else kept
