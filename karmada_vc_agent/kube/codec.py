"""Decodes lists and watch events into objects; an unreadable one does not affect its neighbours.

What orjson and msgspec reject is read here: a pattern matches brackets and strings, so that any
depth can be cut off, and a list split into its items.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import orjson

from karmada_vc_agent.kube.errors import UnreadableError
from karmada_vc_agent.model.objects import (
    WRITABLE_LEVELS,
    Object,
    dig,
    may_be_deeper_than,
    size_of,
)

READ_LEVELS = 260
"""Deeper values are read as null. Deeper than can be encoded: what was cut is never sent."""
_HEAD_LEVELS = 3
BRACKETS_AT_ONCE = 2_000
"""Brackets at a time: 3 ms."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_BRACKET = re.compile(rb'[^][{}"]*+(?:' + _STRING + rb'[^][{}"]*+)*+[][{}]', re.DOTALL)
"""From outside of a string to the next bracket, skipping strings."""
_IS_ITEMS = re.compile(rb'"items"\s*:\s*\Z')
_KEY_LENGTH = 64
"""Where to search for the key of a list: no encoder writes it with more white space."""
_LIST_BRACKET = ord("[")
_OPEN_BRACKETS = frozenset(b"[{")


def is_too_deep(value: Any, text: bytes) -> bool:
    """Return whether a value is nested deeper than can be encoded again; text: its source."""
    return may_be_deeper_than(WRITABLE_LEVELS, text) and size_of(value) is None


def decode_json(content: bytes) -> tuple[Any, bool]:
    """Decode with null for values deeper than LEVELS; return also whether there are any.

    Raises orjson.JSONDecodeError.
    """
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


def decode_head(content: bytes) -> Any:
    """Decode the first levels of an object whose rest cannot be read; None if there are none."""
    try:
        text = cut_deep(content, _HEAD_LEVELS).decode(errors="replace")
        return orjson.loads(text.encode())
    except ValueError:
        return None


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


def split_list(content: bytes) -> tuple[bytes, list[bytes]]:
    """Return a list without its items, and each item by itself."""
    items: list[bytes] = []
    depth = begins = array = 0
    for at in brackets(content):
        if content[at] in _OPEN_BRACKETS:
            depth += 1
            before = max(0, at - _KEY_LENGTH)
            if (
                depth == 2
                and content[at] == _LIST_BRACKET
                and _IS_ITEMS.search(content, before, at)
            ):
                array = at
            elif array and depth == 3:
                begins = at
        else:
            if array and depth == 3:
                items.append(content[begins : at + 1])
            elif array and depth == 2:
                return content[:array] + b"[]" + content[at + 1 :], items
            depth -= 1
    return content, items


def brackets(content: bytes) -> Iterator[int]:
    """Yield the positions of brackets outside of strings; stop at an unterminated string."""
    place = _TO_BRACKET.match(content)
    while place is not None:
        yield place.end() - 1
        place = _TO_BRACKET.match(content, place.end())


T = TypeVar("T")
Key = tuple[str, str]

_CUT = f"nested deeper than {READ_LEVELS} levels; deeper values are read as null"
_STRUCT_FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)


class _Metadata(msgspec.Struct, rename="camel"):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _Shape(msgspec.Struct, rename="camel"):
    """What the code relies on; API servers guarantee it."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""


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


class _RawList(msgspec.Struct, rename="camel"):
    items: list[msgspec.Raw] | None = None
    api_version: Any = None
    kind: Any = None
    metadata: Any = None


_LIST = msgspec.json.Decoder(_RawList)


def split_page(content: bytes) -> tuple[Object, list[msgspec.Raw]]:
    """Return a list without its items, and these, each still to be decoded. Raises ValueError."""
    try:
        answer = _LIST.decode(content)
    except _STRUCT_FAULTS as error:
        raise ValueError(str(error)) from error
    head = {"apiVersion": answer.api_version, "kind": answer.kind, "metadata": answer.metadata}
    return head, answer.items or []


class _EventHead(msgspec.Struct):
    type: str
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(_EventHead)


class Codec(ABC, Generic[T]):
    """Decodes one type of objects for a reflector."""

    def page(self, content: bytes) -> Page[T]:
        """Decode one page. Raises ValueError if it cannot be read as a whole."""
        head, items = split_page(content)
        # Each is trimmed before the next one is decoded: decoded, a page may be 20 times as large.
        return self._page(head, map(bytes, items), _read_whole, self.trim)

    def page_by_items(self, content: bytes) -> Page[T]:
        """Decode one page item by item, which is slow, and trim none. Raises UnreadableError."""
        frame, items = split_list(content)
        return self._page(_frame(frame), items, _read, lambda item: item)

    def _page(
        self, head: Object, parts: Iterable[bytes], read: _Read, keep: Callable[[T], T]
    ) -> Page[T]:
        items: list[T] = []
        unreadable: list[Unreadable] = []
        for part in parts:
            item, fault = self._decode(part, read)
            if fault is not None:
                unreadable.append(fault)
            if item is not None:
                items.append(keep(item))
        return Page(items, *_place_in_list(head), unreadable)

    def event(self, line: bytes) -> WatchEvent[T]:
        """Decode one line of a watch. Raises UnreadableError if it is not an event."""
        kind, content, read = _parts_of_event(line)
        if kind == "ERROR":
            return WatchEvent(kind, None, error=content)
        if kind == "BOOKMARK":
            bookmark, _ = read(content)
            return WatchEvent(kind, None, _text(dig(bookmark, "metadata", "resourceVersion")))
        obj, fault = self._decode(content, read)
        if obj is None:
            version = fault.resource_version if fault is not None else ""
            return WatchEvent(kind, None, version, unreadable=fault)
        kept = obj if kind == "DELETED" else self.trim(obj)
        return WatchEvent(kind, kept, self.resource_version(obj), unreadable=fault)

    @abstractmethod
    def _decode(self, content: bytes, read: _Read) -> tuple[T | None, Unreadable | None]:
        """Return an object, and why it cannot be read, or only in part. head: of its list."""

    def trim(self, obj: T) -> T:
        """Return what is kept of an object; once for one that was trimmed already."""
        return obj

    @abstractmethod
    def key(self, obj: T) -> Key: ...

    @abstractmethod
    def resource_version(self, obj: T) -> str: ...

    @abstractmethod
    def uid(self, obj: T) -> str: ...


class RawCodec(Codec[Object]):
    """Objects as dicts, without managedFields, with apiVersion and kind even from lists.

    shape: a Struct of the fields that are taken for granted.
    """

    def __init__(self, shape: type[msgspec.Struct] | None = None) -> None:
        self._shape = shape

    def _decode(self, content: bytes, read: _Read) -> tuple[Object | None, Unreadable | None]:
        obj, partial = read(content)
        reason = self._malformed(obj)
        fault = _unreadable(obj, partial or reason) if reason or partial else None
        if reason or partial == _ILLEGIBLE:
            return None, fault
        return obj, fault

    def _page(
        self, head: Object, parts: Iterable[bytes], read: _Read, keep: Callable[[Object], Object]
    ) -> Page[Object]:
        kind = str(head.get("kind") or "").removesuffix("List")

        def complete(item: Object) -> Object:
            # Built-in kinds omit both inside a list.
            item.setdefault("apiVersion", head.get("apiVersion"))
            item.setdefault("kind", kind)
            return keep(item)

        return super()._page(head, parts, read, complete)

    def trim(self, obj: Object) -> Object:
        """Return what is kept of an object, which may be changed."""
        obj["metadata"].pop("managedFields", None)
        return obj

    def _malformed(self, obj: Any) -> str:
        """Return why something cannot be stored as an object, "" if it can."""
        try:
            msgspec.convert(obj, _Shape)
            if self._shape is not None:
                msgspec.convert(obj, self._shape)
        except msgspec.ValidationError as error:
            return str(error)
        return ""

    def key(self, obj: Object) -> Key:
        metadata = obj["metadata"]
        return metadata.get("namespace") or "", metadata["name"]

    def resource_version(self, obj: Object) -> str:
        return obj["metadata"].get("resourceVersion") or ""

    def uid(self, obj: Object) -> str:
        return obj["metadata"].get("uid") or ""


class _Meta(Protocol):
    name: str
    namespace: str
    uid: str
    resource_version: str


class _HasMeta(Protocol):
    @property
    def metadata(self) -> _Meta: ...


S = TypeVar("S", bound=_HasMeta)


class StructCodec(Codec[S]):
    """Objects as structs of model/core.py; read-only."""

    def __init__(self, kind: type[S]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def _decode(self, content: bytes, read: _Read) -> tuple[S | None, Unreadable | None]:
        try:
            return self._decoder.decode(content), None
        except _STRUCT_FAULTS as error:
            obj, partial = read(content)
            return None, _unreadable(obj, partial or str(error))

    def key(self, obj: S) -> Key:
        return obj.metadata.namespace, obj.metadata.name

    def resource_version(self, obj: S) -> str:
        return obj.metadata.resource_version

    def uid(self, obj: S) -> str:
        return obj.metadata.uid


def _parts_of_event(line: bytes) -> tuple[str, bytes, _Read]:
    """Return type and object of a line of a watch, and what reads that. Raises UnreadableError."""
    try:
        head = _EVENT.decode(line)
    except _STRUCT_FAULTS:
        event, partial = _read(line)
    else:
        return head.type, bytes(head.object), _read
    kind, obj = dig(event, "type"), dig(event, "object")
    if not isinstance(kind, str):
        raise UnreadableError("a line of a watch is not an event")
    return kind, b"", lambda _: (obj, partial)


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
        return decode_head(content), _ILLEGIBLE
    return value, _CUT if is_cut else ""


def _frame(content: bytes) -> Object:
    try:
        answer = orjson.loads(content)
    except ValueError as error:
        raise UnreadableError(f"the response is not a list: {error}") from error
    if not isinstance(answer, dict) or not isinstance(dig(answer, "items") or [], list):
        raise UnreadableError("the response is not a list")
    return answer


def _place_in_list(answer: Object) -> tuple[str, str]:
    """Return resourceVersion and continue token of a list."""
    version, token = (dig(answer, "metadata", name) for name in ("resourceVersion", "continue"))
    return _text(version), _text(token)


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
