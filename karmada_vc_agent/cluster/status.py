"""Health and nodes of the host -> Cluster.status on the hub (contract 4)."""

import logging
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime, timedelta

from cachetools import LRUCache

from karmada_vc_agent.cluster import host_objects, hub_clusters
from karmada_vc_agent.cluster.rules import cluster_objects
from karmada_vc_agent.cluster.rules import conditions as rules
from karmada_vc_agent.cluster.rules.conditions import NODES_REACHABLE, READY, Condition, Thresholds
from karmada_vc_agent.cluster.virtual_clusters import Claims, Membership, Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.discovery import Discovery, HealthProbe, ServedApis, server_version
from karmada_vc_agent.kube.errors import KubeError, NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.core import Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, merge_patch, timestamp
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.kind_policy import ClusterScopedKinds, hidden_from_api_enablements

VERSION_MAX_AGE_S = 60.0
ENABLEMENTS_KEPT = 64
"""Lists of what is served, 100 KB each; virtual clusters that may have the same kinds share one."""


@dataclass(kw_only=True)
class HostStatus:
    """Reads the host for the status of one virtual cluster after another.

    conditions: return those of a virtual cluster, by the live status of its Cluster.
    with_resources, with_models: whether sums, and modelings, are reported. discovery_max_age_s: how
    old what the host serves may be. is_reached: whether the hub reads virtual clusters (gateway).
    """

    client: ApiClient
    probe: HealthProbe
    discovery: Discovery
    membership: Membership
    pods: Store[Pod]
    claims: Claims
    cluster_scoped_kinds: ClusterScopedKinds
    conditions: Callable[[VirtualCluster, Object], Sequence[Condition]]
    clock: Callable[[], float] = time.monotonic
    with_resources: bool = True
    with_models: bool = True
    discovery_max_age_s: float = 0.0
    is_reached: bool = False
    _version: tuple[str, float] = field(init=False, default=("", float("-inf")))
    _enablements: LRUCache[tuple[tuple[str, ...], ...], tuple[ServedApis, list[Object]]] = field(
        init=False, default_factory=lambda: LRUCache(ENABLEMENTS_KEPT)
    )

    async def observe(
        self, vc: VirtualCluster, cluster: Object, judged: Sequence[Condition]
    ) -> tuple[Object, list[Condition]]:
        """Return fields and conditions to report. judged: those that are damped, Ready first."""
        try:
            served = await self.discovery.refresh(self.discovery_max_age_s)
            is_partial = not served.is_complete
        except KubeError:
            served, is_partial = self.discovery.served, True
        enablements = self._api_enablements(served, vc)
        fields: Object = {
            "apiEnablements": enablements or None,
            **self._resources(vc, cluster),
            "kubernetesVersion": await self._kubernetes_version() or None,
        }
        return fields, [
            cluster_objects.complete_api_enablements(len(enablements), is_partial=is_partial),
            *judged,
            *self.conditions(vc, cluster.get("status") or {}),
        ]

    def _resources(self, vc: VirtualCluster, cluster: Object) -> Object:
        """Return the summaries of nodes and resources, by field; None = not reported."""
        if not self.with_resources:
            return {"nodeSummary": None, "resourceSummary": None}
        nodes = self.membership.nodes_of(vc.name)
        models = cluster_objects.standard_models(vc)
        if not self.with_models or models != dig(cluster, "spec", "resourceModels"):
            models = []  # Karmada reads counts by the grades of the Cluster
        on_nodes = [
            pod
            for node in nodes
            for pod in self.pods.by_index(host_objects.PODS_BY_NODE, node.metadata.name)
        ]
        return {
            "nodeSummary": cluster_objects.node_summary(nodes),
            "resourceSummary": cluster_objects.resource_summary(
                nodes, on_nodes, self._pending(vc), models, vc.quota
            ),
        }

    def _pending(self, vc: VirtualCluster) -> list[Pod]:
        """Return unscheduled pods of the claimed namespaces, or that select these nodes."""
        required = vc.required_selector.items()
        key, value = next(iter(required))
        pods = self.pods.by_index(host_objects.PENDING_BY_SELECTOR, f"{key}={value}")
        selecting = [pod for pod in pods if required <= pod.spec.node_selector.items()]
        for namespace in self.claims.of(vc.name).values():
            selecting += self.pods.by_index(host_objects.PENDING_BY_NAMESPACE, namespace)
        return list({(p.metadata.namespace, p.metadata.name): p for p in selecting}.values())

    async def _kubernetes_version(self) -> str:
        version, read_at = self._version
        is_due = self.clock() - read_at > VERSION_MAX_AGE_S
        if is_due and (version := await server_version(self.client)):
            self._version = (version, self.clock())
        return version

    def _api_enablements(self, served: ServedApis, vc: VirtualCluster) -> list[Object]:
        """Return the list for one virtual cluster; those with the same kinds share one."""
        kinds = (vc.allowed_kinds, vc.denied_kinds)
        cached = self._enablements.get(kinds)
        if cached is not None and cached[0] is served:
            return cached[1]

        def is_hidden(gvk: GroupVersionKind) -> bool:
            resource = served.by_kind.get(gvk)
            return hidden_from_api_enablements(
                gvk,
                namespaced=resource is not None and resource.namespaced,
                configured=self.cluster_scoped_kinds,
                vc=vc,
                is_reached=self.is_reached,
            )

        enablements = cluster_objects.api_enablements(served.lists, is_hidden)
        self._enablements[kinds] = (served, enablements)
        return enablements


