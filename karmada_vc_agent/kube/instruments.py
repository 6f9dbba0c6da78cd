"""What queues, controllers, clients and reflectors tell whoever counts; nobody by default."""

from collections.abc import Mapping
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

    def failed(self, path: str, part: str) -> None:
        """Hear of a fault of ours at one object; part: watch, index, handler."""

    def unreadable(self, source: str, path: str, found: Mapping[str, str]) -> None:
        """Hear which objects of one reflector cannot be read now, and why."""


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

    def failed(self, path: str, part: str) -> None:
        """Do nothing."""

    def unreadable(self, source: str, path: str, found: Mapping[str, str]) -> None:
        """Do nothing."""


NOBODY = Nobody()
