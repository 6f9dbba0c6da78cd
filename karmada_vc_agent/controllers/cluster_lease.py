"""Renews the Lease of each Cluster on the hub, in a lane of its own (contract 3.1, trap 10)."""

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.renew_time import SKEW_S, renew_time, seconds_ahead
from karmada_vc_agent.lifecycle.lead import Lead
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.domain import LEASE_HOLDER_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, uid_of
from karmada_vc_agent.views.hub_clusters import HubClusters

_log = logging.getLogger(__name__)

LEASES_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{karmada.LEASE_NAMESPACE}/leases"
JITTER = 0.04


class ClusterLeaseController:
    """Renews Leases from the first time a Cluster was seen Ready until it is gone.

    Leases are renewed also while the lead is in doubt, since they must tell the hub of a host
    that is away. Each renewal notes which process made it: whoever is not certain to lead and
    meets the note of another knows that a standby has taken over, and is still.
    on_renewed: told of each virtual cluster whose Lease was renewed. on_skew: told by how many
    seconds a Lease that is taken over is ahead of our clock.
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
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._duration_s = duration_s
        self._interval_s = duration_s * renew_fraction
        self._lead = lead
        self._on_renewed = on_renewed
        self._on_skew = on_skew
        self._now = now
        self._leases: dict[str, Object] = {}
        self._written: dict[str, tuple[str, str, int]] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Renew the Lease of one virtual cluster; ends when its Cluster is gone."""
        cluster = self._clusters.ours(name)
        if cluster is None:
            self._leases.pop(name, None)
            self._written.pop(name, None)
            return None
        if not self._lead.may_report():
            self._leases.pop(name, None)
            return Requeue(self._interval_s)
        lease = self._leases.get(name)
        try:
            if lease is None:
                lease = await self._read_or_create(cluster)
                self._check_time(name, lease)
                self._tell_skew(name, lease)
            self._lead.observe_holder(annotations_of(lease).get(LEASE_HOLDER_ANNOTATION))
            if not self._lead.may_report():
                return Requeue(self._interval_s)
            written = await self._hub.replace(
                f"{LEASES_PATH}/{name}", self._renewed(lease, cluster)
            )
            self._leases[name] = written
            version = str(written["metadata"]["resourceVersion"])
            self._written[name] = (uid_of(written), version, self._hub.history.epoch)
        except (ConflictError, NotFoundError):
            self._leases.pop(name, None)
            raise
        self._on_renewed(name)
        return Requeue(self._interval_s * random.uniform(1, 1 + JITTER))  # noqa: S311 - jitter

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
            return await self._hub.create(LEASES_PATH, self._renewed(lease, cluster))

    def _check_time(self, name: str, lease: Object) -> None:
        """Notice a hub that has a Lease as it was before our last renewal, as after a restore.

        Versions of the hub only grow, so they may have passed long since where they were; this
        one says so all the same, for nobody but this agent renews it.
        """
        uid, version, epoch = self._written.get(name, ("", "", 0))
        if uid == uid_of(lease):
            found = str(lease["metadata"].get("resourceVersion") or "")
            self._hub.history.check(version, found, f"lease {name}", epoch)

    def _tell_skew(self, name: str, lease: Object) -> None:
        """Warn of a clock that is behind the one by which a Lease was renewed before."""
        ahead_s = seconds_ahead(lease, self._now())
        self._on_skew(name, ahead_s)
        if ahead_s > SKEW_S:
            _log.warning(
                "The clock of this machine is behind that of the agent that held the Lease; "
                "check its time service. The Lease goes on from where it was",
                extra={"virtual_cluster": name, "behind_s": round(ahead_s, 1)},
            )

    def _renewed(self, lease: Object, cluster: Object) -> Object:
        """Return the Lease to write; an existing owner is left alone, even an outdated one."""
        name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        metadata = dict(lease["metadata"])
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
