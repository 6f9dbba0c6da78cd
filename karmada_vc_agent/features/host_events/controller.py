"""Mirrors the host's warnings about objects of Works as events on Work and template (ADR 36).

An event of the host may have been written by a tenant. It counts only in a claimed namespace, and
only about an object that a manifest made, or that is made for such a one. It reaches the Work and
the template of this manifest, and nothing else. One virtual cluster's events cost the others
nothing: it has a budget, and a bound for what waits.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

from karmada_vc_agent.cluster.claims import Claim
from karmada_vc_agent.features.host_events.events import (
    EVENTS_PATH,
    WARNINGS,
    FilteringCodec,
    HostEvent,
    PassingStore,
    Tallies,
)
from karmada_vc_agent.features.host_events.texts import (
    failure_of,
    hub_text,
    is_foreign,
    is_reason,
)
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue
from karmada_vc_agent.kube.errors import FORBIDDEN_S
from karmada_vc_agent.kube.flows import TokenBucket
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.model.karmada import TEMPLATE_UID_ANNOTATION
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    key_of,
    parse_api_version,
)
from karmada_vc_agent.model.setting import HOST_EVENTS
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import FEW_WORKERS, cluster_of_key
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.translation.restore import names_of
from karmada_vc_agent.work.owners import Owners, Place, manifest_of
from karmada_vc_agent.work.works import id_of_work

COMPONENT = "host-events"
SETTLES_S = 0.5
"""Events of several pods arrive in bursts."""
TAKEN_BURST, TAKEN_QPS = 1000, 20.0
"""Events of one virtual cluster that are decoded; the others are dropped."""
LOOKUPS_BURST, LOOKUPS_QPS = 100, 1.0
"""Those whose object is looked up; the others wait. As many are recorded."""
WAITS_S = 5.0
UNSYNCED_S = 0.2
REFUSED_S = 60.0
"""An object that had its burst may have one more event in five minutes."""

EventKey = tuple[str, str, str]
"""Virtual cluster, host namespace and name of an Event of the host."""


class _Share(Tallies):
    """The budgets of one virtual cluster, and its counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.taken = TokenBucket(TAKEN_QPS, TAKEN_BURST, clock)
        self.lookups = TokenBucket(LOOKUPS_QPS, LOOKUPS_BURST, clock)
        self.records = TokenBucket(LOOKUPS_QPS, LOOKUPS_BURST, clock)


