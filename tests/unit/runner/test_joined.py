"""JoinedClusters: what of the settings file is served, and what waits for `join`."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from karmada_vc_agent.kube.errors import (
    ForbiddenError,
    KubeError,
    NotServedError,
    UnreachableError,
    UnreadableError,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.process import LOOK_S, JoinedClusters

SOON_S = LOOK_S + 0.1


def vcs(text: str) -> list[VirtualCluster]:
    return [VirtualCluster(name) for name in text.split()]


class Scene:
    """A hub that knows for whom there are rights, and what is served."""

    def __init__(self, rights: str = "", known: str = "") -> None:
        self.rights = set(rights.split())
        self.known = set(known.split())
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.served = ""
        self.joined = JoinedClusters(self._use)

    def _use(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        self.served = " ".join(vc.name for vc in virtual_clusters)

    async def ask(self, name: str) -> bool:
        self.asked.append(name)
        if self.error is not None:
            raise self.error
        return name in self.rights

    async def start(self) -> None:
        await self.joined.start(self.ask, self.known.__contains__)

    async def change(self, text: str) -> None:
        """Do what follows the file."""
        await self.joined.look(vcs(text))
        self.joined.take(vcs(text))


@asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[None]:
    task = asyncio.ensure_future(scene.joined.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_those_with_rights_are_served_and_others_once_they_have_them() -> None:
    scene = Scene(rights="a")
    scene.joined.take(vcs("a b"))
    assert scene.served == "a b"  # nothing is done with them yet
    await scene.start()
    assert (scene.served, scene.joined.waiting) == ("a", ["b"])
    async with running(scene):
        await asyncio.sleep(SOON_S)
        assert scene.served == "a"
        scene.rights.add("b")
        await asyncio.sleep(SOON_S)
    assert (scene.served, scene.joined.waiting) == ("a b", [])
    assert scene.asked.count("a") == 1


async def test_one_that_was_registered_is_served_though_the_hub_says_nothing() -> None:
    scene = Scene(known="a")
    scene.error = UnreachableError("no answer")
    scene.joined.take(vcs("a b"))
    await scene.start()
    assert (scene.served, scene.joined.waiting, scene.asked) == ("a", [], ["b"])


async def test_one_is_served_where_the_hub_refuses_the_query() -> None:
    scene = Scene()
    scene.error = ForbiddenError(403, "Forbidden", "no questions")
    scene.joined.take(vcs("a"))
    await scene.start()
    assert scene.served == "a"


@pytest.mark.parametrize("error", [NotServedError(404, "", ""), UnreadableError("a page")])
async def test_page_of_the_hub_says_nothing_of_rights(error: KubeError) -> None:
    scene = Scene()
    scene.error = error
    scene.joined.take(vcs("a"))
    await scene.start()
    assert scene.served == ""
    scene.error, scene.rights = None, {"a"}
    async with running(scene):
        await asyncio.sleep(SOON_S)
    assert scene.served == "a"


async def test_change_of_the_file_asks_about_new_ones_only() -> None:
    scene = Scene(rights="a b")
    scene.joined.take(vcs("a"))
    await scene.start()
    await scene.change("a b c")
    assert (scene.served, scene.joined.waiting) == ("a b", ["c"])
    assert scene.asked == ["a", "b", "c"]
    await scene.change("a")
    assert (scene.served, scene.joined.waiting) == ("a", [])
    await scene.change("a b")
    assert scene.asked == ["a", "b", "c", "b"]


async def test_file_that_changes_before_the_start_is_taken_as_it_is() -> None:
    scene = Scene(rights="b")
    scene.joined.take(vcs("a"))
    await scene.change("b c")
    assert (scene.served, scene.asked) == ("b c", [])
    await scene.start()
    assert scene.served == "b"


async def test_one_that_waits_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    scene.joined.take(vcs("a"))
    await scene.start()
    async with running(scene):
        await asyncio.sleep(10 * LOOK_S)
    assert [record.__dict__["virtual_cluster"] for record in caplog.records] == ["a"]