_log = logging.getLogger(__name__)


@dataclass
class ReachableNodes:
    """The condition NodesReachable of each virtual cluster, as judged by the agent.

    notify: called with a Cluster and the condition that it is to have, if that is news for it.
    """

    membership: Membership
    thresholds: Thresholds
    notify: Callable[[Object, Condition], None]
    clock: Callable[[], float]
    scopes: InitVar[Scopes]

    def __post_init__(self, scopes: Scopes) -> None:
        self._judgements = hub_clusters.Judgements(scopes)
        self.changed = self._judgements.changed

    def of(self, name: str) -> Condition:
        """Return the condition: what holds is what was judged, the numbers are those of now."""
        now, judged = self._seen(name), self._judgements.of(name)
        return now if judged is None or judged["status"] == now["status"] else judged

    def judge(self, vc: VirtualCluster, cluster: Object) -> Condition:
        """Judge the nodes again; return the condition that the Cluster is to have."""
        before, now = self._judgements.of(vc.name), self._seen(vc.name)
        judged = self._judgements.judge(vc.name, now, self.thresholds, self.clock())
        if NODES_REACHABLE.is_news(before, judged):
            is_up = judged["status"] == "True"
            _log.log(
                logging.INFO if is_up else logging.WARNING,
                "Nodes of the group are Ready again" if is_up else "No node of the group is Ready",
                extra={"virtual_cluster": vc.name, "reason": judged["message"]},
            )
        shown = NODES_REACHABLE.find(dig(cluster, "status", "conditions"))
        if NODES_REACHABLE.is_news(shown, judged):
            self.notify(cluster, judged)
        return judged

    def _seen(self, name: str) -> Condition:
        return rules.nodes_reachable(*rules.count_nodes(self.membership.nodes_of(name)))


FINALIZER_WAIT = Requeue(1.0)
NODE_CHANGE_SETTLES_S = 0.2
"""Changes of nodes come in groups; one status write is enough for those of this time."""


def keys_of_reported(
    clusters: hub_clusters.HubClusters,
    virtual_clusters: Container[str],
    old: Object | None,
    new: Object | None,
) -> Iterator[str]:
    """Yield that of a Cluster which became ours, or changed in more than its status."""
    name = new["metadata"]["name"] if new is not None else ""
    if name not in virtual_clusters or clusters.ours(name) is None:
        return
    keys = ("generation", "finalizers")
    changed = any(dig(old, "metadata", key) != dig(new, "metadata", key) for key in keys)
    if changed or not clusters.is_ours(old):
        yield name


