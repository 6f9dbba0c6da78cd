"""What NodeGroups and values of a node label describe: at the start, and watched."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import filterfalse
from typing import ClassVar, Generic, TypeVar

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.registration import (
    LiveSettings,
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP
from karmada_vc_agent.config.settings import AgentConfig, SourceSettings
from karmada_vc_agent.features.discovered.records import (
    Discovered,
    DiscoveredFields,
    DiscoveredRecords,
    DiscoverSettings,
    NodeGroupSettings,
    made,
    made_of_record,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.discovery import items_unless_absent
from karmada_vc_agent.kube.errors import NotServedError
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object, dig, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import NAME_FIELD
from karmada_vc_agent.runner.parts import Described

_log = logging.getLogger(__name__)

S = TypeVar("S", NodeGroupSettings, DiscoverSettings)


class GroupSource(ABC, Generic[S]):
    """Lists what is to be a virtual cluster: subjects, by the name that the settings give them.

    by_label: whether labels of nodes define it. is_synced: whether what is not listed does not
    exist. changed: emits the name of a virtual cluster.
    """

    by_label = False

    def __init__(self, host: ApiClient, settings: S) -> None:
        self.host = host
        self.settings: S = settings
        self.subjects: dict[str, str] = {}
        self.changed: Signal[[str]] = Signal()

    @property
    def is_synced(self) -> bool:
        return True

    def use(self, settings: S) -> None:
        before, self.settings = self.subjects, settings
        self.subjects = {settings.name_of(subject): subject for subject in self.all_subjects()}
        for name in before | self.subjects:
            self.changed.emit(name)

    @abstractmethod
    def all_subjects(self) -> Iterable[str]:
        """Return what there is now, whatever its name."""

    @abstractmethod
    def get(self, name: str) -> Discovered | None:
        """Return what a virtual cluster is made of, None if nothing."""

    @abstractmethod
    def text_of(self, subject: str) -> str:
        """Return the name of a subject in messages: `NodeGroup shop-a`."""

    @abstractmethod
    def object_of(self, subject: str) -> Object | None:
        """Return the object that events about a subject are recorded on, None if it is deleted."""

    async def is_deleted(self, name: str, subject: str) -> bool:
        """Return whether the host has no subject of this name for certain. Raises KubeError."""
        return name != self.settings.name_of(subject) or not await self.exists(subject)

    @abstractmethod
    async def exists(self, subject: str) -> bool:
        """Query the host; True where that decides nothing. Raises KubeError."""


PATH = f"/apis/{NODE_GROUP.api_version}/nodegroups"
_SUCCEEDED, _FAILED = "Succeeded", "Failed"
"""`selectionStatus` of a node that the group has, and of one that has another group or is none."""
MOST_LABELS = 64
"""They are recorded across restarts, together with those of all other groups."""


def read_group(
    group: Object, settings: NodeGroupSettings, members: frozenset[str] = frozenset()
) -> Discovered:
    """Return the virtual cluster that a NodeGroup describes. Source: kubeedge 3.

    members: nodes that a NodeGroup has. One that this group lists and did not get is another's; not
    where it also selects by labels, for these would select the node all the same.
    """
    subject = group["metadata"]["name"]
    labels, names = dig(group, "spec", "matchLabels"), dig(group, "spec", "nodes") or ()
    lost = _selected(group, _FAILED) & members if labels is None else ()
    nodes = tuple(node for node in dict.fromkeys(names) if node not in lost)
    problem = ""
    if labels is not None and not labels:
        problem = "spec.matchLabels is empty, which selects all nodes there are; name a label"
    elif labels is not None and len(labels) > MOST_LABELS:
        problem = f"spec.matchLabels has {len(labels)} labels, of at most {MOST_LABELS}"
    name = settings.name_of(subject)
    return Discovered(name, subject, labels, nodes, problem)


def _members(groups: Iterable[Object]) -> frozenset[str]:
    return frozenset(node for group in groups for node in _selected(group, _SUCCEEDED))


def is_selected(group: Object, settings: NodeGroupSettings) -> bool:
    return settings.selector.matches(labels_of(group))


async def groups_of_host(host: ApiClient, settings: NodeGroupSettings) -> list[Discovered]:
    """Return all NodeGroups; none if the host does not serve them. Raises KubeError."""
    groups = await items_unless_absent(host, PATH) or ()
    members = _members(groups)
    return [read_group(each, settings, members) for each in groups if is_selected(each, settings)]


class NodeGroupDiscovery(GroupSource[NodeGroupSettings]):
    """Watches the NodeGroups, while the settings enable it."""

    def __init__(self, host: ApiClient, settings: NodeGroupSettings) -> None:
        super().__init__(host, settings)
        self._store: Store[Object] = Store(RawCodec())
        # KubeEdge may be installed later: what is not served says nothing of the server's time.
        self._reflector = Reflector(host, PATH, self._store.codec, self._store, is_direct=False)
        self._store.add_handler(self._group_changed)
        self._members: frozenset[str] | None = None
        self._used = asyncio.Event()

    def use(self, settings: NodeGroupSettings) -> None:
        super().use(settings)
        self._used.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            watch: asyncio.Task[None] | None = None
            while True:
                if self.settings.enabled and watch is None:
                    watch = group.create_task(self._reflector.run())
                elif not self.settings.enabled and watch is not None:
                    watch.cancel()
                    watch = None
                self._used.clear()
                await self._used.wait()

    @property
    def is_synced(self) -> bool:
        return self._reflector.is_synced

    def all_subjects(self) -> Iterable[str]:
        return [group["metadata"]["name"] for group in self._store]

    def get(self, name: str) -> Discovered | None:
        group = self._store.get("", self.subjects.get(name, ""))
        if group is None or not is_selected(group, self.settings):
            return None
        if self._members is None:
            self._members = _members(self._store)
        return read_group(group, self.settings, self._members)

    def text_of(self, subject: str) -> str:
        return f"NodeGroup {subject}"

    def object_of(self, subject: str) -> Object | None:
        group = self._store.get("", subject)
        if group is None:
            return None
        metadata = {"name": subject, "uid": group["metadata"].get("uid")}
        return {"apiVersion": NODE_GROUP.api_version, "kind": NODE_GROUP.kind, "metadata": metadata}

    async def exists(self, subject: str) -> bool:
        """Query the host; a host that does not serve NodeGroups decides nothing."""
        try:
            answer = await self.host.get(PATH, {"fieldSelector": f"{NAME_FIELD}={subject}"})
        except NotServedError:
            return True
        return any(is_selected(group, self.settings) for group in answer.get("items") or ())

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        """Emit a group that changed, and those that list a node which it got, or lost."""
        group = new or old or {}
        subject = group["metadata"]["name"]
        name = self.settings.name_of(subject)
        if new is None:
            self.subjects.pop(name, None)
        else:
            self.subjects[name] = subject
        if old is None or new is None or _content(old) != _content(new):
            self.changed.emit(name)
        moved = _selected(old, _SUCCEEDED) ^ _selected(new, _SUCCEEDED)
        if not moved:
            return
        self._members = None
        for each in self._store:
            if moved & _selected(each, _FAILED):
                self.changed.emit(self.settings.name_of(each["metadata"]["name"]))


def _selected(group: Object | None, status: str) -> frozenset[str]:
    """Return the nodes of which KubeEdge's controller reports this."""
    listed = dig(group, "status", "nodeStatuses") or ()
    return frozenset(each["nodeName"] for each in listed if each["selectionStatus"] == status)