class HostEvents:
    """Its keys are events that wait; the counts of recorded ones are remembered for a while."""

    def __init__(self, parts: Parts) -> None:
        common, works = parts.common, parts.works
        self._virtual_clusters = common.virtual_clusters
        self._stores = common.stores
        self._works = works.watches.works
        self._owners = Owners(common.clients.host_events, common.discoveries.host, self._works)
        self._find_on_host = common.discoveries.host.find
        self._context_for = works.contexts.context_for
        self._events = works.events
        self._clock = common.clock
        self._shares: defaultdict[str, _Share] = common.scopes.keep_each(
            lambda: _Share(self._clock.monotonic)
        )

    # --- keys ---------------------------------------------------------------------------------

    def takes(self, event: HostEvent) -> bool:
        """Return whether to handle an event at all; called once for each that is decoded."""
        claim = self._claim_on(event.metadata.namespace)
        if claim is None or event.type != "Warning" or not is_reason(event.reason):
            return False
        if not event.involved_object.is_sound:
            return False
        return self._shares[claim.cluster].taken.try_take()

    def keys_of_event(self, _old: HostEvent | None, new: HostEvent | None) -> Iterator[EventKey]:
        """Yield the key of an event that occurred, and have it wait."""
        claim = self._claim_on(new.metadata.namespace) if new is not None else None
        if new is not None and claim is not None and self._shares[claim.cluster].add(new):
            yield claim.cluster, new.metadata.namespace, new.metadata.name

    def _claim_on(self, namespace: str) -> Claim | None:
        claim = self._stores.claims.holder_of(namespace)
        return claim if claim and claim.cluster in self._virtual_clusters else None

    # --- records ------------------------------------------------------------------------------

    async def reconcile(self, key: EventKey) -> Requeue | None:
        """Record an event that waits on the hub. Raises KubeError."""
        cluster, namespace, name = key
        vc = self._virtual_clusters.get(cluster)
        if vc is None:
            self._shares.pop(cluster, None)
            return None
        share = self._shares[cluster]
        event = share.waiting((namespace, name))
        if event is None:
            return None
        works, tally = self._works.store(cluster), share.of_event(event)
        wait_s = 0.0
        if works is not None and not works.is_synced:
            wait_s = WAITS_S
        elif tally is not None:
            wait_s = tally.wait_s(self._clock.monotonic())
        elif not share.lookups.try_take():
            wait_s = WAITS_S
        again = Requeue(wait_s) if wait_s else await self._mirror(vc, share, event)
        if again is None:
            share.done(event)
        return again

    async def _mirror(self, vc: VirtualCluster, share: _Share, event: HostEvent) -> Requeue | None:
        """Record an event, or count it; the same of all pods of a manifest is one series."""
        target = await self._target(vc.name, event)
        if target is None:
            return None
        root, work, manifest = target
        involved = event.involved_object
        failure = failure_of(event.message, involved.name, key_of(root).name)
        # A recreated template is another one.
        uid = annotations_of(manifest).get(TEMPLATE_UID_ANNOTATION)
        (group, _, kind), namespace, name = key_of(manifest)
        identity = (id_of_work(work), group, kind, namespace, name, str(uid or ""))
        now_s = self._clock.monotonic()
        tally = share.of(now_s, *identity, event.reason, failure)
        share.count(tally, event, self._clock.now())
        series, wait_s = tally.series, tally.wait_s(now_s)
        if series.count == tally.recorded:
            return None
        if wait_s or not share.records.try_take():
            return Requeue(wait_s or WAITS_S)
        nodes = self._stores.membership.nodes_of(vc.name)
        text = hub_text(
            event.message,
            names_of(root, self._context_for(vc, id_of_work(work))),
            len(nodes),
            {(taint.key, taint.value) for node in nodes for taint in node.spec.taints},
            partial(is_foreign, self._stores, self._virtual_clusters, vc.name),
        )
        if involved.kind != root["kind"]:
            text = f"{involved.kind} {involved.name}: {text}"
        text = f"cluster {vc.name}: {text}"
        if not self._events.warn(COMPONENT, work, manifest, vc.name, event.reason, text, series):
            return Requeue(REFUSED_S)
        tally.recorded, tally.recorded_at_s = series.count, now_s
        return None

    async def _target(self, cluster: str, event: HostEvent) -> tuple[Object, Object, Object] | None:
        """Return the root that an event is about, in its namespace; its Work and manifest."""
        involved = event.involved_object
        gvk = parse_api_version(involved.api_version, involved.kind)
        resource = await self._find_on_host(gvk)
        claim = self._claim_on(event.metadata.namespace)
        if resource is None or not resource.namespaced:
            return None
        if claim is None or claim.cluster != cluster:
            return None
        place = Place(cluster, event.metadata.namespace, claim.namespace)
        origin = await self._owners.origin(place, resource, involved.name, involved.uid)
        work = self._works.get(cluster, origin.work) if origin else None
        claim = self._claim_on(key_of(origin.root).namespace) if origin else None
        if origin is None or work is None or claim is None:
            return None
        manifest = manifest_of(work, origin.root, claim.namespace)
        return (origin.root, work, manifest) if manifest is not None else None


def setup(parts: Parts) -> ControllerSpec[EventKey]:
    """Declare the controller."""
    common, stores = parts.common, parts.common.stores
    mirror = HostEvents(parts)
    store = PassingStore(FilteringCodec(mirror.takes))
    reflector = Reflector(
        common.clients.host, EVENTS_PATH, store.codec, store, WARNINGS, forbidden_s=FORBIDDEN_S
    )

    async def watch() -> None:
        # The claims decide which events are taken.
        while not stores.namespaces.is_synced:  # noqa: ASYNC110 - once, at the start
            await asyncio.sleep(UNSYNCED_S)
        await reflector.run()

    return ControllerSpec(
        COMPONENT,
        common.queues.by_cluster(cluster_of_key),
        mirror.reconcile,
        FEW_WORKERS,
        switch=HOST_EVENTS,
        sources=(Enqueues(store.add_handler, mirror.keys_of_event, SETTLES_S),),
        runs={"host events": watch},
    )
