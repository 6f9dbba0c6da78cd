"""HostState.kinds_of: what the host serves, as threads that translate and the loop see it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from karmada_vc_agent.features.gateway.host_state import HostState
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.flows import Supervisor
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.gateway_lab import agent_config

PODS = {"name": "pods", "kind": "Pod", "namespaced": True}


class Interrupted(list[Object]):
    """Lists of kinds, in the midst of which somebody else asks."""

    def __init__(self, state: HostState) -> None:
        super().__init__([{"groupVersion": "v1", "resources": [PODS]}])
        self.state = state
        self.seen: list[int] = []
        discovery: Any = SimpleNamespace(served=ServedApis(self, is_complete=True))
        state.discovery = discovery

    def __iter__(self) -> Iterator[Object]:
        if not self.seen:
            self.seen.append(-1)
            self.seen.append(len(self.state.kinds_of("")))
        return super().__iter__()


async def test_who_asks_while_another_one_looks_sees_all() -> None:
    """A large body of one virtual cluster is translated in a thread: its neighbour asks then."""
    async with FakeApiServer() as host:
        state = HostState(agent_config(), host.client(), Supervisor())
        lists = Interrupted(state)
        assert len(state.kinds_of("")) == 1
        assert lists.seen == [-1, 1]
        assert [each.plural for each in state.kinds_of("").values()] == ["pods"]
