"""HostEvents: what is told of the host's warnings, to whom, how often."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from karmada_vc_agent.features.host_events import feature
from karmada_vc_agent.features.host_events.feature import (
    GATHERED_S,
    REPEATED_AFTER_S,
    TAKEN_BURST,
    TEXT_AT_MOST,
    WAITING_OF_ONE,
    HostEvent,
)
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION
from karmada_vc_agent.runner.controllers import all_controllers
from tests.fakes import objects
from tests.fakes.served import Served
from tests.fakes.world import World, new_world

NAMESPACE = "edge-v-branch-a"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
TAINT = "node(s) had untolerated taint {made-by: a-neighbour}"
TEXT = "cluster branch-a: Pod {}: no such image"
WORK = "karmada-es-branch-a/web-1"


class Setting:
    """A mirror that follows the host, where Deployment `web` of a Work has pods web-1-a and -b."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.spec = world.spec(feature.setup)
        for source in self.spec.sources:
            source.connect(self.spec.queue)
        self.task = asyncio.ensure_future(self.spec.runs["host events"]())

    def report(self, name: str, about: str = "web-1-a", *, kind: str = "Pod", **more: Any) -> None:
        """Have the host tell of a warning, or of the same one again."""
        involved: Object = {"apiVersion": "v1", "kind": kind, "name": about}
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "involvedObject": involved,
            "type": "Warning",
            "reason": "Failed",
            "message": "no such image",
            "count": 1,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }
        self.world.host.seed(event | more)

    async def work(self, seconds: float = 2.0) -> list[Requeue | None]:
        """Reconcile what comes up within some time, and once more what waited a little."""
        outcomes = await self._once(seconds)
        return outcomes + await self._once(GATHERED_S + 0.1)

    async def _once(self, seconds: float) -> list[Requeue | None]:
        await asyncio.sleep(seconds)
        outcomes = []
        while len(self.spec.queue):
            key = await self.spec.queue.take()
            outcome = await self.spec.reconcile(key)
            self.spec.queue.done(key)
            if outcome is not None:
                self.spec.queue.add_after(key, outcome.after_s)
            outcomes.append(outcome)
        return outcomes

    async def told(self) -> list[tuple[str, str, str, int]]:
        """Return (kind, reason, message, count) of the events on the hub."""
        await self.world.recorder.drain(10.0)
        return sorted(
            (e["involvedObject"]["kind"], e["reason"], e["message"], e["count"])
            for e in self.world.hub.listed("/api/v1/events")
        )


def owned(made: Object, owner: Object) -> Object:
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    vcs = (objects.virtual_cluster("branch-a", quota={"pods": "4"}),)
    async with new_world(*vcs) as world:
        world.register()
        world.hub.seed(objects.work(objects.deployment()))
        world.host.storage.served.append(Served("apps/v1", "replicasets", "ReplicaSet"))
        made = objects.deployment(ns=NAMESPACE)
        made["metadata"]["annotations"] = {WORK_ANNOTATION: WORK}
        replica_set: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": "web-1",
                "namespace": NAMESPACE,
                "annotations": {WORK_ANNOTATION: WORK},  # the controller copies them
            },
        }
        world.host.seed(objects.node("n1", {"branch": "a"}), objects.claimed())
        middle = world.host.seed(owned(replica_set, world.host.seed(made)))
        for name in ("web-1-a", "web-1-b"):
            world.host.seed(owned(objects.pod(name, NAMESPACE, "n1"), middle))
        world.look()
        setting = Setting(world)
        yield setting
        setting.task.cancel()


