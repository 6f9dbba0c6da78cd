"""Attempted escapes: each is tried on the real servers, and its outcome is that of the docs."""

from collections.abc import Callable

import pytest

from e2e.escapes.attempt import Attempt, Scene
from e2e.escapes.table import ATTEMPTS
from e2e.lab import accounts
from e2e.lab.api import collection
from e2e.lab.lab import Lab
from e2e.lab.wait import eventually
from e2e.lab.works import condition


@pytest.fixture(scope="module")
def scene(shared_lab: Lab) -> Scene:
    lab = shared_lab
    mine, theirs = lab.group("a"), lab.group("b")
    lab.serve(mine, theirs)
    lab.namespace()
    home = mine.host_namespace("default")
    for group in (mine, theirs):
        for name in (lab.id, "default"):
            accounts_path = collection("v1", "ServiceAccount", group.host_namespace(name))
            eventually(lab.host.get, f"{accounts_path}/default")
    eventually(_is_enforced, lab, mine.name)
    tenant = accounts.service_account(lab.host, home, "tenant", lab.directory)
    subject = accounts.subject(home, "tenant")
    lab.host.create(accounts.role_binding(home, "cluster-admin", subject))
    annotation = {"metadata": {"annotations": {f"{lab.id}/owner": "tenant"}}}
    eventually(tenant.patch, f"/api/v1/namespaces/{home}", annotation)
    return Scene(lab, mine, theirs, home, tenant)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.title)
def test_attempted_escape(
    scene: Scene, attempt: Attempt, record_property: Callable[[str, object], None]
) -> None:
    seen = attempt.act(scene)
    record_property("attempt", attempt.title)
    record_property("outcome", seen)
    assert seen == attempt.outcome


def _is_enforced(lab: Lab, cluster: str) -> None:
    assert condition(lab.cluster(cluster), "PlacementEnforced")["reason"] == "PodsKept"
