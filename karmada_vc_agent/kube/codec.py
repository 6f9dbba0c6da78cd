"""Decodes lists and watch events into objects; broken or too deep ones by themselves.

Each object is decoded by itself: an unreadable one does not affect its neighbours.

The fast path is orjson. Only what it rejects is read here: a pattern matches brackets and strings,
so that any depth can be cut off, and a list split into its items.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import orjson

from karmada_vc_agent.kube.errors import UnreadableError
from karmada_vc_agent.model.objects import (
    WRITABLE_LEVELS,
    Object,
    dig,
    is_map_of_texts,
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(v, kind) for v in value)


_METADATA: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("namespace", _is_text),
    ("uid", _is_text),
    ("resourceVersion", _is_text),
    ("creationTimestamp", _is_text),
    ("deletionTimestamp", _is_text),
    ("labels", is_map_of_texts),
    ("annotations", is_map_of_texts),
    ("finalizers", _is_list_of(str)),
    ("ownerReferences", _is_list_of(dict)),
)
"""The shape of metadata that the code relies on; API servers guarantee it."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be read, or only in part; key: None without a legible name."""

    key: Key | None
    reason: str
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; continue_token is "" on the last one.

    unreadable: also of items that were read in part.
    """

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


class Codec(Protocol[T]):
    """Decodes one type of objects for a reflector."""

    def page(self, content: bytes) -> Page[T]:
        """Decode one page. Raises ValueError if it cannot be read as a whole."""

    def page_by_items(self, content: bytes) -> Page[T]:
        """Decode one page item by item, which is slow, and trim none. Raises UnreadableError."""

    def trim(self, obj: T) -> T:
        """Return what is kept of an object; once for one that was trimmed already."""

    def event(self, line: bytes) -> WatchEvent[T]: ...

    def key(self, obj: T) -> tuple[str, str]: ...

    def resource_version(self, obj: T) -> str: ...

    def uid(self, obj: T) -> str: ...


_ILLEGIBLE = "it is not valid JSON"


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


class RawCodec:
    """Objects as dicts, without managedFields, with apiVersion and kind even from lists.

    shape: a Struct of the fields that are taken for granted; objects that do not fit are
    unreadable.
    """

    def __init__(self, shape: type[msgspec.Struct] | None = None) -> None:
        self._shape = shape

    def page(self, content: bytes) -> Page[Object]:
        """Decode one page. Raises ValueError if it cannot be read as a whole.

        Each item is trimmed before the next one is decoded: decoded, a page may be 20 times as
        large.
        """
        head, raw_items = split_page(content)
        items = ((_loads_sound(bytes(raw)), "") for raw in raw_items)
        return self._page(head, items, self.trim)

    def page_by_items(self, content: bytes) -> Page[Object]:
        """Decode one page item by item. Raises UnreadableError if it is not a list."""
        frame, raw_items = split_list(content)
        return self._page(_frame(frame), map(_read, raw_items), lambda item: item)

    def _page(
        self,
        answer: Object,
        parts: Iterable[tuple[Any, str]],
        keep: Callable[[Object], Object],
    ) -> Page[Object]:
        kind = str(answer.get("kind") or "").removesuffix("List")
        items: list[Object] = []
        unreadable: list[Unreadable] = []
        for item, partial in parts:
            reason = self._malformed(item)
            if reason or partial:
                unreadable.append(_unreadable(item, partial or reason or ""))
            if reason or partial == _ILLEGIBLE:
                continue
            # Built-in kinds omit both inside a list.
            item.setdefault("apiVersion", answer.get("apiVersion"))
            item.setdefault("kind", kind)
            items.append(keep(item))
        return Page(items, *_place_in_list(answer), unreadable)

    def event(self, line: bytes) -> WatchEvent[Object]:
        """Decode one line of a watch. Raises UnreadableError if it is not an event."""
        try:
            event, partial = _loads_sound(line), ""
        except ValueError:
            event, partial = _read(line)
        kind, obj = dig(event, "type"), dig(event, "object")
        if not isinstance(kind, str):
            raise UnreadableError("a line of a watch is not an event")
        if kind == "ERROR":
            error = b"" if is_too_deep(obj, line) else orjson.dumps(obj)
            return WatchEvent(kind, None, error=error)
        version = _text(dig(obj, "metadata", "resourceVersion"))
        if kind == "BOOKMARK":
            return WatchEvent(kind, None, version)
        reason = self._malformed(obj)
        unreadable = _unreadable(obj, partial or reason or "") if reason or partial else None
        if reason or partial == _ILLEGIBLE:
            return WatchEvent(kind, None, version, unreadable=unreadable)
        kept = obj if kind == "DELETED" else self.trim(obj)
        return WatchEvent(kind, kept, version, unreadable=unreadable)

    def trim(self, obj: Object) -> Object:
        """Return what is kept of an object, which may be changed."""
        obj["metadata"].pop("managedFields", None)
        return obj

    def _malformed(self, obj: Any) -> str | None:
        """Return why something cannot be stored as an object, or None."""
        reason = malformed_metadata(obj)
        if reason is not None or self._shape is None:
            return reason
        try:
            msgspec.convert(obj, self._shape)
        except msgspec.ValidationError as error:
            return str(error)
        return None

    def key(self, obj: Object) -> tuple[str, str]:
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


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _EventHead(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class StructCodec(Generic[S]):
    """Objects as structs of model/core.py; read-only."""

    def __init__(self, kind: type[S]) -> None:
        page: Any = msgspec.defstruct(
            f"{kind.__name__}List",
            [("items", list[kind]), ("metadata", _ListMeta)],  # type: ignore[valid-type]  # a type made at run time
        )
        self._page = msgspec.json.Decoder(page)
        self._object = msgspec.json.Decoder(kind)
        self._head = msgspec.json.Decoder(_EventHead)
        self._bookmark = msgspec.json.Decoder(_Bookmark)

    def page(self, content: bytes) -> Page[S]:
        """Decode one page. Raises ValueError if it cannot be read as a whole."""
        try:
            answer = self._page.decode(content)
        except _STRUCT_FAULTS as error:
            raise ValueError(str(error)) from error
        return Page(answer.items, answer.metadata.resource_version, answer.metadata.continue_)

    def page_by_items(self, content: bytes) -> Page[S]:
        """Decode one page item by item. Raises UnreadableError if it is not a list."""
        frame, raw_items = split_list(content)
        items: list[S] = []
        unreadable: list[Unreadable] = []
        for raw in raw_items:
            try:
                items.append(self._object.decode(raw))
            except _STRUCT_FAULTS as error:
                unreadable.append(_unreadable(decode_head(raw), str(error)))
        return Page(items, *_place_in_list(_frame(frame)), unreadable)

    def trim(self, obj: S) -> S:
        """Return an object as it is."""
        return obj

    def event(self, line: bytes) -> WatchEvent[S]:
        """Decode one line of a watch. Raises UnreadableError if it is not an event."""
        try:
            head = self._head.decode(line)
            if head.type == "ERROR":
                return WatchEvent(head.type, None, error=bytes(head.object))
            if head.type == "BOOKMARK":
                bookmark = self._bookmark.decode(head.object)
                return WatchEvent(head.type, None, bookmark.metadata.resource_version)
            obj = self._object.decode(head.object)
        except _STRUCT_FAULTS as error:
            event = decode_head(line)
            kind, raw = dig(event, "type"), dig(event, "object")
            if kind not in ("ADDED", "MODIFIED", "DELETED"):
                raise UnreadableError(f"a line of a watch is not an event: {error}") from error
            unreadable = _unreadable(raw, str(error))
            return WatchEvent(kind, None, unreadable.resource_version, unreadable=unreadable)
        return WatchEvent(head.type, obj, obj.metadata.resource_version)

    def key(self, obj: S) -> tuple[str, str]:
        return obj.metadata.namespace, obj.metadata.name

    def resource_version(self, obj: S) -> str:
        return obj.metadata.resource_version

    def uid(self, obj: S) -> str:
        return obj.metadata.uid


def malformed_metadata(obj: Any) -> str | None:
    """Return why something cannot be stored as an object, or None; API servers never send it."""
    if not isinstance(obj, dict):
        return "it is not an object"
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata is not a map"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "metadata.name is not a string"
    for name in ("apiVersion", "kind"):
        if not isinstance(obj.get(name, ""), str):
            return f"{name} is not a string"
    for name, is_right in _METADATA:
        value = metadata.get(name)
        if value is not None and not is_right(value):
            return f"metadata.{name} has a wrong type"
    return None


def _loads_sound(content: bytes) -> Any:
    """Decode JSON that can be encoded again. Raises ValueError."""
    value = orjson.loads(content)
    if is_too_deep(value, content):
        raise ValueError(_CUT)
    return value


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
