"""Leases of Clusters (contract 3.1), and what the agent lacks to serve them."""

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.rules.conditions import agent_apart
from karmada_vc_agent.cluster.virtual_clusters import Claims
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, Signal
from karmada_vc_agent.kube.errors import ConflictError, ForbiddenError, Need, NotFoundError
from karmada_vc_agent.kube.leader_election import SKEW_S, renew_time, seconds_ahead
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, uid_of
from karmada_vc_agent.model.user_text import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    LEASE_HOLDER_ANNOTATION,
    LEASE_NAMESPACE,
    NAME_FIELD,
    cluster_of_execution_namespace,
)


class AgentCondition:
    """The state of a condition that all Clusters of the agent have.

    reason, problem: what fails and what to do; the same text for as long as it lasts, "" = nothing.
    changed: it fails, fails for another reason, or succeeds again.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.problem = ""
        self.changed: Signal[[]] = Signal()

    def fail(self, reason: str, problem: str) -> None:
        """Report a failure."""
        if (self.reason, self.problem) != (reason, problem):
            self.reason, self.problem = reason, problem
            self.changed.emit()

    def succeed(self) -> None:
        """Report that what failed succeeded."""
        self.fail("", "")


HUB = "hub"
_CLUSTERS, _LEASES, _WORKS = "clusters", "leases", "works"
_OF_ALL = {
    "hub": frozenset((_CLUSTERS, _LEASES, _WORKS)),
    "host": frozenset(("nodes", "pods", "namespaces")),
}
"""Without them no virtual cluster is served; only requests without a name and namespace count."""

Lacking = Callable[[], Iterable[tuple[str, Need]]]
"""Returns what is missing for longer: `hub` or `host`, and what a request needed there."""


class MissingRights:
    """Sorts what is missing by virtual cluster.

    home: the agent's own namespace on the host. is_spared: True for a right there without which
    the agent serves all virtual clusters.
    """

    def __init__(
        self,
        lacking: Lacking,
        names: Iterable[str],
        claims: Claims,
        home: str,
        is_spared: Callable[[Need], bool] = lambda _: False,
    ) -> None:
        self._lacking = lacking
        self._names = names
        self._claims = claims
        self._home = home
        self._is_spared = is_spared

    def by_cluster(self) -> Mapping[str, list[str]]:
        """Return the rights that are missing for a single virtual cluster, each as a text."""
        return self._sorted()[0]

    def of_all(self) -> str | None:
        """Return a right without which no virtual cluster is served, None if there is none."""
        concerned, of_all, _ = self._sorted()
        names = tuple(self._names)
        if not of_all and names and all(name in concerned for name in names):
            return concerned[names[0]][0]
        return of_all[0] if of_all else None

    def warnings(self) -> list[str]:
        """Return what else is missing, which fails at most what needs it."""
        concerned, _, others = self._sorted()
        return [*(f"{name}: {texts[0]}" for name, texts in sorted(concerned.items())), *others]

    def _sorted(self) -> tuple[dict[str, list[str]], list[str], list[str]]:
        """Return the texts for single virtual clusters, for all of them, and for neither."""
        concerned: dict[str, list[str]] = {}
        of_all: list[str] = []
        others: list[str] = []
        for server, need in self._lacking():
            text = f"{server}: the agent lacks rule {need}; {JOIN_OF_THIS_VERSION}"
            if cluster := self._concerned(server, need):
                concerned.setdefault(cluster, []).append(text)
            else:
                (of_all if self._is_of_all(server, need) else others).append(text)
        return concerned, of_all, others

    def _concerned(self, server: str, need: Need) -> str:
        """Return the virtual cluster that alone needs something, "" if it is not a single one."""
        if server != HUB:
            claim = self._claims.on(need.namespace) if need.namespace else None
            return claim.cluster if claim is not None else ""
        if cluster := cluster_of_execution_namespace(need.namespace):
            return cluster
        kind = need.resource.partition("/")[0]
        is_named = kind == _CLUSTERS or (kind == _LEASES and need.namespace == LEASE_NAMESPACE)
        return need.name if is_named and need.name in set(self._names) else ""

    def _is_of_all(self, server: str, need: Need) -> bool:
        if server != HUB and need.namespace:
            return need.namespace == self._home and not self._is_spared(need)
        return not need.name and need.resource in _OF_ALL[server]


NODE_VARIABLE = "NODE_NAME"
"""Set by the manifest through the downward API; without it the node is unknown."""


async def check_apart_from_tenants(
    host: ApiClient, node: str, virtual_clusters: Iterable[VirtualCluster]
) -> None:
    """Reject a node of a group and an edge node. Raises ConfigError, KubeError.

    node: "" = unknown, nothing is rejected.
    """
    if not node:
        return
    listed = await host.get("/api/v1/nodes", {"fieldSelector": f"{NAME_FIELD}={node}"})
    for live in listed.get("items") or ():
        if live["metadata"]["name"] != node:
            continue
        labels = labels_of(live)
        owner = next((vc.name for vc in virtual_clusters if vc.selects(node, labels)), None)
        condition = agent_apart(node, labels, owner)
        if condition["status"] != "True":
            problem = f"{condition['message']}. With tenancy Strict the agent does not start there"
            raise ConfigError("environment", NODE_VARIABLE, problem)


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


LEASES_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{vocabulary.LEASE_NAMESPACE}/leases"
JITTER = 0.04
RETRY_MAX_S = 5.0
_NO_NAMESPACE = (
    f"hub: Namespace {vocabulary.LEASE_NAMESPACE} does not exist, so no Lease can be created and "
    "the hub does not consider the Clusters Ready; run karmada-vc-agent join, or create it"
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
            answer = await self._hub.replace(f"{LEASES_PATH}/{name}", renewed, is_terse=True)
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
                "metadata": {"name": name, "namespace": vocabulary.LEASE_NAMESPACE},
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
                "apiVersion": vocabulary.CLUSTER_API,
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
