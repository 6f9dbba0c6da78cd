"""The pods that run outside their virtual cluster, as far as they were reported."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from karmada_vc_agent.features.escapes.left_pods import PodKey


@dataclass(frozen=True, slots=True)
class Escape:
    """A pod of a virtual cluster on a foreign node."""

    cluster: str
    uid: str
    node: str


class EscapedPods(dict[PodKey, Escape]):
    """The reported escape of each pod that still runs there."""

    def by_cluster(self) -> Mapping[str, int]:
        """Return how many pods of each virtual cluster are on foreign nodes now."""
        return Counter(escape.cluster for escape in self.values())
