"""The declaration of a condition of virtual clusters."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.kube.sources import Subscribe
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import Parts

Trigger = tuple[Subscribe, Callable[..., Iterable[str]]]
"""A signal, and a function from its change to names of virtual clusters."""


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """A condition and how it is evaluated.

    evaluate: returns the condition as it is now; None = undetermined. It makes no request.
    triggers: what requeues the status of a virtual cluster; without them the condition is as old as
    the interval of the status.
    """

    type: ConditionType
    evaluate: Callable[[Parts, VirtualCluster], Condition | None]
    triggers: Callable[[Parts], Iterable[Trigger]] = lambda _: ()
