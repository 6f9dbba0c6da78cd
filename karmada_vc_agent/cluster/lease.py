"""Leases of Clusters (contract 3.1), and what the agent lacks to serve them."""

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cachetools import TTLCache, cachedmethod

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.rules.conditions import agent_apart
from karmada_vc_agent.cluster.virtual_clusters import Claims
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, Signal
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    Need,
    NotFoundError,
)
from karmada_vc_agent.kube.leader_election import new_lease, renew_time, seconds_ahead
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, uid_of
from karmada_vc_agent.model.user_text import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


@dataclass
class AgentCondition:
    """A condition that all Clusters of the agent have: what fails, what to do; "" = nothing."""

    reason: str = ""
    problem: str = ""
    changed: Signal[[]] = field(default_factory=Signal)

    def fail(self, reason: str, problem: str) -> None:
        if (self.reason, self.problem) != (reason, problem):
            self.reason, self.problem = reason, problem
            self.changed.emit()

    def succeed(self) -> None:
        self.fail("", "")


HUB = "hub"
_OF_ALL = {
    "hub": frozenset(("clusters", "leases", "works")),
    "host": frozenset(("nodes", "pods", "namespaces")),
}
"""Without them no virtual cluster is served; only requests without a name and namespace count."""
_ALL, _NONE = "*", ""

Lacking = Callable[[], Iterable[tuple[str, Need]]]
"""Returns what is missing for longer: `hub` or `host`, and what a request needed there."""


@dataclass
class MissingRights:
    """Sorts what is missing by virtual cluster. is_spared: a right at home that none needs."""

    lacking: Lacking
    names: Collection[str]
    claims: Claims
    home: str
    is_spared: Callable[[Need], bool] = lambda _: False
    clock: Callable[[], float] = time.monotonic
    max_age_s: float = 1.0

    def __post_init__(self) -> None:
        self._recent = TTLCache[object, Mapping[str, list[str]]](1, self.max_age_s, self.clock)

    @cachedmethod(lambda self: self._recent)
    def by_cluster(self) -> Mapping[str, list[str]]:
        """Return what single virtual clusters lack, at most max_age_s old: each status reads it."""
        return {name: texts for name, texts in self._texts().items() if name not in (_ALL, _NONE)}

    def of_all(self) -> str | None:
        """Return a right without which no virtual cluster is served, None if there is none."""
        texts, names = self._texts(), tuple(self.names)
        if _ALL in texts:
            return texts[_ALL][0]
        return texts[names[0]][0] if names and all(name in texts for name in names) else None

    def warnings(self) -> list[str]:
        by_name = sorted(self.by_cluster().items())
        return [*(f"{name}: {texts[0]}" for name, texts in by_name), *self._texts().get(_NONE, ())]

    def _texts(self) -> Mapping[str, list[str]]:
        texts: dict[str, list[str]] = {}
        for server, need in self.lacking():
            text = f"{server}: the agent lacks rule {need}; {JOIN_OF_THIS_VERSION}"
            texts.setdefault(self._concerned(server, need), []).append(text)
        return {name: sorted(each) for name, each in texts.items()}

    def _concerned(self, server: str, need: Need) -> str:
        """Return the virtual cluster that alone needs something, or _ALL, or _NONE."""
        if server == HUB:
            if cluster := vocabulary.cluster_of_execution_namespace(need.namespace):
                return cluster
            kind = need.resource.partition("/")[0]
            is_lease = kind == "leases" and need.namespace == vocabulary.LEASE_NAMESPACE
            if (kind == "clusters" or is_lease) and need.name in self.names:
                return need.name
        elif need.namespace:
            is_of_agent = need.namespace == self.home and not self.is_spared(need)
            return self.claims.cluster_on(need.namespace) or (_ALL if is_of_agent else _NONE)
        return _ALL if not need.name and need.resource in _OF_ALL[server] else _NONE


NODE_VARIABLE = "NODE_NAME"
"""Set by the manifest through the downward API; without it the node is unknown."""


async def check_apart_from_tenants(
    host: ApiClient, node: str, virtual_clusters: Iterable[VirtualCluster]
) -> None:
    """Reject a node of a group, and an edge node; "" = unknown. Raises ConfigError, KubeError."""
    if not node:
        return
    listed = await host.get("/api/v1/nodes", {"fieldSelector": f"{vocabulary.NAME_FIELD}={node}"})
    for live in listed.get("items") or ():
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
        if self.is_certain():
            self._rival = ""
        return not self._rival


LEASES_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{vocabulary.LEASE_NAMESPACE}/leases"
JITTER = 0.04
LEAST = 0.5  # of a period, the first of a Lease that was there: a start renews all at once
RETRY_MAX_S = 5.0
_NO_NAMESPACE = (
    f"hub: Namespace {vocabulary.LEASE_NAMESPACE} does not exist, so no Lease can be created and "
    "the hub does not consider the Clusters Ready; run karmada-vc-agent join, or create it"
)


