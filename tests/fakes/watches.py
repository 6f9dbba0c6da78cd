"""The watches that are open on a fake server, and what each of them is told."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.model.objects import Object, labels_of
from tests.fakes.storage import Change, Place


@dataclass
class Watch:
    """One open watch; None in `lines` ends it."""

    place: Place
    query: Mapping[str, str]
    lines: asyncio.Queue[Object | None] = field(default_factory=asyncio.Queue)


def tell(watch: Watch, change: Change) -> None:
    if watch.place.key[:2] != change.place.key[:2]:
        return
    if watch.place.namespace not in ("", change.place.namespace):
        return
    now = change.type != "DELETED" and is_selected_by(watch.query, change.obj)
    before = change.before is not None and is_selected_by(watch.query, change.before)
    if not now and not before:
        return
    kind = "DELETED" if not now else "MODIFIED" if before else "ADDED"
    watch.lines.put_nowait({"type": kind, "object": change.obj})


_NOT_IN = re.compile(r"(\S+) notin \((.*)\)")


def is_selected_by(query: Mapping[str, str], obj: Object) -> bool:
    """Whether selectors of a query select an object; of fields, metadata.name only."""
    field, _, name = query.get("fieldSelector", "").partition("=")
    is_named = field != "metadata.name" or obj["metadata"]["name"] == name
    return is_named and selects(query.get("labelSelector"), obj)


def selects(selector: str | None, obj: Object) -> bool:
    labels = labels_of(obj)
    absent = _NOT_IN.fullmatch(selector or "")
    if absent:
        return labels.get(absent[1]) not in absent[2].split(",")
    for part in (selector or "").split(","):
        key, equals, value = part.partition("=")
        if part and not (labels.get(key) == value if equals else key in labels):
            return False
    return True
