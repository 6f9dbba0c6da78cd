"""Selects the strategy for the result of a translation."""

from collections.abc import Callable, Mapping

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind
from karmada_vc_agent.translation.translate import Converted, HostObject
from karmada_vc_agent.work.host_objects import HostObjects
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.preconditions import Preconditions
from karmada_vc_agent.work.shared_names import SharedNames
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.strategies.bindings import Bindings
from karmada_vc_agent.work.strategies.namespace import Namespace
from karmada_vc_agent.work.strategies.own_object import OwnObject
from karmada_vc_agent.work.strategies.plain import Plain
from karmada_vc_agent.work.strategies.service_ports import ServicePorts
from karmada_vc_agent.work.strategies.shared import Shared
from karmada_vc_agent.work.target import Strategy

OF_KIND: Mapping[GroupKind, type[OwnObject]] = {
    kinds.NAMESPACE: Namespace,
    kinds.SERVICE: ServicePorts,
}
"""Kinds with a strategy of their own."""


class Strategies:
    """One instance of each strategy. lost_node: see Preconditions."""

    def __init__(
        self,
        host_objects: HostObjects,
        shared_objects: SharedObjects,
        namespaces: NamespaceWriter,
        shared_names: SharedNames,
        lost_node: Callable[[str], str | None],
    ) -> None:
        preconditions = Preconditions(host_objects, namespaces, lost_node)
        self._bindings = Bindings(host_objects, namespaces)
        self._shared = Shared(shared_objects, preconditions)
        self._plain = Plain(host_objects, preconditions, shared_names)
        self._of_class: Mapping[type[OwnObject], Strategy] = {
            Namespace: Namespace(host_objects, namespaces),
            ServicePorts: ServicePorts(host_objects, preconditions),
        }

    def of(self, translated: HostObject | Converted) -> Strategy:
        """Return the strategy for the result of a translation."""
        if isinstance(translated, Converted):
            return self._bindings
        if translated.is_shared:
            return self._shared
        own = OF_KIND.get(translated.host_key.gvk.group_kind)
        return self._of_class[own] if own else self._plain
