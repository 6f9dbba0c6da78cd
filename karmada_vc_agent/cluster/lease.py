"""Renews the Lease of each Cluster while this process may lead (contract 3.1)."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from karmada_vc_agent.cluster.agent_conditions import AgentCondition
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue
from karmada_vc_agent.kube.errors import ConflictError, ForbiddenError, NotFoundError
from karmada_vc_agent.kube.leader_election import SKEW_S, renew_time, seconds_ahead
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.domain import LEASE_HOLDER_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, uid_of

_log = logging.getLogger(__name__)


class Lead:
    """The leadership of this process.

    Host objects and Works are written only while it is certain. Leases and status of Clusters are
    also written while it is in doubt (the host does not answer, which the hub must learn), but not
    after another process was seen to write them.
    """

    def __init__(self, identity: str, is_leading: Callable[[], bool]) -> None:
        self.identity = identity
        self.is_certain = is_leading
        self._rival = ""

    def observe_holder(self, writer: str | None) -> None:
        """Record who wrote last; another writer while we are in doubt is the new leader."""
        if writer in (None, "", self.identity) or self.is_certain():
            return
        if writer != self._rival:
            _log.warning("Yielding to the other leader", extra={"leader": writer})
        self._rival = str(writer)

    def may_report(self) -> bool:
        """Return True if Leases and status of Clusters are ours to write."""
        if self.is_certain():
            self._rival = ""
        return not self._rival


LEASES_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{karmada.LEASE_NAMESPACE}/leases"
JITTER = 0.04
RETRY_MAX_S = 5.0
_NO_NAMESPACE = (
    f"hub: Namespace {karmada.LEASE_NAMESPACE} does not exist, so no Lease can be created and the "
    "hub does not consider the Clusters Ready; run karmada-vc-agent join, or create it"
)
_NO_FIELDS: list[Object] = [{}]
"""Has the server drop the owners of fields, for good: half a KB in each renewal and answer."""


class ClusterLeaseController:
    """Renews Leases from the first time a Cluster was seen Ready until it is deleted.

    Leases are also renewed while leadership is in doubt, since they must report to the hub a host
    that does not answer. Each renewal records the process that made it: a process with doubtful
    leadership that reads another one there has been replaced by a standby, and stops.
    on_renewed: called with each virtual cluster whose Lease was renewed. on_skew: called with how
    many seconds a Lease that is taken over is ahead of our clock. namespace: fails while the hub
    has no namespace of Leases.
    """

    def __init__(
        self,
        hub: ApiClient,
        clusters: HubClusters,
        duration_s: float,
        renew_fraction: float,
        lead: Lead,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_renewed: Callable[[str], None] = lambda _: None,
        on_skew: Callable[[str, float], None] = lambda *_: None,
        namespace: AgentCondition | None = None,
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._duration_s = duration_s
        self._interval_s = duration_s * renew_fraction
        self._lead = lead
        self._on_renewed = on_renewed
        self._on_skew = on_skew
        self._namespace = namespace or AgentCondition()
        self._now = now
        self._leases: dict[str, Object] = {}
        self._written: dict[str, tuple[str, str, int]] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Renew the Lease of one virtual cluster; ends when its Cluster is deleted."""
        cluster = self._clusters.ours(name)
        if cluster is None:
            lease = self._leases.pop(name, None)
            self._written.pop(name, None)
            if lease is not None and self._clusters.store.get("", name) is not None:
                await self._give_up(name, lease)
            return None
        if not self._lead.may_report():
            self._leases.pop(name, None)
            return Requeue(self._interval_s)
        lease = self._leases.get(name)
        try:
            if lease is None:
                lease = await self._read_or_create(cluster)
                self._check_time(name, lease)
                self._warn_of_skew(name, lease)
            self._lead.observe_holder(annotations_of(lease).get(LEASE_HOLDER_ANNOTATION))
            if not self._lead.may_report():
                return Requeue(self._interval_s)
            renewed = self._renewed(lease, cluster)
            answer = await self._hub.replace_tersely(f"{LEASES_PATH}/{name}", renewed)
            self._leases[name] = written = {**renewed, "metadata": answer["metadata"]}
            version = str(written["metadata"]["resourceVersion"])
            self._written[name] = (uid_of(written), version, self._hub.history.epoch)
        except (ConflictError, NotFoundError):
            self._leases.pop(name, None)
            raise
        self._on_renewed(name)
        return Requeue(self._interval_s * random.uniform(1, 1 + JITTER))  # noqa: S311 - jitter

    async def _give_up(self, name: str, lease: Object) -> None:
        """Remove our annotation from the Lease of a Cluster that exists and is not served any more.

        `leave` would wait for us to clean up.
        """
        if not self._lead.may_report():
            return
        metadata = dict(lease["metadata"])
        metadata["annotations"] = dict(annotations_of(lease))
        metadata["annotations"].pop(LEASE_HOLDER_ANNOTATION, None)
        with suppress(ConflictError, ForbiddenError, NotFoundError):
            await self._hub.replace(f"{LEASES_PATH}/{name}", {**lease, "metadata": metadata})

    async def _read_or_create(self, cluster: Object) -> Object:
        name = cluster["metadata"]["name"]
        try:
            return await self._hub.get(f"{LEASES_PATH}/{name}")
        except NotFoundError:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": karmada.LEASE_NAMESPACE},
            }
            return await self._create(self._renewed(lease, cluster))

    async def _create(self, lease: Object) -> Object:
        """Create a Lease. Raises NotReadyError where the hub has no namespace for it."""
        try:
            made = await self._hub.create(LEASES_PATH, lease)
        except NotFoundError as error:
            if not self._namespace.problem:
                _log.error("Cannot create Leases", extra={"reason": _NO_NAMESPACE})
            self._namespace.fail("NamespaceMissing", _NO_NAMESPACE)
            raise NotReadyError(_NO_NAMESPACE) from error
        self._namespace.succeed()
        return made

    def _check_time(self, name: str, lease: Object) -> None:
        """Notice a hub that has a Lease from before our last renewal, as after a restore.

        Versions of the hub only grow, so they may have passed their old values long ago; the Lease
        still shows it, since only this agent renews it.
        """
        uid, version, epoch = self._written.get(name, ("", "", 0))
        if uid == uid_of(lease):
            live = str(lease["metadata"].get("resourceVersion") or "")
            self._hub.history.check(version, live, f"lease {name}", epoch)

    def _warn_of_skew(self, name: str, lease: Object) -> None:
        """Warn of a clock that is behind the one by which a Lease was renewed before."""
        ahead_s = seconds_ahead(lease, self._now())
        self._on_skew(name, ahead_s)
        if ahead_s > SKEW_S:
            _log.warning(
                "The clock of this machine is behind that of the previous holder of the Lease; "
                "check its time synchronisation. The Lease time continues from the previous one",
                extra={"virtual_cluster": name, "behind_s": round(ahead_s, 1)},
            )

    def _renewed(self, lease: Object, cluster: Object) -> Object:
        """Return the Lease to write; an existing owner is kept, even an outdated one."""
        name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        metadata = dict(lease["metadata"])
        if metadata.pop("managedFields", None):
            metadata["managedFields"] = _NO_FIELDS
        metadata["annotations"] = {
            **annotations_of(lease),
            LEASE_HOLDER_ANNOTATION: self._lead.identity,
        }
        if not metadata.get("ownerReferences"):
            owner = {
                "apiVersion": karmada.CLUSTER_API,
                "kind": "Cluster",
                "name": name,
                "uid": uid,
            }
            metadata["ownerReferences"] = [owner]
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": int(self._duration_s),
            "renewTime": renew_time(lease, self._now()),
        }
        return {**lease, "metadata": metadata, "spec": spec}


def vital_checks(
    tasks: Iterable[asyncio.Task[Any]],
    attempts: Mapping[str, float],
    limit_s: float,
    possible_since: float,
    now: float,
) -> dict[str, str | None]:
    """Return the liveness checks: name -> None, or a failure that only a restart can fix.

    tasks: those that must run until cancelled. attempts: when each Lease was last renewed, whatever
    the result; after `limit_s` one is overdue. possible_since: since when attempts could end, inf
    in an outage. All times are monotonic.
    """
    ended = ", ".join(task.get_name() for task in tasks if task.done())
    overdue = (name for name, at in attempts.items() if now - max(at, possible_since) > limit_s)
    late = ", ".join(sorted(overdue))
    return {
        "tasks": f"ended unexpectedly: {ended}" if ended else None,
        "leases": f"no attempt to renew for {limit_s:g}s: {late}" if late else None,
    }
