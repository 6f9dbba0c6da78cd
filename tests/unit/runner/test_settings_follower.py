"""SettingsFollower: when the file is read, and what a bad one changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.process import CHECK_S, SETTLES_S, SettingsFollower, digest_of

SOON_S = CHECK_S + SETTLES_S + 0.1


class Followed:
    """A file with names of virtual clusters; which of them are bad is agreed on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("a")
        self.reads = 0
        self.used: list[str] = []
        self.texts_at_reads: list[str] = []
        self.host_answers = True
        self.follower = SettingsFollower(path, digest_of(path), self._read)

    def _read(self) -> tuple[AgentConfig, tuple[str, ...]]:
        self.reads += 1
        if self.texts_at_reads:
            self.path.write_text(self.texts_at_reads.pop(0))
        text = self.path.read_text() if self.path.is_file() else "bad"
        if text == "bad":
            raise ConfigError(str(self.path), "virtualClusters", "is bad")
        return _reloaded(*text.split())

    async def check(self, vcs: tuple[VirtualCluster, ...]) -> None:
        if not self.host_answers:
            raise UnreachableError("no answer")
        if any(vc.name == "refused" for vc in vcs):
            raise ConfigError("environment", "NODE_NAME", "is a node of refused")

    def use(self, found: AgentConfig) -> None:
        self.used.append(" ".join(vc.name for vc in found.virtual_clusters))


def _reloaded(*names: str) -> tuple[AgentConfig, tuple[str, ...]]:
    return AgentConfig(virtual_clusters=tuple(map(VirtualCluster, names))), ()


@asynccontextmanager
async def followed(folder: Path) -> AsyncIterator[Followed]:
    made = Followed(folder / "agent.yaml")
    task = asyncio.ensure_future(made.follower.run(made.check, made.use))
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_file_that_stays_is_not_read(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        await asyncio.sleep(10 * SOON_S)
        assert made.reads == 0


async def test_changed_file_is_used_once(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.path.write_text("a b")
        await asyncio.sleep(5 * SOON_S)
        assert made.used == ["a b"]
        assert made.reads == 1


async def test_file_that_changed_while_the_agent_started_is_used(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    used: list[AgentConfig] = []
    path.write_text("as it was read at the start")
    digest = digest_of(path)
    path.write_text("as it is since")
    follower = SettingsFollower(path, digest, lambda: _reloaded("a"))

    async def accept(_vcs: tuple[VirtualCluster, ...]) -> None:
        pass

    task = asyncio.ensure_future(follower.run(accept, used.append))
    await asyncio.sleep(SOON_S)
    assert [[vc.name for vc in found.virtual_clusters] for found in used] == [["a"]]
    task.cancel()


async def test_bad_file_changes_nothing_and_is_reported_until_it_is_good(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.path.write_text("bad")
        await asyncio.sleep(5 * SOON_S)
        assert made.used == []
        assert made.reads == 1
        assert made.follower.problem is not None
        assert "virtualClusters: is bad" in made.follower.problem
        made.path.write_text("a c")
        await asyncio.sleep(SOON_S)
        assert made.used == ["a c"]
        assert made.follower.problem is None


async def test_file_that_is_good_as_it_was_before_is_well_again(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        for text in ("bad", "a"):
            made.path.write_text(text)
            await asyncio.sleep(SOON_S)
        assert made.follower.problem is None


async def test_deleted_file_is_bad_until_it_is_back(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.path.unlink()
        await asyncio.sleep(SOON_S)
        assert made.used == []
        assert made.follower.problem is not None
        made.path.write_text("a b")
        await asyncio.sleep(SOON_S)
        assert made.used == ["a b"]


async def test_host_decides_and_is_queried_until_it_responds(
    tmp_path: Path,
) -> None:
    async with followed(tmp_path) as made:
        made.path.write_text("refused")
        await asyncio.sleep(SOON_S)
        assert made.follower.problem is not None
        assert "is a node of refused" in made.follower.problem
        made.host_answers = False
        made.path.write_text("a b")
        await asyncio.sleep(2 * SOON_S)
        assert made.used == []
        made.host_answers = True
        await asyncio.sleep(SOON_S)
        assert made.used == ["a b"]
        assert made.follower.problem is None


async def test_requested_reload_reads_an_unchanged_file(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.follower.reload()
        await asyncio.sleep(2 * SETTLES_S)
        assert made.used == ["a"]


async def test_file_that_could_not_be_checked_and_is_as_before_is_well(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.host_answers = False
        made.path.write_text("a b")
        await asyncio.sleep(SOON_S)
        assert made.follower.problem is not None
        made.path.write_text("a")
        await asyncio.sleep(SOON_S)
        assert made.follower.problem is None
        assert made.used == []


async def test_file_that_changes_under_the_reader_is_read_again(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.texts_at_reads = ["a b c", "a b"]  # and then it is what it was before the read
        made.path.write_text("a b")
        await asyncio.sleep(3 * SOON_S)
        assert made.used == ["a b"]


async def test_requested_reload_reports_the_same_bad_file_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed(tmp_path) as made:
        made.path.write_text("bad")
        await asyncio.sleep(2 * SOON_S)
        assert len(caplog.messages) == 1
        made.follower.reload()
        await asyncio.sleep(2 * SOON_S)
        assert len(caplog.messages) == 2


async def test_directory_in_place_of_the_deleted_file_is_read_again(tmp_path: Path) -> None:
    async with followed(tmp_path) as made:
        made.path.unlink()
        made.path.mkdir()
        made.texts_at_reads = []
        await asyncio.sleep(SOON_S)
        reads = made.reads
        made.path.rmdir()
        await asyncio.sleep(SOON_S)
        assert made.reads == reads + 1
