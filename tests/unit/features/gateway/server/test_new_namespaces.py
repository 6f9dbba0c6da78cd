"""Namespaces that clients create: an answer waits until they are set up, not for ever."""

import asyncio
from typing import Any

import pytest

from karmada_vc_agent.features.gateway.server import access
from karmada_vc_agent.features.gateway.server.access import wait_until_set_up
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.objects import Object


class Host:
    """Allows from the nth question on; 0 = never."""

    def __init__(self, allows_at: int = 0) -> None:
        self.allows_at = allows_at
        self.asked: list[Object] = []
        self.slept: list[float] = []

    async def ask(self, path: str, obj: Any) -> Object:
        assert path == SELF_ACCESS_REVIEWS_PATH
        self.asked.append(obj["spec"]["resourceAttributes"])
        return {"status": {"allowed": len(self.asked) == self.allows_at}}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def wait(self) -> None:
        await wait_until_set_up(self.ask, "x-v-branch-a", self.sleep)


async def test_it_ends_once_the_last_right_is_there() -> None:
    host = Host(allows_at=9)
    await host.wait()
    assert len(host.asked) == 9
    assert set(host.slept) == {access.PAUSE_S}
    assert host.asked[0] == {
        "verb": "impersonate",
        "resource": "serviceaccounts",
        "namespace": "x-v-branch-a",
    }


async def test_an_agent_that_is_away_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "SET_UP_S", 0.01)
    host = Host()
    await host.wait()
    assert host.asked


async def test_a_host_that_does_not_answer_ends_it() -> None:
    async def fail(*_: Any) -> Object:
        raise UnreachableError("gone")

    await wait_until_set_up(fail, "x-v-branch-a")
