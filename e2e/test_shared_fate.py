"""The hub knows which virtual clusters share a host, and spreads replicas over hosts."""

from pathlib import Path
from typing import Any

import yaml

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within
from e2e.lab.works import condition

SAMPLE = Path(__file__).parent.parent / "manifests" / "samples" / "spread-over-hosts.yaml"
HOST_LABEL = "virtualcluster.kubeedge.io/host"
ON_SECOND_HOST = "Strict"
"""A host has one profile, and other stories join with this one there."""
TWO_CLUSTERS = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]
BY_CAPACITY = {
    "replicaDivisionPreference": "Weighted",
    "replicaSchedulingType": "Divided",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


def test_clusters_of_one_host_have_its_label_and_those_of_another_have_another(
    lab: Lab, lab2: Lab
) -> None:
    a, b, c = lab.group("a"), lab.group("b"), lab2.group("c")
    lab.serve(a, b)
    lab2.serve(c, tenancy=ON_SECOND_HOST)
    first, second, other = (_labels(lab, group)[HOST_LABEL] for group in (a, b, c))
    assert first == second != other
    for api, seen in ((lab.host, first), (lab2.host, other)):
        uid = api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
        assert uid not in seen, "the hub sees no UID of a host"


def test_a_host_has_the_name_of_the_settings_unless_a_virtual_cluster_has_another(
    lab: Lab,
) -> None:
    group, moved = lab.group("a"), lab.group("b")
    entry = moved.settings(clusterLabels={HOST_LABEL: "rack-2"}, region="west")
    lab.serve(group, entry, clusterHost="plant", clusterRegion="north", clusterProvider="acme")
    for cluster, host, region in ((group, "plant", "north"), (moved, "rack-2", "west")):
        found = lab.cluster(cluster.name)
        assert found["metadata"]["labels"][HOST_LABEL] == host
        assert (found["spec"]["region"], found["spec"]["provider"]) == (region, "acme")


def test_host_label_of_another_writer_stays(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group.settings(clusterLabels={"tier": "edge"}))
    labels = {HOST_LABEL: "rack-7", "theirs": "too", "tier": None}
    lab.hub.patch(f"{CLUSTERS}/{group.name}", {"metadata": {"labels": labels}})

    def is_aligned() -> None:
        assert _labels(lab, group).get("tier") == "edge"

    within(THROUGH_HUB_S, is_aligned)
    assert _labels(lab, group) == {HOST_LABEL: "rack-7", "theirs": "too", "tier": "edge"}


def test_the_sample_runs_on_two_hosts_where_karmada_alone_takes_one(lab: Lab, lab2: Lab) -> None:
    large, larger, small = _two_hosts(lab, lab2)
    alone = _placement(large, larger, small, spreadConstraints=TWO_CLUSTERS)
    assert set(_targets(lab, "alone", alone)) == {large.name, larger.name}
    spread = _targets(lab, "spread", _placement(large, larger, small))
    assert len(spread) == 2
    assert small.name in spread
    assert set(spread.values()) == {4}
    for made, group in ((lab, large if large.name in spread else larger), (lab2, small)):
        _assert_run(made, group, lab.namespaces[0], "spread", 4)


def test_divided_replicas_run_on_two_hosts_too(lab: Lab, lab2: Lab) -> None:
    one, two, other = _two_hosts(lab, lab2, cpus=("8", "8", "8"))
    placement = _placement(one, two, other, replicaScheduling=BY_CAPACITY)
    shares = _targets(lab, "divided", placement)
    assert len(shares) == 2
    assert shares[other.name] == 2
    assert sum(shares.values()) == 4


def test_two_virtual_clusters_of_one_host_are_not_two_hosts(lab: Lab) -> None:
    a, b = lab.group("a"), lab.group("b")
    lab.serve(a, b, clusterRegion=f"{lab.id}-north")
    template = objects.deployment(lab.namespace())
    lab.propagate([template], placement=_placement(a, b))
    _assert_unscheduled(lab, template, "the number of feasible region is less than")


def test_karmada_spreads_by_no_label_yet(lab: Lab) -> None:
    """Once it does, the sample needs no regions (ADR 38)."""
    a, b = lab.group("a"), lab.group("b")
    lab.serve(a, b)
    template = objects.deployment(lab.namespace())
    by_label = [{"spreadByLabel": HOST_LABEL, "minGroups": 1, "maxGroups": 2}]
    lab.propagate([template], placement=_placement(a, b, spreadConstraints=by_label))
    _assert_unscheduled(lab, template, "just support cluster and region spread constraint")


def _two_hosts(
    lab: Lab, lab2: Lab, cpus: tuple[str, str, str] = ("16", "24", "4")
) -> tuple[Group, Group, Group]:
    """Serve two virtual clusters of one host, and one of another, on nodes of these sizes."""
    one, two, other = (
        lab.group("a", cpu=cpus[0]),
        lab.group("b", cpu=cpus[1]),
        lab2.group("c", cpu=cpus[2]),
    )
    lab.serve(one, two, clusterRegion=f"{lab.id}-north")
    lab2.serve(other, clusterRegion=f"{lab.id}-south", tenancy=ON_SECOND_HOST)
    lab.namespace()
    return one, two, other


def _placement(*groups: Group, **changes: Any) -> Object:
    """Return the placement of the sample among these Clusters of the hub."""
    placement: Object = yaml.safe_load(SAMPLE.read_text())["spec"]["placement"]
    return placement | objects.to_clusters(*(group.name for group in groups)) | changes


def _targets(lab: Lab, name: str, placement: Object) -> dict[str, int]:
    """Propagate a Deployment of 4 replicas; return how many each chosen Cluster runs."""
    template = objects.deployment(lab.namespaces[0], name, replicas=4, cpu="500m")
    lab.propagate([template], placement=placement)
    binding = lab.wait_fully_applied(template)
    return {target["name"]: target["replicas"] for target in binding["spec"]["clusters"]}


def _assert_run(lab: Lab, group: Group, namespace: str, name: str, replicas: int) -> None:
    path = lab.host_path(objects.deployment(namespace, name), group)

    def look() -> None:
        assert lab.host.get(path)["status"].get("readyReplicas") == replicas

    within(THROUGH_HUB_S, look)


def _assert_unscheduled(lab: Lab, template: Object, reason: str) -> None:
    namespace, name = template["metadata"]["namespace"], template["metadata"]["name"]
    bindings = collection("work.karmada.io/v1alpha2", "ResourceBinding", namespace)

    def look() -> None:
        scheduled = condition(lab.hub.get(f"{bindings}/{name}-deployment"), "Scheduled")
        assert scheduled["status"] == "False", scheduled
        assert reason in scheduled["message"]

    within(THROUGH_HUB_S, look)


def _labels(lab: Lab, group: Group) -> dict[str, str]:
    return dict(lab.cluster(group.name)["metadata"]["labels"])
