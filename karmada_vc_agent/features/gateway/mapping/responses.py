"""How answers of the host are mapped, Tables too (G-43 to G-50)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from karmada_vc_agent.features.gateway.mapping import refusals
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindInfo,
    PagePosition,
    Refused,
    ResponseKind,
    TokenScope,
    Unknown,
    View,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import (
    ObjectFilter,
    ObjectReader,
    Texts,
    claims_with_anchor,
    is_readable,
    reach_of,
    unknown_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.partial_decoder import PartialDecoder
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import BUILT_INS
from karmada_vc_agent.model.objects import GroupKind, Object, dig, maps_at, text_at
from karmada_vc_agent.model.virtual_cluster import Guard

Cell = Callable[[Any, Object, ObjectReader], Any]
"""(cell, the mapped object of the row, reader) -> the cell for the client."""


def _own_name(_cell: Any, obj: Object, _reader: ObjectReader) -> Any:
    return dig(obj, "metadata", "name")


def _text(cell: Any, _obj: Object, reader: ObjectReader) -> Any:
    return reader.texts().text(cell) if isinstance(cell, str) and cell else cell


def _role(cell: Any, obj: Object, reader: ObjectReader) -> Any:
    kind, _, name = cell.partition("/") if isinstance(cell, str) else ("", "", "")
    is_ours = kind == kinds.CLUSTER_ROLE.kind and name in BUILT_INS
    return f"{kind}/{BUILT_INS[name]}" if is_ours else _text(cell, obj, reader)


_NAME = {"Name": _own_name}
_SUBJECTS: Mapping[str, Cell] = {
    "Name": _own_name,
    "Role": _role,
    "Users": _text,
    "Groups": _text,
    "ServiceAccounts": _text,
}
CELLS: Mapping[GroupKind, Mapping[str, Cell]] = {
    kinds.NAMESPACE: _NAME,
    kinds.CLUSTER_ROLE: _NAME,
    kinds.CLUSTER_ROLE_BINDING: _SUBJECTS,
    kinds.ROLE_BINDING: _SUBJECTS,
    kinds.PERSISTENT_VOLUME: {"Name": _own_name, "Claim": _text},
    kinds.PERSISTENT_VOLUME_CLAIM: {"Volume": _text},
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): {
        "Name": _own_name,
        "VolumeSnapshotNamespace": _text,
    },
    kinds.SERVICE: {"External-IP": _text},
    GroupKind("", "Event"): {"Message": _text},
    GroupKind("events.k8s.io", "Event"): {"Message": _text},
}
"""Kind -> columns with names of the host, and how they are mapped."""


class Tables:
    """Maps the Tables of one answer; keeps columns for the events of a watch.

    without_objects: the client requested rows without objects.
    """

    def __init__(self, info: KindInfo, *, without_objects: bool = False) -> None:
        self._cells = CELLS.get(GroupKind(info.group, info.kind), {})
        self._without_objects = without_objects
        self._columns: list[Object] = []
        self._names: list[str] = []
        self._are_shown = False

    def map(self, table: Object, membership: ObjectFilter, reader: ObjectReader) -> None:
        """Keep, in place, the rows of the virtual cluster, mapped."""
        self._learn(table)
        table["rows"] = [row for row in rows_of(table) if self._take(row, membership, reader)]

    def show_columns(self, table: Object) -> None:
        """Give the first event that is passed on the columns, which only the first one has."""
        self._learn(table)
        if not self._are_shown and self._columns:
            table["columnDefinitions"] = self._columns
        self._are_shown = True

    def strip(self, table: Object) -> None:
        """Remove, in place, the objects that the client did not ask for."""
        if self._without_objects:
            for row in rows_of(table):
                row["object"] = None

    def _learn(self, table: Object) -> None:
        columns = table.get("columnDefinitions")
        if columns:
            self._columns = columns
            self._names = [str(dig(column, "name")) for column in columns]

    def _take(self, row: Object, membership: ObjectFilter, reader: ObjectReader) -> bool:
        obj = row.get("object")
        if not isinstance(obj, dict) or not is_readable(obj):
            return False
        if not membership.take(obj, reader):
            return False
        if self._cells:
            raw = row.get("cells")
            cells: list[Any] = raw if isinstance(raw, list) else []
            for index, name in enumerate(self._names[: len(cells)]):
                change = self._cells.get(name)
                if change is not None:
                    cells[index] = change(cells[index], obj, reader)
        return True


def is_table(obj: Object) -> bool:
    """Whether an answer is a Table."""
    return obj.get("kind") == "Table" and str(obj.get("apiVersion")).startswith("meta.k8s.io/")


def rows_of(table: Object) -> list[Object]:
    """Return the rows that are maps."""
    rows = table.get("rows")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def objects_of(table: Object) -> list[Object]:
    """Return the objects of the rows."""
    objects = (row.get("object") for row in rows_of(table))
    return [obj for obj in objects if isinstance(obj, dict)]


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
        membership: ObjectFilter,
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
