"""The differences between two observations, and which of them are allowed."""

from collections.abc import Iterable, Iterator
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

    case, path: patterns as of file names, `*` for any text. section: of rewriting-rules.md,
    karmada-contract.md or an ADR, which demands it.
    """

    case: str
    path: str
    reason: str
    section: str

    def covers(self, difference: Difference) -> bool:
        """Whether this is the difference that is allowed."""
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
    return [entry for entry in allowed if not any(entry.covers(one) for one in seen)]
