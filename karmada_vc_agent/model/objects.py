"""Raw Kubernetes objects: kind, key, values, depth, size in memory, patches."""

from collections.abc import Iterator
from datetime import datetime
from sys import getsizeof
from typing import Any, NamedTuple, TypeVar

import msgspec
import orjson

T = TypeVar("T")

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as decoded from JSON."""


class GroupKind(NamedTuple):
    """Group ("" for core) and kind: rules do not depend on versions."""

    group: str
    kind: str


class GroupVersionKind(NamedTuple):
    """Group ("" for core), version and kind of an object."""

    group: str
    version: str
    kind: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class ObjectKey(NamedTuple):
    """The identity of an object on one API server; namespace is "" for cluster-scoped ones."""

    gvk: GroupVersionKind
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `Deployment edge/web` or `ClusterRole reader`."""
        return f"{self.gvk.kind} {namespaced_name(self.namespace, self.name)}"


NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def namespaced_name(namespace: str, name: str) -> str:
    """Return `namespace/name`, or the name alone of a cluster-scoped object."""
    return f"{namespace}/{name}" if namespace else name


def parse_api_version(api_version: str, kind: str) -> GroupVersionKind:
    """Split `apps/v1` or `v1` and add the kind."""
    group, _, version = api_version.rpartition("/")
    return GroupVersionKind(group, version, kind)


def gvk_of(obj: Object) -> GroupVersionKind:
    """Return group, version and kind; missing or malformed ones are ""."""
    if not isinstance(obj, dict):
        return GroupVersionKind("", "", "")
    return parse_api_version(_text_in(obj, "apiVersion"), _text_in(obj, "kind"))


def key_of(obj: Object) -> ObjectKey:
    """Return the key of an object; missing or malformed parts are ""."""
    metadata = _map_in(obj, "metadata")
    return ObjectKey(gvk_of(obj), _text_in(metadata, "namespace"), _text_in(metadata, "name"))


def uid_of(obj: Object | None) -> str:
    """Return the uid of an object, "" if it has none."""
    return str(_map_in(obj, "metadata").get("uid") or "")


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels, read-only; {} if there are none."""
    return _map_in(_map_in(obj, "metadata"), "labels")


def annotations_of(obj: Object) -> dict[str, str]:
    """Return the annotations, read-only; {} if there are none."""
    return _map_in(_map_in(obj, "metadata"), "annotations")


def recorded_in(obj: Object, annotation: str, of: type[T]) -> dict[str, T]:
    """Return the JSON object of an annotation, its values of a type; {} if it is malformed."""
    try:
        recorded = orjson.loads(annotations_of(obj).get(annotation, "{}"))
    except ValueError:
        return {}
    items = recorded.items() if isinstance(recorded, dict) else ()
    return {name: value for name, value in items if isinstance(value, of)}


def text_at(obj: Any, *path: str | int) -> str:
    """Return the string at a path of an unvalidated object; "" if there is none."""
    value = dig(obj, *path)
    return value if isinstance(value, str) else ""


def list_at(obj: Any, *path: str | int) -> list[Any]:
    """Return the list at a path of an unvalidated object, [] if there is none."""
    value = dig(obj, *path)
    return value if isinstance(value, list) else []


def maps_at(obj: Any, *path: str | int) -> list[Object]:
    """Return the maps in a list of an unvalidated object."""
    return [entry for entry in list_at(obj, *path) if isinstance(entry, dict)]


def texts_at(obj: Any, *path: str | int) -> list[str]:
    """Return the texts in a list of an unvalidated object."""
    return [entry for entry in list_at(obj, *path) if isinstance(entry, str)]


# Called many times for each object; `dig` would be several times as slow.
def _map_in(obj: Any, key: str) -> Object:
    value = obj.get(key) if isinstance(obj, dict) else None
    return value if isinstance(value, dict) else {}


def _text_in(obj: Object, key: str) -> str:
    value = obj.get(key)
    return value if isinstance(value, str) else ""


def is_map_of_texts(value: Any) -> bool:
    """Return True for a map of strings, as labels and annotations must be."""
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def metadata_map(obj: Object, name: str) -> Object:
    """Return metadata.labels or .annotations for writing, created if missing."""
    metadata = obj["metadata"]
    metadata[name] = metadata.get(name) or {}
    result: Object = metadata[name]
    return result


def dig(obj: Any, *path: str | int) -> Any:
    """Follow keys and list indices; None if one is missing."""
    for step in path:
        if isinstance(obj, dict):
            obj = obj.get(step)
        elif isinstance(obj, list) and isinstance(step, int) and -len(obj) <= step < len(obj):
            obj = obj[step]
        else:
            return None
    return obj


def decode_as(kind: type[T], text: str | bytes) -> T | None:
    """Return JSON as a struct; None if it is malformed, as if there were none."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def values_at(obj: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the concrete path and the value of each match of a table path.

    path: keys and dots (`spec.tasks[].template.spec`); `[]` = each element, `{}` = each value.
    """
    matches = [("", obj)]
    for step in path.split("."):
        matches = [inner for match in matches for inner in _step(*match, step)]
    yield from matches


def _step(walked: str, obj: Any, step: str) -> list[tuple[str, Any]]:
    key, spread = (step[:-2], step[-2:]) if step.endswith(("[]", "{}")) else (step, "")
    value = obj.get(key) if isinstance(obj, dict) else None
    here = f"{walked}.{key}" if walked else key
    if spread == "[]" and isinstance(value, list):
        return [(f"{here}[{index}]", element) for index, element in enumerate(value)]
    if spread == "{}" and isinstance(value, dict):
        return [(f'{here}["{name}"]', element) for name, element in value.items()]
    return [] if spread or value is None else [(here, value)]


def copy_object(obj: Any) -> Any:
    """Return a deep copy of JSON data; many times faster than copy.deepcopy."""
    # Most values are strings: no call for these.
    if isinstance(obj, dict):
        return {
            key: value if type(value) is str else copy_object(value) for key, value in obj.items()
        }
    if isinstance(obj, list):
        return [value if type(value) is str else copy_object(value) for value in obj]
    return obj


def put(obj: Object, value: Any, *path: str) -> Object:
    """Return a copy with the value at the path. Raises ValueError if a parent is not a dict."""
    step, rest = path[0], path[1:]
    if rest:
        parent = {} if obj.get(step) is None else obj[step]
        if not isinstance(parent, dict):
            raise ValueError(f"{step} is {type(parent).__name__}, not a map")
        value = put(parent, value, *rest)
    return {**obj, step: value}


def drop(obj: Object, *path: str) -> Object:
    """Return the object without the value at the path, or itself; only dicts on it are copied."""
    step, rest = path[0], path[1:]
    if not isinstance(obj, dict) or step not in obj:
        return obj
    if not rest:
        return {key: value for key, value in obj.items() if key != step}
    inner = drop(obj[step], *rest)
    return obj if inner is obj[step] else {**obj, step: inner}


WRITABLE_LEVELS = 254
"""Maximum nesting that orjson encodes; deeper values cannot be sent."""


def size_of(value: Any, levels: int = WRITABLE_LEVELS) -> int | None:
    """Return the size of a value as JSON in bytes; None if it is deeper than `levels`."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    if levels < WRITABLE_LEVELS and may_be_deeper_than(levels, text) and _is_deeper(levels, value):
        return None
    return len(text)


