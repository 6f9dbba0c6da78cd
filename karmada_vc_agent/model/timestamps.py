"""Times as Kubernetes writes them in objects: RFC 3339, in whole seconds."""

from datetime import datetime


def timestamp(moment: datetime) -> str:
    """Return a moment, which must be in UTC, as text: `2026-01-02T03:04:05Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
