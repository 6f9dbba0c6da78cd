"""Tables: namespace and name references by kind.

One walk serves both ways: a Direction says what a name becomes, a row where names stand and
how they are treated. Functions change what they are given; callers work on a copy of their own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, values_at
from karmada_vc_agent.translation.names import Direction
from karmada_vc_agent.translation.pod_templates import PodTemplates, pod_specs

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


class Treatment(Enum):
    """What is done with the value that a row names."""

    NAMESPACE = "mapped as a namespace"
    SELECTOR = "a selector of namespaces, rewriting-rules 4.2"
    CLUSTER_SCOPED_NAME = "mapped as the name of a cluster-scoped object"
    DROPPED = "dropped on the way to the host"


@dataclass(frozen=True, slots=True)
class Reference:
    """One place in an object; path as values_at() takes it, `[]` may also end it."""

    path: str
    treatment: Treatment = Treatment.NAMESPACE


@dataclass(frozen=True, slots=True)
class NamespaceReferences:
    """A row of the setting `namespaceReferences`: paths of namespaces in a kind."""

    group: str
    kind: str
    paths: tuple[str, ...]


_DATA_SOURCE = "spec.dataSourceRef.namespace"

_BY_KIND: Mapping[tuple[str, str], tuple[Reference, ...]] = {  # rewriting-rules 4.1
    ("", "PersistentVolumeClaim"): (
        Reference(_DATA_SOURCE),
        Reference("spec.volumeName", Treatment.CLUSTER_SCOPED_NAME),
    ),
    ("apps", "StatefulSet"): (
        Reference(f"spec.volumeClaimTemplates[].{_DATA_SOURCE}"),
        Reference("spec.volumeClaimTemplates[].spec.volumeName", Treatment.CLUSTER_SCOPED_NAME),
    ),
    ("", "Endpoints"): (
        Reference("subsets[].addresses[].targetRef.namespace"),
        Reference("subsets[].notReadyAddresses[].targetRef.namespace"),
    ),
    ("discovery.k8s.io", "EndpointSlice"): (Reference("endpoints[].targetRef.namespace"),),
    ("networking.k8s.io", "NetworkPolicy"): (
        Reference("spec.ingress[].from[].namespaceSelector", Treatment.SELECTOR),
        Reference("spec.egress[].to[].namespaceSelector", Treatment.SELECTOR),
    ),
    ("", "ServiceAccount"): (Reference("secrets[].namespace", Treatment.DROPPED),),
}

_POD_AFFINITY_TERMS = tuple(
    f"affinity.{affinity}.{terms}"
    for affinity in ("podAffinity", "podAntiAffinity")
    for terms in (
        "requiredDuringSchedulingIgnoredDuringExecution[]",
        "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    )
)
_IN_POD_SPECS = (  # rewriting-rules 4.1; paths below the pod spec
    *(Reference(f"{term}.namespaces[]") for term in _POD_AFFINITY_TERMS),
    *(Reference(f"{term}.namespaceSelector", Treatment.SELECTOR) for term in _POD_AFFINITY_TERMS),
    Reference(f"volumes[].ephemeral.volumeClaimTemplate.{_DATA_SOURCE}"),
    Reference(
        "volumes[].ephemeral.volumeClaimTemplate.spec.volumeName", Treatment.CLUSTER_SCOPED_NAME
    ),
)

_NODE_NAMES: Mapping[tuple[str, str], tuple[str, ...]] = {  # rewriting-rules 4.1
    ("", "Endpoints"): ("subsets[].addresses[]", "subsets[].notReadyAddresses[]"),
    ("discovery.k8s.io", "EndpointSlice"): ("endpoints[]",),
}


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites the references of one virtual cluster's objects in one direction."""

    cluster: str
    direction: Direction
    pod_templates: tuple[PodTemplates, ...] = ()
    namespace_references: tuple[NamespaceReferences, ...] = ()

    def rewrite(self, obj: Object, gvk: GroupVersionKind) -> None:
        """Rewrite everything that the tables and the settings name in an object.

        Refuses ReferenceForbidden on the way to the host. Source: rewriting-rules 4.1.
        """
        kind = (gvk.group, gvk.kind)
        by_path = {  # a path named twice must be mapped once; the built-in row wins
            path: Reference(path)
            for row in self.namespace_references
            if (row.group, row.kind) == kind
            for path in row.paths
        } | {reference.path: reference for reference in _BY_KIND.get(kind, ())}
        self._apply(obj, "", by_path.values())
        for pod_spec in pod_specs(obj, gvk, self.pod_templates):
            if not pod_spec.selector_only:
                self._apply(pod_spec.spec, f"{pod_spec.path}.", _IN_POD_SPECS)

    def _apply(self, obj: Object, prefix: str, references: Iterable[Reference]) -> None:
        for reference in references:
            if reference.treatment is Treatment.DROPPED and not self.direction.to_host:
                continue

            def changed(value: Any, where: str, row: Reference = reference) -> Any:
                return self._changed(value, prefix + where, row.treatment)

            _change_at(obj, reference.path, changed)

    def _changed(self, value: Any, path: str, treatment: Treatment) -> Any:
        if treatment is Treatment.DROPPED:
            return None
        if treatment is Treatment.SELECTOR:
            return self._selector(value)
        if not isinstance(value, str) or not value:
            return value
        if treatment is Treatment.CLUSTER_SCOPED_NAME:
            return self.direction.name(value)
        return self.direction.namespace(value, path)

    def _selector(self, selector: Any) -> Any:
        """Return a selector of namespaces that finds the same ones on the other side.

        An empty one, all namespaces, becomes all of this virtual cluster. Source: 4.2.
        """
        if not isinstance(selector, dict):
            return selector
        labels = selector.get("matchLabels")
        labels = dict(labels) if isinstance(labels, dict) else {}
        labels.pop(CLUSTER_LABEL, None)
        if isinstance(labels.get(NAMESPACE_NAME_LABEL), str):
            name = labels[NAMESPACE_NAME_LABEL]
            labels[NAMESPACE_NAME_LABEL] = self.direction.selected_namespace(name)
        if self.direction.to_host:
            labels[CLUSTER_LABEL] = self.cluster
        result = {key: value for key, value in selector.items() if key != "matchLabels"}
        if labels:
            result["matchLabels"] = labels
        expressions = selector.get("matchExpressions")
        if isinstance(expressions, list):
            result["matchExpressions"] = [self._expression(each) for each in expressions]
        return result

    def _expression(self, expression: Any) -> Any:
        values = dig(expression, "values")
        if dig(expression, "key") != NAMESPACE_NAME_LABEL or not isinstance(values, list):
            return expression
        mapped = [
            self.direction.selected_namespace(value) if isinstance(value, str) else value
            for value in values
        ]
        return {**expression, "values": mapped}


