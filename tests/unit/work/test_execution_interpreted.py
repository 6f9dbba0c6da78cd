"""ExecutionController with scripts or webhooks: what they may decide, and what not."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    Hook,
    HookError,
    Operation,
)
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import GroupVersionKind, Object, copy_object, labels_of
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
DEPLOYMENT = "/apis/apps/v1/namespaces/edge-v-branch-a/deployments/web"
Answer = Callable[[Sequence[Object]], Any]


class Scripted:
    """A level with hooks for Deployments, as functions."""

    name = "declarative"

    def __init__(self) -> None:
        self.answers: dict[Operation, Answer] = {}
        self.seen: list[tuple[str, Operation, Sequence[Object]]] = []

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        if kind.kind != "Deployment" or operation not in self.answers:
            return None

        async def ask(cluster: str, found: Sequence[Object]) -> Any:
            self.seen.append((cluster, operation, found))
            return self.answers[operation](copy_object(list(found)))

        return Hook(operation, "the hook", ask)


@pytest.fixture
def scripted(world: World) -> Scripted:
    level = Scripted()
    world.levels.append(cast(Any, level))
    return level


def given(world: World, **spec: Any) -> None:
    """Put a ready Cluster and a Work with a Deployment there, or change the Deployment."""
    deployment = objects.deployment()
    deployment["spec"] |= spec
    if world.hub.find(WORK) is None:
        world.register()
        world.hub.seed(objects.work(deployment))
    else:
        world.hub.change(WORK, spec=objects.work(deployment)["spec"])
    world.look()


def entry(world: World) -> Object:
    found: Object = world.hub.live(WORK)["status"]["manifestStatuses"][0]
    return found


async def test_retain_sees_the_host_and_status_sees_the_virtual_cluster(
    world: World, scripted: Scripted
) -> None:
    given(world)
    await world.execution.reconcile(KEY)
    scripted.answers = {
        RETAIN: lambda found: found[0],
        INTERPRET_STATUS: lambda _: {"message": "in edge-v-branch-a"},
        INTERPRET_HEALTH: lambda _: False,
    }
    given(world, replicas=5)
    await world.execution.reconcile(KEY)
    seen = {operation: found for _, operation, found in scripted.seen}
    assert {cluster for cluster, _, _ in scripted.seen} == {"branch-a"}
    namespaces = {op: [o["metadata"]["namespace"] for o in seen[op]] for op in seen}
    assert namespaces == {
        RETAIN: ["edge-v-branch-a", "edge-v-branch-a"],
        INTERPRET_STATUS: ["edge"],
        INTERPRET_HEALTH: ["edge"],
    }
    assert entry(world)["status"] == {"message": "in edge"}
    assert entry(world)["health"] == "Unhealthy"


async def test_a_script_that_drops_the_node_selector_does_not_win(
    world: World, scripted: Scripted
) -> None:
    given(world)
    await world.execution.reconcile(KEY)

    def free(found: Sequence[Object]) -> Object:
        desired = found[0]
        del desired["spec"]["template"]["spec"]["nodeSelector"]
        del desired["metadata"]["labels"]
        del desired["metadata"]["annotations"]
        return desired

    scripted.answers[RETAIN] = free
    given(world, replicas=5)
    await world.execution.reconcile(KEY)
    live = world.host.live(DEPLOYMENT)
    assert live["spec"]["replicas"] == 5
    assert live["spec"]["template"]["spec"]["nodeSelector"] == {"branch": "a"}
    assert labels_of(live)[CLUSTER_LABEL] == "branch-a"


def _elsewhere(found: Sequence[Object]) -> Object:
    found[0]["spec"]["template"]["spec"]["nodeSelector"] = {"branch": "b"}
    return found[0]


def _other_namespace(found: Sequence[Object]) -> Object:
    found[0]["metadata"]["namespace"] = "kube-system"
    return found[0]


def _other_name(found: Sequence[Object]) -> Object:
    found[0]["metadata"]["name"] = "other"
    return found[0]


def _other_kind(found: Sequence[Object]) -> Object:
    return found[0] | {"kind": "DaemonSet"}


@pytest.mark.parametrize("script", [_elsewhere, _other_namespace, _other_name, _other_kind])
async def test_a_script_that_moves_an_object_is_refused(
    world: World, scripted: Scripted, script: Answer
) -> None:
    given(world)
    await world.execution.reconcile(KEY)
    before = world.host.live(DEPLOYMENT)
    scripted.answers[RETAIN] = script
    given(world, replicas=5)
    world.forget_requests()
    await world.execution.reconcile(KEY)
    assert world.host.writes() == []
    assert world.host.live(DEPLOYMENT) == before
    conditions = world.hub.live(WORK)["status"]["conditions"]
    assert next(c for c in conditions if c["type"] == "Applied")["status"] == "False"


def _failing(found: Sequence[Object]) -> Object:
    raise HookError(f"lost in {found[0]['metadata']['namespace']}, not in edge-v-branch-a")


async def test_failed_health_is_unknown_reported_and_retried(
    world: World, scripted: Scripted
) -> None:
    scripted.answers[INTERPRET_HEALTH] = _failing
    given(world)
    with pytest.raises(RetryError, match="lost in edge, not in edge"):
        await world.execution.reconcile(KEY)
    assert entry(world)["health"] == "Unknown"
    told = [text for _, reason, text in await world.events() if reason == "InterpretHealthFailed"]
    text = "err: the hook: lost in edge, not in edge."
    assert told == [f"Interpret health of object(Deployment/edge/web) failed, {text}"]


async def test_failed_status_is_reported_retried_and_leaves_the_entry(
    world: World, scripted: Scripted
) -> None:
    given(world)
    await world.execution.reconcile(KEY)
    before = entry(world)
    scripted.answers[INTERPRET_STATUS] = _failing
    given(world, replicas=5)
    with pytest.raises(RetryError, match="lost in edge"):
        await world.execution.reconcile(KEY)
    assert entry(world) == before
    assert "ReflectStatusFailed" in [reason for _, reason, _ in await world.events()]


async def test_a_retain_that_fails_is_not_applied_and_tried_again(
    world: World, scripted: Scripted
) -> None:
    given(world)
    await world.execution.reconcile(KEY)
    scripted.answers[RETAIN] = _failing
    given(world, replicas=5)
    with pytest.raises(RetryError, match="lost in edge, not in edge"):
        await world.execution.reconcile(KEY)
    assert world.host.live(DEPLOYMENT)["spec"]["replicas"] != 5
    assert "edge-v-branch-a" not in str(world.hub.live(WORK)["status"])


async def test_the_status_of_a_suspended_work_that_fails_is_tried_again(
    world: World, scripted: Scripted
) -> None:
    given(world)
    await world.execution.reconcile(KEY)
    work = world.hub.live(WORK)
    world.hub.change(WORK, spec=work["spec"] | {"suspendDispatching": True})
    world.look()
    scripted.answers[INTERPRET_HEALTH] = _failing
    with pytest.raises(RetryError, match="lost in edge"):
        await world.execution.reconcile(KEY)
    assert entry(world)["health"] == "Unknown"
