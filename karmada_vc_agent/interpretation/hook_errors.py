"""Errors of interpreter levels."""

from collections.abc import Hashable


class InterpretationError(Exception):
    """A level had a hook for the object and the hook failed; no other level is tried.

    level: `declarative`, `webhook`, `third-party` or `native`.
    operation: `Retain`, `InterpretStatus` or `InterpretHealth`.
    hook: key of an unavailable hook; None if the failure is specific to the object.
    """

    def __init__(
        self, level: str, operation: str, message: str, hook: Hashable | None = None
    ) -> None:
        super().__init__(message)
        self.level = level
        self.operation = operation
        self.message = message
        self.hook = hook


class HookError(Exception):
    """A script or a webhook failed; `str()` says how, the interpreter adds where."""


class UnavailableError(HookError):
    """A script or webhook is unreachable or too slow; the next call likely fails, too."""