@dataclass
class ClusterLeaseController:
    """Renews Leases from the first time a Cluster was seen Ready until it is deleted.

    Also while leadership is in doubt: the hub must learn of a host that does not answer. Each
    renewal records its process; one in doubt that reads another there was replaced, and stops.
    on_skew: called with how many seconds a Lease that is taken over is ahead of our clock.
    namespace: fails while the hub has no namespace of Leases.
    """

    hub: ApiClient
    clusters: HubClusters
    duration_s: float
    renew_fraction: float
    lead: Lead
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    on_renewed: Callable[[str], None] = lambda _: None
    on_skew: Callable[[str, float], None] = lambda *_: None
    namespace: AgentCondition = field(default_factory=AgentCondition)
    _leases: dict[str, Object] = field(init=False, default_factory=dict)
    _written: dict[str, tuple[Object, int]] = field(init=False, default_factory=dict)
    """The Lease as written last, and the epoch of the hub: also of one to be read again."""

    async def reconcile(self, name: str) -> Requeue | None:
        cluster = self.clusters.ours(name)
        if cluster is None:
            lease = self._leases.pop(name, None)
            self._written.pop(name, None)
            if lease is not None and self.clusters.store.get("", name) is not None:
                await self._give_up(name, lease)
            return None
        period_s, started = self.duration_s * self.renew_fraction, self.clock()
        if not self.lead.may_report():
            self._leases.pop(name, None)
            return Requeue(period_s)
        lease, is_new, least = self._leases.get(name), False, 1.0
        if lease is None:
            lease, is_new = await self._read_or_create(cluster)
            least = 1.0 if is_new else LEAST
            self.hub.history.check_written(*self._written.get(name, ({}, 0)), lease)
            self.on_skew(name, seconds_ahead(lease, self.now()))
        self.lead.observe_holder(annotations_of(lease).get(vocabulary.LEASE_HOLDER_ANNOTATION))
        if not self.lead.may_report():
            return Requeue(period_s)
        renewed = self._renewed(lease, cluster)
        path = f"{LEASES_PATH}/{name}"
        try:
            answer = lease if is_new else await self.hub.replace(path, renewed, is_terse=True)
        except (ConflictError, NotFoundError) as error:
            self._leases.pop(name, None)
            raise NotReadyError(str(error)) from error  # the next attempt reads or creates it
        self._leases[name] = written = {**renewed, "metadata": answer["metadata"]}
        self._written[name] = (written, self.hub.history.epoch)
        self.on_renewed(name)
        # From the start of this one: what a far hub takes adds nothing between renewals.
        due_s = started + period_s * random.uniform(least, 1 + JITTER)  # noqa: S311 - jitter
        return Requeue(max(due_s - self.clock(), period_s * LEAST))

    async def _give_up(self, name: str, lease: Object) -> None:
        """Remove our annotation from the Lease of a Cluster of others: `leave` waits for it."""
        if not self.lead.may_report():
            return
        annotations = dict(annotations_of(lease))
        annotations.pop(vocabulary.LEASE_HOLDER_ANNOTATION, None)
        released = {**lease, "metadata": {**lease["metadata"], "annotations": annotations}}
        with suppress(ConflictError, ForbiddenError, NotFoundError):
            await self.hub.replace(f"{LEASES_PATH}/{name}", released)

    async def _read_or_create(self, cluster: Object) -> tuple[Object, bool]:
        """Return the Lease, and whether it is new: a Cluster without a status has none yet.

        Raises NotReadyError where the hub has no namespace for it.
        """
        name = cluster["metadata"]["name"]
        if cluster.get("status"):
            with suppress(NotFoundError):
                return await self.hub.get(f"{LEASES_PATH}/{name}"), False
        lease = new_lease(vocabulary.LEASE_NAMESPACE, name)
        try:
            made = await self.hub.create(LEASES_PATH, self._renewed(lease, cluster))
        except AlreadyExistsError:
            return await self.hub.get(f"{LEASES_PATH}/{name}"), False
        except NotFoundError as error:
            if not self.namespace.problem:
                _log.error("Cannot create Leases", extra={"reason": _NO_NAMESPACE})
            self.namespace.fail("NamespaceMissing", _NO_NAMESPACE)
            raise NotReadyError(_NO_NAMESPACE) from error
        self.namespace.succeed()
        return made, True

    def _renewed(self, lease: Object, cluster: Object) -> Object:
        """Return the Lease to write; an existing owner is kept, even an outdated one."""
        name, metadata = cluster["metadata"]["name"], dict(lease["metadata"])
        if metadata.get("managedFields"):
            metadata["managedFields"] = [{}]  # dropped for good: half a KB in each renewal
        holder = {vocabulary.LEASE_HOLDER_ANNOTATION: self.lead.identity}
        metadata["annotations"] = {**annotations_of(lease), **holder}
        if not metadata.get("ownerReferences"):
            owner = {"apiVersion": vocabulary.CLUSTER_API, "kind": "Cluster"}
            metadata["ownerReferences"] = [{**owner, "name": name, "uid": uid_of(cluster)}]
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": int(self.duration_s),
            "renewTime": renew_time(lease, self.now()),
        }
        return {**lease, "metadata": metadata, "spec": spec}
