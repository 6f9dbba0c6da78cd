"""Host objects as a client of one virtual cluster sees them (G-44 to G-49)."""

from collections.abc import Mapping
from dataclasses import replace

from karmada_vc_agent.features.gateway.mapping.exchange import KindInfo, Unknown, View
from karmada_vc_agent.features.gateway.mapping.namespaces import virtual_name
from karmada_vc_agent.features.gateway.mapping.texts import Texts, claims_with_anchor
from karmada_vc_agent.model.objects import GroupKind, Object
from karmada_vc_agent.translation.reach import Reach, reach
from karmada_vc_agent.translation.restore import Restorer

_TEXTS: Mapping[GroupKind, tuple[str, ...]] = {
    GroupKind("", "Event"): ("message",),
    GroupKind("events.k8s.io", "Event"): ("note", "deprecatedNote"),
}
"""Fields with texts of the host's components, which name what they please."""


class ObjectReader:
    """Restores what one answer, or one event of a watch, contains; changes it in place."""

    def __init__(self, view: View, info: KindInfo) -> None:
        context = view.context()
        self.view = view
        self.info = info
        self._gvk = info.gvk
        self._restorer = Restorer(replace(context, claims=claims_with_anchor(context, view.anchor)))
        self.names = self._restorer.names
        self._virtual: dict[str, str | Unknown | None] = {}

    def virtual_name(self, host: str) -> str | Unknown | None:
        """Return the virtual name of a host namespace, as namespaces.virtual_name()."""
        if host not in self._virtual:
            self._virtual[host] = virtual_name(self.view, host)
        return self._virtual[host]

    def restore(self, obj: Object, namespace: str = "") -> None:
        """Restore an object, its metadata alone, or an object of a subresource.

        namespace: the virtual one, or the virtual name of a Namespace.
        """
        self._restorer.restore(obj, self._gvk, namespace)
        for field in _TEXTS.get(self._gvk.group_kind, ()):
            if isinstance(obj.get(field), str):
                obj[field] = self.texts().text(obj[field])

    def texts(self) -> Texts:
        """Return what maps texts of the host."""
        return Texts(self.view, self.names)


def reach_of(info: KindInfo, view: View) -> Reach | None:
    """Return what a Reader looks at in objects of a kind; None: all of it."""
    return reach(info.gvk, view.context().settings, _TEXTS.get(info.gvk.group_kind, ()))


def is_readable(obj: object) -> bool:
    """Whether something has the frame of an object; others belong to no one."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return (
        isinstance(metadata, dict)
        and isinstance(metadata.get("labels") or {}, dict)
        and isinstance(metadata.get("annotations") or {}, dict)
    )
