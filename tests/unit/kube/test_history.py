"""History: what says that time went back, and when the doubt is over."""

import asyncio

import pytest

from karmada_vc_agent.kube.store import SECOND_LIST_S, History


@pytest.mark.parametrize(
    ("known", "found", "is_back"),
    [("7", "6", True), ("7", "7", False), ("9", "10", False), ("", "6", False), ("x", "6", False)],
)
async def test_lower_version_says_that_time_was_rolled_back(
    known: str, found: str, *, is_back: bool
) -> None:
    history = History("hub")
    assert history.check(known, found, "a list", 0) is is_back
    assert history.is_in_doubt is is_back


async def test_earlier_recorded_version_is_no_second_evidence() -> None:
    history = History("hub")
    assert history.check("7", "6", "a list", 0)
    await asyncio.sleep(SECOND_LIST_S + 1)
    assert not history.check("7", "6", "another list", 0)
    assert not history.is_in_doubt
    assert history.time_resets == 1


async def test_unwatched_server_is_settled_after_the_pause() -> None:
    history = History("hub")
    history.notice("evidence")
    await asyncio.sleep(SECOND_LIST_S + 1)
    assert not history.is_in_doubt


async def test_doubt_ends_when_everybody_has_looked_in_the_second_epoch() -> None:
    history, told = History("hub"), list[str]()
    history.was_reset.subscribe(lambda: told.append("back"))
    history.settled.subscribe(lambda: told.append("settled"))
    history.join("a")
    history.join("b")
    history.notice("evidence")
    history.notice("more of it")
    assert history.epoch == 1
    history.listed("a", 1)
    history.listed("b", 1)
    await asyncio.sleep(SECOND_LIST_S + 1)
    assert history.epoch == 2
    history.listed("a", 2)
    assert history.is_in_doubt
    history.leave("b")
    assert not history.is_in_doubt
    assert told == ["back", "settled"]


async def test_time_rolled_back_during_the_second_check_restarts_it() -> None:
    history = History("hub")
    history.join("a")
    history.notice("evidence")
    await asyncio.sleep(SECOND_LIST_S + 1)
    history.notice("again")
    history.listed("a", history.epoch)
    assert history.is_in_doubt
    await asyncio.sleep(SECOND_LIST_S + 1)
    history.listed("a", history.epoch)
    assert not history.is_in_doubt
    assert history.time_resets == 2


async def test_who_waits_is_woken_at_each_look() -> None:
    history = History("hub")
    waiting = asyncio.ensure_future(history.wait_new_epoch(0))
    await asyncio.sleep(1)
    assert not waiting.done()
    history.notice("evidence")
    await waiting
