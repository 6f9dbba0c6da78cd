"""Label selectors: matching, and implication between two of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from karmada_vc_agent.model.setting import Help

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_PREFIX_MAX_LENGTH = 253

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
"""Operator of an expression."""


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of matchExpressions."""

    key: Annotated[str, Help("Key of the label.")]
    operator: Annotated[
        Operator,
        Help("How the label is compared; `NotIn` also matches nodes without it."),
    ]
    values: Annotated[
        frozenset[str], Help("Values to compare with; only for `In` and `NotIn`.")
    ] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels meet it; NotIn is also met if the key is missing."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        if self.operator == "In":
            return labels.get(self.key) in self.values
        return labels.get(self.key) not in self.values

    def follows_from(self, other: "Requirement") -> bool:
        """Return True if everything that meets `other` also meets this one."""
        if self.key != other.key:
            return False
        if other.operator == "In":
            return all(self.matches({self.key: value}) for value in other.values)
        if other.operator == "DoesNotExist":
            return self.operator in ("DoesNotExist", "NotIn")
        if other.operator == "Exists":
            return self.operator == "Exists"
        return self.operator == "NotIn" and self.values <= other.values


class LabelSelector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A Kubernetes label selector; an empty one is not allowed here."""

    match_labels: Annotated[Mapping[str, str], Help("Labels that a node must have.")] = {}
    match_expressions: Annotated[
        tuple[Requirement, ...], Help("Requirements on the labels of a node; all must be met.")
    ] = ()

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


def implies(ours: Sequence[Requirement], theirs: Sequence[Requirement]) -> bool:
    """Return True if all that meets our requirements certainly meets theirs, too.

    Requirements are compared one by one, so an implication that follows only from several of them
    is not detected; overlaps at run time are reported by node.
    """
    return all(any(their.follows_from(our) for our in ours) for their in theirs)


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
