"""JSON merge patches (RFC 7386) and JSON patches (RFC 6902)."""

from typing import Any

from karmada_vc_agent.model.objects import Object, copy_object


def merge_patch(old: Object, new: Object) -> Object:
    """Return the patch that changes `old` to `new`; {} if they are equal.

    Removed members become null, lists are replaced as a whole. `new` contains no nulls.
    """
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
    """Return the document with all operations of the patch applied in order.

    patch: a list of {op, path, value?, from?}. Raises ValueError, which names the operation and
    its path; then nothing is applied.
    """
    if not isinstance(patch, list):
        raise ValueError("a JSON patch is a list of operations")  # noqa: TRY004 - it is wrong
    document = copy_object(document)
    for operation in patch:
        if not isinstance(operation, dict):
            raise ValueError(f"{operation!r} is not an operation")  # noqa: TRY004 - as above
        try:
            document = _apply(document, operation)
        except (LookupError, TypeError, ValueError) as error:
            name, path = operation.get("op"), operation.get("path")
            raise ValueError(f"{name} {path}: {error.args[0]}") from error
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _steps(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(document, path, copy_object(operation["value"]))
        case "remove":
            return _remove(document, path)
        case "replace":
            _at(document, path)
            return _set(document, path, copy_object(operation["value"]))
        case "move":
            source = _steps(operation["from"])
            if path[: len(source)] == source and path != source:
                raise ValueError("a value cannot be moved into itself")
            value = _at(document, source)
            return _add(_remove(document, source), path, value)
        case "copy":
            return _add(document, path, copy_object(_at(document, _steps(operation["from"]))))
        case "test":
            if not _equal(_at(document, path), operation["value"]):
                raise ValueError("the value is different")
            return document
    raise ValueError("unknown operation")


def _steps(pointer: str) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise ValueError("a path must start with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(document, list):
            document = document[_index(step, len(document) - 1)]
        elif isinstance(document, dict) and step in document:
            document = document[step]
        else:
            raise ValueError("no value at this path")
    return document


def _index(step: str, last: int) -> int:
    if not step.isascii() or not step.isdigit() or (step != "0" and step.startswith("0")):
        raise ValueError(f'"{step}" is not an index')
    if int(step) > last:
        raise ValueError(f"the list has no index {step}")
    return int(step)


def _add(document: Any, path: list[str], value: Any) -> Any:
    parent = _at(document, path[:-1])
    if path and isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent))
        parent.insert(at, value)
        return document
    return _set(document, path, value)


def _set(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1)] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise ValueError("the parent is not a map or list")  # noqa: TRY004 - the patch is wrong
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _at(document, path)
    if not path:
        raise ValueError("the whole object cannot be removed")
    parent = _at(document, path[:-1])
    del parent[_index(path[-1], len(parent) - 1) if isinstance(parent, list) else path[-1]]
    return document


def _equal(left: Any, right: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