def may_be_deeper_than(levels: int, text: bytes) -> bool:
    """Return True for JSON with that many brackets; a cheap test that most JSON fails."""
    return text.count(b"{") + text.count(b"[") > levels


def _is_deeper(levels: int, value: Any) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return not levels or any(_is_deeper(levels - 1, each) for each in inner)


STORED_BYTES = 3 * 2**19
"""JSON of the largest object that etcd stores."""
OBJECT_BYTES = 4 * STORED_BYTES
"""A larger object is neither applied nor compared; CRDs hold 3.5 times their JSON, others less."""
SMALL_BYTES = 64 * 2**10
"""Smaller objects may be in flight at once, as many as there are workers."""


def bytes_of(value: Any) -> int:
    """Return the bytes that a JSON value holds in memory; keys that maps share count once."""
    keys: list[str] = []
    values = [value]
    for each in values:  # which grows meanwhile
        if isinstance(each, dict):
            keys += each
            values += each.values()
        elif isinstance(each, list):
            values += each
    shared = dict(zip(map(id, keys), keys, strict=True))
    return sum(map(getsizeof, values)) + sum(map(getsizeof, shared.values()))


def timestamp(moment: datetime) -> str:
    """Return a moment, which must be in UTC, as text: `2026-01-02T03:04:05Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def merge_patch(old: Object, new: Object) -> Object:
    """Return the merge patch from `old` to `new`, which has no nulls; {} if they are equal."""
    patch: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif value != before or key not in old:
            patch[key] = value
    return patch


def apply_json_patch(document: Any, patch: Any) -> Any:
    """Return a copy with the operations applied in order. Raises ValueError, which names one."""
    if not isinstance(patch, list):
        raise ValueError("a JSON patch is a list of operations")  # noqa: TRY004 - it is wrong
    root = {"": copy_object(document)}  # so that the whole has a parent, too
    for operation in patch:
        try:
            _apply(root, operation)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            named = f"{dig(operation, 'op')} {dig(operation, 'path')}"
            raise ValueError(f"{named}: {error}") from error
    if not root:
        raise ValueError("the whole object cannot be removed")
    return root[""]


def _apply(root: Object, operation: dict[str, Any]) -> None:
    name, path = operation["op"], operation["path"]
    if name in ("move", "copy"):
        holder, key = _place(root, operation["from"])
        value = holder[key]
        if name == "move":
            if path.startswith(f"{operation['from']}/"):
                raise ValueError("a value cannot be moved into itself")
            del holder[key]
    else:
        value = None if name == "remove" else operation["value"]
    holder, key = _place(root, path)
    if name in ("add", "move", "copy"):
        if isinstance(holder, list):
            holder.insert(key, copy_object(value))
        else:
            holder[key] = copy_object(value)
        return
    before = holder[key]
    match name:
        case "remove":
            del holder[key]
        case "replace":
            holder[key] = copy_object(value)
        case "test" if _equal(before, value):
            pass
        case _:
            raise ValueError("the value is different" if name == "test" else "unknown operation")


def _place(root: Object, pointer: str) -> tuple[Any, Any]:
    """Return what has the value that a pointer names, and its key or index there, new or not."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("a path must start with /")
    holder: Any = root
    key: Any = ""
    for step in pointer.split("/")[1:]:
        holder = holder[key]
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(holder, list):
            key = len(holder) if key == "-" else _index(key, len(holder))
        elif not isinstance(holder, dict):
            raise ValueError("the parent is not a map or list")  # noqa: TRY004 - the patch is wrong
    return holder, key


def _index(step: str, most: int) -> int:
    if not step.isascii() or not step.isdigit() or str(int(step)) != step or int(step) > most:
        raise ValueError(f"the list has no index {step}")
    return int(step)


def _equal(left: Any, right: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    texts = [orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in (left, right)]
    return texts[0] == texts[1]