@dataclass(kw_only=True)
class ClusterStatusController:
    """Keeps the status of each Cluster; sole writer of it.

    scopes: ended where there is no Cluster. judgements: notified of Ready before the hub is, which
    may not accept it; it is that of the host, which can take writes while nodes are away.
    may_report: whether the status is this process' to write. why_terminating: why only the hub can
    finalise the Works of a Cluster that is deleted, which it does once that is not Ready; "" = the
    agent can. on_ready: starts the Lease. on_synced: called with the duration in seconds, the
    status, and the HTTP status of the probe or None.
    """

    hub: ApiClient
    clusters: hub_clusters.HubClusters
    host: HostStatus
    virtual_clusters: Mapping[str, VirtualCluster]
    frequency_s: float
    thresholds: Thresholds
    scopes: Scopes
    judgements: hub_clusters.Judgements
    reachable: ReachableNodes
    contact: hub_clusters.HubContact
    may_report: Callable[[], bool]
    why_terminating: Callable[[str], str]
    on_ready: Callable[[str], None]
    on_synced: Callable[[str, float, Object, int | None], None]
    clock: hub_clusters.Clock
    _digest: tuple[object, str] = field(init=False, default=(None, ""))
    """The apiEnablements that were compared last, which Clusters share, and their digest."""

    async def judge_all(self) -> None:
        """Judge those with a status by one probe: no Lease and no Work waits for each of them."""
        http_status = await self.host.probe.status()
        for name in self.virtual_clusters if http_status == 200 else ():
            cluster, is_deleting = self.clusters.ours(name), self.clusters.is_deleting(name)
            was_reported = dig(cluster, "status") and not is_deleting
            if was_reported and self._judge(name, http_status)["status"] == "True":
                self.on_ready(name)

    async def reconcile(self, name: str) -> Requeue | None:
        vc, cluster = self.virtual_clusters.get(name), self.clusters.ours(name)
        if vc is None or cluster is None:
            if vc is None or (self.clusters.store.is_synced and self.clusters.has_listed(name)):
                self.scopes.end(name)  # also what was kept since it ended
            return None
        if vocabulary.CLUSTER_FINALIZER not in (cluster["metadata"].get("finalizers") or ()):
            return FINALIZER_WAIT
        if not self.may_report():
            self.contact.forget(name)
            return Requeue(self.frequency_s)
        live = cluster.get("status") or {}
        started = self.clock.monotonic()
        if reason := self.why_terminating(name):
            # At once, so that Karmada strips the finalizers (contract 1.9).
            leaving = READY.false("ClusterLeaving", reason)
            status = cluster_objects.with_conditions(live, [leaving], self.clock.now())
            await self._report(cluster, status, leaving)
            self._count(name, started, status, None)
            return Requeue(self.frequency_s)
        http_status = await self.host.probe.status()
        host = self._judge(name, http_status)
        is_up = host["status"] == "True"
        status = live
        if http_status == 200 and is_up:
            self.on_ready(name)
            nodes = self.reachable.judge(vc, cluster)
            ready = _with_nodes(host, nodes, vc, cluster)
            fields, conditions = await self.host.observe(vc, cluster, (ready, nodes))
            status = cluster_objects.compose_cluster_status(
                live, fields, conditions, self.clock.now()
            )
        elif (http_status or 0) // 100 == 2 or not is_up:
            ready = _with_nodes(host, self.reachable.of(name), vc, cluster)
            status = cluster_objects.with_conditions(live, [ready], self.clock.now())
        if status is not live:
            await self._report(cluster, status, ready)
        self._count(name, started, status, http_status)
        return Requeue(self.frequency_s)

    def _judge(self, name: str, http_status: int | None) -> Condition:
        is_in_doubt = self.host.client.history.is_in_doubt
        observed = _IN_DOUBT if is_in_doubt else rules.observed_ready(http_status)
        return self.judgements.judge(name, observed, self.thresholds, self.clock.monotonic())

    def _count(self, name: str, started: float, status: Object, http_status: int | None) -> None:
        # The state of a Cluster that was deleted meanwhile is dropped already.
        if self.clusters.ours(name) is not None:
            self.on_synced(name, self.clock.monotonic() - started, status, http_status)

    async def _report(self, cluster: Object, status: Object, ready: Condition) -> None:
        """Write it; log a change of Ready while the hub has the Lease: else it writes Unknown."""
        name = cluster["metadata"]["name"]
        before = READY.find(dig(cluster, "status", "conditions"))
        await self.contact.track(name, hub_clusters.STATUS, self._write(cluster, status))
        self.contact.accepted(name, hub_clusters.STATUS)
        has_lease = self.contact.is_accepted(name)
        if before is None or (has_lease and before["status"] != ready["status"]):
            extra = {"virtual_cluster": name, "ready": ready["status"], "reason": ready["reason"]}
            _log.info("Reported readiness", extra=extra)

    async def _write(self, cluster: Object, status: Object) -> None:
        """Patch what differs; the stored apiEnablements are a digest (ClusterCodec)."""
        live = cluster.get("status") or {}
        compared = status
        if isinstance(served := status.get("apiEnablements"), list):
            if self._digest[0] is not served:
                self._digest = served, hub_clusters.digest(served)
            compared = {**status, "apiEnablements": self._digest[1]}
        patch = merge_patch(live, compared)
        if not patch:
            return
        if "apiEnablements" in patch:
            patch["apiEnablements"] = status["apiEnablements"]
        name = cluster["metadata"]["name"]
        # Alone these ages are worth no write.
        now, silent_s = self.clock.now(), self.contact.silent_s(name)
        ages = {vocabulary.OBSERVED_AT_ANNOTATION: now}
        if silent_s is not None:
            last = datetime.fromisoformat(now) - timedelta(seconds=silent_s)
            ages[vocabulary.HUB_CONTACT_ANNOTATION] = timestamp(last)
        metadata = {"resourceVersion": hub_clusters.version_of(cluster), "annotations": ages}
        body = {"metadata": metadata, "status": patch}
        try:
            path = f"{hub_clusters.CLUSTERS_PATH}/{name}/status"
            answer = await self.hub.merge_patch(path, body, is_terse=True)
        except NotFoundError:
            return
        # What is sent is what is there: Karmada has no defaults for a status.
        written = {**cluster, "metadata": answer["metadata"], "status": compared}
        self.clusters.store.observe(written)


def _with_nodes(
    host: Condition, nodes: Condition, vc: VirtualCluster, cluster: Object
) -> Condition:
    """Return Ready; without the nodes while it is deleted, so that Works stay (contract 1.9)."""
    is_deleting = bool(cluster["metadata"].get("deletionTimestamp"))
    return rules.ready_with(host, nodes, when_unreachable=vc.ready_when_unreachable or is_deleting)


_IN_DOUBT = READY.false(
    "ClusterWentBackInTime",
    "the API server of the cluster went back in time, as after a restore from a backup; "
    "the agent is listing everything again",
)
"""Damped like an outage: until then the cached state of the host may be outdated."""
