"""What NodeGroups and values of a node label describe: at the start, and watched."""

import asyncio
import logging
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.registration import (
    LiveSettings,
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP
from karmada_vc_agent.config.checks import NAME_PLACEHOLDER, VALUE_PLACEHOLDER
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.discovered.records import (
    Discovered,
    DiscoveredFields,
    DiscoveredRecords,
    DiscoverSettings,
    Making,
    NodeGroupSettings,
    making_of_groups,
    making_of_labels,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.discovery import items_unless_absent
from karmada_vc_agent.kube.errors import KubeError, NotServedError, UnreachableError
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object, dig, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import NAME_FIELD
from karmada_vc_agent.runner.parts import Described

_log = logging.getLogger(__name__)

PATH = f"/apis/{NODE_GROUP.api_version}/nodegroups"
CHECK_S = 10.0
_SUCCEEDED, _FAILED = "Succeeded", "Failed"
"""`selectionStatus` of a node that the group has, and of one that has another group or is none."""
MOST_LABELS = 64
"""They are recorded across restarts, together with those of all other groups."""


def read_group(
    group: Object, settings: NodeGroupSettings, members: Container[str] = ()
) -> Discovered:
    """Return the virtual cluster that a NodeGroup describes. Source: kubeedge 3.

    members: nodes that a NodeGroup has. One that this group lists and did not get is another's; not
    where it also selects by labels, for these would select the node all the same.
    """
    subject = group["metadata"]["name"]
    name = settings.name_template.replace(NAME_PLACEHOLDER, subject)
    labels, names = dig(group, "spec", "matchLabels"), dig(group, "spec", "nodes") or ()
    lost = _selected(group, _FAILED) if labels is None else ()
    nodes = tuple(n for n in dict.fromkeys(names) if n not in lost or n not in members)
    problem = ""
    if labels is not None and not labels:
        problem = "spec.matchLabels is empty, which selects all nodes there are; name a label"
    elif labels is not None and len(labels) > MOST_LABELS:
        problem = f"spec.matchLabels has {len(labels)} labels, of at most {MOST_LABELS}"
    return Discovered(name, subject, labels, nodes, problem)


def is_selected(group: Object, settings: NodeGroupSettings) -> bool:
    """Return whether the settings select a NodeGroup."""
    return settings.selector.matches(labels_of(group))


async def groups_of_host(host: ApiClient, settings: NodeGroupSettings) -> list[Discovered]:
    """Return all NodeGroups; none if the host does not serve them. Raises KubeError."""
    groups = await items_unless_absent(host, PATH) or ()
    members = {node for group in groups for node in _selected(group, _SUCCEEDED)}
    return [
        read_group(group, settings, members) for group in groups if is_selected(group, settings)
    ]


class NodeGroupDiscovery:
    """Watches the NodeGroups, while the settings enable it."""

    source = "nodeGroups"
    by_label = False

    def __init__(self, host: ApiClient, settings: NodeGroupSettings) -> None:
        self._host = host
        self._settings = settings
        self._subjects: dict[str, str] = {}
        self._members: Counter[str] = Counter()
        self._store: Store[Object] = Store(RawCodec())
        self._reflector = Reflector(host, PATH, self._store.codec, self._store)
        self.changed: Signal[[str]] = Signal()
        self._store.add_handler(self._group_changed)
        self._switched = asyncio.Event()

    def use(self, settings: NodeGroupSettings) -> None:
        """Use these settings from now on."""
        before, self._settings = self.names(), settings
        self._subjects = {
            self._name_of(group["metadata"]["name"]): group["metadata"]["name"]
            for group in self._store
        }
        self._switched.set()
        for name in dict.fromkeys((*before, *self._subjects)):
            self.changed.emit(name)

    async def run(self) -> None:
        """Watch them until cancelled, while the settings enable it."""
        while True:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._watch()) if self._settings.enabled else None
                await self._wait_switched()
                if watch is not None:
                    watch.cancel()

    async def _wait_switched(self) -> None:
        was_enabled = self._settings.enabled
        while self._settings.enabled == was_enabled:
            self._switched.clear()
            await self._switched.wait()

    async def _watch(self) -> None:
        """Watch them once the host serves them."""
        waits = False
        while not await self._is_served():
            if not waits:
                _log.warning("Waiting for NodeGroups: the host does not serve them; run KubeEdge")
                waits = True
            await asyncio.sleep(CHECK_S)
        if waits:
            _log.info("Watching NodeGroups, which the host serves now")
        await self._reflector.run()

    @property
    def is_synced(self) -> bool:
        """Return whether all are listed."""
        return self._reflector.is_synced

    def names(self) -> Iterable[str]:
        """Return the names of the virtual clusters of all NodeGroups."""
        return tuple(self._subjects)

    def get(self, name: str) -> Discovered | None:
        """Return the NodeGroup of a virtual cluster, None if there is none."""
        group = self._store.get("", self._subjects.get(name, ""))
        if group is None or not is_selected(group, self._settings):
            return None
        return read_group(group, self._settings, self._members)

    def text_of(self, subject: str) -> str:
        """Return the name of a NodeGroup in messages."""
        return f"NodeGroup {subject}"

    def object_of(self, subject: str) -> Object | None:
        """Return the reference of a NodeGroup for events."""
        group = self._store.get("", subject)
        if group is None:
            return None
        metadata = {"name": subject, "uid": group["metadata"].get("uid")}
        return {"apiVersion": NODE_GROUP.api_version, "kind": NODE_GROUP.kind, "metadata": metadata}

    async def is_deleted(self, name: str, subject: str) -> bool:
        """Query the host; False where it serves NodeGroups no more, which decides nothing."""
        if name != self._name_of(subject):
            return True  # it had this name by other settings
        try:
            answer = await self._host.get(PATH, {"fieldSelector": f"{NAME_FIELD}={subject}"})
        except NotServedError:
            return False
        return not any(is_selected(group, self._settings) for group in answer.get("items") or ())

    def _name_of(self, subject: str) -> str:
        return self._settings.name_template.replace(NAME_PLACEHOLDER, subject)

    async def _is_served(self) -> bool:
        try:
            await self._host.get(PATH, {"limit": "1"})
        except (NotServedError, UnreachableError):
            return False
        except KubeError:
            return True  # the reflector reports the error
        return True

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        group = new or old
        if group is None:
            return
        subject = group["metadata"]["name"]
        name = self._name_of(subject)
        if new is None:
            self._subjects.pop(name, None)
        else:
            self._subjects[name] = subject
        if old is None or new is None or _differs(old, new):
            self.changed.emit(name)
        self._count_members(_selected(old, _SUCCEEDED), _selected(new, _SUCCEEDED))

    def _count_members(self, before: frozenset[str], after: frozenset[str]) -> None:
        """Emit the groups that list a node which another group got, or lost."""
        if before == after:
            return
        self._members.update(after)
        self._members.subtract(before)
        self._members = +self._members
        moved = before ^ after
        for group in self._store:
            if moved.intersection(_selected(group, _FAILED)):
                self.changed.emit(self._name_of(group["metadata"]["name"]))


def _selected(group: Object | None, status: str) -> frozenset[str]:
    """Return the nodes of which KubeEdge's controller reports this."""
    listed = dig(group, "status", "nodeStatuses") or ()
    return frozenset(each["nodeName"] for each in listed if each["selectionStatus"] == status)


def _differs(old: Object, new: Object) -> bool:
    """Return whether more changed than the readiness of nodes, which KubeEdge writes as well."""
    return (
        old.get("spec") != new.get("spec")
        or labels_of(old) != labels_of(new)
        or _selected(old, _FAILED) != _selected(new, _FAILED)
    )


_PATH = "/api/v1/nodes"


async def values_of_host(host: ApiClient, settings: DiscoverSettings) -> list[Discovered]:
    """Return all values that nodes have now. Raises KubeError."""
    key = settings.node_label
    nodes = (await host.get(_PATH, {"labelSelector": key})).get("items") or ()
    values = dict.fromkeys(labels_of(node).get(key) for node in nodes)
    return [_discovered(settings, value) for value in values if value is not None]


def _discovered(settings: DiscoverSettings, value: str) -> Discovered:
    name = settings.name_template.replace(VALUE_PLACEHOLDER, value)
    return Discovered(name, value, {settings.node_label: value})


class NodeLabelDiscovery:
    """Watches the values that nodes have; controllers wait for the list of nodes."""

    source = "discover"
    by_label = True
    is_synced = True

    def __init__(self, host: ApiClient, nodes: Store[Node], settings: DiscoverSettings) -> None:
        self._host = host
        self._nodes = nodes
        self._settings = settings
        self._by_node: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self.changed: Signal[[str]] = Signal()
        nodes.add_handler(self._node_changed)

    def use(self, settings: DiscoverSettings) -> None:
        """Use these settings from now on."""
        before, self._settings = self.names(), settings
        labels = {node.metadata.name: node.metadata.labels for node in self._nodes}
        self._by_node = {name: own[self._key] for name, own in labels.items() if self._key in own}
        self._values = {self._name_of(value): value for value in self._by_node.values()}
        for name in dict.fromkeys((*before, *self._values)):
            self.changed.emit(name)

    @property
    def _key(self) -> str:
        return self._settings.node_label

    def _name_of(self, value: str) -> str:
        return self._settings.name_template.replace(VALUE_PLACEHOLDER, value)

    def names(self) -> Iterable[str]:
        """Return the names of the virtual clusters of all values."""
        return tuple(self._values)

    def get(self, name: str) -> Discovered | None:
        """Return the value that a virtual cluster is named after, None if no node has it."""
        value = self._values.get(name)
        return _discovered(self._settings, value) if value is not None else None

    def text_of(self, subject: str) -> str:
        """Return the name of a value in messages."""
        return f"node label {self._key}={subject}"

    def object_of(self, subject: str) -> Object | None:
        """Return the reference of the first node with a value, for events."""
        name = min((name for name, value in self._by_node.items() if value == subject), default="")
        # Events about nodes name them by name in uid, too: so `kubectl describe` finds them.
        metadata = {"name": name, "uid": name}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata} if name else None

    async def is_deleted(self, name: str, subject: str) -> bool:
        """Return whether no node of the host has the value."""
        if name != self._name_of(subject):
            return True  # it had this name by other settings
        query = {"labelSelector": f"{self._key}={subject}", "limit": "1"}
        return not (await self._host.get(_PATH, query)).get("items")

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        # Not compared with `old`: after a write of ours that is what we were answered.
        before = self._by_node.pop(node.metadata.name, None)
        after = new.metadata.labels.get(self._key) if new is not None else None
        if after is not None:
            self._by_node[node.metadata.name] = after
        for value in (each for each in (before, after) if each is not None and before != after):
            name, is_there = self._name_of(value), value in self._by_node.values()
            if is_there == (name in self._values):
                continue
            if is_there:
                self._values[name] = value
            else:
                del self._values[name]
            self.changed.emit(name)


