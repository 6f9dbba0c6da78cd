"""What an interpreter level says when it cannot answer."""

from collections.abc import Hashable


class InterpretationError(Exception):
    """A level had a hook for the object and the hook failed; no other level is asked.

    level: `declarative`, `webhook`, `third-party` or `native`.
    operation: `Retain`, `InterpretStatus` or `InterpretHealth`.
    hook: key of a hook that is not there, whatever it is asked; None where it is about the object.
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
    """A script or a webhook failed; `str()` says how, the interpreter adds where.

    HookError                 it answered, but not what was asked for
    └─ UnavailableError       the next question would most likely end like this one
       ├─ OverrunError        it used up its time
       └─ AwayError           it cannot be asked at all
    """


class UnavailableError(HookError):
    """A script or a webhook is not there; the next call would most likely say so, too."""


class OverrunError(UnavailableError):
    """A script or a webhook used up its time."""


class AwayError(UnavailableError):
    """A webhook could not be reached."""
