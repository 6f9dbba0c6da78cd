"""Calls that are retried: when again, what is logged, what ends them."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from karmada_vc_agent.kube.flows import (
    WRITE_ATTEMPTS,
    retry_on,
    retry_on_conflict,
    retry_until_done,
)

AWAY = UnreachableError("away")
FORBIDDEN = ForbiddenError(403, "Forbidden", "may not")
CONFLICT = ConflictError(409, "Conflict", "met another")
GONE = NotFoundError(404, "NotFound", "gone")


class Server:
    """Raises, or returns, one after the other; `asked`: seconds since the start."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self._started = asyncio.get_running_loop().time()
        self.asked: list[float] = []

    async def ask(self) -> object:
        self.asked.append(asyncio.get_running_loop().time() - self._started)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def test_pauses_become_longer_up_to_five_seconds() -> None:
    server = Server(*[AWAY] * 6, "done")
    assert await retry_until_done("look", server.ask) == "done"
    assert server.asked == [0.0, 0.5, 1.5, 3.5, 7.5, 12.5, 17.5]


async def test_reason_is_logged_when_it_changes_and_an_outage_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = ApiError(500, "InternalError", "broken")
    server = Server(AWAY, FORBIDDEN, FORBIDDEN, AWAY, FORBIDDEN, failed, FORBIDDEN, None)
    await retry_until_done("read it", server.ask)
    said = [(r.__dict__["to"], r.__dict__["reason"]) for r in caplog.records]
    assert said == [("read it", str(each)) for each in (FORBIDDEN, failed, FORBIDDEN)]
    assert {r.message for r in caplog.records} == {"Waiting for API server"}


@pytest.mark.parametrize(
    "error", [ConfigError("a", "b", "c"), asyncio.CancelledError(), KeyError()]
)
@pytest.mark.parametrize(
    "retry",
    [
        lambda call: retry_until_done("look", call),
        lambda call: retry_on(KubeError, math.inf, call, 1.0),
        lambda call: retry_on(ConflictError, 5, lambda: call()),  # noqa: PLW0108 - no coroutine function
    ],
)
async def test_what_is_no_answer_of_a_server_passes_at_once(
    error: BaseException, retry: Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
) -> None:
    server = Server(CONFLICT, error)
    with pytest.raises(type(error)) as raised:
        await retry(server.ask)
    assert raised.value is error
    assert len(server.asked) == 2


@pytest.mark.parametrize("seconds", [0.2, 1.0])
async def test_call_that_is_cancelled_ends_while_it_waits(seconds: float) -> None:
    server = Server(*[AWAY] * 9)
    task = asyncio.create_task(retry_until_done("look", server.ask))
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asked = len(server.asked)
    await asyncio.sleep(60.0)
    assert len(server.asked) == asked


async def test_the_pause_may_stay_the_same(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(AWAY, FORBIDDEN, AWAY, "done")
    assert await retry_on(KubeError, math.inf, server.ask, 2.0) == "done"
    assert server.asked == [0.0, 2.0, 4.0, 6.0]
    assert not caplog.records


async def test_after_so_many_attempts_the_error_is_raised_as_it_is() -> None:
    server = Server(CONFLICT, CONFLICT, CONFLICT, "too late")
    with pytest.raises(ConflictError) as raised:
        await retry_on((ConflictError, NotFoundError), 3, server.ask)
    assert raised.value is CONFLICT
    assert server.asked == [0.0, 0.0, 0.0]
    server = Server(CONFLICT, NotFoundError(404, "NotFound", "gone"), "done")
    assert await retry_on((ConflictError, NotFoundError), 3, server.ask, 1.0) == "done"
    assert server.asked == [0.0, 1.0, 2.0]


class Written:
    """An object that is read as one version after the other, and writes that fail before it."""

    def __init__(self, *errors: ApiError) -> None:
        self._errors = list(errors)
        self.seen: list[int | None] = []
        self.reads = 0

    async def read(self) -> int | None:
        self.reads += 1
        return self.reads

    async def write(self, live: int | None) -> str:
        self.seen.append(live)
        if self._errors:
            raise self._errors.pop(0)
        return "written"


async def test_a_write_is_planned_again_by_what_is_there_after_a_conflict() -> None:
    written = Written(AlreadyExistsError(409, "AlreadyExists", "there"), CONFLICT, GONE)
    assert await retry_on_conflict(None, written.write, written.read) == "written"
    assert written.seen == [None, 1, 2, 3]


async def test_conflicts_without_end_are_raised_and_not_followed_by_a_read() -> None:
    written = Written(*[CONFLICT] * WRITE_ATTEMPTS)
    with pytest.raises(ConflictError) as raised:
        await retry_on_conflict(0, written.write, written.read)
    assert raised.value is CONFLICT
    assert (len(written.seen), written.reads) == (WRITE_ATTEMPTS, WRITE_ATTEMPTS - 1)


@pytest.mark.parametrize("error", [GONE, FORBIDDEN])
async def test_what_is_not_about_an_object_is_raised_at_once(error: ApiError) -> None:
    written = Written(error)
    with pytest.raises(type(error)):
        await retry_on_conflict(None, written.write, written.read)
    assert written.reads == 0


async def test_only_the_requested_errors_are_retried() -> None:
    written = Written(GONE)
    with pytest.raises(NotFoundError):
        await retry_on_conflict(0, written.write, written.read, ConflictError)
    assert written.reads == 0


async def test_calls_at_the_same_time_have_pauses_of_their_own() -> None:
    servers = [Server(*[AWAY] * n, n) for n in range(4)]
    done = await asyncio.gather(*(retry_until_done("look", each.ask) for each in servers))
    assert done == [0, 1, 2, 3]
    assert [each.asked for each in servers] == [[0.0, 0.5, 1.5, 3.5][: n + 1] for n in range(4)]