def _content(group: Object) -> tuple[object, ...]:
    """Return all that counts, without the readiness of nodes, which KubeEdge writes as well."""
    return group.get("spec"), labels_of(group), _selected(group, _FAILED)


_PATH = "/api/v1/nodes"


async def values_of_host(host: ApiClient, settings: DiscoverSettings) -> list[Discovered]:
    key = settings.node_label
    nodes = (await host.get(_PATH, {"labelSelector": key})).get("items") or ()
    values = dict.fromkeys(labels_of(node).get(key) for node in nodes)
    return [_discovered(settings, value) for value in values if value is not None]


def _discovered(settings: DiscoverSettings, value: str) -> Discovered:
    return Discovered(settings.name_of(value), value, {settings.node_label: value})


class NodeLabelDiscovery(GroupSource[DiscoverSettings]):
    """Watches the values that nodes have; controllers wait for the list of nodes."""

    by_label = True

    def __init__(self, host: ApiClient, nodes: Store[Node], settings: DiscoverSettings) -> None:
        super().__init__(host, settings)
        self._nodes = nodes
        self._by_node: dict[str, str] = {}
        nodes.add_handler(self._node_changed)

    def all_subjects(self) -> Iterable[str]:
        key = self.settings.node_label
        labels = {node.metadata.name: node.metadata.labels for node in self._nodes}
        self._by_node = {name: own[key] for name, own in labels.items() if key in own}
        return self._by_node.values()

    def get(self, name: str) -> Discovered | None:
        value = self.subjects.get(name)
        return _discovered(self.settings, value) if value is not None else None

    def text_of(self, subject: str) -> str:
        return f"node label {self.settings.node_label}={subject}"

    def object_of(self, subject: str) -> Object | None:
        name = min((name for name, value in self._by_node.items() if value == subject), default="")
        # Events about nodes name them by name in uid, too: so `kubectl describe` finds them.
        metadata = {"name": name, "uid": name}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata} if name else None

    async def exists(self, subject: str) -> bool:
        query = {"labelSelector": f"{self.settings.node_label}={subject}", "limit": "1"}
        return bool((await self.host.get(_PATH, query)).get("items"))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        # Not compared with `old`: after a write of ours that is what we were answered.
        before = self._by_node.pop(node.metadata.name, None)
        after = new.metadata.labels.get(self.settings.node_label) if new is not None else None
        if after is not None:
            self._by_node[node.metadata.name] = after
        for value in (each for each in (before, after) if each is not None and before != after):
            name, is_there = self.settings.name_of(value), value in self._by_node.values()
            if is_there == (name in self.subjects):
                continue
            if is_there:
                self.subjects[name] = value
            else:
                del self.subjects[name]
            self.changed.emit(name)


