"""Mirrors the host's warnings as events on Work and template (ADR 36).

Any writer of Events in a namespace may have written all of an event. It counts only in a claimed
namespace, and only about an object that a manifest made, or that is made for such a one. It reaches
the Work and the template of this manifest, and nothing else. Names of nodes stay in its text; those
of other virtual clusters' nodes and namespaces, and how many nodes the host has, are left out.

A host may have millions of Events, with texts and names as long as etcd stores. Each is passed on
as it is decoded, for pages of a list are in memory until its end; what waits is cut. All that is
remembered is bounded for each virtual cluster, and each has a budget of its own.

Several events are one series if their texts for the hub say the same of objects that one manifest
made, as those of the pods of a Deployment do, whatever nodes others add to the host.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
from cachetools import LRUCache
from msgspec import Struct

from karmada_vc_agent.cluster.virtual_clusters import Claim
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, Signal, itself
from karmada_vc_agent.kube.errors import FORBIDDEN_S
from karmada_vc_agent.kube.events import Series
from karmada_vc_agent.kube.flows import TokenBucket
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, annotations_of, key_of, parse_api_version
from karmada_vc_agent.model.user_text import cut_words, one_line
from karmada_vc_agent.model.virtual_cluster import HOST_EVENTS, VirtualCluster
from karmada_vc_agent.model.vocabulary import TEMPLATE_UID_ANNOTATION
from karmada_vc_agent.runner.common import FEW_WORKERS, Stores, cluster_of_key
from karmada_vc_agent.runner.parts import Feature, Parts
from karmada_vc_agent.translation.context import Names, cluster_of_host_name
from karmada_vc_agent.translation.restore import names_of, restore_text
from karmada_vc_agent.work.works import Owners, Place, id_of_work, manifest_of

TEXT_AT_MOST = 4096
"""Characters of a message that are kept."""
NAME_AT_MOST = 253
"""No name, kind or UID of an object is longer."""
COUNT_AT_MOST = 2**31 - 1
"""Of the field of an Event."""


class _EventMeta(Struct, rename="camel", gc=False):
    """Metadata of an Event, without labels and annotations."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Involved(Struct, rename="camel", gc=False):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _EventSeries(Struct, rename="camel", gc=False):
    """The count and last time of reporters that use events.k8s.io."""

    count: int = 0
    last_observed_time: str | None = None


class HostEvent(Struct, rename="camel"):
    """An Event; any writer of Events in its namespace may have written all of it."""

    metadata: _EventMeta
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    series: _EventSeries | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    def __post_init__(self) -> None:
        self.message = self.message[:TEXT_AT_MOST]


class _PassingCodec(Codec[HostEvent]):
    """Passes on each Event that is listed or changes, and keeps none of it."""

    def __init__(self, occurred: Callable[[HostEvent], None]) -> None:
        super().__init__(HostEvent)
        self._occurred = occurred

    def trim(self, obj: HostEvent) -> HostEvent:
        self._occurred(obj)
        return _NOTHING


_NOTHING = HostEvent(_EventMeta())


WAITING_OF_ONE = 500
SERIES_OF_ONE = 500
EVENTS_OF_SERIES = 64
GATHERED_S = 2.0
"""Pods fail together, and after a start all events are listed at once: they get one count."""
REPEATED_AFTER_S = 60.0
"""A count that only rises is recorded so often at most: the budget of an object is for failures."""


@dataclass(slots=True)
class _Tally:
    """One series; earlier: of events no more in `counts`, less what another series has of these."""

    name: str
    begun_at_s: float
    counts: OrderedDict[str, int] = field(default_factory=OrderedDict)
    earlier: int = 0
    first: str = ""
    last: str = ""
    recorded: int = 0
    recorded_at_s: float = 0.0

    def note(self, event: HostEvent, now: str) -> None:
        """Count an event, also a repeated one. now: bound of times of edges ahead."""
        series = event.series or _EventSeries()
        self.counts[event.metadata.uid] = max(1, event.count, series.count)
        self.counts.move_to_end(event.metadata.uid)
        if len(self.counts) > EVENTS_OF_SERIES:
            self.earlier += self.counts.popitem(last=False)[1]
        first = _stamp(event.first_timestamp or event.event_time) or now
        last = _stamp(series.last_observed_time or event.last_timestamp or event.event_time) or now
        self.first = min(self.first or first, first, now)
        self.last = max(self.last, min(last, now))

    @property
    def series(self) -> Series:
        count = self.earlier + sum(self.counts.values())
        return Series(self.name, min(count, COUNT_AT_MOST), self.first, self.last)

    def wait_s(self, now_s: float) -> float:
        if self.recorded:
            return max(0.0, self.recorded_at_s + REPEATED_AFTER_S - now_s)
        return max(0.0, self.begun_at_s + GATHERED_S - now_s)


def _stamp(time: str | None) -> str:
    return f"{time[:19]}Z" if time else ""


HIDDEN = "..."

REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")
_WORD = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_DNS_NAMESPACE = re.compile(r"[A-Za-z0-9-]+(?=\.(?:svc|pod)(?![A-Za-z0-9-]))")
_UNSCHEDULABLE = re.compile(r"0/(\d+) nodes are available: (.*)")
_COUNTED = re.compile(r"(\d+) (.+?)(?=, \d+ |$)")
_TAINT = re.compile(r"\{([^}:]*)(?:: ([^}]*))?\}")
_OUTSIDE = ("node affinity/selector", "untolerated taint(s)")
"""Reasons that hold for nodes outside of the group: its selector, and taints without names."""
_HEX = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b")
_COMBINED = "(combined from similar events): "
"""The prefix of reporters for what they report often."""
_NUMBER = re.compile(r"\d+")


def hub_text(
    message: str,
    names: Names,
    nodes: int,
    taints: Collection[tuple[str, str]],
    is_foreign: Callable[[str], bool],
) -> str:
    """Return the message of an event of the host as a virtual cluster may read it, on one line.

    nodes: how many the virtual cluster has. taints: of these, (key, value). is_foreign: whether a
    word is the name of something of another virtual cluster.
    """
    text = cut_words(one_line(message[:TEXT_AT_MOST].removeprefix(_COMBINED)))
    match = _UNSCHEDULABLE.fullmatch(text)
    if match:
        text = _unschedulable(int(match[1]), match[2], nodes, taints)
    text = _WORD.sub(lambda word: _shown(word[0], is_foreign), text)
    return restore_text(text, names)


def _shown(word: str, is_foreign: Callable[[str], bool]) -> str:
    """Return a word without what is foreign: it, or the namespace in the DNS name of a Service."""
    if is_foreign(word):
        return HIDDEN
    return _DNS_NAMESPACE.sub(lambda part: HIDDEN if is_foreign(part[0]) else part[0], word)


def _unschedulable(total: int, text: str, nodes: int, taints: Collection[tuple[str, str]]) -> str:
    """Return why a pod fits on no node, counted over the nodes of the virtual cluster.

    The text after the counts is about preemption, over all nodes of the host.
    """
    text = text.partition(". ")[0].removesuffix(".")
    matches = _COUNTED.findall(text) if text[:1].isdigit() else []
    # The scheduler sorts by numbers, which are those of all nodes.
    counted = sorted((why, int(number)) for number, why in matches)
    others, rest, kept = total - nodes, [], []
    for why, count in counted:
        taint = _TAINT.search(why) if "taint" in why else None
        if taint is not None and (taint[1], taint[2] or "") not in taints:
            others -= count  # no node of the virtual cluster has it
        else:
            rest.append((why, count))
    for why, number in rest:
        hidden = min(number, max(0, others)) if any(mark in why for mark in _OUTSIDE) else 0
        count, others = number - hidden, others - hidden
        if count:
            kept.append(f"{min(count, nodes)} {why}")
    reasons = ", ".join(kept) if counted else text
    return f"0/{nodes} nodes are available{': ' * bool(reasons)}{reasons}."


def failure_of(text: str, *names: str) -> str:
    """Return a digest of what hub_text() shares over one failure. names: of objects and pods."""
    text = _HEX.sub("", text)
    for name in filter(None, names):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?:-[a-z0-9]+)*(?![A-Za-z0-9-])", "", text)
    return hashlib.sha256(_NUMBER.sub("", text).encode()).hexdigest()[:12]


def is_foreign(
    stores: Stores, virtual_clusters: Mapping[str, VirtualCluster], cluster: str, word: str
) -> bool:
    """Return whether a word is the name of something that a virtual cluster must not read.

    Namespaces count by their claims, nodes by their group, other names by how they are made.
    """
    claim = stores.claims.on(word)
    if claim is not None:
        return claim.cluster != cluster
    if stores.nodes.get("", word) is not None:
        return stores.membership.owner_of(word) != cluster
    other = cluster_of_host_name(word)
    if not other:
        return False
    owners = (vc.name for vc in virtual_clusters.values() if vc.name_on_host == other)
    return next(owners, cluster) != cluster


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


