"""Marks on host objects outside a virtual cluster's own namespaces keep nobody busy."""

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Lab
from e2e.lab.wait import eventually

DOMAIN = "virtualcluster.kubeedge.io"
PATCHES = 200
"""Many more than other stories add Works meanwhile: each of their namespaces is one here, too."""


def test_marks_that_name_a_neighbour_do_not_trigger_it(lab: Lab) -> None:
    mine, theirs = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    agent = lab.new_agent(mine, theirs, flags=(*FAST, *endpoints.flags())).start()
    lab.wait_serving(agent)
    own = objects.config_map(lab.namespace(), "own", key="x")
    work = lab.create_work(theirs, "own", own)
    lab.wait_applied(work)
    live = lab.on_host(own, theirs)
    home = mine.host_namespace("default")
    eventually(lab.host.get, f"/api/v1/namespaces/{home}")
    false = objects.config_map(home, "false", key="x")
    false["metadata"] |= _marks_of(live)
    path = f"/api/v1/namespaces/{home}/configmaps/false"
    lab.as_agent().create(false)

    before = _reconciles(endpoints)
    assert before > 0
    for number in range(PATCHES):
        lab.as_agent().patch(path, {"data": {"key": str(number)}})
    # What counts is told by a change that does: the same watch brings it later.
    lab.host.patch(lab.host_path(own, theirs), {"data": {"key": "drifted"}})
    lab.wait_data(own, theirs, key="x")
    assert _reconciles(endpoints) - before < PATCHES / 2


def _marks_of(live: Object) -> Object:
    metadata = live["metadata"]
    work = f"{DOMAIN}/work"
    return {
        "labels": {f"{DOMAIN}/cluster": metadata["labels"][f"{DOMAIN}/cluster"]},
        "annotations": {work: metadata["annotations"][work]},
    }


def _reconciles(endpoints: Endpoints) -> float:
    """Return how often Works were reconciled."""
    values = endpoints.scrape().values("controller_runtime_reconcile_total")
    return sum(
        value for labels, value in values.items() if any("execution" in label for label in labels)
    )