@dataclass(frozen=True, slots=True)
class DiscoveryStart:
    """The sources of what NodeGroups and a node label describe, filled before a watch."""

    node_groups: VirtualClusterSource
    labels: VirtualClusterSource
    reads: ClassVar = "list NodeGroups on the host"

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the sources with what was served, or it counts as deleted. Raises KubeError."""
        own = live.config.of(DiscoveredFields)
        groups = await groups_of_host(host, own.node_groups) if own.node_groups.enabled else []
        for source, settings, listed in (
            (self.node_groups, own.node_groups, groups),
            (self.labels, own.discover, []),
        ):
            records = DiscoveredRecords(state, settings.source)
            by_name = {each.name: each for each in listed}
            source.replace_all(_recorded(live.config, settings, records, by_name, source.serves))


def start(sources: VirtualClusterSources, _: AgentConfig) -> DiscoveryStart:
    """Add the sources of what is discovered, after those of the settings file and of objects."""
    return DiscoveryStart(sources.add("a NodeGroup"), sources.add("a node label"))


async def describe(host: ApiClient, config: AgentConfig) -> Described:
    own = config.of(DiscoveredFields)
    groups = await groups_of_host(host, own.node_groups) if own.node_groups.is_used else []
    values = await values_of_host(host, own.discover) if own.discover.is_used else []
    vcs: list[VirtualCluster] = []
    for settings, discovered in ((own.node_groups, groups), (own.discover, values)):
        for each in discovered:
            with suppress(ValueError):  # the agent reports the problems of the others
                vcs.append(made(config, settings, each))
    return Described(frozenset(key for each in groups for key in each.labels or {}), vcs)


def _recorded(
    config: AgentConfig,
    settings: SourceSettings,
    records: DiscoveredRecords,
    listed: Mapping[str, Discovered],
    serves: Callable[[str], bool],
) -> Iterator[VirtualCluster]:
    """Yield what was served, as it is now; of other processes also what is new."""
    for name in dict.fromkeys((*records, *filterfalse(serves, listed))):
        record, current = records.of(name), listed.get(name)
        if not settings.is_used and not (record and record.is_draining):
            continue
        try:
            if current is not None and (record is None or serves(name)):
                yield made(config, settings, current)
            elif record is not None:
                yield made_of_record(config, settings, name, record)
        except ValueError as error:
            extra = {"virtual_cluster": name, "reason": str(error)}
            _log.warning("Not serving a discovered virtual cluster", extra=extra)
