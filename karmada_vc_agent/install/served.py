"""Waits until a Pod of the agent serves, or says why none does."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.join_hub import JoinPlan
from karmada_vc_agent.install.leave_steps import leases_of
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object, dig, maps_at, text_at


class _PodProblem(NamedTuple):
    """Why a Pod of the agent does not serve. step: what to do. is_final: waiting helps little."""

    text: str
    step: str
    is_final: bool = False


WAIT_S, FINAL_AFTER_S, POLL_S = 180.0, 15.0, 1.0
"""An image that cannot be pulled once, or a node that is new, may be well a moment later."""
NO_NODE = "add a node that is no edge node and in no group, or give --elsewhere and run it outside"
_CRASHED = "CrashLoopBackOff"
_STARTING = ("", "Completed", "PodInitializing", "ContainerCreating")
PUSH = (
    "hack/image builds the image; push it to a registry that the host reaches, then join with "
    "--image REGISTRY/karmada-vc-agent:TAG"
)


async def pod_problem(host: ApiClient, namespace: str, agent: str) -> _PodProblem | None:
    """Return why no Pod of the agent serves, None if one does. Raises KubeError."""
    deployment = await host.find(f"/apis/apps/v1/namespaces/{namespace}/deployments/{agent}") or {}
    generation, status = dig(deployment, "metadata", "generation"), deployment.get("status") or {}
    is_rolled_out = status.get("replicas") == status.get("updatedReplicas")
    is_seen = status.get("observedGeneration") == generation
    processes = len(await leases_of(host, namespace, agent))
    if is_seen and is_rolled_out and status.get("availableReplicas", 0) >= processes:
        return None
    pods = f"/api/v1/namespaces/{namespace}/pods"
    listed = (await host.get(pods, {"labelSelector": f"app={agent}"})).get("items") or ()
    problems = [each for pod in listed if (each := _problem_of(pod, namespace))]
    few = f"{processes} shards need as many Pods" if processes > 1 else "it has no Ready Pod yet"
    nothing = _PodProblem(few, f"kubectl -n {namespace} get events")
    return max(problems, key=lambda each: each.is_final, default=nothing)


def _problem_of(pod: Object, namespace: str) -> _PodProblem | None:
    name = pod["metadata"]["name"]
    for reason, message in why_not_running(pod):
        log = f"kubectl -n {namespace} logs {name}{' --previous' * (reason == _CRASHED)}"
        step = NO_NODE if reason == "Unschedulable" else PUSH if "Image" in reason else log
        text, is_final = f"Pod {name}: {reason}: {message}", step != log or reason == _CRASHED
        return _PodProblem(text, step, is_final=is_final)
    return None


def why_not_running(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield why a Pod does not run, as reasons with messages: its containers first."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in maps_at(pod, "status", kind):
            for state in (status.get("state") or {}).values():
                if (reason := text_at(state, "reason")) not in _STARTING:
                    yield reason, text_at(state, "message")
    for each in maps_at(pod, "status", "conditions"):
        says = each.get("type") in ("PodScheduled", "Ready") and each.get("message")
        if says and each.get("status") != "True":
            yield text_at(each, "reason"), text_at(each, "message")


async def wait(host: ApiClient, plan: JoinPlan) -> None:
    """Wait until a Pod serves. Raises CommandError that says why none does, KubeError."""
    problem, since = None, 0.0
    with suppress(TimeoutError):
        async with shared.waiting(f"a Pod of {plan.access.agent} to serve", WAIT_S):
            while (now := await pod_problem(host, plan.namespace, plan.access.agent)) is not None:
                if problem is None or now.text != problem.text:
                    problem, since = now, time.monotonic()
                if now.is_final and time.monotonic() - since >= FINAL_AFTER_S:
                    break
                await asyncio.sleep(POLL_S)
            else:
                plan.say("The agent serves; karmada-vc-agent doctor checks the rest")
                return
    if problem is not None:
        raise CommandError(f"the agent does not serve: {problem.text}", f"next: {problem.step}")
