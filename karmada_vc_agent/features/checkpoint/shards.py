"""Which Secret has what: a fixed set of names, so that a role can name each of them.

    <agent>-checkpoint-0 ... -31
        cluster.<name>                a Cluster, and into how many parts its Works are split
        works.<name>.<parts>.<part>   the Works whose names hash to that part
        rules                         interpreter customizations and webhook configurations (-0)
        contact                       the last contact with the hub (-0)

The number of parts grows with the Works of a virtual cluster, and with their size. Its parts are in
consecutive Secrets, beginning with that of its name, so that those of few Works are in one Secret.
What does not fit below `LARGEST_SECRET` is left out, largest first: the Works of one virtual
cluster must not displace those of another one.
"""

import zlib
from collections.abc import Collection, Mapping

from karmada_vc_agent.model.domain import CHECKPOINT_SECRETS

LARGEST_SECRET = 500_000
"""Bytes in one Secret; an API server takes 1 MiB, and a request for it with base64 is larger."""
LARGEST_RULES = LARGEST_SECRET // 2
LARGEST_PART = LARGEST_SECRET // 4
WORKS_A_PART = 256
MOST_PARTS = 512
RULES_KEY, CONTACT_KEY = "rules", "contact"


def head_key(cluster: str) -> str:
    """Return the key of a Cluster."""
    return f"cluster.{cluster}"


def works_prefix(cluster: str, parts: int) -> str:
    """Return what the keys begin with of a Cluster whose Works are split into so many parts."""
    return f"works.{cluster}.{parts}."


def works_key(cluster: str, parts: int, part: int) -> str:
    """Return the key of a part of the Works of a Cluster."""
    return f"{works_prefix(cluster, parts)}{part}"


def cluster_of_key(key: str) -> str:
    """Return the Cluster that a key is of, "" for none. Names of Clusters have no dots."""
    kind, _, rest = key.partition(".")
    return rest.partition(".")[0] if kind in ("cluster", "works") else ""


def part_of(name: str, parts: int) -> int:
    """Return the part of a Work."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % parts


def place_of(cluster: str, part: int) -> int:
    """Return the number of the Secret of a part; the Cluster itself is beside part 0."""
    return (zlib.crc32(cluster.encode()) + part) % CHECKPOINT_SECRETS


def parts_for(works: int, at_present: int = 1) -> int:
    """Return into how many parts so many Works are split, a power of two.

    at_present: into how many they are; a smaller number only where it is far smaller, so that a
    few Works more or less do not have all of them written again.
    """
    parts = 1
    while parts * WORKS_A_PART < works and parts < MOST_PARTS:
        parts *= 2
    return parts if parts > at_present or parts * 4 <= at_present else at_present


def parts_for_sizes(sizes: Collection[int], at_present: int) -> int:
    """Return into how many parts Works are split so that hardly one is larger than it should be.

    sizes: of the parts with several Works. at_present: into how many they are; never less.
    """
    parts = at_present
    while max(sizes, default=0) * at_present > LARGEST_PART * parts and parts < MOST_PARTS:
        parts *= 2
    return parts


def left_out(sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the keys that do not fit into one Secret, those of the largest Clusters first.

    sizes: bytes of each key in that Secret. Keys of no Cluster always stay.
    """
    total = sum(sizes.values())
    by_cluster: dict[str, int] = {}
    for key, size in sizes.items():
        by_cluster[cluster_of_key(key)] = by_cluster.get(cluster_of_key(key), 0) + size
    dropped: set[str] = set()
    for cluster in sorted(by_cluster, key=lambda name: (-by_cluster[name], name)):
        for key in sorted(sizes, key=lambda name: (-sizes[name], name)):
            if total <= LARGEST_SECRET:
                return frozenset(dropped)
            if cluster and cluster_of_key(key) == cluster and key.startswith("works."):
                dropped.add(key)
                total -= sizes[key]
    return frozenset(dropped)
