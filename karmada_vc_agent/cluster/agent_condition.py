"""Conditions of what the agent itself needs of the hub."""

from karmada_vc_agent.kube.signal import Signal


class AgentCondition:
    """The state of a condition that all Clusters of the agent have.

    reason, problem: what fails and what to do; the same text for as long as it lasts, "" = nothing.
    changed: it fails, fails for another reason, or succeeds again.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.problem = ""
        self.changed: Signal[[]] = Signal()

    def fail(self, reason: str, problem: str) -> None:
        """Report a failure."""
        if (self.reason, self.problem) != (reason, problem):
            self.reason, self.problem = reason, problem
            self.changed.emit()

    def succeed(self) -> None:
        """Report that what failed succeeded."""
        self.fail("", "")
