"""A bearer token that a program or a server issues: exec plugins and OIDC.

Both may take seconds, and one event loop serves all. So no request waits for the next token: the
previous one is sent until it is there. They are renewed minutes before they expire.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from karmada_vc_agent.kube.daemon_threads import in_daemon_thread

_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""The period of checks whether the token expires, and the shortest one between two runs."""


class PluginToken:
    """The token that a plugin gave last.

    token: the first one. renew(force): returns the token, a new one if it expires soon or
    with `force`; may take long, may raise anything; None = there is none.
    """

    def __init__(
        self,
        token: str | None,
        renew: Callable[[bool], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token = token
        self._renew = renew
        self._clock = clock
        self._check_after = clock() + CHECK_S
        self._is_suspect = False
        self._running: Future[None] | None = None

    def __call__(self) -> str | None:
        """Return the token at once; have it renewed in the background now and then."""
        is_running = self._running is not None and not self._running.done()
        if not is_running and self._clock() >= self._check_after:
            self._check_after = self._clock() + CHECK_S
            force, self._is_suspect = self._is_suspect, False
            self._running = in_daemon_thread(lambda: self._take(force=force), "token plugin")
        return self._token

    def suspect(self) -> None:
        """Have the plugin make another token soon: the server rejected this one."""
        self._is_suspect = True

    def _take(self, *, force: bool) -> None:
        try:
            self._token = self._renew(force) or self._token
        except Exception as error:  # noqa: BLE001 - the errors of plugins are undocumented
            _log.warning("Keeping the old token: its plugin failed", extra={"reason": str(error)})
