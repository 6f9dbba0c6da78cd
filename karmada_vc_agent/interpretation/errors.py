"""What an interpreter level says when it cannot answer."""


class InterpretationError(Exception):
    """A level had a hook for the object and the hook failed; no other level is asked.

    level: `native` (later also `declarative`, `webhook`, `third-party`).
    operation: `Retain`, `InterpretStatus` or `InterpretHealth`.
    """

    def __init__(self, level: str, operation: str, message: str) -> None:
        super().__init__(message)
        self.level = level
        self.operation = operation
        self.message = message
