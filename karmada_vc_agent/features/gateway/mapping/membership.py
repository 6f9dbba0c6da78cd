"""Which objects of an answer are of the virtual cluster, and their names in it (5.2 to 5.4).

One class for each way to belong: by namespace, by claim, by node selector, by label, by volume
claim, by a RoleBinding in the anchor. Each maps what belongs, in place, and drops what does not.
"""

from dataclasses import dataclass
from typing import Protocol

from karmada_vc_agent.features.gateway.mapping.exchange import Unknown, View
from karmada_vc_agent.features.gateway.mapping.namespaces import KUBE_SYSTEM, virtual_name
from karmada_vc_agent.features.gateway.mapping.queries import FieldTerm
from karmada_vc_agent.features.gateway.mapping.reading import ObjectReader
from karmada_vc_agent.model.domain import (
    CLUSTER_LABEL,
    GATEWAY_LABEL,
    NAME_ANNOTATION,
    SHARED_LABEL,
)
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of, text_at
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX
from karmada_vc_agent.work.rules.share_plan import owners_of


class ObjectMembership(Protocol):
    """Decides whether an object is shown, and maps it.

    obj: at least its metadata. Objects are asked about by namespace_to_know() before.
    """

    def namespace_to_know(self, obj: Object) -> str:
        """Return the host namespace that the decision rests on; "": none."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Map an object in place; False: it is not of the virtual cluster, and unchanged."""


@dataclass(frozen=True, slots=True)
class InNamespaces:
    """Objects in namespaces of the virtual cluster.

    only: the virtual namespace that was asked for; "": all but the anchor (G-42).
    """

    only: str = ""

    def namespace_to_know(self, obj: Object) -> str:
        """Return the namespace that the object lies in."""
        return text_at(obj, "metadata", "namespace")

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Map the namespace, and what the object refers to."""
        host = text_at(obj, "metadata", "namespace")
        virtual = reader.virtual_name(host) if host else None
        if not isinstance(virtual, str):
            return False
        if virtual != self.only if self.only else virtual == KUBE_SYSTEM:
            return False
        reader.restore(obj, virtual)
        return True


@dataclass(frozen=True, slots=True)
class OfNamespaces:
    """The Namespaces themselves, the anchor as `kube-system`."""

    def namespace_to_know(self, obj: Object) -> str:
        """Return the name on the host."""
        return text_at(obj, "metadata", "name")

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Map the name."""
        virtual = virtual_name(reader.view, text_at(obj, "metadata", "name"))
        if not isinstance(virtual, str):
            return False
        reader.restore(obj, virtual)
        return True


class _NoNamespace:
    """What is decided without a host namespace."""

    __slots__ = ()

    def namespace_to_know(self, _obj: Object) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class WrittenNamespace(_NoNamespace):
    """The Namespace of a write, by both of its names; a dry run leaves none to look for."""

    host: str
    virtual: str

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Map the name."""
        if text_at(obj, "metadata", "name") != self.host:
            return False
        reader.restore(obj, self.virtual)
        return True


@dataclass(frozen=True, slots=True)
class OfAll(_NoNamespace):
    """Objects that all see: what the host has selected already."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Remove our marks, which name others."""
        reader.restore(obj)
        return True


@dataclass(frozen=True, slots=True)
class SharedMembership(OfAll):
    """Shared objects: those of the host, its own, and, but in Strict, those of others."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Remove our marks; what only others want may name them in whatever field."""
        context = reader.view.context()
        if context.settings.is_strict and SHARED_LABEL in labels_of(obj):
            names = {context.vc.name, *context.vc.former_names}
            if names.isdisjoint(owners_of(obj)):
                return False
        return OfAll.take(self, obj, reader)


@dataclass(frozen=True, slots=True)
class OneNode(_NoNamespace):
    """A node that was asked for by name."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Check that it is an own one."""
        if not reader.view.has_node(labels_of(obj), text_at(obj, "metadata", "name")):
            return False
        reader.restore(obj)
        return True


