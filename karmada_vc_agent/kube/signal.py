"""Signals: who tells of something need not know who listens."""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its handlers in the order of their subscription; one that fails costs no other.

    The first failure goes on to who tells, once all were told: a store counts it, and logs it
    once for each object.
    """

    def __init__(self) -> None:
        self._handlers: list[Callable[P, object]] = []

    def subscribe(self, handler: Callable[P, object]) -> None:
        """Call `handler` from now on."""
        self._handlers.append(handler)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all handlers."""
        failures: list[Exception] = []
        for handler in self._handlers:
            try:
                handler(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - one listener must not cost the others
                failures.append(error)
        if failures:
            raise failures[0]
