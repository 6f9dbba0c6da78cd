"""CheckpointWriter: what is in the Secrets, when it is written, and what is struck out first."""

import asyncio
import itertools
import os
import uuid
from typing import Any

import pytest

from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint import writer as checkpoint_writer
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import CutOffError, UnreachableError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import OBSERVED_AT_ANNOTATION
from karmada_vc_agent.work.works import new_store
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.storage import Place, StatusError
from tests.unit.features.checkpoint.checkpoint_scene import SECRETS, LosingClient, Scene

DELETED = {"deletionTimestamp": "2026-05-01T10:00:00Z"}


@pytest.fixture
async def scene(host: FakeApiServer, client: ApiClient) -> Scene:
    return Scene(host, client)


async def test_clusters_works_and_contact_are_saved(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    saved = scene.saved()
    cluster = saved.cluster("branch-a")
    assert cluster is not None
    assert "status" not in cluster
    assert scene.names() == ["one"]
    assert saved.contact is not None


async def test_nothing_is_written_before_the_first_lists(scene: Scene) -> None:
    scene.work("one")
    scene.works["branch-a"].is_synced = False
    await scene.write()
    assert scene.names() == []
    scene.cluster_store.is_synced = False
    scene.host.requests.clear()
    await scene.write()
    assert scene.host.requests == []


async def test_nothing_new_is_written_by_a_second_look(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.patches()
    scene.work("one")  # its status, whose version is another one
    await scene.write()
    assert scene.patches() == []


async def test_at_rest_no_cluster_is_compared_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.work("one")
    await scene.write()
    marked: list[Object] = []
    mark = entries.mark

    def counted(obj: Object) -> int:
        marked.append(obj)
        return mark(obj)

    monkeypatch.setattr(entries, "mark", counted)
    await scene.write()
    assert not marked
    scene.cluster_store.apply(scene.cluster("branch-a", annotations={"note": "new"}))
    await scene.write()
    await scene.write()
    assert len(marked) == 1


async def test_a_changed_work_costs_its_entry_only(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "WORKS_A_PART", 10)
    for number in range(40):
        scene.work(f"work-{number}")
    await scene.write()
    scene.patches()
    scene.work("work-7", text="new", generation=2)
    await scene.write()
    part = entries.part_of("work-7", 4)
    assert scene.patches() == [[entries.works_key("branch-a", 4, part)]]
    assert len(scene.names()) == 40


async def test_works_are_split_again_when_they_become_many(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "WORKS_A_PART", 10)
    scene.work("work-0")
    await scene.write()
    for number in range(1, 30):
        scene.work(f"work-{number}")
    await scene.write()
    assert len(scene.names()) == 30
    keys = {key for _, key in scene.secrets if key.startswith("works.")}
    assert all(key.startswith("works.branch-a.4.") for key in keys)


async def test_few_large_works_are_split_by_their_size(scene: Scene) -> None:
    for number in range(20):
        scene.work(f"work-{number}", text=_incompressible(30_000))
    await scene.write()
    assert len(scene.names()) == 20
    assert not scene.secrets.too_large
    parts = {key for _, key in scene.secrets if key.startswith("works.")}
    assert len(parts) > 2
    scene.work("work-0", text="small", generation=2)
    await scene.write()
    assert {key for _, key in scene.secrets if key.startswith("works.")} == parts


async def test_many_large_works_fit(scene: Scene) -> None:
    names = sorted(f"work-{number}" for number in range(300))
    for name in names:
        scene.work(name, text=_incompressible(3000))
    await scene.write()
    assert scene.names() == names
    assert not scene.secrets.too_large


async def test_parts_blocked_by_outdated_ones_are_written_then(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "CHECKPOINT_SECRETS", 1)
    monkeypatch.setattr(entries, "LARGEST_SECRET", 60_000)
    for number in range(10):
        scene.work(f"work-{number}", text=_incompressible(4000))
    await scene.write()
    monkeypatch.setattr(entries, "WORKS_A_PART", 5)
    scene.work("work-10")
    scene.contact_was_noted()
    await scene.write()
    await scene.write()
    assert len(scene.names()) == 11
    assert not scene.secrets.too_large


async def test_outdated_part_that_is_replaced_is_not_reported_as_too_large(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "LARGEST_SECRET", 50_000)
    for number in range(10):
        scene.work(f"work-{number}", text=_incompressible(4000))
    await scene.write()
    assert not scene.secrets.too_large
    monkeypatch.setattr(entries, "WORKS_A_PART", 5)
    scene.work("work-10")
    await scene.write()
    assert len(scene.names()) == 11
    assert not scene.secrets.too_large


def _incompressible(size: int) -> str:
    return os.urandom(size).hex()


async def test_another_process_writes_nothing_that_is_there(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.new_process()
    scene.is_in_contact = False
    await scene.secrets.load()
    scene.patches()
    await scene.write()
    assert scene.patches() == []


async def test_a_work_is_struck_out_before_it_is_removed(scene: Scene) -> None:
    scene.work("one")
    scene.work("two")
    await scene.write()
    scene.work("one", **DELETED)
    await scene.writer.strike("branch-a", "one")
    assert scene.names() == ["two"]


async def test_striking_what_is_not_there_costs_nothing(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.patches()
    await scene.writer.strike("branch-a", "other")
    assert scene.patches() == []


async def test_what_an_earlier_process_saved_is_struck_out(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.new_process()
    await scene.secrets.load()
    scene.work("one", **DELETED)
    await scene.writer.strike("branch-a", "one")
    assert scene.names() == []


async def test_nothing_is_struck_out_before_the_works_are_listed(scene: Scene) -> None:
    scene.works["branch-a"].is_synced = False
    with pytest.raises(NotReadyError):
        await scene.writer.strike("branch-a", "one")


async def test_striking_fails_while_the_host_is_away(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.work("one", **DELETED)
    with scene.host.down(), pytest.raises(UnreachableError):
        await scene.writer.strike("branch-a", "one")
    await scene.writer.strike("branch-a", "one")
    assert scene.names() == []


async def test_who_may_not_write_may_remove(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.work("one", **DELETED)
    scene.host.fail(403, "Forbidden", method="PATCH")
    await scene.writer.strike("branch-a", "one")
    assert "as the test wants" in str(scene.writer.problem_of("branch-a"))


async def test_a_write_without_an_answer_is_not_believed(host: FakeApiServer) -> None:
    """The host has two Works; the agent knows only of the write before, which had one."""
    client = LosingClient("host", host.client().credentials)
    scene = Scene(host, client)
    scene.work("one")
    await scene.write()
    scene.work("two")
    client.error = CutOffError("lost")
    with pytest.raises(CutOffError):
        await scene.write()
    client.error = None
    assert scene.names() == ["one", "two"]
    scene.work("two", **DELETED)
    await scene.writer.strike("branch-a", "two")
    assert scene.names() == ["one"]
    await client.close()


async def test_what_another_leader_wrote_is_overwritten(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    path = _path_of(scene)
    scene.host.change(path, data={"cluster.branch-a": "eHg="})
    scene.work("two")
    await scene.write()
    await scene.write()
    assert scene.names() == ["one", "two"]


async def test_deleted_secrets_are_written_again(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.host.remove(_path_of(scene))
    scene.work("two")
    await scene.write()
    await scene.write()
    assert scene.names() == ["one", "two"]


async def test_a_cluster_that_is_being_deleted_is_taken_away(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.cluster_store.apply(scene.cluster("branch-a", **DELETED))
    await scene.writer.strike("branch-a", "one")
    assert scene.saved().clusters == []
    assert not [key for _, key in scene.secrets if "branch-a" in key]


async def test_recreated_cluster_starts_afresh(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.cluster_store.remove(scene.cluster("branch-a"))
    await scene.write()
    assert scene.saved().clusters == []
    scene.cluster_store.apply(scene.cluster("branch-a", uid="new"))
    await scene.write()
    assert scene.saved(uids={"branch-a": "new"}).clusters == ["branch-a"]
    assert scene.names() == ["one"]


async def test_who_is_served_no_more_is_taken_away_and_its_neighbour_stays(
    host: FakeApiServer, client: ApiClient
) -> None:
    scene = Scene(host, client, "branch-a", "branch-b")
    scene.work("one")
    scene.work("two", of="branch-b")
    await scene.write()
    del scene.served["branch-a"]
    await scene.write()
    assert scene.saved().clusters == ["branch-b"]
    assert scene.names("branch-b") == ["two"]


async def test_works_that_are_listed_again_meanwhile_are_not_taken_for_deleted(
    host: FakeApiServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(host, client, "branch-a", "branch-b")
    first, second = sorted(scene.served, key=checkpoint_writer._home)
    scene.work("one", of=first)
    scene.work("two", of=second)

    async def encode(make: Any, *parts: Any) -> bytes:
        scene.works[second] = new_store(RawCodec())  # as once its bounds changed
        made: bytes = make(*parts)
        return made

    monkeypatch.setattr(scene.writer, "in_thread", encode)
    await scene.write()
    assert scene.names(first) == ["one"]
    assert not scene.writer.has(second)


async def test_a_large_neighbour_does_not_cost_a_small_one_its_works(
    host: FakeApiServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "CHECKPOINT_SECRETS", 1)
    monkeypatch.setattr(entries, "LARGEST_SECRET", 5000)
    monkeypatch.setattr(entries, "WORKS_A_PART", 256)
    scene = Scene(host, client, "branch-a", "branch-b")
    scene.work("small")
    for number in range(200):
        scene.work(f"work-{number}", of="branch-b", text=str(uuid.uuid4()))
    await scene.write()
    assert scene.names() == ["small"]
    assert scene.names("branch-b") == []
    assert list(scene.secrets.too_large) == ["branch-b"]
    for number in range(200):
        scene.work(f"work-{number}", of="branch-b", **DELETED)
    await scene.write()
    assert not scene.secrets.too_large


async def test_rules_are_saved(scene: Scene) -> None:
    rule = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "r", "uid": "u", "resourceVersion": "200"},
        "spec": {"target": {"kind": "X"}},
    }
    scene.rules.apply(rule)
    scene.writer.rules_changed()
    await scene.write()
    assert [each["spec"] for each in scene.saved().rules()] == [rule["spec"]]


async def test_writes_are_at_most_every_five_seconds(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "WORKS_A_PART", 256)
    task = asyncio.ensure_future(scene.writer.run())
    await asyncio.sleep(30.0)
    scene.patches()
    for number in range(100):
        scene.work(f"work-{number}")
        await asyncio.sleep(0.2)
    await asyncio.sleep(10.0)
    writes = scene.patches()
    task.cancel()
    assert len(scene.names()) == 100
    assert len(writes) <= 1 + 30 / checkpoint_writer.PAUSE_S


async def test_an_outage_of_the_host_is_survived(scene: Scene) -> None:
    task = asyncio.ensure_future(scene.writer.run())
    with scene.host.down():
        scene.work("one")
        await asyncio.sleep(20.0)
        assert not scene.writer.problem_of("branch-a"), "the client tells of outages"
    for _ in range(20):
        await asyncio.sleep(10.0)
        if scene.names():
            break
    task.cancel()
    assert scene.names() == ["one"]
    assert not scene.writer.problem_of("branch-a")


async def test_missing_right_is_reported_until_granted(scene: Scene) -> None:
    task = asyncio.ensure_future(scene.writer.run())
    scene.host.fail(403, "Forbidden", method="POST", times=2)
    scene.work("one")
    await asyncio.sleep(8.0)
    assert scene.writer.problem_of("branch-a")
    await asyncio.sleep(30.0)
    task.cancel()
    assert not scene.writer.problem_of("branch-a")
    assert scene.names() == ["one"]


@pytest.mark.parametrize(
    ("message", "names_join"),
    [
        ('secrets is forbidden: User "a" cannot create resource "secrets"', True),
        ('secrets "agent-checkpoint-0" is forbidden: exceeded quota: full', False),
    ],
)
async def test_join_is_named_for_a_missing_right_only(
    scene: Scene, caplog: pytest.LogCaptureFixture, message: str, *, names_join: bool
) -> None:
    caplog.set_level("WARNING")
    scene.host.fail(403, "Forbidden", method="POST", times=9, message=message)
    scene.work("one")
    task = asyncio.ensure_future(scene.writer.run())
    await asyncio.sleep(8.0)
    task.cancel()
    assert ("run karmada-vc-agent join" in caplog.messages[-1]) == names_join, caplog.messages


async def test_a_change_during_a_write_is_not_lost(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    scene.work("two")
    released = scene.host.hold("PATCH", _path_of(scene))
    writing = asyncio.ensure_future(scene.write())
    await asyncio.sleep(1.0)
    scene.work("two", **DELETED)
    striking = asyncio.ensure_future(scene.writer.strike("branch-a", "two"))
    await asyncio.sleep(1.0)
    assert not striking.done()
    released.set()
    await writing
    await striking
    assert scene.names() == ["one"]


def _path_of(scene: Scene) -> str:
    number = entries.place_of("branch-a", 0)
    assert objects.namespace("agents")
    assert scene.host.find(f"{SECRETS}/agent-checkpoint-{number}")
    return f"{SECRETS}/agent-checkpoint-{number}"


async def test_what_does_not_fit_is_reported_also_while_it_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "LARGEST_SECRET", 2000)
    for number in range(20):
        scene.work(f"work-{number}", text=_incompressible(200))
    await scene.write()
    assert scene.secrets.too_large == {"branch-a"}
    reported = []

    async def encode(make: Any, *parts: Any) -> bytes:
        reported.append(scene.secrets.too_large)
        made: bytes = make(*parts)
        return made

    monkeypatch.setattr(scene.writer, "in_thread", encode)
    scene.contact_was_noted()
    await scene.write()
    await scene.write()
    assert set(reported) == {frozenset({"branch-a"})}


async def test_a_secret_that_could_be_read_again_is_read_after_each_doubt(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    path = f"{SECRETS}/{scene.secrets.names[0]}"
    scene.secrets.doubt_all()
    scene.host.fail(500, method="GET", path=path, times=1)
    await scene.secrets.settle()
    await scene.secrets.write(0, {"rules": b"new"})
    scene.secrets._doubtful.add(0)
    scene.host.requests.clear()
    await scene.secrets.settle()
    assert [request.path for request in scene.host.requests] == [path]


def _neighbours(scene: Scene) -> list[str]:
    """Serve further virtual clusters of the Secret of branch-a; return the names of all."""
    home = entries.place_of("branch-a", 0)
    others = (name for n in itertools.count() if entries.place_of(name := f"n-{n}", 0) == home)
    names = list(itertools.islice(others, 2))
    for name in names:
        scene.served[name] = None
        scene.works[name] = new_store(RawCodec())
        scene.works[name].replace_all([], "100")
        scene.cluster_store.apply(scene.cluster(name))
    return ["branch-a", *names]


async def test_those_of_one_secret_are_written_by_one_request(scene: Scene) -> None:
    names = _neighbours(scene)
    scene.work("one")
    await scene.write()
    keys = [*map(entries.head_key, names), entries.works_key("branch-a", 1, 0)]
    assert scene.patches()[0] == sorted(keys)
    assert scene.saved().clusters == sorted(names)


async def test_one_that_is_refused_keeps_no_other_from_its_secret(scene: Scene) -> None:
    names = _neighbours(scene)
    await scene.write()
    for name in names:
        scene.cluster_store.apply(scene.cluster(name, labels={"refused": name}))

    def admit(_: Place, body: Object) -> Object:
        if entries.head_key("branch-a") in (body.get("data") or {}):
            raise StatusError(422, "Invalid", "as the test wants")
        return body

    scene.host.admission.append(admit)
    await scene.writer._write_all()
    assert [name for name in names if scene.writer.problem_of(name)] == ["branch-a"]


async def test_age_of_a_status_is_no_change_of_a_cluster(scene: Scene) -> None:
    await scene.write()
    scene.patches()
    marks = {OBSERVED_AT_ANNOTATION: "2026-05-01T10:00:00Z"}
    scene.cluster_store.apply(scene.cluster("branch-a", annotations=marks))
    await scene.write()
    assert scene.patches() == []
