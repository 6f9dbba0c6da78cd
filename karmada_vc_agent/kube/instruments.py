"""What queues, controllers, clients and reflectors tell whoever counts; nobody by default."""

from typing import Protocol


class QueueInstrument(Protocol):
    """Hears of the keys of one queue."""

    def added(self) -> None: ...
    def retried(self) -> None: ...
    def taken(self, waited_s: float) -> None: ...
    def done(self, worked_s: float) -> None: ...


class ControllerInstrument(Protocol):
    """Hears of the reconciles of one controller; result: success, requeue_after, error, panic."""

    def ended(self, result: str, took_s: float) -> None: ...


class ClientInstrument(Protocol):
    """Hears of the requests to one API server; code: HTTP status, `<error>` where none came."""

    def answered(self, method: str, code: str, took_s: float) -> None: ...
    def listed(self, path: str) -> None: ...
    def watched(self, path: str) -> None: ...


class Nobody:
    """Listens to nothing."""

    def added(self) -> None:
        """Do nothing."""

    def retried(self) -> None:
        """Do nothing."""

    def taken(self, waited_s: float) -> None:
        """Do nothing."""

    def done(self, worked_s: float) -> None:
        """Do nothing."""

    def ended(self, result: str, took_s: float) -> None:
        """Do nothing."""

    def answered(self, method: str, code: str, took_s: float) -> None:
        """Do nothing."""

    def listed(self, path: str) -> None:
        """Do nothing."""

    def watched(self, path: str) -> None:
        """Do nothing."""


NOBODY = Nobody()
