"""A condition of all Clusters of the agent about what the agent itself needs of the hub."""

from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


class AgentCondition:
    """True again once what failed succeeds; absent from Clusters that never saw it fail.

    problem: what fails and what to do; the same text for as long as it lasts, "" = nothing.
    changed: it fails, fails for another reason, or succeeds again.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.reason = ""
        self.problem = ""
        self.changed: Signal[[]] = Signal()

    def fail(self, reason: str, problem: str) -> None:
        """Report a failure."""
        self._set(reason, problem)

    def succeed(self) -> None:
        """Report that what failed succeeded."""
        self._set("", "")

    def condition(self, _: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition while it fails, or did."""
        if self.problem:
            return [self._condition("False", self.reason, self.problem)]
        was_reported = find_condition(live.get("conditions"), self.kind) is not None
        return [self._condition("True", "Succeeded", "")] if was_reported else []

    def _set(self, reason: str, problem: str) -> None:
        if (self.reason, self.problem) != (reason, problem):
            self.reason, self.problem = reason, problem
            self.changed.emit()

    def _condition(self, status: str, reason: str, message: str) -> Condition:
        return Condition(type=self.kind, status=status, reason=reason, message=message)
