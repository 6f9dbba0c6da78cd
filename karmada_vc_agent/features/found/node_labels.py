"""Values of a label of nodes, each a virtual cluster of the nodes that have it."""

from collections import defaultdict
from collections.abc import Iterable

from karmada_vc_agent.config.settings import DiscoverSettings
from karmada_vc_agent.features.found.finding import Discovered
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.name_template import LABEL_VALUE, name_from
from karmada_vc_agent.model.objects import Object, labels_of

_PATH = "/api/v1/nodes"


async def values_of_host(host: ApiClient, settings: DiscoverSettings) -> list[Discovered]:
    """Return all values that nodes have now. Raises KubeError."""
    key = settings.node_label
    nodes = (await host.get(_PATH, {"labelSelector": key})).get("items") or ()
    values = dict.fromkeys(labels_of(node).get(key) for node in nodes)
    return [_discovered(settings, value) for value in values if value is not None]


def _discovered(settings: DiscoverSettings, value: str) -> Discovered:
    name = name_from(settings.name_template, LABEL_VALUE, value)
    return Discovered(name, value, {settings.node_label: value})


class NodeLabelDiscovery:
    """Watches the values that nodes have."""

    source = "discover"
    by_label = True
    is_synced = True
    """Controllers wait for the list of nodes."""

    def __init__(self, host: ApiClient, nodes: Store[Node], settings: DiscoverSettings) -> None:
        self._host = host
        self._nodes = nodes
        self._settings = settings
        self._by_node: dict[str, str] = {}
        self._having: dict[str, set[str]] = defaultdict(set)
        self._values: dict[str, str] = {}
        self.changed: Signal[[str]] = Signal()
        nodes.add_handler(self._node_changed)

    def use(self, settings: DiscoverSettings) -> None:
        """Use these settings from now on."""
        before = self.names()
        is_other_key, self._settings = settings.node_label != self._key, settings
        if is_other_key:
            self._by_node, self._having = {}, defaultdict(set)
            for node in self._nodes:
                self._note(node.metadata.name, node.metadata.labels.get(self._key))
        self._values = {self._name_of(value): value for value in self._having}
        for name in dict.fromkeys((*before, *self._values)):
            self.changed.emit(name)

    @property
    def _key(self) -> str:
        return self._settings.node_label

    def _name_of(self, value: str) -> str:
        return name_from(self._settings.name_template, LABEL_VALUE, value)

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
        names = sorted(self._having.get(subject, ()))
        node = self._nodes.get("", names[0]) if names else None
        if node is None:
            return None
        # Events about nodes name them by name in uid, too: so `kubectl describe` finds them.
        metadata = {"name": node.metadata.name, "uid": node.metadata.name}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}

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
        value = new.metadata.labels.get(self._key) if new is not None else None
        for changed in self._note(node.metadata.name, value):
            name = self._name_of(changed)
            if changed in self._having:
                self._values[name] = changed
            else:
                self._values.pop(name, None)
            self.changed.emit(name)

    def _note(self, node: str, after: str | None) -> list[str]:
        """Note the value that a node has; return those that were added or removed by it."""
        before = self._by_node.pop(node, None)
        if after is not None:
            self._by_node[node] = after
        changed: list[str] = []
        if before == after:
            return changed
        if before is not None:
            self._having[before].discard(node)
            if not self._having[before]:
                del self._having[before]
                changed.append(before)
        if after is not None:
            if after not in self._having:
                changed.append(after)
            self._having[after].add(node)
        return changed
