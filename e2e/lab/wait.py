"""Wait for what only looking again can tell; say what was seen last when it never came."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest
import urllib3

from e2e.lab.api import Api, ApiError

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S = 180.0
POLL_S = 0.1
_NOT_YET = (AssertionError, ApiError, LookupError, TypeError, urllib3.exceptions.HTTPError)


def eventually(look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call `look` until it raises no more; return what it returned. See `within`."""
    __tracebackhide__ = True
    return within(TIMEOUT_S, look, *args, **named)


def within(timeout_s: float, look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call `look` for so long at most until it raises no more; return what it returned.

    look: asserts what is to be; an assertion, a missing object and a missing key count as
    not yet.
    """
    __tracebackhide__ = True
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return look(*args, **named)
        except _NOT_YET as error:
            if time.monotonic() > deadline:
                seen = f"{type(error).__name__}: {error}"
                pytest.fail(f"not within {timeout_s:.0f} s; last seen: {seen}")
        time.sleep(POLL_S)


def wait_gone(api: Api, path: str) -> None:
    """Wait until there is no such object."""
    __tracebackhide__ = True

    def look() -> None:
        found = api.find(path)
        assert found is None, f"{path} is still there: {found['metadata']}"

    eventually(look)
