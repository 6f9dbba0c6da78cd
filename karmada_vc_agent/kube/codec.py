"""Decodes lists and watch events into objects; an unreadable one does not affect its neighbours.

What is nested deeper than orjson and msgspec can read is cut off by a pattern of brackets and
strings.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import orjson

from karmada_vc_agent.kube.errors import UnreadableError
from karmada_vc_agent.model.core import Shape
from karmada_vc_agent.model.objects import WRITABLE_LEVELS, Object, dig, may_be_deeper_than, size_of

READ_LEVELS = 260
"""Deeper values are read as null. Deeper than can be encoded: what was cut is never sent."""
BRACKETS_AT_ONCE = 2_000
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_BRACKET = re.compile(rb'[^][{}"]*+(?:' + _STRING + rb'[^][{}"]*+)*+[][{}]', re.DOTALL)
"""From outside of a string to the next bracket, skipping strings."""
_LEVELS_OF_ITEMS = 2
_PLACE_IN_LIST = ("resourceVersion", "continue")
_OPEN_BRACKETS = frozenset(b"[{")


def is_too_deep(value: Any, text: bytes) -> bool:
    """Return whether a value is nested deeper than can be encoded again; text: its source."""
    return may_be_deeper_than(WRITABLE_LEVELS, text) and size_of(value) is None


def decode_json(content: bytes) -> tuple[Any, bool]:
    """Return JSON with null for what is too deep, and whether any is. Raises JSONDecodeError."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        shallow = cut_deep(content, READ_LEVELS)
        if len(shallow) == len(content):
            raise
        return orjson.loads(shallow), True
    if is_too_deep(value, content):
        return orjson.loads(cut_deep(content, READ_LEVELS)), True
    return value, False


def cut_deep(content: bytes, levels: int) -> bytes:
    """Return JSON with null in place of every map and list nested deeper than `levels`."""
    return b"".join(shallow_parts(content, levels, b"null"))


def shallow_parts(content: bytes, levels: int, mark: bytes) -> Iterator[bytes]:
    """Yield the parts of JSON with a mark for what is nested deeper, one a STEP at least."""
    depth = begins = done = 0
    for number, at in enumerate(brackets(content), 1):
        if content[at] in _OPEN_BRACKETS:
            depth += 1
            if depth == levels + 1:
                begins = at
        else:
            if depth == levels + 1:
                yield content[done:begins] + mark
                done = at + 1
            depth -= 1
        if number % BRACKETS_AT_ONCE == 0:
            yield b""
    yield content[done:]


def brackets(content: bytes) -> Iterator[int]:
    """Yield the positions of brackets outside of strings; stop at an unterminated string."""
    place = _TO_BRACKET.match(content)
    while place is not None:
        yield place.end() - 1
        place = _TO_BRACKET.match(content, place.end())


T = TypeVar("T", bound=Any)
Key = tuple[str, str]

_CUT = f"nested deeper than {READ_LEVELS} levels; deeper values are read as null"
_STRUCT_FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)


class _Named(msgspec.Struct):
    metadata: dict[str, Any]


_NAMED = msgspec.json.Decoder(_Named)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be read, or only in part; key: None without a legible name."""

    key: Key | None
    reason: str
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. continue_token: "" on the last one. unreadable: also in part."""

    items: list[T]
    resource_version: str
    continue_token: str
    unreadable: list[Unreadable] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """ADDED, MODIFIED, DELETED with an object; BOOKMARK with a version; ERROR with a Status.

    unreadable: why the object could not be read; obj is None then, or the readable part.
    """

    type: str
    obj: T | None
    resource_version: str = ""
    error: bytes = b""
    unreadable: Unreadable | None = None


_ILLEGIBLE = "it is not valid JSON"
_Read: TypeAlias = Callable[[bytes], tuple[Any, str]]
"""Returns what can be read of JSON, and why that is not all of it; "" = it is all."""


class _List(msgspec.Struct, rename="camel"):
    items: list[msgspec.Raw] | None = None
    api_version: Any = None
    kind: Any = None
    metadata: Any = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LIST, _EVENT = msgspec.json.Decoder(_List), msgspec.json.Decoder(_Event)


def split_page(content: bytes) -> tuple[Object, list[msgspec.Raw]]:
    """Return a list without its items, and these, each still to be decoded. Raises ValueError."""
    try:
        answer = _LIST.decode(content)
    except _STRUCT_FAULTS as error:
        raise ValueError(str(error)) from error
    head = {"apiVersion": answer.api_version, "kind": answer.kind, "metadata": answer.metadata}
    return head, answer.items or []


