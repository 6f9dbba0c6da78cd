"""How answers of the host are mapped, Tables too (G-43 to G-50)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from karmada_vc_agent.features.gateway.mapping import refusals
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ResponseKind,
    Unknown,
    View,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import (
    SHARED_OBJECTS,
    ObjectFilter,
    ObjectReader,
    is_readable,
    reach_of,
    unknown_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.partial_decoder import PartialDecoder
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo, RefusalError
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import BUILT_INS
from karmada_vc_agent.model.objects import GroupKind, Object, dig, maps_at, text_at
from karmada_vc_agent.model.virtual_cluster import Guard

_SUBJECTS = ("Role", "Users", "Groups", "ServiceAccounts")
_TEXT_COLUMNS: Mapping[GroupKind, tuple[str, ...]] = {
    kinds.CLUSTER_ROLE_BINDING: _SUBJECTS,
    kinds.ROLE_BINDING: _SUBJECTS,
    kinds.PERSISTENT_VOLUME: ("Claim",),
    kinds.PERSISTENT_VOLUME_CLAIM: ("Volume",),
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): ("VolumeSnapshotNamespace",),
    kinds.SERVICE: ("External-IP",),
    GroupKind("", "Event"): ("Message",),
    GroupKind("events.k8s.io", "Event"): ("Message",),
}
"""Kind -> columns with names of the host."""


def _text_cell(column: str, cell: Any, reader: ObjectReader) -> Any:
    """Return a cell of these columns for the client."""
    if not isinstance(cell, str) or not cell:
        return cell
    kind, _, name = cell.partition("/")
    if column == "Role" and kind == kinds.CLUSTER_ROLE.kind and name in BUILT_INS:
        return f"{kind}/{BUILT_INS[name]}"
    return reader.text(cell)


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

    kind: of an answer below 300. OPAQUE: bytes pass untouched; else map() is for the body, of WATCH
    for each line. Answers from 300 on, whatever the kind: map_status() if the body is a JSON
    Status, else bytes pass. All functions change what they are given, and return it.
    """

    kind = ResponseKind.OPAQUE

    def decoder(self, _view: View) -> PartialDecoder:
        """Return what decodes lists and events; here all of them."""
        return PartialDecoder()

    def map(self, decoded: Object, _view: View) -> Object | Unknown | None:
        """Map what the answer is; None: not of this virtual cluster, so not_found(), or dropped."""
        return decoded

    def map_status(self, decoded: Object, view: View) -> Object:
        """Map a Status (G-48)."""
        return ObjectReader(view).status(decoded)

    def not_found(self) -> RefusalError:
        """Return a 404."""
        return refusals.unknown_resource()


