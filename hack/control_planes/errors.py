"""The error a user can do something about."""


class ControlPlanesError(Exception):
    """Say on one line what failed, where, and what would help; `detail` may add log lines."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