NODE_GROUPS, DISCOVER = "nodeGroups", "discover"


@dataclass(frozen=True, slots=True)
class DiscoveryStart:
    """The sources of what NodeGroups and a node label describe, filled before a watch."""

    node_groups: VirtualClusterSource
    labels: VirtualClusterSource
    reads: ClassVar = "list NodeGroups on the host"

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the sources with what was served when the agent ended. Raises KubeError.

        So that nothing counts as deleted before it is watched.
        """
        groups = live.config.of(DiscoveredFields).node_groups
        listed = await groups_of_host(host, groups) if groups.enabled else ()
        making = making_of_groups(live.config)
        self.node_groups.replace_all(
            _recorded(DiscoveredRecords(state, NODE_GROUPS), listed, making)
        )
        making = making_of_labels(live.config)
        self.labels.replace_all(_recorded(DiscoveredRecords(state, DISCOVER), (), making))


def start(sources: VirtualClusterSources, _: AgentConfig) -> DiscoveryStart:
    """Add the sources of what is discovered, after those of the settings file and of objects."""
    return DiscoveryStart(sources.add("a NodeGroup"), sources.add("a node label"))


async def describe(host: ApiClient, config: AgentConfig) -> Described:
    """Return what NodeGroups and nodes describe now. Raises KubeError."""
    own = config.of(DiscoveredFields)
    groups = await groups_of_host(host, own.node_groups) if own.node_groups.is_used else []
    values = await values_of_host(host, own.discover) if own.discover.is_used else []
    made = (*_made(groups, making_of_groups(config)), *_made(values, making_of_labels(config)))
    return Described(frozenset(key for each in groups for key in each.labels or {}), made)


def _made(discovered: Iterable[Discovered], making: Making) -> Iterator[VirtualCluster]:
    """Yield those that can be served; the agent reports the problems of the others."""
    for each in discovered:
        with suppress(ValueError):
            yield making.of(each)


def _recorded(
    records: DiscoveredRecords, listed: Iterable[Discovered], making: Making
) -> Iterable[VirtualCluster]:
    by_name = {each.name: each for each in listed}
    for name in records:
        record = records.of(name)
        if record is None or not (making.is_on or record.is_draining):
            continue
        try:
            current = by_name.get(name)
            yield making.of(current) if current else making.of_record(name, record)
        except ValueError as error:
            extra = {"virtual_cluster": name, "reason": str(error)}
            _log.warning("Not serving a discovered virtual cluster", extra=extra)
