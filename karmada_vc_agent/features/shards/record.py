"""The record of an agent whose shards write it, each what is of its virtual clusters."""

from collections.abc import Callable

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import uid_of

_LABEL_PREFIX = "label."


class ShardState(AgentState):
    """Writes single keys, as merge patches, and whole what is of its own virtual clusters only."""

    def __init__(
        self, client: ApiClient, namespace: str, agent: str, *, serves: Callable[[str], bool]
    ) -> None:
        super().__init__(client, namespace, agent)
        self.serves = serves
        self._uid = ""

    async def load(self) -> None:
        await super().load()
        self._uid = uid_of(await self._client.get(self._path))

    async def restore(self) -> None:
        """Write what is of this process if another one made the ConfigMap again. Raises KubeError.

        That one wrote its own part only.
        """
        async with self._lock:
            live = await self._client.find(self._path)
            uid = uid_of(live) if live else ""
            if uid != self._uid:
                await self._patch(self._own())
                self._uid = uid or uid_of(await self._client.get(self._path))

    def _own(self) -> dict[str, str]:
        """Return what is of virtual clusters of this shard, and what is of none."""
        values = self._values
        of = {k: values[k] if k.startswith(_LABEL_PREFIX) else k.partition(".")[2] for k in values}
        return {key: values[key] for key, name in of.items() if not name or self.serves(name)}