class Codec(Generic[T]):
    """Decodes one type of objects for a reflector: structs of model/core.py, read-only."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def page(self, content: bytes, *, is_odd: bool = False) -> Page[T]:
        """Decode one page. is_odd: item by item. Raises ValueError, UnreadableError if is_odd."""
        if not is_odd:
            return self._page(*split_page(content), _read_whole, self.trim)
        try:
            head, items = split_page(cut_deep(content, READ_LEVELS + _LEVELS_OF_ITEMS))
        except ValueError as error:
            raise UnreadableError(f"the response is not a list: {error}") from error
        return self._page(head, items, _read, lambda item: item)

    def _page(
        self, head: Object, parts: Iterable[msgspec.Raw], read: _Read, keep: Callable[[T], T]
    ) -> Page[T]:
        items: list[T] = []
        unreadable: list[Unreadable] = []
        kind = str(head["kind"] or "").removesuffix("List")
        # Each is trimmed before the next one is decoded: decoded, a page may be 20 times as large.
        for part in parts:
            item, fault = self._decode(bytes(part), read)
            if fault is not None:
                unreadable.append(fault)
            if isinstance(item, dict):  # built-in kinds omit both inside a list
                item.setdefault("apiVersion", head["apiVersion"])
                item.setdefault("kind", kind)
            if item is not None:
                items.append(keep(item))
        version, token = (_text(dig(head, "metadata", key)) for key in _PLACE_IN_LIST)
        return Page(items, version, token, unreadable)

    def event(self, line: bytes) -> WatchEvent[T]:
        """Decode one line of a watch. Raises UnreadableError if it is not an event."""
        try:
            try:
                event = _EVENT.decode(line)
            except _STRUCT_FAULTS:
                event = _EVENT.decode(cut_deep(line, READ_LEVELS + 1))
        except _STRUCT_FAULTS as error:
            raise UnreadableError(f"a line of a watch is not an event: {error}") from error
        kind, content = event.type, bytes(event.object)
        if kind == "ERROR":
            return WatchEvent(kind, None, error=content)
        if kind == "BOOKMARK":
            bookmark, _ = _read(content)
            return WatchEvent(kind, None, _text(dig(bookmark, "metadata", "resourceVersion")))
        obj, fault = self._decode(content, _read)
        if obj is None:
            version = fault.resource_version if fault is not None else ""
            return WatchEvent(kind, None, version, unreadable=fault)
        kept = obj if kind == "DELETED" else self.trim(obj)
        return WatchEvent(kind, kept, self.resource_version(obj), unreadable=fault)

    def _decode(self, content: bytes, read: _Read) -> tuple[T | None, Unreadable | None]:
        try:
            return self._decoder.decode(content), None
        except _STRUCT_FAULTS as error:
            obj, partial = read(content)
            return None, _unreadable(obj, partial or str(error))

    def trim(self, obj: T) -> T:
        """Return what is kept of an object; once for one that was trimmed already."""
        return obj

    def key(self, obj: T) -> Key:
        return obj.metadata.namespace, obj.metadata.name

    def resource_version(self, obj: T) -> str:
        return str(obj.metadata.resource_version)

    def uid(self, obj: T) -> str:
        return str(obj.metadata.uid)


class RawCodec(Codec[Object]):
    """Objects as dicts, without managedFields, with apiVersion and kind even from lists."""

    shape = Shape

    def __init__(self) -> None:
        """Decode dicts, which need no struct."""

    def _decode(self, content: bytes, read: _Read) -> tuple[Object | None, Unreadable | None]:
        obj, partial = read(content)
        reason = ""
        try:
            msgspec.convert(obj, self.shape)
        except msgspec.ValidationError as error:
            reason = str(error)
        fault = _unreadable(obj, partial or reason) if reason or partial else None
        if reason or partial == _ILLEGIBLE:
            return None, fault
        return obj, fault

    def trim(self, obj: Object) -> Object:
        obj["metadata"].pop("managedFields", None)
        return obj

    def key(self, obj: Object) -> Key:
        metadata = obj["metadata"]
        return metadata.get("namespace") or "", metadata["name"]

    def resource_version(self, obj: Object) -> str:
        return obj["metadata"].get("resourceVersion") or ""

    def uid(self, obj: Object) -> str:
        return obj["metadata"].get("uid") or ""


def _read_whole(content: bytes) -> tuple[Any, str]:
    """Decode JSON that can be encoded again. Raises ValueError."""
    value = orjson.loads(content)
    if is_too_deep(value, content):
        raise ValueError(_CUT)
    return value, ""


def _read(content: bytes) -> tuple[Any, str]:
    """Return the readable part of an object, and why it is not all; "" = all of it."""
    try:
        value, is_cut = decode_json(content)
    except ValueError:
        with suppress(*_STRUCT_FAULTS):
            return {"metadata": _NAMED.decode(content).metadata}, _ILLEGIBLE
        return None, _ILLEGIBLE
    return value, _CUT if is_cut else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _unreadable(obj: Any, reason: str) -> Unreadable:
    metadata = dig(obj, "metadata")
    name = _text(dig(metadata, "name"))
    return Unreadable(
        (_text(dig(metadata, "namespace")), name) if name else None,
        reason,
        _text(dig(metadata, "uid")),
        _text(dig(metadata, "resourceVersion")),
    )
