"""The client certificate for the hub: its owner, its end, and a warning before that."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.model.karmada import AGENTS_GROUP, USER_PREFIX

if TYPE_CHECKING:
    from karmada_vc_agent.kube.certificates import Certificate

_log = logging.getLogger(__name__)

WARN_BELOW = 0.15
"""Fraction of its lifetime: certRotation renews it at 0.2, so something keeps it from that."""
CHECK_S = 3600.0
REPEAT_S = 24 * 3600.0


def is_agents_own(chain: bytes | None, agent: str) -> bool:
    """Return whether a certificate is the one that `join` gets for this agent.

    The hub renews it: same user, same group. Another one may be a person's.
    """
    certificate = _read(chain)
    if certificate is None:
        return False
    names = [(each.rfc4514_attribute_name, each.value) for each in certificate.subject]
    return sorted(names) == [("CN", USER_PREFIX + agent), ("O", AGENTS_GROUP)]


class HubCertificate:
    """Reads when the certificate in use expires, and warns in time.

    credentials: those in use for the hub.
    """

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._credentials = credentials
        self._now = now
        self._cached: tuple[bytes | None, Certificate | None] = (None, None)

    def expires(self) -> float | None:
        """Return when it expires, in Unix time; None without a certificate."""
        certificate = self._certificate()
        return certificate.not_after.timestamp() if certificate is not None else None

    async def watch(self) -> None:
        """Log once a day that it expires soon, or has expired."""
        while True:
            has_warned = self._warn()
            await asyncio.sleep(REPEAT_S if has_warned else CHECK_S)

    def _warn(self) -> bool:
        certificate = self._certificate()
        if certificate is None or certificate.remaining(self._now()) > WARN_BELOW:
            return False
        has_expired = certificate.not_after <= self._now()
        _log.log(
            logging.ERROR if has_expired else logging.WARNING,
            "The certificate for the hub has expired; run karmada-vc-agent join"
            if has_expired
            else "The certificate for the hub expires soon; see controller certRotation, or run "
            "karmada-vc-agent join",
            extra={"expires": certificate.not_after.isoformat()},
        )
        return True

    def _certificate(self) -> "Certificate | None":
        chain = self._credentials().certificate
        if self._cached[0] is not chain:
            self._cached = (chain, _read(chain))
        return self._cached[1]


def _read(chain: bytes | None) -> "Certificate | None":
    if not chain:
        return None
    # What reads certificates costs 8 MB: an agent with a token does without.
    from karmada_vc_agent.kube.certificates import read_certificate  # noqa: PLC0415

    try:
        return read_certificate(chain)
    except ValueError:
        return None
