"""An agent takes the lead if it can serve: it knows the hub, or has a checkpoint."""

import asyncio

import pytest

from karmada_vc_agent.agent import NEITHER, Agent
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint import feature
from karmada_vc_agent.kube.transport import Credentials
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fuzz.served_ways import _HUB, _furnish

LEASE = "/apis/coordination.k8s.io/v1/namespaces/agents/leases/karmada-vc-agent"
NOWHERE = Credentials("http://127.0.0.1:9", None, "no uplink")


async def test_who_has_neither_leaves_the_lead_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature, "CHECK_PATIENCE_S", 0.1)
    async with FakeApiServer(_HUB) as hub, FakeApiServer(served.HOST) as host:
        _furnish(hub, host)
        config = AgentConfig(
            agent_namespace="agents",
            install_policies=False,
            virtual_clusters=(objects.virtual_cluster("branch-a"),),
        )
        agent = Agent(config, NOWHERE, Credentials(host.url, None, "a test"))
        stop = asyncio.Event()
        task = asyncio.create_task(agent.run(stop))
        for _ in range(3000):
            if NEITHER in (agent.readiness()["phase"] or "") and host.asked("GET", LEASE):
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("it did not wait for the hub")
        assert host.find(LEASE) is None
        stop.set()
        await task
