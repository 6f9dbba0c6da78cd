"""Signals: who tells of something need not know who listens."""

import logging
from collections.abc import Callable
from typing import Generic, ParamSpec

_log = logging.getLogger(__name__)

P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its handlers in the order of their subscription; one that fails costs no other."""

    def __init__(self) -> None:
        self._handlers: list[Callable[P, object]] = []

    def subscribe(self, handler: Callable[P, object]) -> None:
        """Call `handler` from now on."""
        self._handlers.append(handler)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all handlers."""
        for handler in self._handlers:
            try:
                handler(*args, **kwargs)
            except Exception:  # noqa: BLE001 - one listener must not cost the others
                name = getattr(handler, "__qualname__", repr(handler))
                _log.exception("Failing at a change", extra={"handler": name})
