"""Wait for what only looking again can tell; say what was seen last when it never came."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest
import urllib3

from e2e.lab.api import ApiError

T = TypeVar("T")

TIMEOUT_S = 90.0
POLL_S = 0.1


def eventually(look: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """Call `look` until it raises no more; return what it returned.

    look: asserts what is to be; an assertion, a missing object and a missing key count as
    not yet.
    """
    __tracebackhide__ = True
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return look()
        except (
            AssertionError,
            ApiError,
            LookupError,
            TypeError,
            urllib3.exceptions.HTTPError,
        ) as error:
            if time.monotonic() > deadline:
                pytest.fail(
                    f"not within {timeout_s:.0f} s; last seen: {type(error).__name__}: {error}"
                )
        time.sleep(POLL_S)


def consistently(look: Callable[[], object], duration_s: float) -> None:
    """Call `look`, which asserts, again and again for a while; used where nothing may happen."""
    deadline = time.monotonic() + duration_s
    while time.monotonic() < deadline:
        look()
        time.sleep(POLL_S)
