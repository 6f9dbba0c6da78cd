"""Which virtual clusters are outdated in the checkpoint, and must not be served from it.

Noted in the agent's state, beside the Secrets: these cannot be written then, as where a quota, an
admission webhook or a missing right prevents it. Readers of the checkpoint refuse what is noted, so
nothing that was deleted meanwhile returns, and nothing is set back to what it was.
"""

from karmada_vc_agent.cluster.agent_state import AgentState

EVERYTHING = "_all"
"""All virtual clusters; no Cluster has such a name."""
_PREFIX = "checkpoint-outdated."


class Outdated:
    """The notes; each of them is a write only where it changes something."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def names(self) -> frozenset[str]:
        """Return what is noted, which may be EVERYTHING."""
        return frozenset(self._state.values(_PREFIX))

    def has(self, cluster: str) -> bool:
        """Return whether a virtual cluster must not be served from the checkpoint."""
        return not self.names().isdisjoint((cluster, EVERYTHING))

    async def note(self, cluster: str) -> None:
        """Have the next start refuse a virtual cluster. Raises KubeError."""
        await self._state.write(_PREFIX + cluster, "true")

    async def clear(self, cluster: str) -> None:
        """Remove a note: what is saved is the state of the hub. Raises KubeError."""
        await self._state.erase(_PREFIX + cluster)
