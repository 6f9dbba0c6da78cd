"""Keeps the claimed host namespaces right, and makes `default` (rewriting-rules 1)."""

from collections.abc import Callable, Mapping

from karmada_vc_agent.apply.namespace_writer import NamespaceWriter, Pair
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.translation.refusal import RefusedError
from karmada_vc_agent.views.claims import Claims

DEFAULT_NAMESPACE = VirtualNamespace("default")
"""Karmada never sends a Work for it (contract 10.1), so the agent makes it itself."""


class NamespaceController:
    """Has the writer put namespaces right that are claimed, and claim `default`.

    is_registered: whether the Cluster of a virtual cluster is on the hub, and is to stay.
    """

    def __init__(
        self,
        writer: NamespaceWriter,
        claims: Claims,
        virtual_clusters: Mapping[str, VirtualCluster],
        is_registered: Callable[[str], bool],
    ) -> None:
        self._writer = writer
        self._claims = claims
        self._virtual_clusters = virtual_clusters
        self._is_registered = is_registered

    async def reconcile(self, pair: Pair) -> None:
        """Keep one claimed namespace right, and make `default` of a registered one exist."""
        cluster, namespace = pair
        vc = self._virtual_clusters.get(cluster)
        if vc is None:
            return
        if namespace in self._claims.of(cluster):
            await self._writer.correct(vc, namespace)
            return
        if namespace != DEFAULT_NAMESPACE or vc.namespaces != "Always":
            return
        if self._is_registered(cluster):
            try:
                await self._writer.claim(vc, namespace)
            except RefusedError as error:
                raise RetryError(error.refusal.detail) from error