@dataclass(frozen=True, slots=True)
class NodesByName(_NoNamespace):
    """What is told of nodes by their name alone, such as their metrics."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Check that the node is an own one."""
        if not reader.view.owns_node(text_at(obj, "metadata", "name")):
            return False
        reader.restore(obj)
        return True


@dataclass(frozen=True, slots=True)
class Labelled(_NoNamespace):
    """Renamed cluster-scoped objects, with the label of the virtual cluster."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Map the name back."""
        labels = labels_of(obj)
        if labels.get(CLUSTER_LABEL) != reader.view.name or GATEWAY_LABEL in labels:
            return False
        _restore_named(obj, reader)
        return True


@dataclass(frozen=True, slots=True)
class Volumes:
    """PersistentVolumes: labelled, or bound to a claim of the virtual cluster.

    names: terms of a fieldSelector on the virtual name. Whole objects are needed, so metadata_only
    cuts them to what was asked for.
    """

    names: tuple[FieldTerm, ...] = ()
    metadata_only: bool = False

    def namespace_to_know(self, obj: Object) -> str:
        """Return the namespace of the claim."""
        if CLUSTER_LABEL in labels_of(obj):
            return ""
        return text_at(obj, "spec", "claimRef", "namespace")

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Map the name, and the claim."""
        cluster = labels_of(obj).get(CLUSTER_LABEL)
        if cluster is not None and cluster != reader.view.name:
            return False
        if cluster is None and not self._is_claimed(obj, reader.view):
            return False
        virtual = text_at(obj, "metadata", "name")
        if cluster is not None:
            noted = annotations_of(obj).get(NAME_ANNOTATION)
            virtual = noted or reader.names.virtual_name(virtual) or virtual
        if not all(term.matches(virtual) for term in self.names):
            return False
        if cluster is not None:
            _restore_named(obj, reader)
        else:
            reader.restore(obj)
        if self.metadata_only:
            cut_to_metadata(obj)
        return True

    def _is_claimed(self, obj: Object, view: View) -> bool:
        host = text_at(obj, "spec", "claimRef", "namespace")
        return bool(host) and isinstance(virtual_name(view, host), str)


@dataclass(frozen=True, slots=True)
class BindingMembership(_NoNamespace):
    """ClusterRoleBindings, read from what they became in the anchor (rewriting-rules 5.2)."""

    def take(self, obj: Object, reader: ObjectReader) -> bool:
        """Turn a RoleBinding back into the ClusterRoleBinding."""
        name = text_at(obj, "metadata", "name")
        if not name.startswith(CONVERTED_PREFIX):
            return False
        if dig(obj, "metadata", "namespace") != reader.view.anchor:
            return False
        obj["metadata"]["name"] = name.removeprefix(CONVERTED_PREFIX)
        del obj["metadata"]["namespace"]
        if "kind" in obj and obj["kind"] == "RoleBinding":
            obj["kind"] = "ClusterRoleBinding"
        reader.restore(obj)
        return True


def unknown_namespaces(
    objects: list[Object], membership: ObjectMembership, view: View
) -> Unknown | None:
    """Return the namespaces that the view must read before these objects can be mapped."""
    hosts = {membership.namespace_to_know(obj) for obj in objects} - {""}
    unknown = frozenset(host for host in hosts if isinstance(virtual_name(view, host), Unknown))
    return Unknown(unknown) if unknown else None


def cut_to_metadata(obj: Object) -> None:
    """Make PartialObjectMetadata of an object, in place."""
    for key in [key for key in obj if key != "metadata"]:
        del obj[key]
    obj["kind"], obj["apiVersion"] = "PartialObjectMetadata", "meta.k8s.io/v1"


def _restore_named(obj: Object, reader: ObjectReader) -> None:
    """Restore a renamed object, also one without the annotation that records its name."""
    host = text_at(obj, "metadata", "name")
    reader.restore(obj)
    if text_at(obj, "metadata", "name") == host:
        obj["metadata"]["name"] = reader.names.virtual_name(host) or host
