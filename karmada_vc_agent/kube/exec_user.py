"""The user of a kubeconfig that an exec plugin vouches for, by tokens or client certificates.

Tokens are renewed in the background. A certificate belongs to connections: the follower
of the kubeconfig reads it again once `is_outdated`.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from karmada_vc_agent.kube.exec_plugin import ExecCredential, PluginError
from karmada_vc_agent.kube.plugin_token import CHECK_S, PluginToken
from karmada_vc_agent.model.timestamps import timestamp

MARGIN_S = 300.0
MARGIN = 0.2
"""Renewed so long before the end, or when this fraction of the time is left, if that is later."""


class ExecUser:
    """The last credential of a plugin; made by running it.

    run: runs the plugin; may raise PluginError. wall_clock: Unix time. Raises PluginError.
    """

    def __init__(
        self, run: Callable[[], ExecCredential], wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._run = run
        self._now = wall_clock
        given = run()
        self.certificate = given.certificate
        self._certificate_ends = _end_of_certificate(given, wall_clock())
        self._taken_at = wall_clock()
        self._token_renewed_after = self._soon(given.expires)
        self._certificate_renewed_after = self._soon(self._certificate_ends)
        self._is_suspect = False
        self._token = PluginToken(given.token, self._renewed) if given.token else None

    def token(self) -> str | None:
        """Return the bearer token at once, None if the plugin gives a certificate only."""
        return self._token() if self._token is not None else None

    def suspect(self) -> None:
        """Have the plugin run again soon: the server rejected what it gave."""
        self._is_suspect = True
        if self._token is not None:
            self._token.suspect()

    def is_outdated(self) -> bool:
        """Return whether it is time for another certificate."""
        if self.certificate is None:
            return False
        now = self._now()
        is_rejected = self._is_suspect and now - self._taken_at >= CHECK_S
        return is_rejected or now >= self._certificate_renewed_after

    def _renewed(self, force: bool) -> str | None:  # noqa: FBT001 - for PluginToken
        if not force and self._now() < self._token_renewed_after:
            return None
        given = self._run()
        self._token_renewed_after = self._soon(given.expires)
        return given.token

    def _soon(self, expires: float | None) -> float:
        """Return from when on to renew what expires."""
        if expires is None:
            return float("inf")
        left_s = max(0.0, expires - self._now())
        return expires - min(MARGIN_S, MARGIN * left_s)


def _end_of_certificate(given: ExecCredential, now: float) -> float | None:
    """Return when a certificate ends, by itself or by what the plugin says. Raises PluginError."""
    if given.certificate is None:
        return None
    # Reading certificates costs memory, and few plugins give any.
    from karmada_vc_agent.kube.certificates import read_certificate  # noqa: PLC0415

    try:
        not_after = read_certificate(given.certificate[0]).not_after.timestamp()
    except ValueError as error:
        raise PluginError(f"its plugin gave no valid certificate: {error}") from error
    if not_after <= now:
        moment = timestamp(datetime.fromtimestamp(not_after, UTC))
        raise PluginError(f"its plugin gave a certificate that expired at {moment}")
    return min(not_after, given.expires) if given.expires is not None else not_after
