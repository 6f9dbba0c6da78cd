"""What an interpreter level says when it cannot answer."""


class InterpretationError(Exception):
    """A level had a hook for the object and the hook failed; no other level is asked.

    level: `declarative`, `webhook`, `third-party` or `native`.
    operation: `Retain`, `InterpretStatus` or `InterpretHealth`.
    """

    def __init__(self, level: str, operation: str, message: str) -> None:
        super().__init__(message)
        self.level = level
        self.operation = operation
        self.message = message


class HookError(Exception):
    """A script or a webhook failed; `str()` says how, the interpreter adds where."""


class OverrunError(HookError):
    """A script or a webhook used up its time; the next call would too, most likely."""
