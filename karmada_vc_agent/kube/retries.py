"""Calls that are retried until a server does what is requested, by tenacity; for rare calls.

Each costs 16 us more than a plain one. What is retried all the time has a backoff of its own: keys
of a work queue, reflectors, parts of the process. Writes of objects have `retry_on_conflict`, a
plain loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    stop_never,
    wait_exponential,
    wait_fixed,
)
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from karmada_vc_agent.kube.log_once import LogOnce

_log = logging.getLogger(__name__)

T = TypeVar("T")
Live = TypeVar("Live")
Errors = type[KubeError] | tuple[type[KubeError], ...]


def backoff(first_s: float, longest_s: float) -> WaitBaseT:
    """Return pauses each of which is twice the one before."""
    return wait_exponential(multiplier=first_s, max=longest_s)


BACKOFF = backoff(0.5, 5.0)

WRITE_ATTEMPTS = 5
"""Attempts of a write after conflicts, as in Karmada."""
MET_ANOTHER = (AlreadyExistsError, ConflictError, NotFoundError)
"""Another writer created, changed or deleted the object meanwhile."""


async def retry_on_conflict(
    live: Live | None,
    write: Callable[[Live | None], Awaitable[T]],
    read: Callable[[], Awaitable[Live | None]],
    errors: Errors = MET_ANOTHER,
) -> T:
    """Write according to the live object; on a conflict read it again and retry, without a pause.

    live: None if there is no object; then NotFoundError is about its resource or namespace, and is
    raised. Raises the error of the last of `WRITE_ATTEMPTS`, and whatever else the calls raise.
    """
    for _ in range(WRITE_ATTEMPTS - 1):
        try:
            return await write(live)
        except errors as error:
            if live is None and isinstance(error, NotFoundError):
                raise
        live = await read()
    return await write(live)


async def retry_until_done(what: str, call: Callable[[], Awaitable[T]]) -> T:
    """Retry a call until the server does it; the reason it does not is logged when it changes.

    what: what is to be done, for the log. An outage is logged by the client. Raises whatever is
    not a KubeError.
    """
    return await _retry(call, KubeError, BACKOFF, before_sleep=_LogReason(what))


async def retry_every(pause_s: float, call: Callable[[], Awaitable[T]]) -> T:
    """Retry a call each `pause_s` until the server does it; nothing is logged."""
    return await _retry(call, KubeError, wait_fixed(pause_s))


async def retry_on(
    errors: Errors, attempts: int, call: Callable[[], Awaitable[T]], pause_s: float = 0.0
) -> T:
    """Retry a call that meets one of `errors`, which the last of `attempts` raises."""
    return await _retry(call, errors, wait_fixed(pause_s), stop_after_attempt(attempts))


async def poll(read: Callable[[], Awaitable[T | None]], wait: WaitBaseT) -> T:
    """Look until there is something; None = nothing yet."""

    async def attempt() -> T | None:
        return await read()

    is_none = retry_if_result(lambda result: result is None)
    result: T = await AsyncRetrying(sleep=asyncio.sleep, wait=wait, retry=is_none)(attempt)
    return result


async def _retry(
    call: Callable[[], Awaitable[T]],
    errors: Errors,
    wait: WaitBaseT,
    stop: StopBaseT = stop_never,
    before_sleep: Callable[[RetryCallState], Any] | None = None,
) -> T:
    async def attempt() -> T:
        return await call()

    # One for each call: two that run at the same time would mix up their attempts.
    retrying = AsyncRetrying(
        sleep=asyncio.sleep,
        wait=wait,
        stop=stop,
        retry=retry_if_exception_type(errors),
        before_sleep=before_sleep,
        reraise=True,
    )
    done: T = await retrying(attempt)
    return done


class _LogReason:
    """Logs why a call is retried, once for as long as the reason stays."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._once = LogOnce(_log)

    def __call__(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, UnreachableError):
            self._once.warning("Waiting for API server", to=self._what, reason=str(error))
