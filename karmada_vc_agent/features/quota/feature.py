"""One quota for each virtual cluster, divided over its namespaces (ADR 14).

One reconcile reads all its ResourceQuotas and takes one step: it lowers what is too much, and
raises what the server has confirmed to be free. That confirmation, a change of a quota's status,
enqueues the next step. The share of a namespace that is held, or ends, stays; the others divide
the rest.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.virtual_clusters import CLUSTER_INDEX, Phase, claims_in, hold_of
from karmada_vc_agent.features.quota.shares import (
    Pending,
    amounts_of,
    divide,
    is_enforced,
    left_of,
    next_hard,
    pending,
    quantities_of,
    requested_by,
    share_of,
)
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, RetryError, same
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import KubeError, NotFoundError
from karmada_vc_agent.kube.flows import for_each
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, WITH_PODS, plural
from karmada_vc_agent.runner.common import FEW_WORKERS, Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts
from karmada_vc_agent.telemetry.metrics import Sample
from karmada_vc_agent.translation.namespace_defaults import QUOTA_NAME
from karmada_vc_agent.work.namespace_writer import QUOTAS, NamespaceShares

STALLED_AFTER_S = 10.0
"""A division in progress waits for the server now and then, each time for less than a second."""


class Divisions(NamespaceShares):
    """The state of each division. waiting: for what, and since when; a long wait is a stall."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.waiting: dict[str, tuple[Pending | None, float]] = {}
        self._shown: dict[str, Pending | None] = {}
        self._new: dict[str, dict[str, asyncio.Event]] = {}

    def note(self, cluster: str, pending: Pending | None) -> bool:
        """Record what a division waits for, None = it is complete; return if a stall changes.

        While it waits for the same reason in one of the namespaces of before, it is the same wait,
        however many others are added: a busy hub adds some all the time.
        """
        before, since = self.waiting.get(cluster, (None, 0.0))
        is_same = before is not None and pending is not None and before.overlaps(pending)
        self.waiting[cluster] = (pending, since if is_same else self._clock())
        stalled, shown = self.stalled(cluster), self._shown.get(cluster)
        self._shown[cluster] = stalled
        return stalled != shown

    def forget(self, cluster: str) -> None:
        """Forget a virtual cluster that has no quota any more, or is not served."""
        self.waiting.pop(cluster, None)
        self._shown.pop(cluster, None)
        self.settle(cluster, tuple(self._new.get(cluster, ())))

    def expect(self, cluster: str, namespace: str) -> None:
        """Record a host namespace whose quota was just created, and has no share yet."""
        self._new.setdefault(cluster, {}).setdefault(namespace, asyncio.Event())

    def settle(self, cluster: str, namespaces: Iterable[str]) -> None:
        """Record namespaces in which the host enforces their shares."""
        new = self._new.get(cluster, {})
        for namespace in namespaces:
            if namespace in new:
                new.pop(namespace).set()

    async def share(self, cluster: str, namespace: str) -> None:
        """Wait until a new namespace has its share, no longer than until a division stalls."""
        event = self._new.get(cluster, {}).get(namespace)
        if event is None or self.stalled(cluster) is not None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), STALLED_AFTER_S)
        self.settle(cluster, [namespace])

    def stalled(self, cluster: str) -> Pending | None:
        """Return what a division has been waiting for too long, or None."""
        pending, since = self.waiting.get(cluster, (None, 0.0))
        return pending if self._clock() - since >= STALLED_AFTER_S else None


_log = logging.getLogger(__name__)

_WATCHED = frozenset(("list", "watch"))
WORKLOADS = tuple(
    Resource(GroupVersionKind(kind.group, "v1", kind.kind), plural(kind), True, _WATCHED)
    for kind in WITH_PODS
)
"""Kinds that declare their number of pods; all are served in version v1."""
_KINDS = frozenset((QUOTAS.gvk, *(resource.gvk for resource in WORKLOADS)))
SETTLES_S = 0.05
"""Changes of quotas and workloads come in bursts, but pods wait for the result."""

_ByNamespace = defaultdict[str, Counter[str]]


