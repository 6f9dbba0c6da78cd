"""Replicas are divided by what the groups of nodes can take."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within
from karmada_vc_agent.model.quantity import milli_units

BY_CAPACITY = {
    "replicaDivisionPreference": "Weighted",
    "replicaSchedulingType": "Divided",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


def test_replicas_follow_the_capacity_of_the_groups_and_each_share_fits(lab: Lab) -> None:
    # One CPU more than what a node is counted with: a small pod of another story may be there.
    small, large = lab.group("small", nodes=1, cpu="5"), lab.group("large", nodes=3, cpu="5")
    lab.serve(small, large)
    template = objects.deployment(lab.namespace(), replicas=8, cpu="1")
    lab.propagate([template], small, large, placement=_divided(small, large))
    shares = _shares(lab, template, 8)
    assert shares == {small.name: 2, large.name: 6}
    for group in (small, large):
        _assert_all_run(lab, template, group, shares[group.name])


def test_a_group_that_is_full_gets_no_more_replicas(lab: Lab) -> None:
    full, free = lab.group("full", nodes=1), lab.group("free", nodes=1)
    lab.serve(full, free)
    namespace = lab.namespace()
    first = objects.deployment(namespace, "first", replicas=4, cpu="1")
    lab.propagate([first], full)
    within(THROUGH_HUB_S, _has_no_space, lab, full)
    second = objects.deployment(namespace, "second", replicas=3, cpu="1")
    lab.propagate([second], full, free, placement=_divided(full, free))
    assert _shares(lab, second, 3) == {free.name: 3}


@pytest.mark.smoke
def test_static_weights_divide_replicas_too(lab: Lab) -> None:
    group_a, group_b = lab.group("a"), lab.group("b")
    lab.serve(group_a, group_b)
    template = objects.deployment(lab.namespace(), replicas=6)
    weights = [
        {"targetCluster": {"clusterNames": [group.name]}, "weight": weight}
        for group, weight in ((group_a, 1), (group_b, 2))
    ]
    scheduling = BY_CAPACITY | {"weightPreference": {"staticWeightList": weights}}
    placement = objects.to_clusters(group_a.name, group_b.name) | {"replicaScheduling": scheduling}
    lab.propagate([template], group_a, group_b, placement=placement)
    assert _shares(lab, template, 6) == {group_a.name: 2, group_b.name: 4}
    _assert_all_run(lab, template, group_b, 4)


def _divided(*groups: Group) -> Object:
    return objects.to_clusters(*(g.name for g in groups)) | {"replicaScheduling": BY_CAPACITY}


def _shares(lab: Lab, template: Object, replicas: int) -> dict[str, int]:
    """Return the replicas that the scheduler gave to each Cluster, once it placed all."""

    def look() -> dict[str, int]:
        targets = lab.wait_fully_applied(template)["spec"]["clusters"]
        shares = {target["name"]: target["replicas"] for target in targets}
        assert sum(shares.values()) == replicas, shares
        return shares

    return within(THROUGH_HUB_S, look)


def _assert_all_run(lab: Lab, template: Object, group: Group, replicas: int) -> None:
    def look() -> None:
        live = lab.host.get(lab.host_path(template, group))
        assert live["spec"]["replicas"] == replicas
        pods = lab.pods(live["metadata"]["namespace"])
        nodes = [pod["spec"].get("nodeName") for pod in pods]
        assert len(nodes) == replicas
        assert set(nodes) <= set(group.nodes), f"pods of {group.name} are on {nodes}"
        ready = live["status"].get("readyReplicas")
        assert ready == replicas, f"{ready} of {replicas} are ready"

    within(THROUGH_HUB_S, look)


def _has_no_space(lab: Lab, group: Group) -> None:
    summary = lab.cluster(group.name)["status"]["resourceSummary"]
    has, used = (milli_units(summary[which]["cpu"]) for which in ("allocatable", "allocated"))
    assert has - used < 1000, summary  # one CPU is what a replica asks for
