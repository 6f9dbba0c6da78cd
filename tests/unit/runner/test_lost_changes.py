"""What changes while a Work is synced is not lost: an agent that runs between fake servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from karmada_vc_agent.agent import Agent
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.work.works import applied_of
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fuzz.served_ways import _HUB, Field, _furnish

WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"


@asynccontextmanager
async def running(**fields: Any) -> AsyncIterator[Field]:
    async with FakeApiServer(_HUB) as hub, FakeApiServer(served.HOST) as host:
        _furnish(hub, host)
        config = AgentConfig(
            agent_namespace="agents",
            install_policies=False,
            cluster_success_threshold=Duration(0),
            rate_limiter_max_delay=Duration(5),
            virtual_clusters=(
                objects.virtual_cluster("branch-a", **fields),
                objects.virtual_cluster("branch-b"),
            ),
        )
        ends = [Credentials(server.url, None, "a test") for server in (hub, host)]
        made = Field(hub, host, Agent(config, ends[0], ends[1]))
        stop = asyncio.Event()
        made.task = asyncio.create_task(made.agent.run(stop))
        try:
            await made.neighbour_lives()
            yield made
        finally:
            stop.set()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(made.task, 10)


def condition(here: Field, name: str) -> Object:
    found = applied_of(here.hub.live(f"{WORKS}/{name}").get("status"))
    return dict(found) if found is not None else {}


async def is_applied(here: Field, name: str) -> None:
    await here.until(lambda: condition(here, name).get("status") == "True", f"{name} not applied")


async def test_a_namespace_on_demand_gets_what_its_manifest_says() -> None:
    """OnDemand: the neighbour in the same Work claims the namespace after its manifest passed."""
    async with running(namespaces="OnDemand") as here:
        namespace = objects.namespace_manifest("late")
        namespace["metadata"]["labels"]["team"] = "red"
        here.hub.seed(objects.work(namespace, objects.config_map("c", "late"), name="both"))
        path = "/api/v1/namespaces/late-v-branch-a"
        await here.until(
            lambda: here.host.find(f"{path}/configmaps/c") is not None, "ConfigMap is not there"
        )
        await is_applied(here, "both")
        await here.until(
            lambda: labels_of(here.host.live(path)).get("team") == "red", "not as its manifest"
        )


async def test_node_added_while_the_refusal_is_reported_is_not_lost() -> None:
    """Ground OWN_NODES changes between the refusal and WorkMemory.note."""
    async with running() as here:
        released = here.hub.hold("PUT", f"{WORKS}/pinned/status")
        here.hub.seed(objects.work(objects.deployment("d", nodeName="new"), name="pinned"))
        await here.until(lambda: bool(here.hub.asked("PUT", f"{WORKS}/pinned/status")), "no status")
        here.host.seed(objects.node("new", {"branch": "a"}))
        await asyncio.sleep(3)  # the watch has told of it long since
        released.set()
        await is_applied(here, "pinned")


async def test_node_added_after_the_refusal_was_reported_heals_it() -> None:
    async with running() as here:
        here.hub.seed(objects.work(objects.deployment("d", nodeName="new"), name="pinned"))
        await here.until(lambda: condition(here, "pinned").get("status") == "False", "no status")
        await asyncio.sleep(1)
        here.host.seed(objects.node("new", {"branch": "a"}))
        await is_applied(here, "pinned")


async def test_adoption_allowed_while_the_refusal_is_reported_is_not_lost() -> None:
    async with running() as here:
        here.host.seed(objects.namespace("late-v-branch-a"))
        await asyncio.sleep(1)
        released = here.hub.hold("PUT", f"{WORKS}/c/status")
        here.hub.seed(objects.work(objects.config_map("c", "late"), name="c"))
        await here.until(lambda: bool(here.hub.asked("PUT", f"{WORKS}/c/status")), "no status")
        allow = {"virtualcluster.kubeedge.io/allow-adoption": "branch-a"}
        here.host.seed(objects.namespace("late-v-branch-a", annotations=allow))
        await asyncio.sleep(3)
        released.set()
        await is_applied(here, "c")


async def test_change_of_an_immutable_job_during_its_sync_is_not_lost() -> None:
    """A Job that cannot move is suspended (so it can) after it was refused, within the sync."""
    async with running() as here:
        jobs = "/apis/batch/v1/namespaces/edge-v-branch-a/jobs"
        maps = "/api/v1/namespaces/edge-v-branch-a/configmaps"
        work = objects.work(objects.job(), objects.config_map("c"), name="once")
        here.hub.seed(work)
        await is_applied(here, "once")
        await asyncio.sleep(2)
        # The template of the Job runs elsewhere, as before the selector of the group changed.
        live = here.host.live(f"{jobs}/once")
        spec = live["spec"]
        spec["template"]["spec"]["nodeSelector"] = {"branch": "old"}
        here.host.fail(
            422,
            "Invalid",
            method="PUT",
            path=f"{jobs}/once",
            message="Job.batch once is invalid: spec.template: field is immutable",
        )
        released = here.host.hold("PUT", f"{maps}/c")
        here.host.change(f"{jobs}/once", spec=spec)
        here.hub.seed(objects.work(objects.job(), objects.config_map("c", value="2"), name="once"))
        await here.until(lambda: bool(here.host.asked("PUT", f"{maps}/c")), "no write")
        puts = len(here.host.asked("PUT", f"{jobs}/once"))
        assert puts == 1  # refused by the host: Immutable
        live = here.host.live(f"{jobs}/once")
        here.host.change(f"{jobs}/once", spec={**live["spec"], "suspend": True})  # may move now
        await asyncio.sleep(2)
        released.set()
        await is_applied(here, "once")


async def test_namespace_on_demand_listed_after_what_needs_it() -> None:
    """OnDemand: Namespaces are applied first, wherever they stand in the list."""
    async with running(namespaces="OnDemand") as here:
        namespace = objects.namespace_manifest("late")
        namespace["metadata"]["labels"]["team"] = "red"
        here.hub.seed(objects.work(objects.config_map("c", "late"), namespace, name="both"))
        path = "/api/v1/namespaces/late-v-branch-a"
        await here.until(
            lambda: here.host.find(f"{path}/configmaps/c") is not None, "ConfigMap is not there"
        )
        await is_applied(here, "both")
        await here.until(
            lambda: labels_of(here.host.live(path)).get("team") == "red", "not as its manifest"
        )
