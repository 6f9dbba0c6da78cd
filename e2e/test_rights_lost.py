"""A right that the agent loses for one virtual cluster is told of that one; others go on."""

from typing import Any

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import condition

ROLES = collection("rbac.authorization.k8s.io/v1", "Role", "karmada-cluster")
DENIED_WITHIN_S = 120.0
"""A right counts as missing once it was refused for 30 s, and tries get rarer."""


def test_lost_rights_of_one_fail_no_other(lab: Lab) -> None:
    kept, lost = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    flags = (*FAST, "--cluster-lease-duration", "12s", *endpoints.flags())
    agent = lab.serve(kept, lost, flags=flags)
    account = f"{ROLES}/vc-agent:{agent.settings['agentName']}"
    before = lab.hub.get(account)["rules"]

    lab.hub.patch(account, {"rules": _without(before, lost.name)})
    within(DENIED_WITHIN_S, _has_been_reported, lab, lost, endpoints)
    assert condition(lab.cluster(kept.name), "Ready")["status"] == "True"
    kinds = {each["type"] for each in lab.cluster(kept.name)["status"]["conditions"]}
    assert "RightsGranted" not in kinds
    status, text = endpoints.ask("/readyz?verbose")
    assert status == 200, text
    assert f"[+]rights ok: {lost.name}: hub: the agent lacks rule" in text
    assert f"[+]hub ok: the hub accepts no Lease of Cluster {lost.name}: " in text
    shown = endpoints.scrape().values("virtual_cluster_missing_rights")
    assert shown == {(kept.name,): 0.0, (lost.name,): 1.0}
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], kept)
    lab.wait_fully_applied(template)
    lines = [line for line in agent.log().splitlines() if "Lacking rights for a virtual" in line]
    assert len(lines) == 1, lines
    assert lost.name in lines[0]

    # What nobody has any more fails it.
    lab.hub.patch(account, {"rules": _without(before, lost.name, kept.name)})
    within(DENIED_WITHIN_S, _answers, endpoints, 500, "[-]rights failed: hub: the agent lacks rule")
    agent.join()
    within(DENIED_WITHIN_S, _answers, endpoints, 200, "")
    within(BACKED_OFF_S, _is_granted, lab, lost)
    for group in (kept, lost):
        lab.wait_ready(group.name)
    assert "Traceback" not in agent.log()


def _without(rules: list[Object], *names: str) -> list[Object]:
    """Return rules without these names; one that would have none, which is all, is left out."""
    left: list[Any] = []
    for rule in rules:
        if "resourceNames" not in rule:
            left.append(rule)
        elif kept := [name for name in rule["resourceNames"] if name not in names]:
            left.append(rule | {"resourceNames": kept})
    return left


def _has_been_reported(lab: Lab, group: Group, endpoints: Endpoints) -> None:
    found = condition(lab.cluster(group.name), "RightsGranted")
    assert found["status"] == "False", found
    assert f"resourceNames: [{group.name}]" in found["message"]
    assert "run karmada-vc-agent join" in found["message"]
    accepted = endpoints.scrape().values("virtual_cluster_reports_accepted")
    assert accepted[group.name,] == 0.0


def _is_granted(lab: Lab, group: Group) -> None:
    assert condition(lab.cluster(group.name), "RightsGranted")["status"] == "True"


def _answers(endpoints: Endpoints, expected: int, text: str) -> None:
    status, told = endpoints.ask("/readyz")
    assert status == expected, told
    assert text in told
