"""Values of a label of nodes, each a virtual cluster of the nodes that have it."""

from collections import defaultdict
from collections.abc import Iterable

from karmada_vc_agent.config.settings import DiscoverSettings
from karmada_vc_agent.found.finding import Found
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.name_template import LABEL_VALUE, name_from
from karmada_vc_agent.model.objects import Object

_PATH = "/api/v1/nodes"


class NodeLabelFinder:
    """Follows the values that nodes have."""

    source = "discover"
    by_label = True

    def __init__(self, host: ApiClient, nodes: Store[Node], settings: DiscoverSettings) -> None:
        self._host = host
        self._nodes = nodes
        self._key = settings.node_label
        self._template = settings.name_template
        self._by_node: dict[str, str] = {}
        self._having: dict[str, set[str]] = defaultdict(set)
        self._values: dict[str, str] = {}
        self.changed: Signal[[str]] = Signal()
        nodes.add_handler(self._node_changed)

    def names(self) -> Iterable[str]:
        """Return the names of the virtual clusters of all values."""
        return tuple(self._values)

    def find(self, name: str) -> Found | None:
        """Return the value that a virtual cluster has its name of, None if no node has it."""
        value = self._values.get(name)
        if value is None:
            return None
        return Found(name, value, {self._key: value})

    def text_of(self, subject: str) -> str:
        """Return what a value is called."""
        return f"node label {self._key}={subject}"

    def object_of(self, subject: str) -> Object | None:
        """Return what tells events that they are about the first node with a value."""
        names = sorted(self._having.get(subject, ()))
        node = self._nodes.get("", names[0]) if names else None
        if node is None:
            return None
        # Events about nodes name them by name in uid, too: so `kubectl describe` finds them.
        metadata = {"name": node.metadata.name, "uid": node.metadata.name}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}

    async def is_gone(self, name: str, subject: str) -> bool:
        """Ask the host whether a node has the value."""
        if name != name_from(self._template, LABEL_VALUE, subject):
            return True  # it had this name by other settings
        query = {"labelSelector": f"{self._key}={subject}", "limit": "1"}
        return not (await self._host.get(_PATH, query)).get("items")

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        name = node.metadata.name
        # Not compared with `old`: after a write of ours that is what we were answered.
        before = self._by_node.pop(name, None)
        after = new.metadata.labels.get(self._key) if new is not None else None
        if after is not None:
            self._by_node[name] = after
        if before == after:
            return
        if before is not None:
            self._lost(before, name)
        if after is not None:
            self._won(after, name)

    def _lost(self, value: str, node: str) -> None:
        self._having[value].discard(node)
        if not self._having[value]:
            del self._having[value]
            name = name_from(self._template, LABEL_VALUE, value)
            self._values.pop(name, None)
            self.changed.emit(name)

    def _won(self, value: str, node: str) -> None:
        is_first = value not in self._having
        self._having[value].add(node)
        if is_first:
            name = name_from(self._template, LABEL_VALUE, value)
            self._values[name] = value
            self.changed.emit(name)
