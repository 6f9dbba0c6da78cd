"""All attempted escapes, in the order in which docs/isolation.md has them."""

from e2e.escapes import by_gateway, by_hand, by_profile, by_work, on_host, on_namespaces

ATTEMPTS = (
    *by_work.ATTEMPTS,
    *on_host.ATTEMPTS,
    *on_namespaces.ATTEMPTS,
    *by_gateway.ATTEMPTS,
)
"""They end alike in both profiles."""
BY_PROFILE = (*by_profile.ATTEMPTS, *by_hand.ATTEMPTS)
