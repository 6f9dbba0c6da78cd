"""Signals: the emitter need not know its subscribers."""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its handlers in the order of subscription; a failing one does not affect the others.

    The first failure is raised to the emitter after all were called: a store counts it, and logs it
    once for each object.
    """

    def __init__(self) -> None:
        self._handlers: list[Callable[P, object]] = []

    def subscribe(self, handler: Callable[P, object]) -> None:
        """Call `handler` from now on."""
        self._handlers.append(handler)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all handlers."""
        failures: list[Exception] = []
        for handler in self._handlers:
            try:
                handler(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - one listener must not cost the others
                failures.append(error)
        if failures:
            raise failures[0]
