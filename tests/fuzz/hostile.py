"""Hostile inputs made of good ones: values put where they do not belong, and bytes that are torn.

All is drawn from a `random.Random`, so that a seed gives the same inputs again.
"""

import random
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import copy_object

Path = tuple[str | int, ...]

DEEPEST = 90
"""Nothing deeper reaches a rule: what is decoded is bounded in depth before."""

_TEXTS = (
    *("", " ", "x", "*", "-", ".", "..", "/", "a/b", "../../x", "%2e%2e", "a\nb", "\x00", "\x7f"),
    *("é", "\u202e", "\U0001f600", "true", "null", "0", "-1", "1e999", "NaN", "0x10", "10m", "1Ki"),
    *("2026-01-01T00:00:00Z", "not a time", "{}", "[]", '{"a": 1}', '"', "\\", "$(x)", "{{ x }}"),
    *("x" * 300, "x" * 70_000, "default", "kube-system", "edge", "edge-v-branch-b", "branch-b"),
    *("karmada-es-branch-b/web-1", "karmada-es-branch-b", "system:masters", "cluster-admin", "="),
)
_NUMBERS = (0, 1, -1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63), 1e308, -0.5, 1e-300)
_EMPTIES: tuple[Any, ...] = (None, [], {}, [None], [[]], [{}], {"": None}, {"": {}}, True, False)


def value(rng: random.Random) -> Any:
    """Return a value that may be of any type."""
    pick = rng.randrange(12)
    if pick < 4:
        return copy_object(rng.choice(_EMPTIES))
    if pick < 7:
        return rng.choice(_TEXTS)
    if pick < 9:
        return rng.choice(_NUMBERS)
    if pick == 9:
        return nested(rng.randrange(1, DEEPEST), in_lists=rng.random() < 0.5)
    if pick == 10:
        return [value(rng) for _ in range(rng.randrange(4))]
    return {str(rng.choice(_TEXTS))[:300]: value(rng) for _ in range(rng.randrange(4))}


def nested(depth: int, *, in_lists: bool = False) -> Any:
    """Return a value with so many levels."""
    made: Any = "x"
    for _ in range(depth):
        made = [made] if in_lists else {"x": made}
    return made


def paths(document: Any, at: Path = ()) -> Iterator[Path]:
    """Yield where something stands in a document, the document itself first."""
    yield at
    if isinstance(document, dict):
        for key, inner in document.items():
            yield from paths(inner, (*at, key))
    elif isinstance(document, list):
        for index, inner in enumerate(document):
            yield from paths(inner, (*at, index))


def mutated(rng: random.Random, document: Any, changes: int = 3) -> Any:
    """Return a copy with one or more changes anywhere in it."""
    document = copy_object(document)
    for _ in range(rng.randrange(1, changes + 1)):
        found = list(paths(document))
        path = rng.choice(found)
        if not path:
            if rng.random() < 0.05:
                document = value(rng)
            continue
        parent, last = _at(document, path[:-1]), path[-1]
        match rng.randrange(8):
            case 0:
                del parent[last]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(_TEXTS)] = parent.pop(last)
            case 2:
                parent[last] = copy_object(_at(document, rng.choice(found)))
            case 3:
                parent[last] = [parent[last]]
            case 4 if isinstance(parent, dict):
                parent[f"{last}{rng.choice(_TEXTS)}"] = value(rng)
            case _:
                parent[last] = value(rng)
    return document


def torn(rng: random.Random, content: bytes) -> bytes:
    """Return bytes with one or more changes anywhere in them."""
    torn_ = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(torn_) + 1)
        match rng.randrange(7):
            case 0:
                del torn_[at : at + rng.randrange(1, 20)]
            case 1:
                torn_[at:at] = rng.randbytes(rng.randrange(1, 6))
            case 2 if torn_:
                torn_[at % len(torn_)] ^= 1 << rng.randrange(8)
            case 3:
                torn_[at:at] = torn_[at : at + rng.randrange(1, 40)]
            case 4:
                torn_[at:at] = rng.choice((b"null", b"[]", b"{}", b'"', b"-", b"[" * 60, b"\xff"))
            case 5:
                del torn_[at:]
            case _:
                start = rng.randrange(len(torn_) + 1)
                torn_[at : at + 1] = torn_[start : start + 12]
    return bytes(torn_)


def unreadable(rng: random.Random, content: bytes) -> bytes:
    """Return bytes torn until they are no JSON."""
    while True:
        content = torn(rng, content)
        try:
            orjson.loads(content)
        except orjson.JSONDecodeError:
            return content


def encoded(document: Any) -> bytes:
    """Return a document as JSON; NaN and the like become null, as a server would never send."""
    return orjson.dumps(document)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(_TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def misplaced(draw: st.DrawFn, document: Any) -> Any:
    """Draw a document with values of Hypothesis' own in one to three places."""
    document = copy_object(document)
    for _ in range(draw(st.integers(1, 3))):
        found = [path for path in paths(document) if path]
        if not found:
            return draw(JSON)
        path = draw(st.sampled_from(found))
        _at(document, path[:-1])[path[-1]] = draw(JSON)
    return document


def _at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document
