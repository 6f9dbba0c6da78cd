"""Responses: how answers of the host are mapped (G-43 to G-50)."""

from collections.abc import Mapping
from dataclasses import replace

from karmada_vc_agent.features.gateway.mapping import refusals
from karmada_vc_agent.features.gateway.mapping.continue_tokens import PagePosition, TokenScope
from karmada_vc_agent.features.gateway.mapping.exchange import (
    KindInfo,
    Refused,
    ResponseKind,
    Unknown,
    View,
)
from karmada_vc_agent.features.gateway.mapping.membership import (
    Membership,
    unknown_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.reading import ObjectReader, is_readable, reach_of
from karmada_vc_agent.features.gateway.mapping.sieves import PartialDecoder
from karmada_vc_agent.features.gateway.mapping.tables import Tables, is_table, objects_of
from karmada_vc_agent.features.gateway.mapping.texts import Texts, claims_with_anchor
from karmada_vc_agent.model.objects import Object, maps_at, text_at
from karmada_vc_agent.model.tenancy import Guard

_BOOKMARK, _ERROR, _MODIFIED, _DELETED = "BOOKMARK", "ERROR", "MODIFIED", "DELETED"
_IDENTITY = ("name", "uid", "resourceVersion", "creationTimestamp")


class Response:
    """How to map an answer; the base is for those whose bytes pass. Made for one request.

    kind: of an answer below 300. OPAQUE: bytes pass untouched. OBJECT, DISCOVERY: map_object().
    LIST: map_list(). WATCH: map_event() for each line. Answers from 300 on, whatever the kind:
    map_status() if the body is a JSON Status, else bytes pass. All functions change what they are
    given, and return it; decoder() decodes the parts of lists and events that they read.
    """

    kind = ResponseKind.OPAQUE

    def decoder(self, _view: View) -> PartialDecoder:
        """Return what decodes all."""
        return PartialDecoder()

    def map_object(self, decoded: Object, _view: View) -> Object | Unknown | None:
        """Map one object, Table or Status; None: not of this virtual cluster, not_found()."""
        return decoded

    def map_list(self, decoded: Object, _view: View) -> Object | Unknown:
        """Map a list or a Table, without what is not of this virtual cluster."""
        return decoded

    def map_event(self, decoded: Object, _view: View) -> Object | Unknown | None:
        """Map `{"type", "object"}` of a watch; None: drop it."""
        return decoded

    def map_status(self, decoded: Object, view: View) -> Object:
        """Map a Status (G-48)."""
        return texts_of(view).status(decoded)

    def map_warning(self, text: str, view: View) -> str:
        """Map a text of the host (G-48)."""
        return texts_of(view).text(text)

    def not_found(self) -> Refused:
        """Return a 404."""
        return refusals.unknown_resource().refused


def texts_of(view: View) -> Texts:
    """Return what maps texts of the host at this moment."""
    context = view.context()
    claims = claims_with_anchor(context, view.anchor)
    return Texts(view, replace(context, claims=claims).names())


class OfResource(Response):
    """The answer to a request for one resource.

    scope: of its `continue` tokens; None: the kind has none. name: of the requested object.
    hides_count: whether the number of what remains counts objects of others (G-40).
    without_objects: the client requested rows alone. renamed_lists: kind of a list on the host ->
    its type for the client.
    """

    def __init__(
        self,
        info: KindInfo,
        membership: Membership,
        kind: ResponseKind,
        *,
        name: str = "",
        scope: TokenScope | None = None,
        hides_count: bool = False,
        without_objects: bool = False,
        renamed_lists: Mapping[str, Object] | None = None,
    ) -> None:
        self.kind = kind
        self.info = info
        self._membership = membership
        self._name = name
        self._scope = scope
        self._hides_count = hides_count
        self._renamed_lists = renamed_lists or {}
        self.tables = Tables(info, without_objects=without_objects)

    def decoder(self, view: View) -> PartialDecoder:
        """Return what decodes what restoring objects of the kind looks at."""
        return PartialDecoder(reach_of(self.info, view))

    def map_object(self, decoded: Object, view: View) -> Object | Unknown | None:
        """Map an object, a Table of one, a Status, or the list that a deletion returns."""
        if is_status(decoded):
            return self.map_status(decoded, view)
        if is_table(decoded):
            table = self.map_list(decoded, view)
            is_empty = not isinstance(table, Unknown) and not table["rows"]
            return None if is_empty else table
        if decoded.get("kind") != self.info.kind and isinstance(decoded.get("items"), list):
            return self.map_list(decoded, view)
        return self._take(decoded, decoded, view)

    def map_list(self, decoded: Object, view: View) -> Object | Unknown:
        """Map a list or a Table; may be called with parts of one."""
        unknown = unknown_namespaces(entries_of(decoded), self._membership, view)
        if unknown is not None:
            return unknown
        self.filter(decoded, ObjectReader(view, self.info))
        self._map_list_metadata(decoded, view)
        return decoded

    def map_event(self, decoded: Object, view: View) -> Object | Unknown | None:
        """Map one event of a watch; bookmarks pass (G-47)."""
        obj = decoded.get("object")
        if not isinstance(obj, dict):
            return None
        if decoded.get("type") == _ERROR:
            decoded["object"] = self.map_status(obj, view)
            return decoded
        if is_table(obj):
            return self._map_table_event(decoded, obj, view)
        if decoded.get("type") == _BOOKMARK:
            return decoded
        return self._take(obj, decoded, view)

    def not_found(self) -> Refused:
        """Return the 404 for the requested object."""
        return refusals.not_found(self.info, self._name).refused

    def filter(self, decoded: Object, reader: ObjectReader) -> None:
        """Keep, in place, what is of the virtual cluster, mapped."""
        membership = self._membership
        if is_table(decoded):
            self.tables.map(decoded, membership, reader)
            self.tables.strip(decoded)
        elif isinstance(decoded.get("items"), list):
            decoded["items"] = [
                item
                for item in decoded["items"]
                if is_readable(item) and membership.take(item, reader)
            ]
            decoded.update(self._renamed_lists.get(text_at(decoded, "kind"), {}))

    def seal(self, place: PagePosition, view: View) -> str:
        """Return a `continue` token for clients (G-40a)."""
        return view.sealer().seal(place, self._scope or TokenScope(view.name, "", ""))

    def _take(self, obj: Object, whole: Object, view: View) -> Object | Unknown | None:
        """Map one object, and return what it is in, or is itself; None: it is not shown."""
        if not is_readable(obj):
            return None
        unknown = unknown_namespaces([obj], self._membership, view)
        if unknown is not None:
            return unknown
        return whole if self._membership.take(obj, ObjectReader(view, self.info)) else None

    def _map_list_metadata(self, decoded: Object, view: View) -> None:
        metadata = decoded.get("metadata")
        if not isinstance(metadata, dict):
            return
        token = text_at(metadata, "continue")
        if token:
            metadata["continue"] = self.seal(PagePosition(token), view)
        if self._hides_count:
            metadata.pop("remainingItemCount", None)

    def _map_table_event(
        self, decoded: Object, table: Object, view: View
    ) -> Object | Unknown | None:
        if decoded.get("type") != _BOOKMARK:
            unknown = unknown_namespaces(objects_of(table), self._membership, view)
            if unknown is not None:
                return unknown
            self.tables.map(table, self._membership, ObjectReader(view, self.info))
            if not table["rows"]:
                return None
        self.tables.show_columns(table)
        self.tables.strip(table)
        return decoded


class OfNamespaceWrite(OfResource):
    """A Namespace that is written.

    host, virtual: its names, whether it is claimed by now or not; "" = not given.
    """

    host = virtual = ""

    def map_status(self, decoded: Object, view: View) -> Object:
        """Map a Status, also one about a name that no watch reported yet."""
        mapped = super().map_status(decoded, view)
        details = mapped.get("details")
        if self.host and isinstance(details, dict) and details.get("name") == self.host:
            details["name"] = self.virtual
        if self.host and isinstance(mapped.get("message"), str):
            mapped["message"] = mapped["message"].replace(self.host, self.virtual)
        return mapped


class OfShared(OfResource):
    """Shared objects; one that leaves the virtual cluster in Strict is deleted for its clients.

    An event does not say whose the object was before. It is one of the names that the virtual
    cluster is given (SharedKinds), so that nothing is said of the objects of others.
    """

    def map_event(self, decoded: Object, view: View) -> Object | Unknown | None:
        """Map one event; of what others still have, only the identity is shown."""
        mapped = super().map_event(decoded, view)
        obj = decoded.get("object")
        if mapped is not None or decoded.get("type") != _MODIFIED or not isinstance(obj, dict):
            return mapped
        name = f"{self.info.group}/{self.info.kind}/{text_at(obj, 'metadata', 'name')}"
        if is_table(obj) or view.context().refuses(Guard.SHARED_KINDS, name):
            return None
        metadata = {key: obj["metadata"][key] for key in _IDENTITY if key in obj["metadata"]}
        head = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
        return {"type": _DELETED, "object": {**head, "metadata": metadata}}


def is_status(obj: Object) -> bool:
    """Whether an answer is a Status."""
    return obj.get("kind") == "Status" and obj.get("apiVersion") == "v1"


def entries_of(decoded: Object) -> list[Object]:
    """Return the objects of a list or of the rows of a Table."""
    return objects_of(decoded) if is_table(decoded) else maps_at(decoded, "items")
