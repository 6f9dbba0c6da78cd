"""Patterns for kinds in settings: `apps/Deployment`, `Secret`, `batch/*`, `*/*`."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from karmada_vc_agent.model.objects import GroupKind


def matches_any(patterns: Iterable[str], group: str, kind: str) -> bool:
    """Return True if a pattern matches a kind; one without a slash is of the core group."""
    return any(_matches(pattern, group, kind) for pattern in patterns)


def pattern_problem(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None."""
    group, slash, kind = pattern.rpartition("/")
    if not kind or (slash and not group) or "/" in group:
        return (
            f'"{pattern}" is not a valid kind; write group/Kind, or Kind alone for the core group'
        )
    if pattern == "*":
        return '"*" is every kind of the core group only; write */* for all kinds'
    return None


def parse_kind(name: str) -> GroupKind:
    """Parse `cert-manager.io/ClusterIssuer`; the core group has an empty group.

    Raises ValueError.
    """
    group, slash, kind = name.partition("/")
    if not slash or not kind or "/" in kind:
        raise ValueError(
            "is not a valid group/Kind; write for example cert-manager.io/ClusterIssuer"
        )
    return GroupKind(group, kind)


def _matches(pattern: str, group: str, kind: str) -> bool:
    pattern_group, _, pattern_kind = pattern.rpartition("/")
    return fnmatchcase(group, pattern_group) and fnmatchcase(kind, pattern_kind)