async def test_work_and_template_get_the_event(setting: Setting) -> None:
    setting.report("e1")
    await setting.work()
    text = TEXT.format("web-1-a")
    assert await setting.told() == [
        ("Deployment", "Failed", text, 1),
        ("Work", "Failed", text, 1),
    ]
    (event,) = setting.world.hub.listed("/api/v1/namespaces/edge/events")
    assert event["involvedObject"]["uid"] == "template-uid"
    assert event["source"] == {"component": "host-events"}
    assert event["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_one_failure_is_one_series_over_pods_and_restarts(setting: Setting) -> None:
    setting.report("e1", count=3)
    setting.report("e2", "web-1-b", series={"count": 4})
    await setting.work()
    assert [count for *_, count in await setting.told()] == [7, 7]
    world = setting.world
    setting.task.cancel()
    world.restart()
    again = Setting(world)
    again.report("e3", count=2)
    await again.work()
    assert [count for *_, count in await again.told()] == [9, 9]
    again.report("e3", count=3)
    await again.work()
    assert [count for *_, count in await again.told()] == [9, 9]
    await again.work(REPEATED_AFTER_S)
    assert [count for *_, count in await again.told()] == [10, 10]
    again.task.cancel()


async def test_nodes_of_others_do_not_divide_a_series(setting: Setting) -> None:
    elsewhere = "node(s) didn't match Pod's node affinity/selector"
    others = f"0/4 nodes are available: 1 Insufficient cpu, 3 {elsewhere}."
    tainted = f"0/5 nodes are available: 1 Insufficient cpu, 1 {TAINT}, 3 {elsewhere}."
    setting.report("e1", message=others)
    setting.report("e2", "web-1-b", message=tainted)
    await setting.work()
    assert [(kind, count) for kind, _, _, count in await setting.told()] == [
        ("Deployment", 2),
        ("Work", 2),
    ]


async def test_event_whose_text_changes_is_counted_once(setting: Setting) -> None:
    for message, count in (("a", 3), ("b", 4), ("a", 6)):
        setting.report("e1", message=message, count=count)
        await setting.work(REPEATED_AFTER_S + 1)
    found = {(text[-1], count) for kind, _, text, count in await setting.told() if kind == "Work"}
    assert found == {("a", 5), ("b", 1)}


async def test_event_with_nothing_new_is_not_reported_again(setting: Setting) -> None:
    setting.report("e1")
    await setting.work()
    before = await setting.told()
    setting.world.hub.requests.clear()
    setting.report("e1", reportingInstance="another")
    await setting.work(REPEATED_AFTER_S + 1)
    assert await setting.told() == before
    assert setting.world.hub.requests == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"type": "Normal"}, id="normal"),
        pytest.param({"reason": "two words"}, id="no-reason"),
        pytest.param({"about": "gone"}, id="no-such-pod"),
        pytest.param({"kind": "Nonsense"}, id="no-such-kind"),
        pytest.param({"about": "plain", "kind": "ConfigMap"}, id="of-no-work"),
        pytest.param({"about": "marked", "kind": "ConfigMap"}, id="of-no-manifest"),
    ],
)
async def test_nothing_else_counts(setting: Setting, changed: dict[str, Any]) -> None:
    setting.world.host.seed(objects.config_map("plain", NAMESPACE))
    marked = objects.config_map("marked", NAMESPACE)
    marked["metadata"]["annotations"] = {WORK_ANNOTATION: WORK}
    setting.world.host.seed(marked)
    setting.report("e1", **changed)
    await setting.work()
    assert await setting.told() == []


async def test_uid_of_another_object_does_not_count(setting: Setting) -> None:
    setting.report("e1")
    await setting.work()
    before = await setting.told()
    pod = setting.world.host.live(f"/api/v1/namespaces/{NAMESPACE}/pods/web-1-a")
    for name, uid in (("plain", pod["metadata"]["uid"]), ("web-1-a", "another")):
        involved = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        setting.report(f"e-{name}", involvedObject=involved, reason="Injected")
    await setting.work()
    assert await setting.told() == before


async def test_namespace_that_is_not_claimed_does_not_count(setting: Setting) -> None:
    setting.world.host.seed(objects.namespace("other"))
    metadata = {"name": "e1", "namespace": "other"}
    setting.report("e1", metadata=metadata)
    assert await setting.work() == []


async def test_a_flood_waits_and_what_is_too_much_is_dropped(setting: Setting) -> None:
    for number in range(TAKEN_BURST + 500):
        setting.report(f"e{number}", reason=f"R{number}")
    outcomes = await setting.work(0.6)
    assert len(outcomes) <= 2 * WAITING_OF_ONE
    assert len(await setting.told()) == 2 * 25


async def test_what_is_kept_is_small_whatever_was_written(setting: Setting) -> None:
    """API servers take a message of a megabyte."""
    long = "x" * 2**20
    setting.report("m", message=f"no such image {long}")
    for name in (f"web-1-a{long}", ""):
        setting.report("o", about=name)
    await setting.work()
    ((*_, text, _), _) = await setting.told()
    assert len(text) <= 1024
    raw = msgspec.json.encode({"metadata": {"annotations": {"a": long}}, "message": long})
    kept = msgspec.json.decode(raw, type=HostEvent)
    assert len(msgspec.json.encode(kept)) < 2 * TEXT_AT_MOST


async def test_it_waits_for_the_works_to_be_listed(setting: Setting) -> None:
    works = setting.world.works.store("branch-a")
    assert works is not None
    works.is_synced = False
    setting.report("e1")
    assert None not in await setting.work()
    works.is_synced = True
    await setting.work(10.0)
    assert len(await setting.told()) == 2


async def test_deleted_cluster_is_forgotten(setting: Setting) -> None:
    setting.report("e1")
    await asyncio.sleep(2.0)
    setting.world.parts.common.scopes.end("branch-a")
    assert await setting.work(0.0) == [None]
    assert await setting.told() == []


async def test_it_is_switched_by_its_name() -> None:
    for text, is_on in (("*", True), ("*,-hostEvents", False)):
        async with new_world(controllers=text) as world:
            names = [each.name for each in all_controllers(world.parts)]
            assert ("host-events" in names) is is_on
