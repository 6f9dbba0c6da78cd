"""Which virtual clusters a shard serves, and the names of what its processes hold."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

MOST = 8
"""Shards of an agent: `join` grants the right to the Lease of each by its name."""
_FORM = re.compile(r"(auto|[0-9])/([1-9])")


def parse(text: str) -> tuple[int | None, int]:
    """Return the index of a shard, None = the first that is free, and the count of all.

    Raises ValueError with what is wrong.
    """
    match = _FORM.fullmatch(text or "0/1")
    index, count = match.groups() if match else ("", "0")
    if not 1 <= int(count) <= MOST:
        raise ValueError(f'"{text}" is not auto/N or I/N, with N from 1 to {MOST} and I below N')
    if index == "auto":
        return (None if int(count) > 1 else 0), int(count)
    if int(index) >= int(count):
        raise ValueError(f'"{text}" has no such shard: the first of {count} is 0/{count}')
    return int(index), int(count)


@lru_cache(16_384)
def shard_of(cluster: str, count: int) -> int:
    """Return the shard of a virtual cluster: of another count as few as possible have another one.

    By rendezvous hashing; the same for all processes and versions.
    """
    return max(range(count), key=lambda i: hashlib.sha256(f"{i}/{cluster}".encode()).digest())


def lease_name(agent: str, index: int, count: int) -> str:
    """Return the name of the Lease of a shard, which of one alone is the agent's."""
    return agent if count == 1 else f"{agent}-{index}-of-{count}"


def lease_names(agent: str) -> list[str]:
    """Return the names of the Leases of all shards that there may be, but the agent's own."""
    counts = range(2, MOST + 1)
    return [lease_name(agent, index, count) for count in counts for index in range(count)]


class ShardClusters(VirtualClusters):
    """The virtual clusters of one shard; `everywhere` has those of all.

    index: of the shard, None until this process takes one. count: of all shards.
    """

    def __init__(self, index: int | None, count: int) -> None:
        super().__init__()
        self.index, self.count = index, count
        if count > 1:
            self.everywhere = _OfAllShards(self)

    def serves(self, name: str) -> bool:
        return self.count == 1 or shard_of(name, self.count) == self.index

    def take(self, index: int) -> None:
        """Serve the virtual clusters of this shard from now on."""
        if self.index != index:
            self.index = index
            self.everywhere.replace_all(self.everywhere.values())


class _OfAllShards(VirtualClusters):
    def __init__(self, of_shard: ShardClusters) -> None:
        super().__init__()
        self._of_shard = of_shard

    def serves(self, name: str) -> bool:
        return self._of_shard.serves(name)

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have these; those that the shard serves are in its own registry right after."""
        super().replace_all(virtual_clusters)
        own = [vc for vc in self.values() if self._of_shard.serves(vc.name)]
        self._of_shard.replace_all(own)
