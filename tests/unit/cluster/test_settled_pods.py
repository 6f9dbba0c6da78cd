"""Pods that change: which virtual cluster is reported, when, and how often at most."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from karmada_vc_agent.cluster.host_objects import settled_pods
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Pod
from tests.fakes import objects

PERIOD_S = 10.0
OWNERS = {"n1": "branch-a", "n2": "branch-b"}


class Pods:
    """A store of pods, and when which virtual cluster was reported."""

    def __init__(self) -> None:
        self.store: Store[Pod] = Store(Codec(Pod))
        self.timers: dict[str, asyncio.TimerHandle] = {}
        self.reported: list[tuple[float, str]] = []
        self._began_at = asyncio.get_running_loop().time()
        self._versions = 0
        settled_pods(self.store, self._owner_of, self.timers, PERIOD_S, self._report)

    def _owner_of(self, pod: Pod) -> str:
        waiting = "branch-c" if pod.metadata.namespace == "edge-v-branch-c" else ""
        return OWNERS.get(pod.spec.node_name, waiting)

    def _report(self, cluster: str) -> None:
        self.reported.append((asyncio.get_running_loop().time() - self._began_at, cluster))

    def made(self, name: str, namespace: str = "edge", *where: str, **fields: Any) -> Pod:
        self._versions += 1
        pod = objects.pod(name, namespace, *where, **fields)
        pod["metadata"] |= {"uid": name, "resourceVersion": str(self._versions)}
        return msgspec.convert(pod, Pod)

    def put(self, name: str, *where: str, **fields: Any) -> Pod:
        pod = self.made(name, "edge", *where, **fields)
        self.store.apply(pod)
        return pod

    def list_all(self, listed: Iterable[Pod]) -> None:
        self._versions += 1
        self.store.replace_all(list(listed), str(self._versions))

    async def reports_after(self, *pauses_s: float) -> list[tuple[float, str]]:
        """Put one more pod after each pause; return what was reported in 100 s more."""
        for number, pause_s in enumerate(pauses_s):
            await asyncio.sleep(pause_s)
            self.put(f"pod-{number}", "n1")
        await asyncio.sleep(100)
        return [(round(at, 3), cluster) for at, cluster in self.reported]


@pytest.fixture
async def pods() -> Pods:
    pods = Pods()
    pods.list_all([])
    return pods


async def test_changes_are_reported_once_a_second_after_the_last(pods: Pods) -> None:
    assert await pods.reports_after(0, 0.9, 0.9) == [(2.8, "branch-a")]


async def test_what_never_settles_is_for_the_periodic_status(pods: Pods) -> None:
    assert await pods.reports_after(*[0.5] * 200) == [(101.0, "branch-a")]


async def test_a_virtual_cluster_is_reported_once_in_six_periods(pods: Pods) -> None:
    assert await pods.reports_after(0, 30, 30, 1.5) == [(1.0, "branch-a"), (62.5, "branch-a")]


async def test_both_are_reported_whose_pods_changed(pods: Pods) -> None:
    pods.put("one", "n1")
    pods.put("two", "n2")
    pods.put("elsewhere", "n3")
    assert sorted(await pods.reports_after()) == [(1.0, "branch-a"), (1.0, "branch-b")]


async def test_a_pod_that_waits_and_one_that_gets_its_node_are_reported(pods: Pods) -> None:
    pods.store.apply(pods.made("web", "edge-v-branch-c", phase="Pending"))
    await asyncio.sleep(2)
    pods.store.apply(pods.made("web", "edge-v-branch-c", "n2"))
    assert await pods.reports_after() == [(1.0, "branch-c"), (3.0, "branch-b")]


async def test_what_changes_no_sum_is_not_reported(pods: Pods) -> None:
    pods.put("starts", "n1", phase="Pending")
    done = pods.put("done", "n2", phase="Succeeded")
    await asyncio.sleep(100)
    pods.put("starts", "n1", phase="Running")
    pods.store.remove(done)
    assert await pods.reports_after() == [(1.0, "branch-a")]


async def test_a_pod_that_ends_and_one_that_is_deleted_are_reported(pods: Pods) -> None:
    pods.put("ends", "n1")
    kept = pods.put("deleted", "n2")
    await asyncio.sleep(100)
    pods.put("ends", "n1", phase="Succeeded")
    pods.store.remove(kept)
    assert sorted(await pods.reports_after())[2:] == [(101.0, "branch-a"), (101.0, "branch-b")]


async def test_those_of_the_first_list_are_in_the_first_status() -> None:
    pods = Pods()
    pods.list_all([pods.made("one", "edge", "n1")])
    assert await pods.reports_after() == []
