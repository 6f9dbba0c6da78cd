"""How lists and watch events become objects: raw dicts, or structs with few fields."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import orjson

from karmada_vc_agent.model.core import Meta
from karmada_vc_agent.model.objects import Object

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; continue_token is empty on the last one."""

    items: list[T]
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """ADDED, MODIFIED, DELETED with an object; BOOKMARK with a version; ERROR with a Status."""

    type: str
    obj: T | None
    resource_version: str = ""
    error: bytes = b""


class Codec(Protocol[T]):
    """What a reflector needs to know of a kind of object."""

    def page(self, content: bytes) -> Page[T]: ...

    def event(self, line: bytes) -> WatchEvent[T]: ...

    def key(self, obj: T) -> tuple[str, str]: ...

    def resource_version(self, obj: T) -> str: ...

    def uid(self, obj: T) -> str: ...


class RawCodec:
    """Objects as dicts, without managedFields, with apiVersion and kind also from lists."""

    def page(self, content: bytes) -> Page[Object]:
        """Decode one page."""
        answer = orjson.loads(content)
        kind = str(answer.get("kind") or "").removesuffix("List")
        api_version = answer.get("apiVersion")
        items: list[Object] = answer.get("items") or []
        for item in items:
            # Built-in kinds leave both out inside a list.
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", kind)
            self._trim(item)
        metadata = answer.get("metadata") or {}
        return Page(items, metadata.get("resourceVersion") or "", metadata.get("continue") or "")

    def event(self, line: bytes) -> WatchEvent[Object]:
        """Decode one line of a watch."""
        event = orjson.loads(line)
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            return WatchEvent(kind, None, error=orjson.dumps(obj))
        version = (obj.get("metadata") or {}).get("resourceVersion") or ""
        if kind == "BOOKMARK":
            return WatchEvent(kind, None, version)
        self._trim(obj)
        return WatchEvent(kind, obj, version)

    def trim(self, obj: Object) -> Object:
        """Make an object that was read elsewhere equal to what a watch would have stored."""
        self._trim(obj)
        return obj

    def _trim(self, obj: Object) -> None:
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)

    def key(self, obj: Object) -> tuple[str, str]:
        """Return namespace and name."""
        metadata = obj["metadata"]
        return metadata.get("namespace") or "", metadata["name"]

    def resource_version(self, obj: Object) -> str:
        """Return the resource version."""
        return obj["metadata"].get("resourceVersion") or ""

    def uid(self, obj: Object) -> str:
        """Return the UID."""
        return obj["metadata"].get("uid") or ""


class _HasMeta(Protocol):
    metadata: Meta


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
        """Decode one page."""
        answer = self._page.decode(content)
        return Page(answer.items, answer.metadata.resource_version, answer.metadata.continue_)

    def event(self, line: bytes) -> WatchEvent[S]:
        """Decode one line of a watch."""
        head = self._head.decode(line)
        if head.type == "ERROR":
            return WatchEvent(head.type, None, error=bytes(head.object))
        if head.type == "BOOKMARK":
            bookmark = self._bookmark.decode(head.object)
            return WatchEvent(head.type, None, bookmark.metadata.resource_version)
        obj = self._object.decode(head.object)
        return WatchEvent(head.type, obj, obj.metadata.resource_version)

    def key(self, obj: S) -> tuple[str, str]:
        """Return namespace and name."""
        return obj.metadata.namespace, obj.metadata.name

    def resource_version(self, obj: S) -> str:
        """Return the resource version."""
        return obj.metadata.resource_version

    def uid(self, obj: S) -> str:
        """Return the UID."""
        return obj.metadata.uid
