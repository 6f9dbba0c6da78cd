"""The differences between two observations, and which of them are allowed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

_MISSING = "(missing)"


@dataclass(frozen=True)
class Difference:
    """A place where the two lanes do not agree; real: what Karmada's agent makes of it."""

    case: str
    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path}\n    karmada-agent: {self.real!r}\n    ours:          {self.ours!r}"


@dataclass(frozen=True)
class Allowed:
    """A difference that is meant.

    case, path: patterns as of file names, `*` for any text. section: of docs/contract.md,
    docs/rewriting-rules.md or an ADR, which demands it. sometimes: it rests on what Karmada's agent
    happens to do first, so that it may not occur. lacking: only where Karmada's agent has nothing.
    """

    case: str
    path: str
    reason: str
    section: str
    sometimes: bool = False
    lacking: bool = False

    def covers(self, difference: Difference) -> bool:
        """Whether this is the difference that is allowed."""
        if self.lacking and difference.real != _MISSING:
            return False
        return fnmatchcase(difference.case, self.case) and fnmatchcase(difference.path, self.path)


def differences(case: str, real: Any, ours: Any) -> list[Difference]:
    """Return every place where two observations of a case differ."""
    return list(_differences(case, "", real, ours))


def _differences(case: str, path: str, real: Any, ours: Any) -> Iterator[Difference]:
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(case, below, real.get(key, _MISSING), ours.get(key, _MISSING))
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, pair in enumerate(zip(real, ours, strict=True)):
            yield from _differences(case, f"{path}.{index}", *pair)
    elif type(real) is not type(ours) or real != ours:
        yield Difference(case, path, real, ours)


def not_allowed(found: Iterable[Difference], allowed: Iterable[Allowed]) -> list[Difference]:
    """Return the differences that nothing allows."""
    entries = list(allowed)
    return [one for one in found if not any(entry.covers(one) for entry in entries)]


def stale(found: Iterable[Difference], allowed: Iterable[Allowed]) -> list[Allowed]:
    """Return the entries that allow what does not occur; found: the differences of all cases."""
    seen = list(found)
    return [
        entry
        for entry in allowed
        if not entry.sometimes and not any(entry.covers(one) for one in seen)
    ]


EVENTS = "events."
LOST_AT_MOST = 1 / 2
"""Of all cases in which ours tells an event of a sort, the part in which the other may not."""


def lost_events(observed: Mapping[str, tuple[Any, Any]], found: Iterable[Difference]) -> set[str]:
    """Return `case: path` of the events that Karmada's agent made and lost.

    It writes events from a queue that drops what comes when it is full, and all cases begin at
    once. So an event that only ours told counts as lost where the real agent tells events of
    that sort (component, reason) in at least half of the cases in which ours does.

    observed: the observations (real, ours) by case.
    """
    told = {"real": Counter[str](), "ours": Counter[str]()}
    for real, ours in observed.values():
        for name, observation in (("real", real), ("ours", ours)):
            told[name].update({_sort(key) for key in observation.get("events") or ()})
    return {
        f"{one.case}: {one.path}"
        for one in found
        if one.path.startswith(EVENTS) and _reports_less(one.real, one.ours)
        for sort in (_sort(one.path.removeprefix(EVENTS)),)
        if told["real"][sort] >= told["ours"][sort] * (1 - LOST_AT_MOST)
    }


def _reports_less(real: Any, ours: Any) -> bool:
    """Whether one told nothing, or some of the messages only, of what the other told."""
    if real == _MISSING:
        return bool(ours != _MISSING)
    both_told = isinstance(real, list) and isinstance(ours, list)
    return both_told and len(real) < len(ours) and all(event in ours for event in real)


def _sort(key: str) -> str:
    """Return component and reason of `<component> <reason> <object>`."""
    return " ".join(key.split(" ")[:2])
