"""Tables: rows of the virtual cluster only, cells in its names (G-46)."""

from collections.abc import Callable, Mapping
from typing import Any

from karmada_vc_agent.features.gateway.mapping.exchange import KindInfo
from karmada_vc_agent.features.gateway.mapping.membership import Membership
from karmada_vc_agent.features.gateway.mapping.reading import ObjectReader, is_readable
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind, Object, dig
from karmada_vc_agent.model.rbac_rule import BUILT_INS

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

    def map(self, table: Object, membership: Membership, reader: ObjectReader) -> None:
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

    def _take(self, row: Object, membership: Membership, reader: ObjectReader) -> bool:
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
