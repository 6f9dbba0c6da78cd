"""PluginToken: when a plugin runs, and what is sent until it has run."""

import time
from collections.abc import Callable

import pytest

from karmada_vc_agent.kube.exec_credentials import CHECK_S, _PluginToken
from tests.fakes.virtual_time import Clock


class Plugin:
    """Counts its tokens; `force` of each time it was asked."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.fails = False

    def __call__(self, force: bool) -> str | None:
        self.asked.append(force)
        if self.fails:
            raise ValueError("out of order")
        return f"token {len(self.asked)}"


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def until(holds: Callable[[], bool]) -> None:
    """Wait for a thread."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < 10.0
        time.sleep(0.001)


def test_token_is_renewed_now_and_then(plugin: Plugin, clock: Clock) -> None:
    token = _PluginToken("first", plugin, clock)
    assert token() == "first"
    assert plugin.asked == []
    clock.advance(CHECK_S)
    token()
    until(lambda: token() == "token 1")
    assert plugin.asked == [False]


def test_rejected_token_is_made_anew_once(plugin: Plugin, clock: Clock) -> None:
    token = _PluginToken("first", plugin, clock)
    token.suspect()
    for number in (1, 2):
        clock.advance(CHECK_S)
        token()
        until(lambda: token() == f"token {number}")  # noqa: B023 - waited for at once
    assert plugin.asked == [True, False]


def test_plugin_that_fails_leaves_the_old_token(
    plugin: Plugin, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    token = _PluginToken("first", plugin, clock)
    plugin.fails = True
    clock.advance(CHECK_S)
    token()
    until(lambda: bool(caplog.records))
    assert token() == "first"
    plugin.fails = False
    clock.advance(CHECK_S)
    until(lambda: token() == "token 2")
