"""Works over a bound: refused, told, and carried out when there is room."""

from contextlib import suppress
from typing import Any

import orjson
import pytest

from karmada_vc_agent.kube.errors import ConflictError, KubeError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.work.works import is_trimmed
from tests.fakes import objects
from tests.fakes.world import World, new_world

WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"
CONFIG_MAPS = "/api/v1/namespaces/edge-v-branch-a/configmaps"


def config_map(name: str) -> Object:
    labels = {"karmada.io/managed": "true"}
    metadata = {"name": name, "namespace": "edge", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


def secret(name: str) -> Object:
    return {**config_map(name), "kind": "Secret"}


def seed(world: World, name: str, *manifests: Object, created: int) -> None:
    made = objects.work(*manifests, name=name)
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{created:02}Z"
    made["metadata"]["annotations"] = {"whose": "the hub's"}
    world.hub.seed(made)


class Bounded:
    """A world whose Works are bounded."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.register()
        self.look()

    def look(self) -> None:
        self.world.look()

    async def reconcile(self, name: str) -> None:
        self.look()
        await self.world.execution.reconcile(("branch-a", name))
        self.look()

    def applied(self, name: str) -> tuple[str, str]:
        conditions = self.world.hub.live(f"{WORKS}/{name}")["status"]["conditions"]
        found = next(c for c in conditions if c["type"] == "Applied")
        return found["status"], found["message"]


def bounded(**bounds: Any) -> Any:
    return new_world(objects.virtual_cluster("branch-a", bounds=Bounds(**bounds)))


async def test_work_over_the_bound_is_refused_reported_and_applied_once_it_fits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with bounded(works=1) as world:
        made = Bounded(world)
        seed(world, "old", config_map("old"), created=1)
        seed(world, "young", config_map("young"), created=2)
        await made.reconcile("old")
        await made.reconcile("young")
        status, message = made.applied("young")
        assert status == "False"
        assert message == (
            'Failed to apply all manifests (0/1): virtual cluster "branch-a" refused Work young: '
            "BoundExceeded: the virtual cluster may have 1 Works (bounds.works), and older Works "
            "have them; delete what is not needed, or have bounds.works raised"
        )
        assert world.host.find(f"{CONFIG_MAPS}/young") is None
        assert ("Work", "BoundExceeded") in [event[:2] for event in await world.events()]
        assert list(world.memory.refusals()) == [("branch-a", "BoundExceeded")]

        world.forget_requests()
        await made.reconcile("young")
        assert world.hub.requests == []  # all is said
        lines = [vars(each) for each in caplog.records if each.msg == "Not applying all of a Work"]
        assert [each["work"] for each in lines] == ["karmada-es-branch-a/young"]
        assert "BoundExceeded: the virtual cluster may have 1 Works" in lines[0]["reason"]

        live = world.hub.live(f"{WORKS}/young")
        assert live["metadata"]["annotations"] == {"whose": "the hub's"}
        assert live["spec"]["workload"]["manifests"] == [config_map("young")]

        world.hub.mark_deleted(f"{WORKS}/old")
        world.enqueued.clear()
        await made.reconcile("old")
        assert ("branch-a", "young") in world.enqueued
        await made.reconcile("young")
        assert made.applied("young")[0] == "True"
        assert world.host.find(f"{CONFIG_MAPS}/young") is not None
        stored = world.works.get("branch-a", "young")
        assert stored is not None
        assert not is_trimmed(stored)
        assert list(world.memory.refusals()) == []


async def test_what_a_work_made_stays_when_it_is_out() -> None:
    async with bounded(works=1) as world:
        made = Bounded(world)
        seed(world, "young", config_map("young"), created=2)
        await made.reconcile("young")
        entries = world.hub.live(f"{WORKS}/young")["status"]["manifestStatuses"]
        seed(world, "old", config_map("old"), created=1)
        await made.reconcile("young")
        assert made.applied("young")[0] == "False"
        assert world.host.find(f"{CONFIG_MAPS}/young") is not None
        assert world.hub.live(f"{WORKS}/young")["status"]["manifestStatuses"] == entries


async def test_work_that_is_out_and_deleted_takes_what_it_made_along() -> None:
    async with bounded(works=1) as world:
        made = Bounded(world)
        seed(world, "young", config_map("young"), created=2)
        await made.reconcile("young")
        seed(world, "old", config_map("old"), created=1)
        await made.reconcile("young")
        world.hub.mark_deleted(f"{WORKS}/young")
        await made.reconcile("young")
        assert world.host.find(f"{CONFIG_MAPS}/young") is None
        assert world.hub.find(f"{WORKS}/young") is None


async def test_kinds_over_the_bound_are_refused_manifest_by_manifest() -> None:
    async with bounded(kinds=1) as world:
        made = Bounded(world)
        seed(world, "both", config_map("c"), secret("s"), created=1)
        await made.reconcile("both")
        status, message = made.applied("both")
        assert status == "False"
        assert "(1/2)" in message
        assert (
            "refused Secret edge/s: BoundExceeded: the virtual cluster may have 1 kinds" in message
        )
        assert world.host.find(f"{CONFIG_MAPS}/c") is not None


async def test_shared_objects_over_the_bound_are_refused() -> None:
    def priority(name: str) -> Object:
        api = "scheduling.k8s.io/v1"
        return {"apiVersion": api, "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}

    async with bounded(shared_objects=1) as world:
        made = Bounded(world)
        seed(world, "first", priority("gold"), created=1)
        seed(world, "second", priority("silver"), created=2)
        seed(world, "third", priority("gold"), created=3)
        for name in ("first", "second", "third"):
            await made.reconcile(name)
        assert [made.applied(name)[0] for name in ("first", "second", "third")] == [
            *("True", "False", "True")
        ]
        assert "may have 1 shared objects" in made.applied("second")[1]


async def test_suspended_work_over_the_bound_is_only_suspended() -> None:
    async with bounded(works=1) as world:
        made = Bounded(world)
        seed(world, "old", config_map("old"), created=1)
        seed(world, "young", config_map("young"), created=2)
        world.hub.change(f"{WORKS}/young", spec={"suspendDispatching": True})
        await made.reconcile("young")
        kinds = {c["type"] for c in world.hub.live(f"{WORKS}/young")["status"]["conditions"]}
        assert kinds == {"Dispatching"}


async def test_work_that_shrank_while_it_was_refused_is_carried_out() -> None:
    async with bounded(manifests_per_work=1) as world:
        made = Bounded(world)
        seed(world, "large", config_map("a"), config_map("b"), created=1)
        made.look()
        small = objects.work(config_map("a"), name="large")["spec"]
        world.hub.before(
            "GET", f"{WORKS}/large", lambda: world.hub.change(f"{WORKS}/large", spec=small)
        )
        with pytest.raises(ConflictError):
            await world.execution.reconcile(("branch-a", "large"))
        await world.execution.reconcile(("branch-a", "large"))
        assert made.applied("large")[0] == "True"
        assert world.host.find(f"{CONFIG_MAPS}/a") is not None
        assert list(world.memory.refusals()) == []


@pytest.mark.parametrize("is_over", [False, True])
async def test_work_deleted_before_its_response_takes_no_place(*, is_over: bool) -> None:
    """Be it the answer to its status, or the Work read again, as one that is out is."""
    async with bounded(works=1) as world:
        made = Bounded(world)
        if is_over:
            seed(world, "oldest", config_map("oldest"), created=0)
        seed(world, "old", config_map("old"), created=1)
        made.look()
        path = f"{WORKS}/old" if is_over else f"{WORKS}/old/status"
        answer = orjson.dumps(world.hub.live(f"{WORKS}/old"))

        def remove() -> None:
            world.hub.remove(f"{WORKS}/old")
            if is_over:
                world.hub.remove(f"{WORKS}/oldest")
            made.look()

        world.hub.before("GET" if is_over else "PUT", path, remove)
        world.hub.answer(answer, path=path)
        with suppress(KubeError):  # there is nothing left to write to
            await made.reconcile("old")
        seed(world, "young", config_map("young"), created=2)
        made.look()
        young = world.works.get("branch-a", "young")
        assert young is not None
        assert world.bounds.refusal(young) is None
