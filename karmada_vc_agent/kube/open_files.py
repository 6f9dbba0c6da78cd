"""The limit of open files, and how connections share it.

Each watch and each pooled connection is an open file. If there are few, every lane gets fewer
connections, and watches share slots, so that writes always have theirs.
"""

import resource
from contextlib import suppress
from dataclasses import dataclass, replace

MOST_FILES = 65_536
RESERVED = 16
"""For regular files, the event loop, the log and the helper processes."""
ENDPOINTS = 2
"""Addresses that we serve: health and metrics."""
ENDPOINT_CONNECTIONS = 32
"""Connections at once of one address. Scrapers and kubelets have one or two."""
WATCHES, WATCHES_A_CLUSTER = 32, 16
"""Watches of any agent, and of each virtual cluster."""
LEAST_WATCHES = 4


@dataclass(frozen=True, slots=True)
class Shares:
    """Numbers of connections: requests, lists, urgent for each server, the others for both.

    Each is divided among virtual clusters by flows.py. Three that are slow hold 7 of 8.
    """

    requests: int
    lists: int
    urgent: int
    leases: int
    events: int
    reviews: int
    owners: int
    webhooks: int
    endpoint: int
    watches: int

    @property
    def pooled(self) -> int:
        """Return the number of all connections but watches, with those of our endpoints."""
        of_both = self.requests + self.lists + self.urgent
        single = self.leases + self.events + self.reviews + self.owners + self.webhooks
        return 2 * of_both + single + ENDPOINTS * self.endpoint


def allow_most() -> int:
    """Raise the limit of open files as far as allowed and sensible; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return MOST_FILES if soft == resource.RLIM_INFINITY else soft
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft


def needed(clusters: int, leases: int) -> int:
    """Return how many open files so many virtual clusters need for no watch to wait."""
    pooled = share_out(MOST_FILES, leases).pooled
    return RESERVED + pooled + WATCHES + WATCHES_A_CLUSTER * clusters


def share_out(files: int, leases: int) -> Shares:
    """Return how many connections of each sort fit into so many open files."""
    shares = Shares(
        requests=_between(3, files // 24, 16),
        lists=_between(1, files // 64, 4),
        urgent=_between(2, files // 64, 8),
        leases=min(leases, max(2, files // 32)),
        events=_between(1, files // 64, 8),
        reviews=_between(1, files // 64, 2),
        owners=_between(1, files // 64, 8),
        webhooks=_between(2, files // 16, 64),
        endpoint=endpoint_connections(files),
        watches=LEAST_WATCHES,
    )
    return replace(shares, watches=max(LEAST_WATCHES, files - RESERVED - shares.pooled))


def endpoint_connections(files: int) -> int:
    """Return how many connections one address may have."""
    return _between(2, files // 32, ENDPOINT_CONNECTIONS)


def _between(least: int, number: int, most: int) -> int:
    return max(least, min(number, most))
