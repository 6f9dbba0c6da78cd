"""Logs the start and the end of an outage of an API server, once for all of its clients."""

import logging
import time

_log = logging.getLogger(__name__)


class Outage:
    """Whether an API server is unreachable, for the log; shared by its clients."""

    def __init__(self) -> None:
        self._since: float | None = None

    def begin(self, server: str, url: str, reason: str) -> None:
        """Log that the server is unreachable, unless that was logged."""
        if self._since is None:
            self._since = time.monotonic()
            extra = {"server": server, "url": url, "reason": reason}
            _log.warning("Waiting for API server", extra=extra)

    def end(self, server: str) -> None:
        """Log that the server answers again if it was unreachable."""
        if self._since is not None:
            away_s = round(time.monotonic() - self._since, 1)
            self._since = None
            _log.info("API server answers again", extra={"server": server, "away_s": away_s})
