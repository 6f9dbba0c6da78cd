"""Writes entries as far as there is room for them, and knows which were left out for want of it."""

from collections import defaultdict

from karmada_vc_agent.features.checkpoint.secrets import Changes, CheckpointSecrets
from karmada_vc_agent.features.checkpoint.shards import cluster_of_key, has_room, left_out


class CheckpointRoom:
    """The room in the Secrets of a checkpoint."""

    def __init__(self, secrets: CheckpointSecrets) -> None:
        self._secrets = secrets
        self._left_out: dict[str, tuple[int, int]] = {}

    @property
    def too_large(self) -> dict[str, frozenset[str]]:
        """Return virtual cluster -> keys that found no room."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for key in self._left_out:
            found[cluster_of_key(key)].add(key)
        return {cluster: frozenset(keys) for cluster, keys in found.items()}

    async def write(self, number: int, changes: Changes) -> None:
        """Write entries of a Secret; what finds no room is left out. Raises KubeError."""
        sizes = self._secrets.sizes(number)
        sizes |= {key: len(new) for key, new in changes.items() if new is not None}
        sizes = {k: size for k, size in sizes.items() if changes.get(k, b"") is not None}
        gone = left_out(sizes)
        await self._secrets.write(number, {**changes, **dict.fromkeys(gone)})
        for key in changes:
            self._left_out.pop(key, None)
        self._left_out |= {key: (number, sizes[key]) for key in gone}

    def parts_that_fit(self, cluster: str) -> set[int]:
        """Return the parts of the Works of a virtual cluster that would find room by now."""
        return {
            int(key.rpartition(".")[2])
            for key, (number, size) in self._left_out.items()
            if cluster_of_key(key) == cluster and has_room(self._secrets.sizes(number), size)
        }

    def forget(self, cluster: str, but: str = "") -> None:
        """Forget what a virtual cluster has no more. but: what the keys that it has begin with."""
        gone = {
            key
            for key in self._left_out
            if cluster_of_key(key) == cluster and not (but and key.startswith(but))
        }
        for key in gone:
            del self._left_out[key]
