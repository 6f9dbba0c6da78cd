"""The renewTime of Leases: it never decreases, whatever the clock of the new holder.

Observers of a Lease count a renewal when its time grew; they do not compare it with a clock.
"""

from datetime import UTC, datetime, timedelta

from karmada_vc_agent.model.objects import Object, dig

SKEW_S = 5.0
"""Log if a Lease is ahead of our clock by more than this."""
_STEP = timedelta(milliseconds=1)


def renew_time(lease: Object, now: datetime) -> str:
    """Return the time to renew a Lease with: now, or just after the time in it."""
    before = _renewed_at(lease)
    return _text(now if before is None or now >= before else before + _STEP)


def seconds_ahead(lease: Object, now: datetime) -> float:
    """Return how far a Lease renewed by another process is ahead of our clock; 0 if it is not."""
    before = _renewed_at(lease)
    return max(0.0, (before - now).total_seconds()) if before is not None else 0.0


def _renewed_at(lease: Object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(dig(lease, "spec", "renewTime") or ""))
        # A time at the end of the representable range cannot be increased.
        return at.astimezone(UTC) if at.tzinfo is not None and at.year < 9999 else None
    except (ValueError, OverflowError):
        return None


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
