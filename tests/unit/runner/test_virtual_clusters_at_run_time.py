"""Virtual clusters come, change and go while the agent serves others; hub and host are fakes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from karmada_vc_agent.cluster.hub_clusters import cluster_id
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.runner.service import CHANGES_SETTLE_S
from tests.fakes import objects
from tests.fakes.api_server import KUBE_SYSTEM_UID
from tests.fakes.remembered import holders
from tests.fuzz.served_ways import NEIGHBOUR, TENANT, Field, field

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
BRANCH_C = objects.virtual_cluster("branch-c")
CONFIG_MAP_C = "/api/v1/namespaces/shop-v-branch-c/configmaps/probe"


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[Field, VirtualClusters]]:
    """Start an agent; what branch-c will need is on the hub."""
    async with field(**settings) as running:
        running.hub.seed(objects.namespace(vocabulary.execution_namespace("branch-c")))
        # With the finalizer that Karmada gives to every Cluster.
        running.hub.seed(objects.cluster("branch-c", cluster_id(KUBE_SYSTEM_UID, "branch-c")))
        running.host.seed(objects.node("node-branch-c", {"branch": "c"}))
        for manifest in (objects.namespace_manifest("shop"), objects.config_map("probe", "shop")):
            name = manifest["kind"].lower()
            running.hub.seed(objects.work(manifest, vc="branch-c", name=name))
        yield running, running.agent._virtual_clusters


async def settled_tasks() -> Counter[str]:
    """Return the names of all tasks, once those that end by themselves have ended."""
    await asyncio.sleep(0.5)
    return Counter(
        name for task in asyncio.all_tasks() if not (name := task.get_name()).startswith("Task-")
    )


BY_NAME = pytest.mark.parametrize("by_name", [False, True], ids=["all Clusters", "by name"])


@BY_NAME
async def test_added_one_is_served_and_a_removed_one_leaves_no_task_behind(
    *, by_name: bool
) -> None:
    async with serving(clusters_by_name=by_name) as (running, registry):
        before = await settled_tasks()
        registry.put(BRANCH_C)
        await running.until(
            lambda: running.host.find(CONFIG_MAP_C) is not None, "branch-c is not served"
        )
        assert running.hub.find(f"{CLUSTERS}/branch-c") is not None
        await settled_tasks()
        registry.replace_all([registry[TENANT], registry[NEIGHBOUR]])
        await running.neighbour_lives()
        after = await settled_tasks()
        # By name it is followed until its Cluster is gone.
        followed = [f"reflector {CLUSTERS}/branch-c"] if by_name else []
        assert after - before == Counter(followed)
        written = running.host.requests.copy()
        running.hub.seed(objects.work(objects.config_map("late", "shop"), vc="branch-c", name="l"))
        await running.neighbour_lives()
        assert running.host.find(CONFIG_MAP_C) is not None, "nothing is deleted"
        assert running.hub.find(f"{CLUSTERS}/branch-c") is not None
        new = running.host.requests[len(written) :]
        assert not [r for r in new if "branch-c" in r.path and r.method != "GET"]


@BY_NAME
async def test_one_that_returns_is_served_again(*, by_name: bool) -> None:
    async with serving(clusters_by_name=by_name) as (running, registry):
        registry.put(BRANCH_C)
        await running.until(lambda: running.host.find(CONFIG_MAP_C) is not None, "not served")
        registry.replace_all([registry[TENANT], registry[NEIGHBOUR]])
        await running.neighbour_lives()
        running.host.remove(CONFIG_MAP_C)
        registry.put(BRANCH_C)
        await running.until(lambda: running.host.find(CONFIG_MAP_C) is not None, "not served again")


@pytest.mark.parametrize("is_renamed", [False, True])
async def test_leave_is_proposed_for_what_is_served_under_no_name(
    caplog: pytest.LogCaptureFixture, *, is_renamed: bool
) -> None:
    async with serving() as (running, registry):
        registry.put(BRANCH_C)
        await running.until(lambda: running.host.find(CONFIG_MAP_C) is not None, "not served")
        former = ("branch-c",) if is_renamed else ()
        renamed = structs.replace(BRANCH_C, name="shop-7", former_names=former)
        registry.replace_all([registry[TENANT], registry[NEIGHBOUR], renamed])
        await running.neighbour_lives()
        assert ("run karmada-vc-agent leave" in caplog.text) != is_renamed


async def test_what_the_rest_of_a_federation_changes_is_not_sent() -> None:
    async with serving(clusters_by_name=True) as (running, _):
        asked = running.hub.asked("GET", CLUSTERS)
        watched = [each.query["fieldSelector"] for each in asked if each.is_watch]
        assert sorted(watched) == [f"metadata.name={name}" for name in (TENANT, NEIGHBOUR)]
        others = [each for each in asked if not each.query.get("fieldSelector")]
        assert {each.query.get("limit") for each in others} <= {"1"}


async def test_changed_selector_moves_what_runs() -> None:
    deployment = objects.deployment("web", "shop")
    live = "/apis/apps/v1/namespaces/shop-v-branch-b/deployments/web"
    async with serving() as (running, registry):
        running.hub.seed(objects.work(deployment, vc=NEIGHBOUR, name="web"))
        await running.until(lambda: running.host.find(live) is not None, "not applied")
        registry.put(moved(registry[NEIGHBOUR]))

        def selector() -> Object | None:
            found: Object | None = dig(
                running.host.find(live), "spec", "template", "spec", "nodeSelector"
            )
            return found

        await running.until(lambda: selector() == {"branch": "elsewhere"}, "not moved")


def moved(vc: VirtualCluster) -> VirtualCluster:
    return objects.virtual_cluster(vc.name, node_selector=LabelSelector({"branch": "elsewhere"}))


async def test_many_that_change_one_by_one_are_looked_through_once() -> None:
    async with serving() as (running, registry):
        asked: list[tuple[str, ...]] = []

        def keys(names: Iterable[str]) -> tuple[()]:
            asked.append(tuple(names))
            return ()

        service = running.agent.service
        assert service is not None
        for controller in service._controllers:
            if controller.name == "escape-detector":
                controller.spec = replace(controller.spec, resync_keys=keys)
        for vc in tuple(registry.values()):
            registry.put(structs.replace(vc, provider="another"))
            await asyncio.sleep(CHANGES_SETTLE_S / 4)
        await asyncio.sleep(CHANGES_SETTLE_S)
        await running.neighbour_lives()
        assert asked == [(TENANT, NEIGHBOUR)]


async def test_name_of_a_removed_one_is_kept_nowhere() -> None:
    """Neither its own, nor those of its Works and host namespaces."""
    quick = {"cluster_lease_duration": Duration(4), "cluster_status_update_frequency": Duration(1)}
    async with serving(**quick) as (running, registry):
        registry.put(BRANCH_C)
        await running.until(lambda: running.host.find(CONFIG_MAP_C) is not None, "not served")
        assert "ShardClusters._by_name" in holders(running.agent, "branch-c")
        registry.replace_all([registry[TENANT], registry[NEIGHBOUR]])
        await running.neighbour_lives()  # and what was being written is written
        running.hub.remove(f"{CLUSTERS}/branch-c")
        for path in (CONFIG_MAP_C, "/api/v1/nodes/node-branch-c"):
            running.host.remove(path)
        for namespace in running.host.listed("/api/v1/namespaces"):
            if namespace["metadata"]["name"].endswith("-v-branch-c"):
                running.host.remove(f"/api/v1/namespaces/{namespace['metadata']['name']}")
        for _ in range(20):
            await running.neighbour_lives()
            kept = holders(running.agent, "branch-c")
            if not kept:
                break
            await asyncio.sleep(0.5)
        assert kept == set(), "make these mappings by common.scopes.keep()"
