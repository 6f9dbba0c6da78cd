"""The condition TakesChanges: whether what is new in Works is applied now (ADR 43)."""

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.windows import Opening

TAKES_CHANGES = "TakesChanges"


def takes_changes(vc: VirtualCluster, opening: Opening) -> Condition:
    """Return the condition."""
    if vc.paused:
        return _condition("False", "Paused", "the virtual cluster is paused")
    if not vc.window:
        return _condition("True", "NoWindow", "changes are applied at once")
    end = f" until {opening.text}" if opening.text else ""
    if opening.is_open:
        return _condition("True", "InsideWindow", f"the window {vc.window} is open{end}")
    text = f"new generations wait{end}, for the window {vc.window}"
    return _condition("False", "OutsideWindow", text)


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=TAKES_CHANGES, status=status, reason=reason, message=message)
