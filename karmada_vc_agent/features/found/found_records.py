"""The records of discovered virtual clusters, which outlive a restart."""

from collections.abc import Iterator, Mapping

import msgspec

from karmada_vc_agent.cluster.agent_state import AgentState

_PREFIX = "found."


MOST_NODES = 256
"""Names that a record has at most; those of all groups are in one ConfigMap, of at most 1 MiB."""


class DiscoveredRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One that is served, or was.

    source: `nodeGroups` or `discover`. subject: the NodeGroup, or the value of the label. labels,
    nodes: select its nodes; both empty = too many names. gone_at: when the subject was seen to be
    deleted, Unix time; None = it exists. is_draining: whether its removal has begun.
    """

    source: str
    subject: str
    labels: Mapping[str, str] = {}
    gone_at: float | None = None
    is_draining: bool = False
    nodes: tuple[str, ...] = ()


class DiscoveredRecords:
    """The records of one source, by virtual cluster."""

    def __init__(self, state: AgentState, source: str) -> None:
        self._state = state
        self._source = source

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of virtual clusters with a record."""
        return iter([name for name in self._state.values(_PREFIX) if self.of(name) is not None])

    def __len__(self) -> int:
        """Return how many virtual clusters have a record."""
        return sum(1 for _ in self)

    def of(self, name: str) -> DiscoveredRecord | None:
        """Return the record of a virtual cluster; None if it has none, or a malformed one."""
        text = self._state.value(_PREFIX + name)
        try:
            record = msgspec.json.decode(text, type=DiscoveredRecord) if text else None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return record if record is not None and record.source == self._source else None

    async def keep(self, name: str, record: DiscoveredRecord) -> None:
        """Store a record. Raises KubeError."""
        await self._state.write(
            _PREFIX + name, msgspec.json.encode(record, order="sorted").decode()
        )

    async def drop(self, name: str) -> None:
        """Forget a virtual cluster. Raises KubeError."""
        if self.of(name) is not None:
            await self._state.erase(_PREFIX + name)
