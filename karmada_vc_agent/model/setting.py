"""Declarations of settings: range, label selectors, switches.

A setting is a field of a msgspec struct, with a docstring below it; the command line, the checks
and docs/settings.md are made from them. A type that files write in a way of its own, as `40s`, has
`expected`, that way, and `read`, which raises TypeError for another type (model/quantity.py).
Switches have Karmada's names; its agent has no `hostEvents`.
Source: contract 8, 9.1, 9.4; docs/adr/0009.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from karmada_vc_agent.model.quantity import Duration, format_duration
from karmada_vc_agent.model.texts import either, shown

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a number: from `least` on, below `below`.

    is_open: excludes `least` itself. zero: the special meaning of 0, if it has one. unit: of the
    number, for docs/settings.md.
    """

    least: float = 0
    below: float = math.inf
    is_open: bool = False
    zero: str = ""
    unit: str = ""

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


_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_PREFIX_MAX_LENGTH = 253

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
"""Operator of an expression."""


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of matchExpressions."""

    key: str
    """Key of the label."""
    operator: Operator
    """How the label is compared; `NotIn` also matches nodes without it."""
    values: frozenset[str] = frozenset()
    """Values to compare with; only for `In` and `NotIn`."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels meet it; NotIn is also met if the key is missing."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        if self.operator == "In":
            return labels.get(self.key) in self.values
        return labels.get(self.key) not in self.values


class LabelSelector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A Kubernetes label selector; an empty one is not allowed here."""

    match_labels: Mapping[str, str] = {}
    """Labels that a node must have."""
    match_expressions: tuple[Requirement, ...] = ()
    """Requirements on the labels of a node; all must be met."""

    def __bool__(self) -> bool:
        """Return True if anything is required."""
        return bool(self.match_labels or self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels meet every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements())

    def requirements(self) -> tuple[Requirement, ...]:
        """Return matchLabels and matchExpressions in one form."""
        equalities = (Requirement(k, "In", frozenset((v,))) for k, v in self.match_labels.items())
        return (*equalities, *self.match_expressions)


def label_key_problem(key: str) -> str | None:
    """Return what is wrong with a label key, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _PREFIX_MAX_LENGTH and _PREFIX.fullmatch(prefix)):
        return f'"{key}" is not a valid label key: the part before "/" must be a DNS name'
    if not _NAME.fullmatch(name):
        return (
            f'"{key}" is not a valid label key: use 1 to 63 letters, digits, "-", "_" or ".", '
            "beginning and ending with a letter or digit"
        )
    return None


def label_value_problem(value: str) -> str | None:
    """Return what is wrong with a label value, or None; an empty value is allowed."""
    if value and not _NAME.fullmatch(value):
        return (
            f'"{value}" is not a valid label value: use at most 63 letters, digits, "-", "_" or '
            '".", beginning and ending with a letter or digit'
        )
    return None


CLUSTER_STATUS = "clusterStatus"
EXECUTION = "execution"
WORK_STATUS = "workStatus"
SERVICE_EXPORT = "serviceExport"
ENDPOINT_SLICE_COLLECT = "endpointsliceCollect"
CERT_ROTATION = "certRotation"
HOST_EVENTS = "hostEvents"

CONTROLLERS: Mapping[str, bool] = {
    CLUSTER_STATUS: True,
    EXECUTION: True,
    WORK_STATUS: True,
    SERVICE_EXPORT: True,
    ENDPOINT_SLICE_COLLECT: True,
    CERT_ROTATION: False,
    HOST_EVENTS: True,
}
"""Controller -> whether `*` always includes it. The help of the flag describes them."""

MULTI_CLUSTER_SERVICE = "MultiClusterService"
CLUSTER_RESOURCE_MODELING = "CustomizedClusterResourceModeling"

FEATURE_GATES: Mapping[str, bool] = {
    MULTI_CLUSTER_SERVICE: False,
    CLUSTER_RESOURCE_MODELING: True,
}
"""Gate -> its default, as in Karmada. Gates of Karmada without meaning here are unknown."""

_ALL = "*"
_TRUTH = {"true": True, "false": False}


def enabled_controllers(text: str, also: Collection[str] = ()) -> frozenset[str]:
    """Return the controllers that `*,foo,-foo` enables; the first match wins.

    also: those that `*` includes here, too. Raises ValueError with the problem.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != _ALL and word.removeprefix("-") not in CONTROLLERS:
            raise ValueError(
                f'"{word.removeprefix("-")}" is not a controller, must be {either(CONTROLLERS)}'
            )
    enabled = frozenset(name for name in CONTROLLERS if _is_enabled(name, words, also))
    if not enabled:
        raise ValueError(f'"{text}" enables no controller; write * for those on by default')
    if WORK_STATUS in enabled and EXECUTION not in enabled:
        raise ValueError(
            f"{WORK_STATUS} reports and repairs only what {EXECUTION} applies; write "
            f'"-{EXECUTION},-{WORK_STATUS}" to disable both'
        )
    return enabled


def _is_enabled(name: str, words: list[str], also: Collection[str]) -> bool:
    for word in words:
        if word == name:
            return True
        if word == f"-{name}":
            return False
    return _ALL in words and (CONTROLLERS[name] or name in also)


def feature_gates(text: str) -> dict[str, bool]:
    """Return all gates as `Name=true,Other=false` sets them, others at their default.

    Raises ValueError with the problem.
    """
    gates = dict(FEATURE_GATES)
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if not name and not value:
            continue
        if name not in FEATURE_GATES:
            raise ValueError(f'"{name}" is not a feature gate, must be {either(FEATURE_GATES)}')
        if value.lower() not in _TRUTH:
            raise ValueError(f'{name} is "{value}", must be true or false')
        gates[name] = _TRUTH[value.lower()]
    return gates
