"""`join --wait`: why no Pod of the agent serves, and what to do then."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from karmada_vc_agent.install import served
from karmada_vc_agent.install.served import PUSH, pod_problem
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

STATUS = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}


@pytest.fixture
async def host() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


def deploy(host: FakeApiServer, **status: Any) -> None:
    metadata = {"name": "agent", "namespace": "agents", "generation": 1}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    host.seed(objects.namespace("agents"), {**deployment, "status": {**STATUS, **status}})


def pod(name: str = "agent-1", **status: Any) -> Object:
    made = objects.pod(name, "agents")
    made["metadata"]["labels"] = {"app": "agent"}
    return {**made, "status": status}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "agent", "image": "agent:1", "state": state}]}


PENDING = objects.condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")

UNREADY = objects.condition("Ready", "False", "ContainersNotReady", "unready status: [agent]")


@pytest.mark.parametrize(
    ("status", "text", "step", "is_final"),
    [
        ({"conditions": [PENDING]}, "Unschedulable: 0/3 nodes", "no edge node", True),
        (waits("ImagePullBackOff", "agent:1"), "ImagePullBackOff: agent:1", PUSH, True),
        (waits("InvalidImageName", "bad"), "InvalidImageName: bad", PUSH, True),
        (waits("CrashLoopBackOff", "back-off"), "CrashLoopBackOff", "logs agent-1 --prev", True),
        (waits("RunContainerError", "bad"), "RunContainerError: bad", "logs agent-1", False),
        ({"conditions": [UNREADY]}, "unready status", "kubectl -n agents logs agent-1", False),
        (waits("ContainerCreating"), "no Ready Pod yet", "get events", False),
        ({}, "no Ready Pod yet", "get events", False),
    ],
)
async def test_why_no_pod_serves(
    host: FakeApiServer, status: Object, text: str, step: str, *, is_final: bool
) -> None:
    deploy(host)
    host.seed(pod(**status))
    problem = await pod_problem(host.client(), "agents", "agent")
    assert problem is not None
    assert text in problem.text
    assert step in problem.step
    assert problem.is_final is is_final


async def test_one_that_is_ready_is_enough_once_no_old_pod_is_left(host: FakeApiServer) -> None:
    deploy(host, availableReplicas=1)
    host.seed(pod(**waits("ImagePullBackOff")))
    assert await pod_problem(host.client(), "agents", "agent") is None


async def test_pods_of_before_do_not_count(host: FakeApiServer) -> None:
    deploy(host, availableReplicas=2, updatedReplicas=1, replicas=3)
    host.seed(pod("old", conditions=[objects.ready()]), pod("new", **waits("ErrImagePull", "no")))
    problem = await pod_problem(host.client(), "agents", "agent")
    assert problem is not None
    assert problem.text == "Pod new: ErrImagePull: no"


async def test_deployment_without_pods_is_waited_for(host: FakeApiServer) -> None:
    problem = await pod_problem(host.client(), "agents", "agent")
    assert problem is not None
    assert not problem.is_final
    assert served.FINAL_AFTER_S < served.WAIT_S
