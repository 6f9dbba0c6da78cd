"""Pages in place of an API server, on either side: nothing is forgotten, erased or ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from karmada_vc_agent.agent import STANDING_BY, Agent
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.checkpoint import feature
from karmada_vc_agent.features.checkpoint.reader import CheckpointSettings
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.vocabulary import CHECKPOINT_ANNOTATION
from karmada_vc_agent.runner import hub_presence
from karmada_vc_agent.telemetry.endpoints import Note
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.pages import PAGES
from tests.fuzz.served_ways import NEIGHBOUR, TENANT, Field, field

PROBE = "/api/v1/namespaces/shop-v-branch-b/configmaps/probe"
SECRETS = "/api/v1/namespaces/agents/secrets"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/agents/leases/karmada-vc-agent"
AT_ONCE_S = 10.0
"""Less than LISTS_S, which a hub may take that lists."""
SOON_S = 0.5
"""Longer than the first pauses of a reflector that is refused."""


def kept(host: FakeApiServer) -> set[str]:
    """Return the entries of the checkpoint."""
    return {key for secret in host.listed(SECRETS) for key in secret.get("data") or ()}


def content(server: FakeApiServer) -> set[str]:
    """Return what there is, but Events, Leases and what only the agent keeps for itself."""
    of_time = ("events", "leases")
    return {
        f"{api_version}/{plural} {namespace}/{name}"
        for api_version, plural, namespace, name in server.storage.objects
        if plural not in of_time and namespace != "agents"
    }


def state_of(running: Field) -> tuple[set[str], ...]:
    return kept(running.host), content(running.host), content(running.hub)


def lost(before: tuple[set[str], ...], running: Field) -> list[set[str]]:
    """Return what there was before, and is not any more."""
    return [old - new for old, new in zip(before, state_of(running), strict=True) if old - new]


def deletions(server: FakeApiServer) -> list[str]:
    return [str(request) for request in server.writes() if request.method == "DELETE"]


async def until_kept(running: Field) -> None:
    await running.until(
        lambda: {f"head.{NEIGHBOUR}", f"head.{TENANT}"} <= _heads(running), "no checkpoint"
    )


async def until_trusted(running: Field) -> None:
    await running.until(
        lambda: CHECKPOINT_ANNOTATION in annotations_of(running.host.live(LEASE)),
        "the Lease does not say that there is a checkpoint",
    )


def _heads(running: Field) -> set[str]:
    names = (NEIGHBOUR, TENANT)
    return {f"head.{name}" for name in names if any(name in key for key in kept(running.host))}


async def repaired(running: Field) -> None:
    """Delete an object of a Work on the host; it must be created again."""
    running.host.remove(PROBE)
    await running.until(lambda: running.host.find(PROBE) is not None, "drift is not repaired")


def hub_check(agent: Agent) -> str | None:
    return agent.readiness()["hub"]


async def test_agent_continues_while_the_hub_is_a_page() -> None:
    async with field() as running:
        await until_kept(running)
        for name, page in PAGES.items():
            before = state_of(running)
            running.hub.requests.clear()
            with running.hub.in_front(page):
                await asyncio.sleep(SOON_S)
                await repaired(running)
                assert lost(before, running) == [], name
                assert deletions(running.hub) == [], name
            await running.neighbour_lives()


async def test_readiness_says_that_the_hub_is_a_page_and_stays_with_a_checkpoint() -> None:
    async with field() as running:
        await until_kept(running)
        with running.hub.in_front(PAGES["404 plain"]):
            await running.until(lambda: hub_check(running.agent) is not None, "nothing is said")
            said = hub_check(running.agent)
            assert isinstance(said, Note)
            assert "no API server lists /apis/cluster.karmada.io/v1alpha1/clusters" in said
        await running.until(lambda: hub_check(running.agent) is None, "it is still said")


async def test_agent_continues_once_the_host_is_no_page_any_more() -> None:
    async with field() as running:
        await until_kept(running)
        for name, page in PAGES.items():
            before = state_of(running)
            running.host.requests.clear()
            with running.host.in_front(page):
                await asyncio.sleep(SOON_S)
            assert lost(before, running) == [], name
            await running.neighbour_lives()
            assert deletions(running.hub) == [], name
            assert not [each for each in deletions(running.host) if "/shop-v-" in each], name


def config(*, checkpoint: bool = True) -> AgentConfig:
    return replace(
        CONFIG(),
        agent_namespace="agents",
        install_policies=False,
        cluster_success_threshold=Duration(0),
        virtual_clusters=tuple(map(objects.virtual_cluster, (TENANT, NEIGHBOUR))),
        checkpoint=CheckpointSettings(enabled=checkpoint),
    )


@asynccontextmanager
async def another_agent(running: Field, *, checkpoint: bool = True) -> AsyncIterator[Field]:
    """Run one in place of the agent that ran before."""
    hub, host = (Credentials(each.url, None, "a test") for each in (running.hub, running.host))
    agent = Agent(config(checkpoint=checkpoint), hub, host)
    stop, other = asyncio.Event(), Field(running.hub, running.host, agent)
    other.task = asyncio.create_task(agent.run(stop))
    try:
        yield other
    finally:
        stop.set()
        other.task.cancel()
        await asyncio.gather(other.task, return_exceptions=True)


def free_lease(host: FakeApiServer) -> None:
    """Let another process take the lead at once, as after the time of the Lease."""
    lease = host.live(LEASE)
    lease["spec"]["holderIdentity"] = ""
    host.seed(lease)


@asynccontextmanager
async def left_behind(*, checkpoint: bool = True) -> AsyncIterator[Field]:
    """Yield hub and host after an agent served, and ended."""
    settings: Object = {} if checkpoint else {"checkpoint": CheckpointSettings(enabled=False)}
    async with field(**settings) as running:
        if checkpoint:
            await until_kept(running)
            await until_trusted(running)
        assert running.task is not None
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        running.task = None
        yield running


async def test_start_serves_from_the_checkpoint_while_the_hub_is_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feature, "CHECK_PATIENCE_S", 0.1)
    async with left_behind() as before:
        for name, page in PAGES.items():
            free_lease(before.host)
            entries = kept(before.host)
            before.hub.requests.clear()
            async with another_agent(before) as running:
                with running.hub.in_front(page):
                    began = asyncio.get_running_loop().time()
                    await repaired(running)
                    assert asyncio.get_running_loop().time() - began < AT_ONCE_S, name
                    assert entries <= kept(running.host), name
                    assert deletions(running.hub) == [], name
                await running.neighbour_lives()


@pytest.mark.parametrize("name", ["404 plain", "401 Status", "503 plain", "200 HTML"])
async def test_start_without_a_checkpoint_waits_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(feature, "CHECK_PATIENCE_S", 0.1)
    async with left_behind(checkpoint=False) as before:
        free_lease(before.host)
        there = content(before.host)
        async with another_agent(before, checkpoint=False) as running:
            assert running.task is not None
            with running.hub.in_front(PAGES[name]):
                await asyncio.wait((running.task,), timeout=7.0)  # longer than five tries
                assert not running.task.done(), "it served this hub before"
                assert there <= content(running.host)
            await running.neighbour_lives()


@pytest.mark.parametrize("name", ["401 Status", "404 plain", "503 plain", "200 HTML"])
async def test_standby_that_takes_over_while_the_hub_is_a_page_serves_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As in a black hole: it does not wait as long as first lists of a large hub may take."""
    monkeypatch.setattr(hub_presence, "CHECK_S", 0.1)
    async with field() as before:
        await until_kept(before)
        await until_trusted(before)
        async with another_agent(before) as standby:
            await standby.until(lambda: standby.agent.phase == STANDING_BY, "it does not stand by")
            with before.hub.in_front(PAGES[name]):
                await standby.until(lambda: hub_check(standby.agent) is not None, "not noticed")
                assert before.task is not None
                before.task.cancel()
                await asyncio.gather(before.task, return_exceptions=True)
                before.task = None
                free_lease(before.host)
                began = asyncio.get_running_loop().time()
                await repaired(standby)
                assert asyncio.get_running_loop().time() - began < AT_ONCE_S
            await standby.neighbour_lives()
