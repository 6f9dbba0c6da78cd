"""Where running code still holds a name: the keys of the unbounded dicts and sets it reaches."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from cachetools import Cache

OURS = "karmada_vc_agent"
_LEFT_OUT = (str, bytes, int, float, type(None), Cache)
"""Without content, or bounded."""


def holders(root: object, name: str) -> set[str]:
    """Return the attributes, as `Class.attribute`, that reach a container with a key of a name.

    A key is of a name if it is it, ends in it after a "-" or "/", or is a tuple with such an item.
    """
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        where, each = waiting.pop()
        if id(each) in seen or isinstance(each, _LEFT_OUT):
            continue
        seen.add(id(each))
        if isinstance(each, Mapping | AbstractSet) and any(
            _is_of(key, name) for key in tuple(each)
        ):
            found.add(where)
        waiting += _parts(where, each)
    return found


def _is_of(key: object, name: str) -> bool:
    if isinstance(key, str):
        return key == name or key.endswith((f"-{name}", f"/{name}")) or f"-{name}/" in key
    return isinstance(key, tuple) and any(_is_of(part, name) for part in key)


def _parts(where: str, each: Any) -> Iterator[tuple[str, object]]:
    if isinstance(each, MethodType):
        yield where, each.__self__
    elif isinstance(each, partial):
        yield from ((where, part) for part in (each.func, *each.args, *each.keywords.values()))
    elif isinstance(each, FunctionType):
        yield from ((where, cell.cell_contents) for cell in each.__closure__ or ())
    elif isinstance(each, Mapping):
        for key in tuple(each):
            yield where, key
            yield where, each[key]
    elif isinstance(each, list | tuple | AbstractSet):
        yield from ((where, part) for part in tuple(each))
    if type(each).__module__.startswith(OURS):
        for attribute in _attributes(each):
            yield f"{type(each).__name__}.{attribute}", getattr(each, attribute, None)


def _attributes(each: Any) -> set[str]:
    slots = {slot for kind in type(each).__mro__ for slot in getattr(kind, "__slots__", ())}
    return {*getattr(each, "__dict__", ()), *slots}
