"""Which objects are of the virtual cluster, and how its clients see them.

One ObjectFilter for each way to belong: by namespace, by claim, by node selector, by label, by
volume claim, by a RoleBinding in the anchor.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    FieldTerm,
    UnknownNamespacesError,
    View,
    by_kind,
)
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, text_at
from karmada_vc_agent.model.virtual_cluster import (
    ClaimedNamespaces,
    HostNamespace,
    VirtualNamespace,
)
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    GATEWAY_LABEL,
    NAME_ANNOTATION,
    SHARED_LABEL,
)
from karmada_vc_agent.translation.context import ANCHOR_NAMESPACE
from karmada_vc_agent.translation.kind_policy import RefusedError
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX, everyone, identity_prefix
from karmada_vc_agent.translation.restore import Parts, Restorer, restore_text, restored_parts
from karmada_vc_agent.work.rules.apply_plan import owners_of

KUBE_SYSTEM = "kube-system"
"""What a virtual cluster calls its anchor."""
NOWHERE = "-"
"""No name of a namespace: selects nothing."""


def claimed_namespace(view: View, namespace: str) -> str | None:
    """Return the host namespace of a virtual one that exists: claimed, or the anchor."""
    if namespace == KUBE_SYSTEM:
        return view.anchor
    return view.context().claims.get(VirtualNamespace(namespace))


def host_namespace(view: View, namespace: str) -> str:
    """Return the host namespace of a virtual one, existing or not; NOWHERE: it can have none."""
    return host_namespaces(view)(namespace)


def host_namespaces(view: View) -> Callable[[str], str]:
    """Return host_namespace() for many: the facts about the cluster are put together once."""
    anchor, context = view.anchor, view.context()
    names = context.names()

    def host(namespace: str) -> str:
        existing = context.claims.get(VirtualNamespace(namespace))
        if namespace == KUBE_SYSTEM or existing is not None:
            return anchor if namespace == KUBE_SYSTEM else str(existing)
        try:
            computed = names.host_namespace(namespace)
        except RefusedError:
            return NOWHERE
        return NOWHERE if computed == anchor else computed

    return cache(host)


def virtual_namespace(view: View, host: str) -> str | None:
    """Return the virtual name of a host namespace, also of the anchor; None: of others."""
    return KUBE_SYSTEM if host == view.anchor else view.virtual_namespace(host)


HIDDEN = "another-namespace"
"""Replaces the namespace of a neighbour."""
_NAMESPACE_NAME = re.compile(
    r"(?<![A-Za-z0-9-])[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?![A-Za-z0-9-])"
)
_IDENTITY = re.compile(r"\bvc:(?!apply-as\b)[a-z0-9-]+(?![A-Za-z0-9-])")
_ACCOUNT = re.compile(r"\bsystem:serviceaccount:([A-Za-z0-9.-]+):[A-Za-z0-9.-]+")
_NEIGHBOUR = "another-identity"


_TEXTS = by_kind("texts")
NO_KIND = KindInfo("", "", "", "", namespaced=False)


class ObjectReader:
    """Restores what one answer, or one event of a watch, contains; changes it in place.

    Texts are mapped under the facts of this moment. info: needed for objects only.
    """

    def __init__(self, view: View, info: KindInfo = NO_KIND) -> None:
        context = view.context()
        claims = ClaimedNamespaces(context.claims)
        claims.pop(ANCHOR_NAMESPACE, None)
        claims[VirtualNamespace(KUBE_SYSTEM)] = HostNamespace(view.anchor)
        self.view = view
        self.info = info
        self._restorer = Restorer(replace(context, claims=claims))
        self.names = self._restorer.names
        self._prefix = identity_prefix(view.name)
        self.virtual_name = cache(partial(virtual_namespace, view))

    def restore(self, obj: Object, namespace: str = "") -> None:
        """Restore an object. namespace: the virtual one, or the virtual name of a Namespace."""
        self._restorer.restore(obj, self.info.gvk, namespace)
        for field in _TEXTS.get(self.info.gvk.group_kind, ()):
            self.text_in(obj, field)

    def text(self, text: str) -> str:
        """Return a text in virtual names, without the prefix of users and the names of others."""
        text = restore_text(text, self.names)
        text = text.replace(self._prefix, "").replace(CONVERTED_PREFIX, "")
        text = _IDENTITY.sub(self._identity, text)
        text = _ACCOUNT.sub(self._account, text)
        is_others = self.view.is_others
        return _NAMESPACE_NAME.sub(lambda match: HIDDEN if is_others(match[0]) else match[0], text)

    def text_in(self, obj: Any, field: str) -> None:
        """Map a field with a text, in place, where it is there."""
        if isinstance(obj, dict) and isinstance(obj.get(field), str):
            obj[field] = self.text(obj[field])

    def status(self, status: Object) -> Object:
        """Map a Status in place."""
        self.text_in(status, "message")
        details = status.get("details")
        if isinstance(details, dict):
            self.text_in(details, "name")
            for cause in details.get("causes") or ():
                self.text_in(cause, "message")
        return status

    def _identity(self, match: re.Match[str]) -> str:
        is_own = match[0] == everyone(self.view.name)
        return "system:authenticated" if is_own else _NEIGHBOUR

    def _account(self, match: re.Match[str]) -> str:
        return match[0] if match[1] in self.names.claims else _NEIGHBOUR


def reach_of(info: KindInfo, view: View) -> Parts | None:
    """Return what a Reader looks at in objects of a kind; None: all of it."""
    return restored_parts(
        info.gvk, view.context().settings, tuple(_TEXTS.get(info.gvk.group_kind, ()))
    )


def is_readable(obj: object) -> bool:
    """Whether something has the frame of an object; others belong to no one."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return (
        isinstance(metadata, dict)
        and isinstance(metadata.get("labels") or {}, dict)
        and isinstance(metadata.get("annotations") or {}, dict)
    )


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Decides whether an object is shown, and maps it. obj: at least its metadata.

    take: maps an object in place; False: it is not of the virtual cluster, and unchanged.
    namespace_of: the host namespace that this rests on, which is read before; "" = none.
    """

    take: Callable[[Object, ObjectReader], bool]
    namespace_of: Callable[[Object], str] = lambda _obj: ""


def _namespace_of(obj: Object) -> str:
    return text_at(obj, "metadata", "namespace")


def _name_of(obj: Object) -> str:
    return text_at(obj, "metadata", "name")


def in_namespaces(only: str = "") -> ObjectFilter:
    """Return that of objects in namespaces. only: the virtual one; "": all but anchor (G-42)."""

    def take(obj: Object, reader: ObjectReader) -> bool:
        host = _namespace_of(obj)
        virtual = reader.virtual_name(host) if host else None
        if virtual is None or (virtual != only if only else virtual == KUBE_SYSTEM):
            return False
        reader.restore(obj, virtual)
        return True

    return ObjectFilter(take, _namespace_of)


def written_namespace(host: str, virtual: str) -> ObjectFilter:
    """Return that of a Namespace that is written, by both names; a dry run leaves none behind."""

    def take(obj: Object, reader: ObjectReader) -> bool:
        if _name_of(obj) != host:
            return False
        reader.restore(obj, virtual)
        return True

    return ObjectFilter(take)


def _take_namespace(obj: Object, reader: ObjectReader) -> bool:
    virtual = virtual_namespace(reader.view, _name_of(obj))
    if virtual is None:
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
    required = reader.view.context().vc.required_selector
    return required.items() <= labels_of(obj).items() and _take_any(obj, reader)


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


NAMESPACES = ObjectFilter(_take_namespace, _name_of)
"""The Namespaces themselves, the anchor as `kube-system`."""
SELECTED = ObjectFilter(_take_any)
"""Objects that the host has selected already."""
SHARED_OBJECTS = ObjectFilter(_take_shared)
"""Shared objects: those of the host, its own, and, but in Strict, those of others."""
NODES = ObjectFilter(_take_node)
"""A node that is requested by name."""
BY_NODE_NAME = ObjectFilter(
    lambda obj, reader: reader.view.context().owns_node(_name_of(obj)) and _take_any(obj, reader)
)
"""What belongs to nodes by their name alone, such as their metrics."""
LABELLED = ObjectFilter(_take_labelled)
"""Renamed cluster-scoped objects, with the label of the virtual cluster."""
BINDINGS = ObjectFilter(_take_binding)
"""ClusterRoleBindings, read from what they became in the anchor."""


def volume_membership(names: tuple[FieldTerm, ...] = ()) -> ObjectFilter:
    """Return that of PersistentVolumes: labelled, or bound to a claim of the virtual cluster.

    names: terms of a fieldSelector on the virtual name.
    """

    def take(obj: Object, reader: ObjectReader) -> bool:
        cluster = labels_of(obj).get(CLUSTER_LABEL)
        virtual = _name_of(obj)
        if cluster is None:
            host = _namespace_of_claim(obj)
            if not host or virtual_namespace(reader.view, host) is None:
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
        return True

    return ObjectFilter(take, _namespace_of_claim)


def _namespace_of_claim(obj: Object) -> str:
    if CLUSTER_LABEL in labels_of(obj):
        return ""
    return text_at(obj, "spec", "claimRef", "namespace")


def require_namespaces(objects: list[Object], members: ObjectFilter, view: View) -> None:
    """Raise UnknownNamespacesError for all that the view must read before these are mapped."""
    unknown: set[str] = set()
    for host in {members.namespace_of(obj) for obj in objects} - {""}:
        try:
            virtual_namespace(view, host)
        except UnknownNamespacesError as error:
            unknown |= error.host_namespaces
    if unknown:
        raise UnknownNamespacesError(unknown)


def _restore_named(obj: Object, reader: ObjectReader) -> None:
    """Restore a renamed object, also one without the annotation that records its name."""
    host = _name_of(obj)
    reader.restore(obj)
    if _name_of(obj) == host:
        obj["metadata"]["name"] = reader.names.virtual_name(host) or host
