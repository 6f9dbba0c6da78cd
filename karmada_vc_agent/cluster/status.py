"""Nodes, pods, APIs and health of the host -> Cluster.status on the hub (contract 4)."""

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from karmada_vc_agent.cluster.clock import Clock
from karmada_vc_agent.cluster.host_status import HostStatus
from karmada_vc_agent.cluster.hub_clusters import (
    CLUSTERS_PATH,
    HubClusters,
    digest,
    version_of,
)
from karmada_vc_agent.cluster.judgements import STATUS, HubContact, Judgements
from karmada_vc_agent.cluster.reachable_nodes import ReachableNodes
from karmada_vc_agent.cluster.rules import cluster_report as rules
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.rules.nodes_reachable import ready_with
from karmada_vc_agent.cluster.rules.readiness import (
    READY,
    Observation,
    Thresholds,
    damp,
    is_online,
    observed_ready,
)
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.domain import HUB_CONTACT_ANNOTATION, OBSERVED_AT_ANNOTATION
from karmada_vc_agent.model.karmada import CLUSTER_FINALIZER
from karmada_vc_agent.model.merge_patch import merge_patch
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.timestamps import timestamp
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

FINALIZER_WAIT = Requeue(1.0)
NODE_CHANGE_SETTLES_S = 0.2
"""Changes of nodes come in groups; one status write is enough for those of this time."""


def keys_of_cluster(
    clusters: HubClusters,
    virtual_clusters: Container[str],
    old: Object | None,
    new: Object | None,
) -> Iterator[str]:
    """Yield the virtual cluster of one of our Clusters that changed in more than its status."""
    name = new["metadata"]["name"] if new is not None else ""
    if name not in virtual_clusters or clusters.ours(name) is None:
        return
    if any(
        dig(old, "metadata", key) != dig(new, "metadata", key)
        for key in ("generation", "finalizers")
    ):
        yield name


@dataclass(frozen=True, slots=True)
class StatusTimes:
    """Seconds between two syncs, and how long a change of Ready must last."""

    frequency_s: float
    thresholds: Thresholds


