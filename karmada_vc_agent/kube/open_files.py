"""How many files the process may have open, and how its connections share them.

Each watch and each pooled connection is an open file. Where there are few, every lane gets
fewer connections, and watches take turns (watch_turns.py): so what writes always has its own.
"""

import resource
from contextlib import suppress
from dataclasses import dataclass

WANTED = 65_536
RESERVED = 20
"""For files that are read, the loop, the log, the endpoints and the helper processes."""
NEEDED, NEEDED_A_CLUSTER = 128, 16
"""All connections at their most and the watches of any agent; those of a virtual cluster."""
LEAST_WATCHES = 4


@dataclass(frozen=True, slots=True)
class Shares:
    """How many connections: requests, lists, urgent for each server, watches for both."""

    requests: int
    lists: int
    urgent: int
    leases: int
    watches: int


def allow_most() -> int:
    """Let the process open as many files as it may, within reason; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft


def needed(clusters: int) -> int:
    """Return how many open files serve so many virtual clusters without taking turns."""
    return NEEDED + NEEDED_A_CLUSTER * clusters


def share_out(files: int, leases: int) -> Shares:
    """Return how many connections of each sort fit into so many open files."""
    requests = _between(3, files // 24, 16)
    lists = _between(1, files // 64, 4)
    urgent = _between(2, files // 64, 4)
    leases = min(leases, max(2, files // 32))
    events = 1
    pooled = 2 * (requests + lists + urgent) + leases + events
    return Shares(requests, lists, urgent, leases, max(LEAST_WATCHES, files - RESERVED - pooled))


def _between(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))