def keys_of_object(
    virtual_clusters: Mapping[str, VirtualCluster], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield the virtual cluster of a changed quota or workload, if it has a quota."""
    obj = new or old or {}
    cluster = labels_of(obj).get(CLUSTER_LABEL, "")
    vc = virtual_clusters.get(cluster)
    if vc is not None and vc.quota and gvk_of(obj) in _KINDS:
        yield cluster


def keys_of_namespace(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield the virtual clusters of a changed namespace."""
    for claim in claims_in(old, new):
        if claim.cluster in virtual_clusters:
            yield claim.cluster


class QuotaController:
    """Fills the quotas of the namespaces; the key is the virtual cluster."""

    def __init__(self, parts: Parts) -> None:
        common = parts.common
        self._host = common.clients.host
        self._store_of = parts.works.store_of
        self._claims = common.stores.claims
        self._membership = common.stores.membership
        self._virtual_clusters = common.virtual_clusters
        self._divisions = common.part(Divisions)
        self._status_due = common.signals.status_due

    async def reconcile(self, name: str) -> Requeue | None:
        """Take the next step towards the division. Raises KubeError, RetryError."""
        vc = self._virtual_clusters.get(name)
        if vc is None or not vc.quota:
            self._divisions.forget(name)
            return None
        try:
            waits_for = await self._step(name, vc)
        except (KubeError, RetryError) as error:
            reason = "NotWritten" if isinstance(error, KubeError) else "NotKnown"
            self._note(name, Pending(reason, str(error)))
            raise
        self._note(name, waits_for)
        return Requeue(STALLED_AFTER_S) if waits_for is not None else None

    def _note(self, name: str, waits_for: Pending | None) -> None:
        if self._divisions.note(name, waits_for):
            self._status_due.emit(name)

    async def _step(self, name: str, vc: VirtualCluster) -> Pending | None:
        quotas = {
            quota["metadata"]["namespace"]: quota
            for quota in self._labelled(name, QUOTAS)
            if quota["metadata"]["name"] == QUOTA_NAME  # there may be others in addition
            and self._claims.cluster_on(quota["metadata"]["namespace"]) == name
        }
        requested, rolling = self._requested(vc)
        shares = {ns: share_of(each, requested[ns], rolling[ns]) for ns, each in quotas.items()}
        missing = set(filter(self._is_claimed, self._claims.of(name).values())) - shares.keys()
        held = {ns for ns in shares if hold_of(self._claims.store.get("", ns)) is not None}
        kept = [shares.pop(ns) for ns in quotas if ns in held or not self._is_claimed(ns)]
        total = left_of(amounts_of(vc.quota), kept)
        targets = divide(total, shares)
        is_settled = partial(is_enforced, total)
        self._divisions.settle(name, [ns for ns in shares if is_settled(shares[ns], targets[ns])])
        step = next_hard(total, shares, targets, may_raise=not missing)

        async def write(namespace: str) -> None:
            await self._write(vc, quotas[namespace], step[namespace])

        await for_each([ns for ns in step if step[ns] != shares[ns].hard], write)
        return pending(total, shares, targets, step, missing)

    def _is_claimed(self, namespace: str) -> bool:
        return self._claims.phase(namespace) is Phase.CLAIMED

    async def _write(self, vc: VirtualCluster, quota: Object, hard: Mapping[str, int]) -> None:
        namespace = quota["metadata"]["namespace"]
        quantities = quantities_of(hard)
        extra = {"virtual_cluster": vc.name, "namespace": namespace, "hard": str(quantities)}
        _log.debug("Writing quota", extra=extra)
        body = {**quota, "spec": {**(quota.get("spec") or {}), "hard": quantities}}
        try:
            answer = await self._host.replace(QUOTAS.path(namespace, QUOTA_NAME), body)
        except NotFoundError:
            return  # the namespaces controller recreates it
        store = self._store_of(QUOTAS)
        if store is not None:
            store.observe(answer)

    def _requested(self, vc: VirtualCluster) -> tuple[_ByNamespace, _ByNamespace]:
        nodes = len(self._membership.nodes_of(vc.name))
        sums: tuple[_ByNamespace, _ByNamespace] = (defaultdict(Counter), defaultdict(Counter))
        for workload in self._labelled(vc.name, *WORKLOADS):
            amounts = requested_by(workload, vc.limits, nodes)
            for by_namespace, each in zip(sums, amounts, strict=True):
                by_namespace[workload["metadata"]["namespace"]].update(each)
        return sums

    def _labelled(self, cluster: str, *resources: Resource) -> list[Object]:
        labelled: list[Object] = []
        for resource in resources:
            store = self._store_of(resource)
            if store is None or not store.is_synced:
                raise RetryError(f"{resource.plural} of the host are not listed yet")
            labelled += store.by_index(CLUSTER_INDEX, cluster)
        return labelled


def setup(parts: Parts) -> ControllerSpec[str]:
    common, vcs = parts.common, parts.common.virtual_clusters
    controller = QuotaController(parts)
    objects, namespaces = common.signals.own_object.subscribe, common.stores.namespaces.add_handler
    return ControllerSpec(
        "quotas",
        common.queues.by_name(),
        controller.reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(objects, partial(keys_of_object, vcs), SETTLES_S),
            Enqueues(namespaces, partial(keys_of_namespace, vcs), SETTLES_S),
        ),
        resync_keys=same,
    )


QUOTA_DIVIDED = ConditionType(
    "QuotaDivided",
    "Every namespace has its share of `quota`.",
    idle="NoQuota",
    on_object=Shown.UNLESS_IDLE,
    warning="Not dividing the quota",
)


def quota_divided(common: Common, vc: VirtualCluster) -> Condition | None:
    """Return the condition; None before the quota was checked."""
    if not vc.quota:
        return QUOTA_DIVIDED.true("NoQuota", "no quota is configured")
    divisions = common.part(Divisions)
    if vc.name not in divisions.waiting:
        return None
    stalled = divisions.stalled(vc.name)
    if stalled is None:
        return QUOTA_DIVIDED.true("Divided", "every namespace has its share of the quota")
    virtual = {host: name for name, host in common.stores.claims.of(vc.name).items()}
    names = (str(virtual.get(HostNamespace(host), host)) for host in stalled.namespaces)
    text = " ".join((stalled.problem, ", ".join(names))).strip()
    return QUOTA_DIVIDED.false(stalled.reason, f"cannot raise shares of the quota: {text}")


CONDITIONS = (ConditionSpec(QUOTA_DIVIDED, lambda parts, vc: quota_divided(parts.common, vc)),)


def _prepare(common: Common) -> None:
    divisions = Divisions(common.clock.monotonic)

    def samples() -> Iterator[Sample]:
        for name in filter(common.stores.clusters.ours, divisions.waiting):
            is_stalled = divisions.stalled(name) is not None
            yield Sample("virtual_cluster_quota_stalled", (name,), is_stalled)

    common.provide(divisions)
    common.hooks.shares = divisions
    common.metrics.add_source(samples)


FEATURE = Feature(
    "quota",
    prepare=_prepare,
    controllers=(setup,),
    conditions=CONDITIONS,
    metrics="features/quota/metrics.yaml",
)
