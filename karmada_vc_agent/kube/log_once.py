"""Logs lasting states once, not at each check."""

import logging
from collections.abc import Hashable

from cachetools import LRUCache

REMEMBERED = 4096


class LogOnce:
    """Logs what is said of something if it is not what was said of it last.

    log: the logger of the module that says it. remembered: of how many things.
    """

    def __init__(self, log: logging.Logger, remembered: int = REMEMBERED) -> None:
        self._log = log
        self._said: LRUCache[Hashable, tuple[str, str]] = LRUCache(remembered)

    def info(self, message: str, *, about: Hashable = "", **extra: object) -> None:
        """Log for information, as `warning` does."""
        self._say(logging.INFO, message, about, str(extra.get("reason", "")), extra)

    def warning(self, message: str, *, about: Hashable = "", **extra: object) -> None:
        """Log a warning; what else it has is no news, except its reason."""
        self._say(logging.WARNING, message, about, str(extra.get("reason", "")), extra)

    def error(self, message: str, *, about: Hashable = "", **extra: object) -> None:
        """Log an error, likewise."""
        self._say(logging.ERROR, message, about, str(extra.get("reason", "")), extra)

    def bug(
        self, message: str, bug: BaseException, *, about: Hashable = "", **extra: object
    ) -> None:
        """Log a bug with its traceback."""
        self._say(logging.ERROR, message, about, repr(bug), extra, bug)

    def ended(self, about: Hashable = "") -> bool:
        """Log whatever is said next: the state is over; return whether it had been logged."""
        return self._said.pop(about, None) is not None

    def _say(
        self,
        level: int,
        message: str,
        about: Hashable,
        reason: str,
        extra: dict[str, object],
        bug: BaseException | None = None,
    ) -> None:
        if self._said.get(about) != (message, reason):
            self._said[about] = (message, reason)
            self._log.log(level, message, exc_info=bug, extra=extra)
