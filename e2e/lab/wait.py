"""Wait for what only repeated reading shows; report what was seen last when it never came."""

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import urllib3

from e2e.lab.api import Api, ApiError

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S = 60.0
"""A change of one side is seen there, or on the other side, also where three stories wait for two
cores."""
STARTED_S = 90.0
"""An agent imports its code, is confined by policies, lists hub and host and reports; three start
at once on two cores."""
THROUGH_HUB_S = 60.0
"""A change passes five controllers of Karmada, the agent and those of the host, and back again."""
GONE_S = 180.0
"""Deletions wait for one another: the hub checks a Cluster that is deleted every 10 s, the host
empties a namespace kind by kind."""
BACKED_OFF_S = 180.0
"""What failed is retried by a back-off, which grows as long as it fails; so is a connection."""
NODE_GRACE_S = 120.0
"""The host reports a node Unknown 50 s after its last Lease, and evicts behind that."""
PERIODIC_S = 60.0
"""An agent checks settings, node groups, rights, policies and discovery every 10 to 30 s."""
REAL_S = 180.0
"""On kind: real kubelets start real containers, and Leases of 15 s run out."""
SETTLED_S = 3.0
POLL_S, POLL_MOST_S, POLL_SHARE = 0.2, 1.0, 0.1
"""Pauses between looks: a share of what was waited already. Stories at once share two cores with
the servers that they ask; ten looks a second of each were a third of the host's requests."""
_NOT_YET = (
    *(AssertionError, ApiError, urllib3.exceptions.HTTPError),
    *(ValueError, IndexError, StopIteration),
)
"""The last three: there are more or fewer than `(each,) = found` and the like expect."""

slow: list[str] = []
"""Waits that took more than half of their time, for the report of the test that runs."""


def eventually(look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call `look` until it raises no more, for TIMEOUT_S; where longer is right, use `within`."""
    __tracebackhide__ = True
    return within(TIMEOUT_S, look, *args, **named)


def within(timeout_s: float, look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call `look` for so long at most until it raises no more; return what it returned.

    look: asserts what is to be. An assertion, a field that an answer lacks, another number of
    items than expected and an answer that is no success count as not yet; anything else is a
    mistake of the story and ends it. Waits inside of it are repeated until the outer time is over.
    """
    __tracebackhide__ = True
    begin = time.monotonic()
    while True:
        try:
            result = look(*args, **named)
        except _NOT_YET as error:
            if time.monotonic() - begin > timeout_s:
                seen = f"{type(error).__name__}: {error}"
                raise AssertionError(f"not within {timeout_s:.0f} s; last seen: {seen}") from None
        else:
            if (took_s := time.monotonic() - begin) > timeout_s / 2:
                slow.append(f"{took_s:.0f} of {timeout_s:.0f} s for {_name(look)}")
            return result
        waited_s = time.monotonic() - begin
        time.sleep(min(POLL_MOST_S, max(POLL_S, waited_s * POLL_SHARE)))


def settled(look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return what `look` returns once that was the same for SETTLED_S.

    Pods, statuses and what controllers write of them arrive after each other, on both sides.
    """
    __tracebackhide__ = True

    def same() -> T:
        before = look(*args, **named)
        time.sleep(SETTLED_S)
        assert look(*args, **named) == before, "it still changes"
        return before

    return within(THROUGH_HUB_S, same)


def wait_until_deleted(api: Api, path: str) -> None:
    """Wait until there is no such object."""
    __tracebackhide__ = True

    def look_for() -> None:
        found = api.find(path)
        assert found is None, f"{path} is still there: {found['metadata']}"

    within(GONE_S, look_for)


def _name(look: Callable[..., object]) -> str:
    return str(getattr(look, "__qualname__", look))


@contextmanager
def turn(host: Api, what: str) -> Iterator[str]:
    """Wait until no other process of these tests holds a turn at a host; yield the host's UID."""
    uid: str = host.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    path = Path(tempfile.gettempdir()) / f"karmada-vc-agent-e2e-{uid}-{what}"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield uid
