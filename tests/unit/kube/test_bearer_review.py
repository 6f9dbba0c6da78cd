"""BearerReview: the API server decides, its answers are kept a while, no answer opens nothing."""

import asyncio
from typing import Any

import pytest

from karmada_vc_agent.kube.discovery import (
    ACCESS_REVIEWS_PATH,
    ALLOWED_FOR_S,
    OUTAGE_S,
    REFUSED_FOR_S,
    REVIEWS_AT_ONCE,
    REVIEWS_KEPT,
    TOKEN_REVIEWS_PATH,
    BearerReview,
)
from karmada_vc_agent.kube.errors import (
    ForbiddenError,
    KubeError,
    NotServedError,
    PageError,
    UnreachableError,
)
from tests.fakes.virtual_time import Clock

USER = {"username": "reader", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}}
GOOD, KNOWN = "Bearer good", "Bearer known"


class Host:
    """Knows the tokens "good", whose user may read, and "known", whose user may not."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.fails: KubeError | None = None
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.may = {"reader"}

    async def ask(self, path: str, review: Any) -> Any:
        self.asked.append((path, review["spec"]))
        await self.goes_on.wait()
        if self.fails is not None:
            raise self.fails
        if path == TOKEN_REVIEWS_PATH:
            names = {"good": "reader", "known": "guest"}
            name = names.get(review["spec"]["token"])
            if name is None:
                return {"status": {"error": "invalid bearer token"}}
            return {"status": {"authenticated": True, "user": {**USER, "username": name}}}
        assert path == ACCESS_REVIEWS_PATH
        return {"status": {"allowed": review["spec"]["user"] in self.may}}


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def readers(host: Host, clock: Clock) -> BearerReview:
    return BearerReview(host.ask, "/metrics", clock)


async def status(readers: BearerReview, header: str) -> int:
    refusal = await readers.refusal(header)
    return refusal[0] if refusal else 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic good", "good"])
async def test_without_token_no_review_is_requested(
    readers: BearerReview, host: Host, header: str
) -> None:
    assert await status(readers, header) == 401
    assert host.asked == []


@pytest.mark.parametrize(
    ("header", "expected"), [(GOOD, 200), ("bearer good", 200), (KNOWN, 403), ("Bearer x", 401)]
)
async def test_the_host_decides(readers: BearerReview, header: str, expected: int) -> None:
    assert await status(readers, header) == expected


async def test_access_review_carries_all_attributes_of_the_user(
    readers: BearerReview, host: Host
) -> None:
    await readers.refusal(GOOD)
    assert host.asked[1][1] == {
        "user": "reader",
        "uid": "1",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_refusal_names_user_and_rule(readers: BearerReview) -> None:
    rule = "nonResourceURLs [/metrics], verbs [get]"
    text = f'user "guest" may not get /metrics; it needs a ClusterRole with {rule}'
    assert await readers.refusal(KNOWN) == (403, text)


@pytest.mark.parametrize(
    ("header", "lasts_s"), [(GOOD, ALLOWED_FOR_S), (KNOWN, REFUSED_FOR_S), ("Bearer x", 10.0)]
)
async def test_answers_are_kept_a_while(
    readers: BearerReview, host: Host, clock: Clock, header: str, lasts_s: float
) -> None:
    first = await status(readers, header)
    asked = len(host.asked)
    clock.advance(lasts_s - 0.1)
    assert await status(readers, header) == first
    assert len(host.asked) == asked
    clock.advance(0.2)
    assert await status(readers, header) == first
    assert len(host.asked) == 2 * asked


async def test_right_taken_back_is_noticed(readers: BearerReview, host: Host, clock: Clock) -> None:
    assert await status(readers, GOOD) == 200
    host.may.clear()
    clock.advance(ALLOWED_FOR_S)
    assert await status(readers, GOOD) == 403
    host.fails = UnreachableError("away")
    clock.advance(REFUSED_FOR_S)
    assert await status(readers, GOOD) == 503


async def test_while_the_host_is_away_only_the_allowed_may(
    readers: BearerReview, host: Host, clock: Clock
) -> None:
    await readers.refusal(GOOD)
    await readers.refusal(KNOWN)
    host.fails = UnreachableError("away")
    clock.advance(OUTAGE_S - 1)
    assert await status(readers, GOOD) == 200
    assert await status(readers, KNOWN) == 503
    assert await status(readers, "Bearer other") == 503
    clock.advance(2)
    assert await status(readers, GOOD) == 503


async def test_agent_without_the_right_to_ask_opens_nothing(
    readers: BearerReview, host: Host, clock: Clock
) -> None:
    await readers.refusal(GOOD)
    clock.advance(ALLOWED_FOR_S)
    host.fails = ForbiddenError(403, "Forbidden", "no")
    assert await status(readers, GOOD) == 503


@pytest.mark.parametrize(
    ("answer", "expected"),
    [({}, 503), ({"status": None}, 503), ({"status": {"authenticated": "yes"}}, 401)],
)
async def test_strange_answer_opens_nothing(answer: Any, expected: int) -> None:
    async def ask(_path: str, _review: Any) -> Any:
        return answer

    assert await status(BearerReview(ask, "/metrics"), GOOD) == expected


@pytest.mark.parametrize("page", [NotServedError(404, "", ""), PageError(502, "", "<html>")])
async def test_page_in_place_of_a_review_is_an_outage(
    readers: BearerReview, host: Host, clock: Clock, page: KubeError
) -> None:
    await readers.refusal(GOOD)
    clock.advance(ALLOWED_FOR_S)
    host.fails = page
    assert await status(readers, GOOD) == 200
    assert await status(readers, KNOWN) == 503


async def test_guesses_are_bounded(readers: BearerReview, host: Host) -> None:
    await readers.refusal(GOOD)
    host.goes_on.clear()
    guesses = [asyncio.create_task(status(readers, f"Bearer {n}")) for n in range(REVIEWS_AT_ONCE)]
    await asyncio.sleep(0)
    assert await status(readers, "Bearer more") == 503
    assert await status(readers, GOOD) == 200
    host.goes_on.set()
    assert await asyncio.gather(*guesses) == [401] * REVIEWS_AT_ONCE
    for number in range(REVIEWS_KEPT + 10):
        await readers.refusal(f"Bearer more-{number}")
    asked = len(host.asked)
    assert await status(readers, GOOD) == 200
    assert len(host.asked) == asked
    assert len(readers._refused) == REVIEWS_KEPT
