"""Checks at the start that the hub is the right one."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.runner.hub_identity import HubIdentity
from karmada_vc_agent.runner.hub_presence import HubPresence


class HubStart:
    """Checks the hub, however late it answers; a feature may start without it.

    host: where an earlier process left what it recorded. identity: which hub it is, once it
    answered. on_known: called with its uid then. line: annotation of leaders that can serve
    without the hub, "" = none. lack: why this process cannot. provided: read at a start without it.
    """

    line = ""
    lack = ""
    provided: tuple[object, ...] = ()

    def __init__(self, config: AgentConfig, hub: ApiClient, host: ApiClient) -> None:
        self.config = config
        self.host = host
        self.identity = HubIdentity()
        self.presence = HubPresence(hub, self.identity, self.was_seen)
        self.on_known: Callable[[str], None] = lambda _: None

    async def check(self, host_uid: str) -> None:
        """Check that the hub is what the agent needs. Raises ConfigError."""
        await self.presence.check(host_uid)
        self.on_known(self.identity.uid)

    async def was_seen(self) -> bool:
        """Return whether an earlier process registered Clusters. Raises KubeError."""
        state = AgentState(self.host, self.config.agent_namespace, self.config.agent_name)
        with suppress(NotFoundError):
            await state.look()
        return bool(state.clusters())

    async def wait(self, checking: asyncio.Task[None]) -> None:
        """Wait until the hub was checked, or it takes too long.

        Ends early if the hub is not what the agent needs: that ends all tasks of the group.
        """
        await asyncio.wait((checking,))

    async def wait_for_either(
        self, checking: asyncio.Task[None], host: ApiClient, election: LeaderElection
    ) -> None:
        """Wait until the hub was checked, or this process can serve without it.

        Without either it must not lead: another replica may reach the hub.
        """

    async def look(self) -> None:
        """Check whether the hub answers now."""

    async def read(
        self, host: ApiClient, state: AgentState, election: LeaderElection | None
    ) -> None:
        """Read what is served while the hub is away."""

    @property
    def is_needed(self) -> bool:
        """Return whether nothing can be served before the hub was checked."""
        return True
