"""Nodes, pods, APIs and health of the host -> Cluster.status on the hub (contract 4)."""

import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import KubeError, NotFoundError
from karmada_vc_agent.kube.health_probe import HealthProbe
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Pod
from karmada_vc_agent.model.karmada import CLUSTER_FINALIZER
from karmada_vc_agent.model.merge_patch import merge_patch
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.status import cluster_report as rules
from karmada_vc_agent.status.conditions import Condition, find_condition
from karmada_vc_agent.status.readiness import (
    READY,
    Observation,
    Thresholds,
    damp_ready,
    is_online,
    observed_ready,
)
from karmada_vc_agent.translation.kind_policy import (
    ClusterScopedKinds,
    hidden_from_api_enablements,
)
from karmada_vc_agent.views.claims import Claims
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH, ClusterCodec, HubClusters, digest
from karmada_vc_agent.views.judgements import STATUS, HubContact, Judgements
from karmada_vc_agent.views.membership import Membership

_log = logging.getLogger(__name__)

FINALIZER_WAIT = Requeue(1.0)
VERSION_MAX_AGE_S = 60.0
NODE_OVERLAP = "NodeOverlap"

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


def keys_of_cluster(
    clusters: HubClusters,
    virtual_clusters: Container[str],
    old: Object | None,
    new: Object | None,
) -> Iterator[str]:
    """Yield the virtual cluster of a Cluster of ours that changed in more than its status."""
    name = new["metadata"]["name"] if new is not None else ""
    if name not in virtual_clusters or clusters.ours(name) is None:
        return
    if any(
        dig(old, "metadata", key) != dig(new, "metadata", key)
        for key in ("generation", "finalizers")
    ):
        yield name


@dataclass(frozen=True, slots=True)
class HostView:
    """What is known of the host.

    placement: returns the condition PlacementEnforced, None while it is not known.
    more: return other conditions for a virtual cluster and the live status of its Cluster.
    """

    client: ApiClient
    probe: HealthProbe
    discovery: Discovery
    membership: Membership
    pods: Store[Pod]
    claims: Claims
    cluster_scoped_kinds: ClusterScopedKinds
    placement: Callable[[], Condition | None] = lambda: None
    more: Sequence[Callable[[VirtualCluster, Object], list[Condition]]] = ()


@dataclass(frozen=True, slots=True)
class StatusTimes:
    """Seconds between two syncs, and how long a flip of Ready must last."""

    frequency_s: float
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class Gates:
    """What else decides on a status.

    may_report: whether the status is this process' to write. is_terminating: whether a Cluster goes
    and its Works can be finalised by the hub alone, which it does once the Cluster is not Ready.
    """

    may_report: Callable[[], bool]
    is_terminating: Callable[[str], bool]


class StatusInstrument(Protocol):
    """Hears of each sync: its time in seconds, the status it came to, and HTTP status or None."""

    def synced(self, name: str, took_s: float, status: Object, http_status: int | None) -> None: ...

    def forget(self, name: str) -> None: ...


