"""CheckpointWriter: what goes wrong at one Secret, or one virtual cluster, costs no other one."""

import uuid
from datetime import UTC, datetime

import pytest

from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import Reason
from karmada_vc_agent.features.checkpoint.reader import usable_times
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, InvalidError
from karmada_vc_agent.model import vocabulary
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.checkpoint.checkpoint_scene import SECRETS, LosingClient, Scene

NAMES = ("branch-a", "branch-b")


@pytest.fixture
async def scene(host: FakeApiServer, client: ApiClient) -> Scene:
    return Scene(host, client, *NAMES)


def _path_of(cluster: str) -> str:
    return f"{SECRETS}/agent-checkpoint-{entries.place_of(cluster, 0)}"


async def test_a_secret_that_cannot_be_written_costs_no_other_virtual_cluster(scene: Scene) -> None:
    await scene.write()
    scene.host.fail(422, "Invalid", method="PATCH", path=_path_of("branch-a"))
    for name in NAMES:
        scene.work(f"of-{name}", of=name)
    with pytest.raises(InvalidError):
        await scene.write()
    assert scene.names("branch-b") == ["of-branch-b"]
    assert scene.writer.problem_of("branch-a")
    assert not scene.writer.problem_of("branch-b")


async def test_what_is_taken_away_waits_for_no_other_virtual_cluster(scene: Scene) -> None:
    await scene.write()
    scene.host.fail(422, "Invalid", method="PATCH", path=_path_of("branch-a"))
    scene.served.clear()
    with pytest.raises(InvalidError):
        await scene.write()
    assert scene.saved().clusters == ["branch-a"]


async def test_a_virtual_cluster_that_is_not_listed_does_not_age_the_others(scene: Scene) -> None:
    """The Works of branch-b are not known again since 10:00; those of branch-a are."""
    await scene.write()
    scene.works["branch-b"].is_synced = False
    scene.time = "2026-05-01T12:00:00Z"
    scene.new_process()
    await scene.secrets.load()
    await scene.write()
    saved = scene.saved(times=usable_times(datetime(2026, 5, 1, 12, tzinfo=UTC), 3600))
    assert saved.clusters == ["branch-a"]
    assert saved.refusals["branch-b"].reason is Reason.TOO_OLD


async def test_work_without_space_is_reported_until_it_fits(
    host: FakeApiServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change to another part of the same virtual cluster does not make the first one fit."""
    monkeypatch.setattr(entries, "WORKS_A_PART", 10)
    monkeypatch.setattr(entries, "LARGEST_SECRET", 3000)
    scene = Scene(host, client, "branch-a")
    large = next(f"large-{n}" for n in range(99) if entries.part_of(f"large-{n}", 2) == 0)
    small = [f"small-{n}" for n in range(40) if entries.part_of(f"small-{n}", 2) == 1][:12]
    scene.work(large, text="".join(str(uuid.uuid4()) for _ in range(200)))
    for name in small:
        scene.work(name)
    await scene.write()
    assert list(scene.secrets.too_large) == ["branch-a"]
    scene.work(small[0], text="new", generation=2)
    await scene.write()
    assert list(scene.secrets.too_large) == ["branch-a"]


async def test_work_without_space_is_written_once_there_is_space(
    host: FakeApiServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lie in one Secret; once the neighbour's Works are gone, nothing of ours changes."""
    monkeypatch.setattr(vocabulary, "CHECKPOINT_SECRETS", 1)
    monkeypatch.setattr(entries, "LARGEST_SECRET", 8000)
    monkeypatch.setattr(entries, "WORKS_A_PART", 256)
    scene = Scene(host, client, *NAMES)
    for name, count in (("branch-a", 60), ("branch-b", 40)):
        for number in range(count):
            scene.work(f"{name}-{number}", of=name, text=f"{uuid.uuid4()}{uuid.uuid4()}")
    await scene.write()
    assert list(scene.secrets.too_large) == ["branch-a"]
    for number in range(40):
        scene.work(f"branch-b-{number}", of="branch-b", deletionTimestamp="2026-05-01T10:00:00Z")
    scene.contact_was_noted()  # it is tried again then
    await scene.write()
    await scene.write()
    assert len(scene.names("branch-a")) == 60
    assert not scene.secrets.too_large


async def test_a_write_that_failed_within_the_host_is_not_believed(host: FakeApiServer) -> None:
    """etcd took it, and its answer came too late: the host has two Works, and says 500."""
    client = LosingClient("host", host.client().credentials)
    scene = Scene(host, client)
    scene.work("one")
    await scene.write()
    scene.work("two")
    client.error = ApiError(500, "", "etcdserver: request timed out")
    with pytest.raises(ApiError):
        await scene.write()
    client.error = None
    assert scene.names() == ["one", "two"]
    scene.work("two", deletionTimestamp="2026-05-01T10:00:00Z")
    await scene.writer.strike("branch-a", "two")
    assert scene.names() == ["one"]
    await client.close()


async def test_rolled_back_host_is_read_again(scene: Scene) -> None:
    """A backup has a Work that was struck out since, under the version of then."""
    scene.work("one")
    scene.work("two")
    await scene.write()
    backup = scene.host.find(_path_of("branch-a"))
    assert backup is not None
    scene.work("two", deletionTimestamp="2026-05-01T10:00:00Z")
    await scene.writer.strike("branch-a", "two")
    scene.host.change(_path_of("branch-a"), data=backup["data"])
    assert scene.names() == ["one", "two"]
    scene.writer.host_restored()
    await scene.write()
    assert scene.names() == ["one"]


async def test_rolled_back_hub_is_saved_again(scene: Scene) -> None:
    """Generation 2 comes a second time, with other content, and nobody saw generation 1 between."""
    scene.work("one", text="before", generation=2)
    await scene.write()
    scene.work("one", text="after", generation=2)
    scene.writer.hub_restored()
    await scene.write()
    (work,) = scene.saved().works("branch-a")
    assert "after" in str(work["spec"])


async def test_unreadable_secret_costs_only_its_content(scene: Scene) -> None:
    """The host lost the key that it was encrypted with."""
    for name in NAMES:
        scene.work(f"of-{name}", of=name)
    await scene.write()
    scene.new_process()
    scene.host.fail(500, "InternalError", method="GET", path=_path_of("branch-a"), times=1000)
    found = await scene.secrets.load()
    assert sum("cluster.branch-b" in data for data in found) == 1
    assert not any("cluster.branch-a" in data for data in found)
    scene.work("new", of="branch-b")
    with pytest.raises(ApiError):
        await scene.write()
    assert scene.names("branch-b") == ["new", "of-branch-b"]
    assert scene.writer.problem_of("branch-a")
    assert not scene.writer.problem_of("branch-b")


async def test_nothing_is_written_again_for_an_unreadable_secret(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.new_process()
    scene.host.fail(500, "InternalError", method="GET", path=_path_of("branch-a"), times=1000)
    await scene.secrets.load()
    for _ in range(3):
        scene.patches()
        with pytest.raises(ApiError):
            await scene.write()
    assert scene.patches() == []
    assert scene.writer.has("branch-b")