class _Share:
    """The budgets of one virtual cluster, its events that wait, and its series.

    waiting: by host namespace and name. series: by the name that their Events end with. of_event:
    the same, by the uid of an event.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.taken = TokenBucket(TAKEN_QPS, TAKEN_BURST, clock)
        self.lookups = TokenBucket(LOOKUPS_QPS, LOOKUPS_BURST, clock)
        self.records = TokenBucket(LOOKUPS_QPS, LOOKUPS_BURST, clock)
        self.waiting: dict[tuple[str, str], HostEvent] = {}
        self.series: LRUCache[str, _Tally] = LRUCache(SERIES_OF_ONE)
        self.of_event: LRUCache[str, _Tally] = LRUCache(SERIES_OF_ONE * 2)

    def series_of(self, event: HostEvent, now_s: float, *identity: str) -> _Tally:
        name = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
        tally, uid = self.series.setdefault(name, _Tally(name, now_s)), event.metadata.uid
        before = self.of_event.get(uid, tally)  # another one, if its text on the hub changed
        tally.earlier -= before.counts.get(uid, 0) - tally.counts.get(uid, 0)
        self.of_event[uid] = tally
        return tally


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
        self.occurred: Signal[[EventKey]] = Signal()
        self._shares: defaultdict[str, _Share] = common.scopes.keep_each(
            lambda: _Share(self._clock.monotonic)
        )

    def seen(self, event: HostEvent) -> None:
        """Have an event wait, in its latest state, if it is to be handled at all."""
        claim, about = self._claim_on(event.metadata.namespace), event.involved_object
        if claim is None or event.type != "Warning" or not REASON.fullmatch(event.reason):
            return
        texts = (about.api_version, about.kind, about.name, about.uid)
        if not about.name or any(len(text) > NAME_AT_MOST for text in texts):
            return
        share, name = self._shares[claim.cluster], (event.metadata.namespace, event.metadata.name)
        has_space = name in share.waiting or len(share.waiting) < WAITING_OF_ONE
        if share.taken.try_take() and has_space:
            share.waiting[name] = event
            self.occurred.emit((claim.cluster, *name))

    def _claim_on(self, namespace: str) -> Claim | None:
        claim = self._stores.claims.holder_of(namespace)
        return claim if claim and claim.cluster in self._virtual_clusters else None

    async def reconcile(self, key: EventKey) -> Requeue | None:
        """Record an event that waits on the hub. Raises KubeError."""
        cluster, namespace, name = key
        vc = self._virtual_clusters.get(cluster)
        if vc is None:
            self._shares.pop(cluster, None)
            return None
        share = self._shares[cluster]
        event = share.waiting.get((namespace, name))
        if event is None:
            return None
        works, tally = self._works.store(cluster), share.of_event.get(event.metadata.uid)
        wait_s = 0.0
        if works is not None and not works.is_synced:
            wait_s = WAITS_S
        elif tally is not None:
            wait_s = tally.wait_s(self._clock.monotonic())
        elif not share.lookups.try_take():
            wait_s = WAITS_S
        again = Requeue(wait_s) if wait_s else await self._mirror(vc, share, event)
        if again is None and share.waiting.get((namespace, name)) is event:
            del share.waiting[namespace, name]  # else it has occurred again meanwhile
        return again

    async def _mirror(self, vc: VirtualCluster, share: _Share, event: HostEvent) -> Requeue | None:
        """Record an event, or count it; the same of all pods of a manifest is one series."""
        target = await self._target(vc.name, event)
        if target is None:
            return None
        root, work, manifest = target
        involved = event.involved_object
        nodes = self._stores.membership.nodes_of(vc.name)
        text = hub_text(
            event.message,
            names_of(root, self._context_for(vc, id_of_work(work))),
            len(nodes),
            {(taint.key, taint.value) for node in nodes for taint in node.spec.taints},
            partial(is_foreign, self._stores, self._virtual_clusters.everywhere, vc.name),
        )
        # A recreated template is another one.
        uid = annotations_of(manifest).get(TEMPLATE_UID_ANNOTATION)
        (group, _, kind), namespace, name = key_of(manifest)
        failure = failure_of(text, involved.name, key_of(root).name, name)
        identity = (id_of_work(work), group, kind, namespace, name, str(uid or ""))
        now_s = self._clock.monotonic()
        tally = share.series_of(event, now_s, *identity, event.reason, failure)
        tally.note(event, self._clock.now())
        series, wait_s = tally.series, tally.wait_s(now_s)
        if series.count == tally.recorded:
            return None
        if wait_s or not share.records.try_take():
            return Requeue(wait_s or WAITS_S)
        if involved.kind != root["kind"]:
            text = f"{involved.kind} {involved.name}: {text}"
        text = f"cluster {vc.name}: {text}"
        if not self._events.warn(COMPONENT, work, manifest, vc.name, event.reason, text, series):
            return Requeue(REFUSED_S)
        tally.recorded, tally.recorded_at_s = series.count, now_s
        return None

    async def _target(self, cluster: str, event: HostEvent) -> tuple[Object, Object, Object] | None:
        involved = event.involved_object
        resource = await self._find_on_host(parse_api_version(involved.api_version, involved.kind))
        claim = self._claim_on(event.metadata.namespace)
        if claim is None or claim.cluster != cluster or not (resource and resource.namespaced):
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
    common, stores = parts.common, parts.common.stores
    mirror = HostEvents(parts)
    host, codec = common.clients.host, _PassingCodec(mirror.seen)
    query = {"fieldSelector": "type=Warning"}
    reflector = Reflector(host, "/api/v1/events", codec, Store(codec), query, FORBIDDEN_S)

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
        sources=(Enqueues(mirror.occurred.subscribe, itself, SETTLES_S),),
        runs={"host events": watch},
    )


FEATURE = Feature("host_events", controllers=(setup,))
