"""A hub that refuses the agent's requests while its open watches live on stops no repair."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.accounts import HubAccount
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import CLUSTERS, FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import condition

LEASE_S = 10
LOOKED_AT_WITHIN_S = 60.0
"""The agent looks at its kubeconfig now and then."""
UNKNOWN = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "ClusterStatusUnknown",
    "message": "Cluster status controller stopped posting cluster status.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
"""What the hub writes once it has not heard of a Cluster for a while."""


@pytest.fixture
def account(lab: Lab, tmp_path: Path) -> Iterator[HubAccount]:
    made = HubAccount(lab.hub, lab.namespace("-account"), tmp_path / "account")
    yield made
    made.remove()


def test_drift_is_repaired_while_the_hub_refuses_the_credential(
    lab: Lab, account: HubAccount
) -> None:
    group = lab.group("a")
    endpoints = Endpoints.new()
    flags = (*FAST, "--cluster-lease-duration", f"{LEASE_S}s", *endpoints.flags())
    agent = lab.new_agent(group, flags=flags, hub=account.kubeconfig, is_admin=True).start()
    lab.wait_ready(group.name)
    idle = Endpoints.new()
    standby = lab.new_agent(
        group, flags=(*FAST, *idle.flags()), hub=account.kubeconfig, is_admin=True
    ).start()
    within(BACKED_OFF_S, lambda: _says(standby.log(), "Standing by"))
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    within(BACKED_OFF_S, lambda: _says_ready(endpoints))

    account.revoke()
    within(BACKED_OFF_S, lambda: _says(agent.log(), "Unauthorized"))
    _set_unknown(lab, group)
    lab.host.delete(lab.host_path(template, group))
    within(BACKED_OFF_S, lab.host.get, lab.host_path(template, group))
    within(BACKED_OFF_S, lambda: _says_what_fails(endpoints, group))
    within(BACKED_OFF_S, lambda: _says_refused(idle))
    assert condition(lab.cluster(group.name), "Ready")["status"] == "Unknown"
    assert agent.log().count("Reported readiness") == 1
    # Long after the hub's word came.
    lab.host.delete(lab.host_path(template, group))
    within(BACKED_OFF_S, lab.host.get, lab.host_path(template, group))

    account.renew()
    within(LOOKED_AT_WITHIN_S, lab.wait_ready, group.name)
    within(BACKED_OFF_S, lambda: _says_ready(endpoints))
    within(BACKED_OFF_S, lambda: _says_ready(idle))
    after = objects.config_map(template["metadata"]["namespace"], "after")
    lab.wait_applied(lab.create_work(group, "after", after))


def _set_unknown(lab: Lab, group: Group) -> None:
    conditions = [
        UNKNOWN if found["type"] == "Ready" else found
        for found in lab.cluster(group.name)["status"]["conditions"]
    ]
    path = f"{CLUSTERS}/{group.name}/status"
    lab.hub.patch(path, {"status": {"conditions": conditions}})


def _says_ready(endpoints: Endpoints) -> None:
    status, text = endpoints.ask("/readyz")
    assert status == 200, text


def _says_what_fails(endpoints: Endpoints, group: Group) -> None:
    status, text = endpoints.ask("/readyz?verbose")
    assert status == 200, text
    assert "[+]hub ok: the hub accepts no " in text
    assert f" of Cluster {group.name}: " in text
    assert "Unauthorized" in text
    accepted = endpoints.scrape().values("virtual_cluster_reports_accepted")
    assert accepted == {(group.name,): 0.0}


def _says_refused(endpoints: Endpoints) -> None:
    status, text = endpoints.ask("/readyz")
    assert status == 500, text
    assert "[-]hub failed: the hub refuses the agent: " in text


def _says(log: str, text: str) -> None:
    assert text in log
