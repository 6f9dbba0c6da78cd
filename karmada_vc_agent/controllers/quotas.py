"""The quota of a virtual cluster, divided among its namespaces (ADR 14).

One reconcile looks at all its ResourceQuotas and takes one step: it lowers what is too much, and
raises what the server has confirmed to be free. The server's confirmation, a change of the quota's
status, brings the next one.
"""

import logging
from collections.abc import Callable, Mapping

from karmada_vc_agent.fleet.census import HOST_OBJECT_INDEX
from karmada_vc_agent.fleet.claims import Claims
from karmada_vc_agent.fleet.default_objects import QUOTAS
from karmada_vc_agent.fleet.membership import Membership
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.planning.quota_shares import (
    Share,
    amounts_of,
    divide,
    next_hard,
    quantities_of,
    share_of,
    wanted_by,
)
from karmada_vc_agent.translation.namespace_defaults import QUOTA_NAME

_log = logging.getLogger(__name__)

_WATCHED = frozenset(("list", "watch"))
WORKLOADS = tuple(
    Resource(GroupVersionKind(group, "v1", kind), f"{kind.lower()}s", True, _WATCHED)
    for group, kind in (
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("apps", "ReplicaSet"),
        ("", "ReplicationController"),
        ("batch", "Job"),
    )
)
"""What says beforehand how many pods it will have."""


_ByNamespace = dict[str, dict[str, int]]


class QuotaController:
    """Fills the quotas of the namespaces; the key is the virtual cluster."""

    def __init__(
        self,
        host: ApiClient,
        store_of: Callable[[Resource], Store[Object] | None],
        claims: Claims,
        membership: Membership,
        virtual_clusters: Mapping[str, VirtualCluster],
    ) -> None:
        self._host = host
        self._store_of = store_of
        self._claims = claims
        self._membership = membership
        self._virtual_clusters = virtual_clusters

    async def reconcile(self, name: str) -> None:
        """Take the next step towards a good division. Raises KubeError, RetryError."""
        vc = self._virtual_clusters.get(name)
        if vc is None or not vc.quota:
            return
        quotas = {q["metadata"]["namespace"]: q for q in self._labelled(name, QUOTAS)}
        quotas = {ns: q for ns, q in quotas.items() if q["metadata"]["name"] == QUOTA_NAME}
        wanted, rolling = self._wanted(vc)
        shares = {
            ns: share_of(quota, wanted.get(ns, {}), rolling.get(ns, {}))
            for ns, quota in quotas.items()
        }
        total = amounts_of(vc.quota)
        targets = divide(total, shares)
        has_all = shares.keys() >= self._namespaces(name)
        step = next_hard(total, shares, targets, may_raise=has_all)
        for namespace in sorted(step, key=lambda ns: _raises(step[ns], shares[ns])):
            if step[namespace] != shares[namespace].hard:
                await self._write(vc, quotas[namespace], step[namespace])

    def _namespaces(self, cluster: str) -> set[str]:
        """Return the claimed host namespaces that are to stay."""
        found = (self._claims.store.get("", host) for host in self._claims.of(cluster).values())
        metadata = (namespace["metadata"] for namespace in found if namespace is not None)
        return {own["name"] for own in metadata if not own.get("deletionTimestamp")}

    async def _write(self, vc: VirtualCluster, quota: Object, hard: Mapping[str, int]) -> None:
        namespace = quota["metadata"]["namespace"]
        quantities = quantities_of(hard)
        extra = {"virtual_cluster": vc.name, "namespace": namespace, "hard": str(quantities)}
        _log.debug("Writing quota", extra=extra)
        spec = {**(quota.get("spec") or {}), "hard": quantities}
        try:
            answer = await self._host.replace(
                QUOTAS.path(namespace, QUOTA_NAME), {**quota, "spec": spec}
            )
        except NotFoundError:
            return  # the namespaces controller makes it anew
        answer["metadata"].pop("managedFields", None)
        store = self._store_of(QUOTAS)
        if store is not None:
            store.observe(answer)

    def _wanted(self, vc: VirtualCluster) -> tuple[_ByNamespace, _ByNamespace]:
        """Return what the workloads of each host namespace use, and use while they roll."""
        nodes = len(self._membership.nodes_of(vc.name))
        sums: tuple[_ByNamespace, _ByNamespace] = ({}, {})
        for workload in self._labelled(vc.name, *WORKLOADS):
            namespace = workload["metadata"]["namespace"]
            for by_namespace, amounts in zip(
                sums, wanted_by(workload, vc.limits, nodes), strict=True
            ):
                total = by_namespace.setdefault(namespace, {})
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount
        return sums

    def _labelled(self, cluster: str, *resources: Resource) -> list[Object]:
        """Return the objects of a virtual cluster, of all these resources."""
        stores = [(resource, self._store_of(resource)) for resource in resources]
        for resource, store in stores:
            if store is None or not store.is_synced:
                raise RetryError(f"{resource.plural} of the host are not known yet")
        found = (store.by_index(HOST_OBJECT_INDEX, cluster) for _, store in stores if store)
        return [obj for objects in found for obj in objects]


def _raises(hard: Mapping[str, int], share: Share) -> bool:
    """Whether a write raises anything; those that only lower come first."""
    return any(amount > share.hard.get(name, 0) for name, amount in hard.items())
