"""AgentCondition: on all Clusters while it fails, and after it did."""

from karmada_vc_agent.cluster.agent_condition import AgentCondition
from tests.fakes.objects import virtual_cluster

VC = virtual_cluster("branch-a")


def test_what_never_failed_is_no_condition() -> None:
    assert AgentCondition("CredentialRenewed").condition(VC, {}) == []


def test_failure_is_reported_until_it_succeeds_and_each_change_once() -> None:
    changes: list[str] = []
    made = AgentCondition("CredentialRenewed")
    made.changed.subscribe(lambda: changes.append(made.reason))
    for reason in ("RequestPending", "RequestPending", "ReadOnly"):
        made.fail(reason, f"it is {reason}")
    (failing,) = made.condition(VC, {})
    assert (failing["status"], failing["reason"]) == ("False", "ReadOnly")
    made.succeed()
    (after,) = made.condition(VC, {"conditions": [failing]})
    assert after["status"] == "True"
    assert changes == ["RequestPending", "ReadOnly", ""]
