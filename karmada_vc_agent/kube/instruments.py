"""Hooks of queues, controllers, clients and reflectors for metrics; no-ops by default."""

from collections.abc import Mapping
from typing import Protocol


class QueueInstrument(Protocol):
    """Called for the keys of one queue."""

    def added(self) -> None: ...
    def retried(self) -> None: ...
    def taken(self, waited_s: float) -> None: ...
    def done(self, worked_s: float) -> None: ...


class ControllerInstrument(Protocol):
    """Called for the reconciles of one controller; result: success, requeue_after, error, panic."""

    def ended(self, result: str, took_s: float) -> None: ...


class ClientInstrument(Protocol):
    """Called for the requests to one API server; code: HTTP status, or `<error>` without one."""

    def answered(self, method: str, code: str, took_s: float) -> None: ...
    def listed(self, path: str) -> None: ...
    def watched(self, path: str) -> None: ...

    def failed(self, path: str, part: str) -> None:
        """Handle a bug at one object; part: watch, index, handler."""

    def unreadable(self, source: str, path: str, found: Mapping[str, str]) -> None:
        """Handle the objects of one reflector that cannot be read now, and why."""


class Nobody:
    """Implements all instruments as no-ops."""

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
