"""Tasks: supervised, retried, one for each of several objects, or in a thread."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from cachetools import LRUCache
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_exponential,
    wait_fixed,
)

from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    UnreachableError,
)

LOGGED_AT_MOST = 4096


class LogOnce:
    """Logs what is said of something if it is not what was said of it last."""

    def __init__(self, log: logging.Logger, remembered: int = LOGGED_AT_MOST) -> None:
        self._log = log
        self._said: LRUCache[Hashable, tuple[str, str]] = LRUCache(remembered)

    def info(self, message: str, *, about: Hashable = "", **extra: object) -> None:
        """Log for information, as `warning` does."""
        self._say(logging.INFO, message, about, extra)

    def warning(self, message: str, *, about: Hashable = "", **extra: object) -> None:
        """Log a warning; what else it has is no news, except its reason."""
        self._say(logging.WARNING, message, about, extra)

    def error(self, message: str, *, about: Hashable = "", **extra: object) -> None:
        """Log an error, likewise."""
        self._say(logging.ERROR, message, about, extra)

    def bug(
        self, message: str, bug: BaseException, *, about: Hashable = "", **extra: object
    ) -> None:
        """Log a bug with its traceback."""
        self._say(logging.ERROR, message, about, extra, bug)

    def ended(self, about: Hashable = "") -> bool:
        """Log whatever is said next: the state is over; return whether it had been logged."""
        return self._said.pop(about, None) is not None

    def _say(
        self,
        level: int,
        message: str,
        about: Hashable,
        extra: dict[str, object],
        bug: BaseException | None = None,
    ) -> None:
        reason = str(extra.get("reason", "")) if bug is None else repr(bug)
        if self._said.get(about) != (message, reason):
            self._said[about] = (message, reason)
            self._log.log(level, message, exc_info=bug, extra=extra)


T = TypeVar("T")


def in_daemon_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Start a function in a thread of its own. Raises RuntimeError if there is no thread left."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # who waits no more cancels nothing

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - for who waits for it
            result.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return result


async def await_in_thread(function: Callable[[], T], name: str) -> T:
    """Return what a function returns; without blocking the event loop."""
    return await asyncio.wrap_future(in_daemon_thread(function, name))


_log = logging.getLogger(__name__)

RESTART_BACKOFF_S = (0.5, 60.0)
CALM_S = 300.0
"""A part that ran this long before it failed is restarted without back-off."""


class Supervisor:
    """Runs parts; logs failures, and restarts after a pause. on_restart: called with the kind."""

    def __init__(self, on_restart: Callable[[str], None] = lambda _: None) -> None:
        self._on_restart = on_restart

    def start(
        self,
        group: asyncio.TaskGroup,
        kind: str,
        run: Callable[[], Awaitable[None]],
        name: str = "",
    ) -> asyncio.Task[None]:
        """Start a task that runs a part under supervision."""
        name = name or kind
        return group.create_task(self.keep(kind, run, name), name=name)

    async def keep(self, kind: str, run: Callable[[], Awaitable[None]], name: str = "") -> None:
        """Run a part until it ends by itself or is cancelled. kind: counted. name: for the log."""
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await run()
            except Exception:  # noqa: BLE001 - a part must not cost the others
                if time.monotonic() - started > CALM_S:
                    failures = 0
                low, high = RESTART_BACKOFF_S
                pause_s = min(high, low * 2 ** min(failures, 10))
                failures += 1
                self._on_restart(kind)
                _log.exception(
                    "Restarting a part that failed",
                    extra={"part": name or kind, "pause_s": pause_s},
                )
            else:
                return
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


ALONE = Supervisor()
"""A default without counting."""


Live = TypeVar("Live")
RetriedErrors = type[KubeError] | tuple[type[KubeError], ...]


RETRY_BACKOFF = wait_exponential(multiplier=0.5, max=5.0)

WRITE_ATTEMPTS = 5
"""Attempts of a write after conflicts, as in Karmada."""
MET_ANOTHER = (AlreadyExistsError, ConflictError, NotFoundError)
"""Another writer created, changed or deleted the object meanwhile."""


async def retry_on_conflict(
    live: Live | None,
    write: Callable[[Live | None], Awaitable[T]],
    read: Callable[[], Awaitable[Live | None]],
    errors: RetriedErrors = MET_ANOTHER,
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
    """Retry a call until the server does it; a new reason why not is logged. what: for the log."""
    once = LogOnce(_log)

    def log(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, UnreachableError):
            once.warning("Waiting for API server", to=what, reason=str(error))

    retrying = AsyncRetrying(
        sleep=asyncio.sleep,
        wait=RETRY_BACKOFF,
        retry=retry_if_exception_type(KubeError),
        before_sleep=log,
    )
    return await _retried(retrying, call)


async def retry_on(
    errors: RetriedErrors,
    attempts: float,
    call: Callable[[], Awaitable[T]],
    pause_s: float = 0.0,
) -> T:
    """Retry a call that meets one of `errors`, which the last of `attempts` raises."""
    retrying = AsyncRetrying(
        sleep=asyncio.sleep,
        wait=wait_fixed(pause_s),
        stop=lambda state: state.attempt_number >= attempts,
        retry=retry_if_exception_type(errors),
        reraise=True,
    )
    return await _retried(retrying, call)


async def _retried(retrying: AsyncRetrying, call: Callable[[], Awaitable[T]]) -> T:
    async def attempt() -> T:  # tenacity awaits coroutine functions only, no lambdas
        return await call()

    done: T = await retrying(attempt)
    return done


R = TypeVar("R")


async def for_each(items: Iterable[T], call: Callable[[T], Awaitable[R]]) -> list[R]:
    """Return the results of a call for each item, in order; one that fails stops no other.

    Raises the first error at the end; one that an administrator intends only if there is no other.
    An outage concerns all that would follow, and is raised at once.
    """
    results: list[R] = []
    errors: list[Exception] = []
    for item in items:
        try:
            results.append(await call(item))
        except UnreachableError:
            raise
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise min(errors, key=lambda error: getattr(error, "is_intended", False))
    return results
