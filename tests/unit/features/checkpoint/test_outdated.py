"""What the host does not let be written is not served by the next start, and holds nobody up."""

import asyncio

import pytest

from karmada_vc_agent.features.checkpoint import writer as checkpoint_writer
from karmada_vc_agent.features.checkpoint.entries import Reason, place_of, verified
from karmada_vc_agent.features.checkpoint.writer import (
    CONTACT_AGAIN_S,
    EVERYTHING,
    LONGEST_S,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.checkpoint.checkpoint_scene import SECRETS, Scene

DELETED = {"deletionTimestamp": "2026-05-01T10:00:00Z"}
STATE = "/api/v1/namespaces/agents/configmaps/agent-state"
MANY = 10**6


@pytest.fixture
async def scene(host: FakeApiServer, client: ApiClient) -> Scene:
    return Scene(host, client, "branch-a", "branch-b")


def refuse(scene: Scene, status: int, method: str = "PATCH", times: int = MANY) -> None:
    for number in range(32):
        path = f"{SECRETS}/agent-checkpoint-{number}"
        scene.host.fail(status, "Whatever", method=method, path=path, times=times)


def served(scene: Scene) -> list[str]:
    return scene.saved(is_outdated=scene.outdated.has).clusters


@pytest.mark.parametrize("status", [400, 403, 422, 500])
async def test_a_secret_that_is_refused_delays_no_deletion_and_brings_nothing_back(
    scene: Scene, status: int
) -> None:
    """A webhook denies it with 400 or 403, a policy with 422, and one that is away with 500."""
    scene.work("one")
    await scene.write()
    assert served(scene) == ["branch-a", "branch-b"]
    refuse(scene, status)
    scene.work("one", **DELETED)
    await scene.writer.strike("branch-a", "one")
    assert scene.names() == ["one"], "it is there still"
    assert served(scene) == ["branch-b"]
    refused = scene.saved(is_outdated=scene.outdated.has).refusals
    assert refused["branch-a"].reason is Reason.OUTDATED


async def test_what_was_written_in_the_end_is_served_again(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    refuse(scene, 422, times=2)
    scene.work("one", **DELETED)
    await scene.writer.strike("branch-a", "one")
    task = asyncio.ensure_future(scene.writer.run())
    for _ in range(100):
        await asyncio.sleep(30.0)
        if not scene.writer.problem_of("branch-a"):
            break
    task.cancel()
    assert served(scene) == ["branch-a", "branch-b"]
    assert scene.names() == []


async def test_a_change_that_is_refused_again_is_not_served_as_it_was(scene: Scene) -> None:
    scene.work("one")
    await scene.write()
    refuse(scene, 422)
    scene.work("one", text="new", generation=2)
    with pytest.raises(KubeError):
        await scene.write()
    assert served(scene) == ["branch-a", "branch-b"], "it may pass"
    with pytest.raises(KubeError):
        await scene.write()
    assert served(scene) == ["branch-b"]


async def test_without_the_state_nothing_is_deleted(scene: Scene) -> None:
    """Else the next start would serve it."""
    scene.work("one")
    await scene.write()
    refuse(scene, 403)
    scene.host.fail(403, "Forbidden", method="PATCH", path=STATE)
    scene.work("one", **DELETED)
    with pytest.raises(KubeError):
        await scene.writer.strike("branch-a", "one")


async def test_further_deletions_cost_nothing_until_it_is_tried_again(scene: Scene) -> None:
    for number in range(10):
        scene.work(f"work-{number}")
    await scene.write()
    refuse(scene, 403)
    scene.work("work-0", **DELETED)
    for _ in range(2):
        await scene.writer.strike("branch-a", "work-0")
    scene.host.requests.clear()
    for number in range(1, 10):
        scene.work(f"work-{number}", **DELETED)
        await scene.writer.strike("branch-a", f"work-{number}")
    assert scene.host.requests == []


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_host_that_keeps_refusing_is_requested_ever_less(scene: Scene, method: str) -> None:
    scene.work("one")
    await scene.write()
    scene.work("one", text="new", generation=2)
    scene.secrets.doubt_all()
    refuse(scene, 403, method)
    task = asyncio.ensure_future(scene.writer.run())
    await asyncio.sleep(3600.0)
    scene.host.requests.clear()
    await asyncio.sleep(3600.0)
    task.cancel()
    asked = [r for r in scene.host.requests if "checkpoint" in r.path]
    assert 0 < len(asked) <= 3600.0 / LONGEST_S + 1


async def test_rights_that_come_later_are_used_without_a_restart(scene: Scene) -> None:
    scene.work("one")
    scene.secrets.doubt_all()
    path = f"{SECRETS}/agent-checkpoint-0"
    scene.host.fail(403, "Forbidden", method="GET", path=path, times=3)
    task = asyncio.ensure_future(scene.writer.run())
    await asyncio.sleep(12.0)
    assert scene.outdated.names() == {EVERYTHING}
    assert scene.writer.problem_of("branch-a")
    for _ in range(100):
        await asyncio.sleep(30.0)
        if not scene.outdated.names():
            break
    task.cancel()
    assert scene.names() == ["one"]
    assert served(scene) == ["branch-a", "branch-b"]


async def test_unwritten_one_does_not_block_trust_in_others(scene: Scene) -> None:
    await scene.write()
    await scene.outdated.note(EVERYTHING)
    scene.new_process()
    await scene.outdated._state.load()
    await scene.secrets.load()
    for store in scene.works.values():
        store.is_synced = False
    await scene.write()
    assert served(scene) == []
    scene.works["branch-a"].is_synced = True
    await scene.write()
    assert served(scene) == ["branch-a"]
    assert scene.outdated.names() == {"branch-b"}
    scene.works["branch-b"].is_synced = True
    await scene.write()
    assert served(scene) == ["branch-a", "branch-b"]


async def test_one_that_is_served_no_more_does_not_block_trust_in_others(scene: Scene) -> None:
    scene.works["branch-b"].is_synced = True
    scene.host.fail(422, "Invalid", method="POST", times=1)
    with pytest.raises(KubeError):
        await scene.write()
    gone = next(name for name in scene.served if scene.writer.problem_of(name))
    del scene.served[gone]
    await scene.write()
    assert not scene.writer.problem_of(gone)


@pytest.mark.parametrize("is_served", [False, True])
async def test_note_is_removed_with_its_virtual_cluster(scene: Scene, *, is_served: bool) -> None:
    """Also where its entries went before it, and the host refused once to remove the note."""
    await scene.write()
    await scene.outdated.note("branch-b")
    if is_served:  # but the hub has deleted its Cluster
        scene.cluster_store.replace_all([scene.cluster("branch-a")], "200")
        scene.works["branch-b"].is_synced = False
    else:
        del scene.served["branch-b"]
    scene.host.fail(500, "InternalError", method="PATCH", path=STATE, times=1)
    with pytest.raises(KubeError):
        await scene.write()
    assert scene.saved().clusters == ["branch-a"]
    assert scene.outdated.names() == {"branch-b"}
    await asyncio.sleep(3600.0)
    await scene.write()
    assert scene.outdated.names() == frozenset()


async def test_note_stays_as_long_as_there_may_be_entries(scene: Scene) -> None:
    """A Secret that cannot be read may be readable at the next start, without the hub."""
    await scene.write()
    await scene.outdated.note("branch-b")
    scene.new_process()
    await scene.outdated._state.load()
    path = f"{SECRETS}/agent-checkpoint-{place_of('branch-b', 0)}"
    scene.host.fail(500, "InternalError", method="GET", path=path, times=MANY)
    await scene.secrets.load()
    del scene.served["branch-b"]
    for _ in range(2):
        with pytest.raises(KubeError):
            await scene.write()
    assert scene.outdated.names() == {"branch-b"}
    assert "branch-b" in scene.saved().clusters


async def test_nothing_is_written_at_rest_but_the_contact_now_and_then(scene: Scene) -> None:
    for number in range(20):
        scene.work(f"work-{number}")
    task = asyncio.ensure_future(scene.writer.run())
    for _ in range(100):
        await asyncio.sleep(10.0)
        if len(scene.names()) == 20:
            break
    scene.patches()
    clock = asyncio.get_running_loop().time
    scene.writer.clock = clock
    scene.contact_was_noted(clock())
    scene.host.requests.clear()
    for hour in range(6):
        scene.time = f"2026-05-02T1{hour}:00:00Z"
        await asyncio.sleep(600.0)
    task.cancel()
    requests = [r for r in scene.host.requests if r.method != "GET"]
    assert 0 < len(requests) <= 3600.0 / checkpoint_writer.CONTACT_S
    assert {key for r in requests for key in r.body["data"]} == {"contact"}
    read = [r for r in scene.host.requests if r.method == "GET"]
    assert len(read) <= 32 * (len(requests) + 1), "they are read again after each contact"


async def test_contact_is_noted_again_once_more_virtual_clusters_are_heard(
    host: FakeApiServer, client: ApiClient
) -> None:
    """After an outage the first ones are heard before the others, and the note is of these only."""
    scene = Scene(host, client, "branch-a", "branch-b", "branch-c")
    now, away = 0.0, {"branch-b", "branch-c"}
    scene.writer.clock = lambda: now
    scene.writer.is_in_contact = lambda name: name not in away
    await scene.write()
    assert scene.saved().not_heard == {"branch-b", "branch-c"}
    away = {"branch-c"}
    await scene.write()
    assert scene.saved().not_heard == {"branch-b", "branch-c"}, "all may be heard in a moment"
    now += CONTACT_AGAIN_S
    await scene.write()
    assert scene.saved().not_heard == {"branch-c"}
    scene.patches()
    for away in ({"branch-c"}, {"branch-b"}, {"branch-b", "branch-c"}, {""}):
        now += CONTACT_AGAIN_S
        await scene.write()
        assert scene.patches() == [], f"not more are heard without {away}"
    away = set()
    await scene.write()
    assert not scene.saved().not_heard
    assert scene.saved().contact is not None


async def test_contact_is_noted_again_once_the_host_was_restored(scene: Scene) -> None:
    await scene.write()
    scene.time = "2026-05-02T10:00:00Z"
    scene.writer.host_restored()
    await scene.write()
    contact = scene.saved().contact
    assert contact is not None
    assert contact.saved == scene.time


async def test_what_was_saved_of_an_unknown_hub_is_saved_again_once_it_is_identified(
    scene: Scene,
) -> None:
    """A start without the hub: it answers before its uid was read."""
    scene.hub = ""
    scene.new_process()
    scene.work("one")
    await scene.write()
    scene.hub = "hub-1"
    await scene.write()
    contents = [each for own in scene.saved().content_of.values() for each in own.values()]
    assert {verified(each).hub for each in contents} == {"hub-1"}


async def test_hub_that_is_identified_during_a_pass_has_its_contact_noted_in_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start ignores the contact with a hub that is not that of what was saved."""

    async def identify() -> None:
        scene.hub = "hub-1"

    scene.hub = ""
    scene.new_process()
    await scene.write()
    scene.time = "2026-05-02T10:00:00Z"
    scene.contact_was_noted()
    await scene.write()
    noted = scene.saved().saved_at("branch-a")
    monkeypatch.setattr(scene.writer, "_write_rules", identify)
    await scene.write()
    assert scene.saved().saved_at("branch-a") == noted
    scene.time = "2026-05-02T10:00:05Z"
    await scene.write()
    assert str(scene.saved().saved_at("branch-a")) == "2026-05-02 10:00:05+00:00"


async def test_rules_that_are_not_written_keep_all_from_being_trusted(scene: Scene) -> None:
    await scene.write()
    await scene.outdated.note(EVERYTHING)
    scene.writer.rules_changed()
    scene.rules.apply(
        {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "new", "uid": "u", "generation": 1, "resourceVersion": "200"},
            "spec": {},
        }
    )
    refuse(scene, 422)
    with pytest.raises(KubeError):
        await scene.write()
    assert served(scene) == []


async def test_secret_deleted_or_restored_by_hand_is_written_again(scene: Scene) -> None:
    for name in ("one", "two"):
        scene.work(name)
    await scene.write()
    path = f"{SECRETS}/agent-checkpoint-{place_of('branch-a', 0)}"
    old = scene.host.live(path)["data"]
    scene.work("two", **DELETED)
    await scene.writer.strike("branch-a", "two")
    scene.host.change(path, data=old)
    scene.host.remove(f"{SECRETS}/agent-checkpoint-{place_of('branch-b', 0)}")
    scene.contact_was_noted()  # it is time for it
    await scene.write()
    await scene.write()
    assert scene.names() == ["one"]
    assert scene.saved().clusters == ["branch-a", "branch-b"]


async def test_a_deletion_waits_for_no_other_virtual_cluster(
    host: FakeApiServer, client: ApiClient
) -> None:
    """Those of the others wait for a webhook; once one of them has its answer, it is our turn."""
    scene = Scene(host, client, "branch-a", *(f"other-{n}" for n in range(9)))
    await scene.write()
    for name in scene.served:
        scene.cluster_store.apply(scene.cluster(name, labels={"note": "new"}))
    passed: list[str] = []

    async def slow(*names: str) -> None:
        await asyncio.sleep(10.0)
        passed.append(",".join(names))

    scene.writer._write_clusters = slow  # type: ignore[method-assign]
    task = asyncio.ensure_future(scene.writer._write_all())
    await asyncio.sleep(1.0)
    await scene.writer.strike("branch-a", "gone")
    task.cancel()
    assert len(passed) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_error_of_a_strike_ends_with_the_retry_though_nothing_else_changes(
    host: FakeApiServer, client: ApiClient, status: int
) -> None:
    """Its contact is saved again, too."""
    scene = Scene(host, client, "branch-a", "branch-b")
    scene.work("one")
    await scene.write()
    scene.secrets.doubt_all()  # as after each contact, or a restore
    path = f"{SECRETS}/agent-checkpoint-0"
    scene.host.fail(status, "Whatever", method="GET", path=path, times=1)
    scene.host.fail(status, "Whatever", method="PATCH", path=STATE, times=1)
    with pytest.raises(KubeError):
        await scene.writer.strike("branch-a", "not-saved")
    await scene.writer.strike("branch-a", "not-saved")
    scene.contact_was_noted()
    scene.time = "2026-05-02T10:00:00Z"
    await asyncio.sleep(3600.0)
    for _ in range(2):
        await scene.write()
    assert scene.writer.problem_of("branch-a") is None
    scene.contact_was_noted()
    await scene.write()
    assert str(scene.saved().saved_at("branch-a")).startswith("2026-05-02")


async def test_a_secret_that_cannot_be_read_is_read_less_and_less(scene: Scene) -> None:
    await scene.write()
    scene.new_process()
    path = f"{SECRETS}/agent-checkpoint-{place_of('branch-a', 0)}"
    scene.host.fail(500, "InternalError", method="GET", path=path, times=MANY)
    await scene.secrets.load()
    task = asyncio.ensure_future(scene.writer.run())
    await asyncio.sleep(3600.0)
    scene.host.requests.clear()
    await asyncio.sleep(3600.0)
    task.cancel()
    # Once by itself, and once for who is to be written there.
    assert 0 < len(scene.host.asked("GET", path)) <= 2 * (3600.0 / LONGEST_S + 1)


async def test_serving_no_one_leaves_no_rules_and_no_contact(scene: Scene) -> None:
    scene.served.clear()
    await scene.write()
    assert scene.host.listed(SECRETS) == []