class ClusterStatusController:
    """Keeps the status of each Cluster; sole writer of it.

    judgements: told of Ready before the hub is, who may not take it.
    on_ready: called when a Cluster is seen healthy and Ready, which starts its Lease.
    """

    def __init__(
        self,
        hub: ApiClient,
        clusters: HubClusters,
        host: HostView,
        virtual_clusters: Mapping[str, VirtualCluster],
        times: StatusTimes,
        gates: Gates,
        judgements: Judgements,
        contact: HubContact,
        *,
        with_resources: bool,
        with_models: bool = True,
        on_ready: Callable[[str], None],
        now: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        instrument: StatusInstrument | None = None,
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._host = host
        self._virtual_clusters = virtual_clusters
        self._times = times
        self._gates = gates
        self._judgements = judgements
        self._contact = contact
        self._with_resources = with_resources
        self._with_models = with_models
        self._on_ready = on_ready
        self._now = now
        self._clock = clock
        self._instrument = instrument
        self._observations: dict[str, Observation] = {}
        self._version = ("", float("-inf"))
        self._enablements: dict[tuple[tuple[str, ...], ...], tuple[ServedApis, list[Object]]] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Sync the status of one Cluster; ends when the Cluster is gone."""
        cluster = self._clusters.ours(name)
        if cluster is None:
            self._observations.pop(name, None)
            self._judgements.forget(name)
            self._contact.forget(name)
            if self._instrument is not None:
                self._instrument.forget(name)
            return None
        if CLUSTER_FINALIZER not in (cluster["metadata"].get("finalizers") or ()):
            return FINALIZER_WAIT
        if not self._gates.may_report():
            self._contact.forget(name)
            return Requeue(self._times.frequency_s)
        live = cluster.get("status") or {}
        started = self._clock()
        if self._gates.is_terminating(name):
            status = rules.with_conditions(live, [_BARRED], self._now())
            await self._report(cluster, status, _BARRED)
            self._tell(name, started, status, None)
            return Requeue(self._times.frequency_s)
        http_status = await self._host.probe.status()
        is_in_doubt = self._host.client.history.is_in_doubt
        observed = _IN_DOUBT if is_in_doubt else observed_ready(http_status)
        ready = self._damped(name, observed)
        is_ready = ready["status"] == "True"
        self._judgements.judge(name, ready)
        status = live
        if http_status == 200 and is_ready:
            self._on_ready(name)
            status = await self._complete(cluster, live, ready)
            await self._report(cluster, status, ready)
        elif is_online(http_status) or not is_ready:
            status = rules.with_conditions(live, [ready], self._now())
            await self._report(cluster, status, ready)
        self._tell(name, started, status, http_status)
        return Requeue(self._times.frequency_s)

    def _tell(self, name: str, started: float, status: Object, http_status: int | None) -> None:
        # A Cluster that went meanwhile was forgotten already.
        if self._instrument is not None and self._clusters.ours(name) is not None:
            self._instrument.synced(name, self._clock() - started, status, http_status)

    async def _report(self, cluster: Object, status: Object, ready: Condition) -> None:
        """Write the status; what it says of Ready is told once the hub has it."""
        name = cluster["metadata"]["name"]
        before = find_condition(dig(cluster, "status", "conditions"), READY)
        await self._contact.noting(name, STATUS, self._write(cluster, status))
        self._contact.accepted(name, STATUS)
        if before is None or before["status"] != ready["status"]:
            extra = {"virtual_cluster": name, "ready": ready["status"], "reason": ready["reason"]}
            _log.info("Reported readiness", extra=extra)

    def _damped(self, name: str, observed: Condition) -> Condition:
        ready, self._observations[name] = damp_ready(
            self._observations.get(name),
            observed,
            self._judgements.of(name),
            self._clock(),
            self._times.thresholds,
        )
        return ready

    async def _complete(self, cluster: Object, live: Object, ready: Condition) -> Object:
        name = cluster["metadata"]["name"]
        vc = self._virtual_clusters[name]
        is_partial = False
        try:
            served = await self._host.discovery.refresh(self._times.frequency_s / 2)
        except KubeError:
            served, is_partial = self._host.discovery.served, True
        enablements = self._api_enablements(served, vc)
        is_partial = is_partial or not served.is_complete
        nodes = self._host.membership.nodes_of(name)
        summary = None
        placement = self._host.placement()
        if self._with_resources:
            models = (dig(cluster, "spec", "resourceModels") or []) if self._with_models else []
            on_nodes = [
                pod
                for node in nodes
                for pod in self._host.pods.by_index(PODS_BY_NODE, node.metadata.name)
            ]
            summary = rules.resource_summary(nodes, on_nodes, self._pending(vc), models, vc.quota)
        observed = rules.ObservedStatus(
            kubernetes_version=await self._kubernetes_version(),
            api_enablements=enablements,
            node_summary=rules.node_summary(nodes) if self._with_resources else None,
            resource_summary=summary,
            conditions=[
                rules.complete_api_enablements(len(enablements), is_partial=is_partial),
                ready,
                *self._overlap(name, live),
                *_network_isolation(vc, live),
                *([placement] if placement else []),
                *(condition for tell in self._host.more for condition in tell(vc, live)),
            ],
        )
        return rules.compose_cluster_status(live, observed, self._now())

    def _pending(self, vc: VirtualCluster) -> list[Pod]:
        """Return unscheduled pods of the claimed namespaces, or that select these nodes."""
        pods = self._host.pods
        found: dict[tuple[str, str], Pod] = {}
        for namespace in self._host.claims.of(vc.name).values():
            for pod in pods.by_index(PENDING_BY_NAMESPACE, namespace):
                found[pod.metadata.namespace, pod.metadata.name] = pod
        required = vc.required_selector.items()
        key, value = next(iter(required))
        for pod in pods.by_index(PENDING_BY_SELECTOR, f"{key}={value}"):
            if required <= pod.spec.node_selector.items():
                found[pod.metadata.namespace, pod.metadata.name] = pod
        return list(found.values())

    def _overlap(self, name: str, live: Object) -> list[Condition]:
        """Return the condition NodeOverlap where there is one, or was (rewriting-rules 3.1)."""
        overlaps = self._host.membership.overlaps(name)
        if overlaps:
            node, other = overlaps[0]
            more = f" (and {len(overlaps) - 1} more)" if len(overlaps) > 1 else ""
            message = f'node "{node}"{more} is also selected by virtual cluster "{other}"'
            return [_node_overlap("True", "NodesShared", message)]
        if find_condition(live.get("conditions"), NODE_OVERLAP):
            message = "no node is selected by another virtual cluster"
            return [_node_overlap("False", "NodesDisjoint", message)]
        return []

    async def _kubernetes_version(self) -> str:
        version, read_at = self._version
        if self._clock() - read_at > VERSION_MAX_AGE_S:
            try:
                version = str((await self._host.client.get("/version")).get("gitVersion") or "")
            except KubeError:
                return ""
            self._version = (version, self._clock())
        return version

    def _api_enablements(self, served: ServedApis, vc: VirtualCluster) -> list[Object]:
        """Return the list for one virtual cluster; those with the same kinds share one."""
        kinds = (vc.allowed_kinds, vc.denied_kinds)
        found = self._enablements.get(kinds)
        enablements = found[1] if found else []
        if found is None or found[0] is not served:

            def is_hidden(gvk: GroupVersionKind) -> bool:
                resource = served.by_kind.get(gvk)
                namespaced = resource is not None and resource.namespaced
                return hidden_from_api_enablements(
                    gvk,
                    namespaced=namespaced,
                    configured=self._host.cluster_scoped_kinds,
                    vc=vc,
                )

            enablements = rules.api_enablements(served.lists, is_hidden)
            self._enablements[kinds] = (served, enablements)
        return enablements

    async def _write(self, cluster: Object, status: Object) -> None:
        """Patch what differs; the stored apiEnablements are a digest (ClusterCodec)."""
        live = cluster.get("status") or {}
        compared = status
        if isinstance(status.get("apiEnablements"), list):
            compared = {**status, "apiEnablements": digest(status["apiEnablements"])}
        patch = merge_patch(live, compared)
        if not patch:
            return
        if "apiEnablements" in patch:
            patch["apiEnablements"] = status["apiEnablements"]
        metadata = cluster["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": patch}
        try:
            answer = await self._hub.merge_patch(f"{CLUSTERS_PATH}/{metadata['name']}/status", body)
        except NotFoundError:
            return
        self._clusters.store.observe(ClusterCodec().trim(answer))


_BARRED = Condition(
    type=READY,
    status="False",
    reason="ClusterLeaving",
    message="the host is clean, and the agent has no more rights in the execution namespace",
)
"""Written at once, without damping, so that Karmada strips the finalizers (contract 1.9)."""


_IN_DOUBT = Condition(
    type=READY,
    status="False",
    reason="ClusterWentBackInTime",
    message="the API server of the cluster went back in time, as after a restore from a backup; "
    "the agent looks at everything on it again",
)
"""Damped like an outage: what is known of the host is of another time until then."""


def _network_isolation(vc: VirtualCluster, live: Object) -> list[Condition]:
    """Return the condition NetworkIsolation where it is asked for, or was."""
    is_asked = vc.network_policy == "isolate"
    if is_asked or find_condition(live.get("conditions"), rules.NETWORK_ISOLATION):
        return [rules.network_isolation(is_asked=is_asked)]
    return []


def _node_overlap(status: str, reason: str, message: str) -> Condition:
    return Condition(type=NODE_OVERLAP, status=status, reason=reason, message=message)