def drop_foreign_node_names(
    obj: Object, gvk: GroupVersionKind, owns_node: Callable[[str], bool]
) -> None:
    """Drop the nodeName of endpoints that are not on the virtual cluster's nodes, in place."""
    for path in _NODE_NAMES.get((gvk.group, gvk.kind), ()):
        for _, endpoint in values_at(obj, path):
            node = dig(endpoint, "nodeName")
            if node is not None and not (isinstance(node, str) and owns_node(node)):
                del endpoint["nodeName"]


def _change_at(obj: Object, path: str, changed: Callable[[Any, str], Any]) -> None:
    """Replace, in place, every value at a path by what `changed(value, path)` returns.

    None removes the key. A path that ends in `[]` or `{}` changes elements or map values.
    """
    parent_path, _, last = path.rpartition(".")
    key = last.removesuffix("[]").removesuffix("{}")
    parents = values_at(obj, parent_path) if parent_path else iter([("", obj)])
    for where, parent in parents:
        value = dig(parent, key)
        if value is None or not isinstance(parent, dict):
            continue
        here = f"{where}.{key}" if where else key
        if last.endswith("[]"):
            if isinstance(value, list):
                parent[key] = [changed(each, f"{here}[{i}]") for i, each in enumerate(value)]
        elif last.endswith("{}"):
            if isinstance(value, dict):
                parent[key] = {k: changed(each, f'{here}["{k}"]') for k, each in value.items()}
        else:
            parent[key] = changed(value, here)
            if parent[key] is None:
                del parent[key]
