"""The conditions of a Cluster that the agent would report."""

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import ClusterConditions, Conditions
from tests.fakes.world import World


class Reported:
    """Those of one type."""

    def __init__(self, world: World, kind: str) -> None:
        self._conditions: Conditions = ClusterConditions(world.parts)
        self._kind = kind

    def condition(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition in a list, if there is one."""
        return [each for each in self._conditions.of(vc, live) if each["type"] == self._kind]