class StatusInstrument(Protocol):
    """Called after each sync: its duration in seconds, the status, and the HTTP status or None."""

    def synced(self, name: str, took_s: float, status: Object, http_status: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class StatusCollaborators:
    """Who else decides on a status, and who hears of it.

    scopes: ended where there is no Cluster. judgements: told of Ready before the hub is, who may
    not take it; what it is told is of the host, which can take writes while nodes are away.
    reachable: judges the nodes. may_report: whether the status is this process' to write.
    why_terminating: why only the hub can finalise the Works of a Cluster that is deleted, which it
    does once the Cluster is not Ready; "" = the agent can. on_ready: called when the host of a
    Cluster is seen healthy, which starts its Lease.
    """

    scopes: Scopes
    judgements: Judgements
    reachable: ReachableNodes
    contact: HubContact
    may_report: Callable[[], bool]
    why_terminating: Callable[[str], str]
    on_ready: Callable[[str], None]
    instrument: StatusInstrument | None = None


class ClusterStatusController:
    """Keeps the status of each Cluster; sole writer of it."""

    def __init__(
        self,
        hub: ApiClient,
        clusters: HubClusters,
        host: HostStatus,
        virtual_clusters: Mapping[str, VirtualCluster],
        times: StatusTimes,
        others: StatusCollaborators,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._host = host
        self._virtual_clusters = virtual_clusters
        self._times = times
        self._o = others
        self._clock = clock
        self._observations: dict[str, Observation] = others.scopes.keep()

    async def reconcile(self, name: str) -> Requeue | None:
        """Sync the status of one Cluster; ends when the Cluster is gone."""
        vc, cluster = self._virtual_clusters.get(name), self._clusters.ours(name)
        if vc is None or cluster is None:
            if vc is None or self._clusters.is_listed(name):
                self._o.scopes.end(name)  # also what was kept since it ended
            return None
        if CLUSTER_FINALIZER not in (cluster["metadata"].get("finalizers") or ()):
            return FINALIZER_WAIT
        if not self._o.may_report():
            self._o.contact.forget(name)
            return Requeue(self._times.frequency_s)
        live = cluster.get("status") or {}
        started = self._clock.monotonic()
        if reason := self._o.why_terminating(name):
            leaving = _leaving(reason)
            status = rules.with_conditions(live, [leaving], self._clock.now())
            await self._report(cluster, status, leaving)
            self._count(name, started, status, None)
            return Requeue(self._times.frequency_s)
        http_status = await self._host.healthz()
        observed = _IN_DOUBT if self._host.is_in_doubt else observed_ready(http_status)
        host = self._damped(name, observed)
        is_up = host["status"] == "True"
        self._o.judgements.judge(name, host)
        status = live
        if http_status == 200 and is_up:
            self._o.on_ready(name)
            nodes = self._o.reachable.judge(vc, cluster)
            ready = _with_nodes(host, nodes, vc, cluster)
            found = await self._host.observe(vc, cluster, (ready, nodes))
            status = rules.compose_cluster_status(live, found, self._clock.now())
            await self._report(cluster, status, ready)
        elif is_online(http_status) or not is_up:
            ready = _with_nodes(host, self._o.reachable.of(name), vc, cluster)
            status = rules.with_conditions(live, [ready], self._clock.now())
            await self._report(cluster, status, ready)
        self._count(name, started, status, http_status)
        return Requeue(self._times.frequency_s)

    def _count(self, name: str, started: float, status: Object, http_status: int | None) -> None:
        # The state of a Cluster that was deleted meanwhile is dropped already.
        if self._o.instrument is not None and self._clusters.ours(name) is not None:
            self._o.instrument.synced(name, self._clock.monotonic() - started, status, http_status)

    async def _report(self, cluster: Object, status: Object, ready: Condition) -> None:
        """Write the status; a change of Ready is logged once the hub accepted it.

        Not while the hub lacks the Lease: then it writes Unknown each time.
        """
        name = cluster["metadata"]["name"]
        before = READY.find(dig(cluster, "status", "conditions"))
        await self._o.contact.track(name, STATUS, self._write(cluster, status))
        self._o.contact.accepted(name, STATUS)
        has_lease = self._o.contact.is_accepted(name)
        if before is None or (has_lease and before["status"] != ready["status"]):
            extra = {"virtual_cluster": name, "ready": ready["status"], "reason": ready["reason"]}
            _log.info("Reported readiness", extra=extra)

    def _damped(self, name: str, observed: Condition) -> Condition:
        host, self._observations[name] = damp(
            self._observations.get(name),
            observed,
            self._o.judgements.of(name),
            self._clock.monotonic(),
            self._times.thresholds,
        )
        return host

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
        marks = {"annotations": self._ages(metadata["name"])}
        body = {
            "metadata": {"resourceVersion": version_of(cluster), **marks},
            "status": patch,
        }
        try:
            answer = await self._hub.patch_tersely(
                f"{CLUSTERS_PATH}/{metadata['name']}/status", body
            )
        except NotFoundError:
            return
        # What is sent is what is there: Karmada has no defaults for a status.
        written = {**cluster, "metadata": answer["metadata"], "status": compared}
        self._clusters.store.observe(written)

    def _ages(self, name: str) -> dict[str, str]:
        """Return the annotations that say how old a status is; alone they are worth no write."""
        now = self._clock.now()
        silent_s = self._o.contact.silent_s(name)
        if silent_s is None:
            return {OBSERVED_AT_ANNOTATION: now}
        last = datetime.fromisoformat(now) - timedelta(seconds=silent_s)
        return {OBSERVED_AT_ANNOTATION: now, HUB_CONTACT_ANNOTATION: timestamp(last)}


def _with_nodes(
    host: Condition, nodes: Condition, vc: VirtualCluster, cluster: Object
) -> Condition:
    """Return Ready; of a Cluster that is being deleted without its nodes.

    While it is not Ready the hub takes its Works away, before their objects are (contract 1.9).
    """
    is_going = bool(cluster["metadata"].get("deletionTimestamp"))
    return ready_with(host, nodes, when_unreachable=vc.ready_when_unreachable or is_going)


def _leaving(message: str) -> Condition:
    """Return what is written immediately, so that Karmada strips the finalizers (contract 1.9)."""
    return READY.false("ClusterLeaving", message)


_IN_DOUBT = READY.false(
    "ClusterWentBackInTime",
    "the API server of the cluster went back in time, as after a restore from a backup; "
    "the agent is listing everything again",
)
"""Damped like an outage: until then the known state of the host may be outdated."""
