"""Which virtual clusters the checkpoint has otherwise than the hub said last, and must not serve.

Noted in the agent's state, beside the Secrets: these are what cannot be written then, as where a
quota, an admission webhook or a missing right is in the way. Who reads the checkpoint refuses what
is noted, so nothing that was deleted meanwhile comes back, and nothing goes back to what it was.
"""

from karmada_vc_agent.cluster.agent_state import AgentState

EVERYTHING = "_all"
"""Stands for all virtual clusters; no Cluster has such a name."""
_PREFIX = "checkpoint-outdated."


class Outdated:
    """Notes of it; each of them is a write only where it is news."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def names(self) -> frozenset[str]:
        """Return what is noted, which may be EVERYTHING."""
        return frozenset(self._state.values(_PREFIX))

    def has(self, cluster: str) -> bool:
        """Whether a virtual cluster must not be served from the checkpoint."""
        return not self.names().isdisjoint((cluster, EVERYTHING))

    async def note(self, cluster: str) -> None:
        """Have the next start refuse a virtual cluster. Raises KubeError."""
        await self._state.write(_PREFIX + cluster, "true")

    async def clear(self, cluster: str) -> None:
        """Take a note back: what is saved is what the hub says. Raises KubeError."""
        await self._state.erase(_PREFIX + cluster)
