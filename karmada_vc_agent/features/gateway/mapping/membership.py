"""Which objects of an answer are of the virtual cluster, and their names in it (5.2 to 5.4).

One Membership for each way to belong: by namespace, by claim, by node selector, by label, by
volume claim, by a RoleBinding in the anchor.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, text_at
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX
from karmada_vc_agent.work.rules.share_plan import owners_of


def _none(_obj: Object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Membership:
    """Decides whether an object is shown, and maps it. obj: at least its metadata.

    take: maps an object in place; False: it is not of the virtual cluster, and unchanged.
    namespace_of: the host namespace that this rests on, which is read before; "" = none.
    """

    take: Callable[[Object, ObjectReader], bool]
    namespace_of: Callable[[Object], str] = _none


def _namespace_of(obj: Object) -> str:
    return text_at(obj, "metadata", "namespace")


def _name_of(obj: Object) -> str:
    return text_at(obj, "metadata", "name")


def in_namespaces(only: str = "") -> Membership:
    """Return that of objects in namespaces of the virtual cluster.

    only: the virtual namespace of the request; "": all but the anchor (G-42).
    """

    def take(obj: Object, reader: ObjectReader) -> bool:
        host = _namespace_of(obj)
        virtual = reader.virtual_name(host) if host else None
        if not isinstance(virtual, str):
            return False
        if virtual != only if only else virtual == KUBE_SYSTEM:
            return False
        reader.restore(obj, virtual)
        return True

    return Membership(take, _namespace_of)


def written_namespace(host: str, virtual: str) -> Membership:
    """Return that of a Namespace that is written, by both names; a dry run leaves none behind."""

    def take(obj: Object, reader: ObjectReader) -> bool:
        if _name_of(obj) != host:
            return False
        reader.restore(obj, virtual)
        return True

    return Membership(take)


def _take_namespace(obj: Object, reader: ObjectReader) -> bool:
    virtual = virtual_name(reader.view, _name_of(obj))
    if not isinstance(virtual, str):
        return False
    reader.restore(obj, virtual)
    return True


def _take_any(obj: Object, reader: ObjectReader) -> bool:
    """Remove our marks, which name others."""
    reader.restore(obj)
    return True


def _take_shared(obj: Object, reader: ObjectReader) -> bool:
    """Remove our marks; what only others have may name them in any field."""
    context = reader.view.context()
    if context.settings.is_strict and SHARED_LABEL in labels_of(obj):
        names = {context.vc.name, *context.vc.former_names}
        if names.isdisjoint(owners_of(obj)):
            return False
    return _take_any(obj, reader)


def _take_node(obj: Object, reader: ObjectReader) -> bool:
    return reader.view.has_node(labels_of(obj)) and _take_any(obj, reader)


def _take_by_node_name(obj: Object, reader: ObjectReader) -> bool:
    return reader.view.owns_node(_name_of(obj)) and _take_any(obj, reader)


def _take_labelled(obj: Object, reader: ObjectReader) -> bool:
    labels = labels_of(obj)
    if labels.get(CLUSTER_LABEL) != reader.view.name or GATEWAY_LABEL in labels:
        return False
    _restore_named(obj, reader)
    return True


def _take_binding(obj: Object, reader: ObjectReader) -> bool:
    """Make the ClusterRoleBinding of a RoleBinding of the anchor (rewriting-rules 5.2)."""
    name = _name_of(obj)
    if not name.startswith(CONVERTED_PREFIX) or _namespace_of(obj) != reader.view.anchor:
        return False
    obj["metadata"]["name"] = name.removeprefix(CONVERTED_PREFIX)
    del obj["metadata"]["namespace"]
    if obj.get("kind") == "RoleBinding":
        obj["kind"] = "ClusterRoleBinding"
    return _take_any(obj, reader)


NAMESPACES = Membership(_take_namespace, _name_of)
"""The Namespaces themselves, the anchor as `kube-system`."""
ALL = Membership(_take_any)
"""Objects that the host has selected already."""
SHARED = Membership(_take_shared)
"""Shared objects: those of the host, its own, and, but in Strict, those of others."""
NODE = Membership(_take_node)
"""A node that is requested by name."""
BY_NODE_NAME = Membership(_take_by_node_name)
"""What belongs to nodes by their name alone, such as their metrics."""
LABELLED = Membership(_take_labelled)
"""Renamed cluster-scoped objects, with the label of the virtual cluster."""
BINDINGS = Membership(_take_binding)
"""ClusterRoleBindings, read from what they became in the anchor."""


def volumes(names: tuple[FieldTerm, ...] = (), *, metadata_only: bool = False) -> Membership:
    """Return that of PersistentVolumes: labelled, or bound to a claim of the virtual cluster.

    names: terms of a fieldSelector on the virtual name. Whole objects are needed, so metadata_only
    cuts them to what is requested.
    """

    def take(obj: Object, reader: ObjectReader) -> bool:
        cluster = labels_of(obj).get(CLUSTER_LABEL)
        virtual = _name_of(obj)
        if cluster is None:
            host = _namespace_of_claim(obj)
            if not host or not isinstance(virtual_name(reader.view, host), str):
                return False
        elif cluster != reader.view.name:
            return False
        else:
            noted = annotations_of(obj).get(NAME_ANNOTATION)
            virtual = noted or reader.names.virtual_name(virtual) or virtual
        if not all(term.matches(virtual) for term in names):
            return False
        if cluster is None:
            reader.restore(obj)
        else:
            _restore_named(obj, reader)
        if metadata_only:
            _cut_to_metadata(obj)
        return True

    return Membership(take, _namespace_of_claim)


def _namespace_of_claim(obj: Object) -> str:
    if CLUSTER_LABEL in labels_of(obj):
        return ""
    return text_at(obj, "spec", "claimRef", "namespace")


def unknown_namespaces(objects: list[Object], membership: Membership, view: View) -> Unknown | None:
    """Return the namespaces that the view must read before these objects can be mapped."""
    hosts = {membership.namespace_of(obj) for obj in objects} - {""}
    unknown = frozenset(host for host in hosts if isinstance(virtual_name(view, host), Unknown))
    return Unknown(unknown) if unknown else None


def _cut_to_metadata(obj: Object) -> None:
    """Make PartialObjectMetadata of an object, in place."""
    for key in [key for key in obj if key != "metadata"]:
        del obj[key]
    obj["kind"], obj["apiVersion"] = "PartialObjectMetadata", "meta.k8s.io/v1"


def _restore_named(obj: Object, reader: ObjectReader) -> None:
    """Restore a renamed object, also one without the annotation that records its name."""
    host = _name_of(obj)
    reader.restore(obj)
    if _name_of(obj) == host:
        obj["metadata"]["name"] = reader.names.virtual_name(host) or host
