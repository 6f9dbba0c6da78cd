"""Declarations of settings: help text, unit, range.

A setting is a field of a msgspec struct, annotated with these; the command line, the checks and
docs/settings.md are made from them. A type that files write in a way of its own, as `40s`, has
`expected` and `read` (see Written).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from karmada_vc_agent.model.durations import Duration, format_duration
from karmada_vc_agent.model.texts import shown

_INT64_MAX = 2**63 - 1


class Written(Protocol):
    """A type with a notation of its own in settings files."""

    expected: ClassVar[str]
    """The required form of a value, for messages: `a duration such as 40s or 2m`."""

    @classmethod
    def read(cls, given: Any) -> Self:
        """Parse the value in the file.

        Raises TypeError for a value of a wrong type, and ValueError with the problem otherwise.
        """


@dataclass(frozen=True, slots=True)
class Help:
    """The help text of a setting, for the command line and docs/settings.md."""

    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number, for docs/settings.md: `requests per second`."""

    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a number: from `least` on, below `below`.

    is_open: excludes `least` itself. zero: the special meaning of 0, if it has one.
    """

    least: float = 0
    below: float = math.inf
    is_open: bool = False
    zero: str = ""

    def problem(self, value: float) -> str | None:
        """Return what is wrong with a number, or None."""
        if isinstance(value, float) and not math.isfinite(value):
            return f"is {value:g}, must be a finite number"
        if isinstance(value, int) and abs(value) > _INT64_MAX:
            return "is too large"
        if value < self.below and (value > self.least if self.is_open else value >= self.least):
            return None
        kind = type(value)
        return f"is {_writer(kind)(value)}, must be {self.text(kind)}"

    def text(self, kind: type[float]) -> str:
        """Describe the range: `more than 0s`; kind: the type of the number."""
        write = _writer(kind)
        least = write(self.least)
        if self.below < math.inf:
            return f"between {least} and {write(self.below)}"
        if self.is_open:
            return f"more than {least}"
        return f"{least} ({self.zero}) or more" if self.zero else f"{least} or more"


def _writer(kind: type[float]) -> Callable[[float], str]:
    return format_duration if issubclass(kind, Duration) else _write


def _write(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else shown(number)
