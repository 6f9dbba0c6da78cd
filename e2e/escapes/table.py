"""All attempted escapes, in the order in which docs/isolation.md has them."""

from e2e.escapes import by_profile, by_work, on_host

ATTEMPTS = (*by_work.ATTEMPTS, *on_host.ATTEMPTS)
"""They end alike in both profiles."""
BY_PROFILE = by_profile.ATTEMPTS