@dataclass(kw_only=True, eq=False)
class OfResource(Response):
    """The answer to a request for one resource.

    scope: of its `continue` tokens. name: of the requested object.
    hides_count: whether the number of what remains counts objects of others (G-40).
    without_objects: the client requested rows alone. renamed_lists: kind of a list on the host ->
    its type for the client. written: names of a Namespace that is written, on the host and the
    virtual one, whether it is claimed by now or not.
    """

    info: KindInfo
    members: ObjectFilter
    kind: ResponseKind
    name: str
    scope: tuple[str, ...]
    hides_count: bool = False
    without_objects: bool = False
    renamed_lists: Mapping[str, Object] = field(default_factory=dict)
    written: tuple[str, str] | None = None
    _columns: list[Object] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _are_columns_shown: bool = False

    def decoder(self, view: View) -> PartialDecoder:
        """Return what decodes what restoring objects of the kind looks at."""
        return PartialDecoder(reach_of(self.info, view))

    def map(self, decoded: Object, view: View) -> Object | Unknown | None:
        """Map an object, a list or parts of one, or one event of a watch."""
        if self.kind is ResponseKind.LIST:
            return self._map_list(decoded, view)
        if self.kind is ResponseKind.WATCH:
            return self._map_event(decoded, view)
        return self._map_object(decoded, view)

    def map_status(self, decoded: Object, view: View) -> Object:
        """Map a Status, also one about a Namespace that no watch reported yet."""
        mapped = super().map_status(decoded, view)
        if self.written is not None:
            host, virtual = self.written
            details = mapped.get("details")
            if isinstance(details, dict) and details.get("name") == host:
                details["name"] = virtual
            if isinstance(mapped.get("message"), str):
                mapped["message"] = mapped["message"].replace(host, virtual)
        return mapped

    def not_found(self) -> RefusalError:
        """Return the 404 for the requested object."""
        return refusals.not_found(self.info, self.name)

    def filter(self, decoded: Object, reader: ObjectReader) -> None:
        """Keep, in place, what is of the virtual cluster, mapped."""
        if is_table(decoded):
            self._columns = decoded.get("columnDefinitions") or self._columns
            self._names = [str(dig(column, "name")) for column in self._columns]
            decoded["rows"] = [row for row in rows_of(decoded) if self._takes_row(row, reader)]
            self._strip(decoded)
        elif isinstance(decoded.get("items"), list):
            decoded["items"] = [item for item in decoded["items"] if self._takes(item, reader)]
        decoded.update(self.renamed_lists.get(text_at(decoded, "kind"), {}))

    def seal(self, token: str, view: View) -> str:
        """Return a `continue` token for clients (G-40a)."""
        return view.sealer().seal(token, self.scope)

    def _map_object(self, decoded: Object, view: View) -> Object | Unknown | None:
        """Map an object, a Table of one, a Status, or the list that a deletion returns."""
        if is_status(decoded):
            return self.map_status(decoded, view)
        if is_table(decoded):
            table = self._map_list(decoded, view)
            return table if isinstance(table, Unknown) or table["rows"] else None
        if decoded.get("kind") != self.info.kind and isinstance(decoded.get("items"), list):
            return self._map_list(decoded, view)
        return self._take(decoded, decoded, view)

    def _map_list(self, decoded: Object, view: View) -> Object | Unknown:
        unknown = unknown_namespaces(entries_of(decoded), self.members, view)
        if unknown is not None:
            return unknown
        self.filter(decoded, ObjectReader(view, self.info))
        metadata = decoded.get("metadata")
        if isinstance(metadata, dict):
            if token := text_at(metadata, "continue"):
                metadata["continue"] = self.seal(token, view)
            if self.hides_count:
                metadata.pop("remainingItemCount", None)
        return decoded

    def _map_event(self, decoded: Object, view: View) -> Object | Unknown | None:
        """Map `{"type", "object"}`; bookmarks pass (G-47)."""
        obj, kind = decoded.get("object"), decoded.get("type")
        if not isinstance(obj, dict):
            return None
        if kind == _ERROR:
            return {**decoded, "object": self.map_status(obj, view)}
        if is_table(obj):
            return self._map_table_event(decoded, obj, view)
        if kind == _BOOKMARK:
            return decoded
        mapped = self._take(obj, decoded, view)
        if mapped is None and kind == _MODIFIED and self.members is SHARED_OBJECTS:
            return self._deleted(obj, view)
        return mapped

    def _map_table_event(
        self, decoded: Object, table: Object, view: View
    ) -> Object | Unknown | None:
        """Map one; only the first that is passed on has columns."""
        if decoded.get("type") != _BOOKMARK:
            mapped = self._map_list(table, view)
            if isinstance(mapped, Unknown) or not table["rows"]:
                return mapped if isinstance(mapped, Unknown) else None
        self._columns = table.get("columnDefinitions") or self._columns
        if not self._are_columns_shown and self._columns:
            table["columnDefinitions"] = self._columns
        self._are_columns_shown = True
        self._strip(table)
        return decoded

    def _deleted(self, obj: Object, view: View) -> Object | None:
        """Return that a shared object was deleted, for one that may have left in Strict.

        An event does not say whose the object was before. It is one of the names that the virtual
        cluster is given (SharedKinds), so that nothing is said of the objects of others.
        """
        name = f"{self.info.group}/{self.info.kind}/{text_at(obj, 'metadata', 'name')}"
        if view.context().refuses(Guard.SHARED_KINDS, name):
            return None
        metadata = {key: obj["metadata"][key] for key in _IDENTITY if key in obj["metadata"]}
        head = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
        return {"type": _DELETED, "object": {**head, "metadata": metadata}}

    def _take(self, obj: Object, whole: Object, view: View) -> Object | Unknown | None:
        """Map one object, and return what it is in, or is itself; None: it is not shown."""
        if not is_readable(obj):
            return None
        unknown = unknown_namespaces([obj], self.members, view)
        if unknown is not None:
            return unknown
        return whole if self.members.take(obj, ObjectReader(view, self.info)) else None

    def _takes(self, obj: Any, reader: ObjectReader) -> bool:
        return is_readable(obj) and self.members.take(obj, reader)

    def _takes_row(self, row: Object, reader: ObjectReader) -> bool:
        obj = row.get("object")
        if not isinstance(obj, dict) or not self._takes(obj, reader):
            return False
        raw = row.get("cells")
        cells: list[Any] = raw if isinstance(raw, list) else []
        texts = _TEXT_COLUMNS.get(self.info.gvk.group_kind, ())
        for index, column in enumerate(self._names[: len(cells)]):
            if column in texts:
                cells[index] = _text_cell(column, cells[index], reader)
            elif column == "Name" and index == 0:
                cells[index] = dig(obj, "metadata", "name")
        return True

    def _strip(self, table: Object) -> None:
        """Remove, in place, the objects that the client did not ask for."""
        if self.without_objects:
            for row in rows_of(table):
                row["object"] = None


def is_status(obj: Object) -> bool:
    """Whether an answer is a Status."""
    return obj.get("kind") == "Status" and obj.get("apiVersion") == "v1"


def entries_of(decoded: Object) -> list[Object]:
    """Return the objects of a list or of the rows of a Table."""
    return objects_of(decoded) if is_table(decoded) else maps_at(decoded, "items")
