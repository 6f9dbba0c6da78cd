"""What a test says of a virtual cluster that the agent found."""

from e2e.lab.lab import Group, Lab
from e2e.lab.works import condition

EVENTS = "/api/v1/namespaces/default/events"


def is_absent(lab: Lab, group: Group, text: str) -> None:
    found = condition(lab.cluster(group.name), "GroupPresent")
    assert found["status"] == "False", found
    assert text in found["message"], found


def is_discovered(lab: Lab, group: Group) -> None:
    found = condition(lab.cluster(group.name), "GroupPresent")
    assert (found["status"], found["reason"]) == ("True", "Found"), found


def has_no_namespaces(lab: Lab, group: Group) -> None:
    label = f"virtualcluster.kubeedge.io/cluster={group.name}"
    assert not lab.host.list("/api/v1/namespaces", label)
