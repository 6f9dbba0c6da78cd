"""Several clusters register and are Ready at once."""

import uuid

import pytest

from e2e.lab.api import Object, collection
from e2e.lab.lab import CLUSTERS, Lab
from e2e.lab.wait import STARTED_S, within

pytestmark = pytest.mark.shared_agent

LEASES = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")


@pytest.mark.own_agent
def test_several_clusters_are_ready_at_once(lab: Lab) -> None:
    groups = [lab.group("a", nodes=2), lab.group("b"), lab.group("c")]
    agent = lab.serve(*groups)
    for group in groups:
        cluster = lab.wait_ready(group.name)
        assert cluster["spec"]["syncMode"] == "Pull"
        assert "karmada.io/cluster-controller" in cluster["metadata"]["finalizers"]
    agent.terminate()


def test_each_cluster_has_an_id_of_its_own_made_from_the_host_and_its_name(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    host_uid = lab.host.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    for group in groups:
        expected = str(uuid.uuid5(uuid.UUID(host_uid), group.name))
        assert lab.cluster(group.name)["spec"]["id"] == expected


@pytest.mark.own_agent
def test_each_cluster_has_a_lease_that_is_renewed(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups, flags=("--cluster-lease-renew-interval-fraction", "0.05"))
    for group in groups:
        lease = within(STARTED_S, lab.hub.get, f"{LEASES}/{group.name}")
        assert lease["spec"]["holderIdentity"] == group.name
        assert lease["spec"]["leaseDurationSeconds"] == 40
        owner = lease["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("Cluster", group.name)
        assert owner["uid"] == lab.cluster(group.name)["metadata"]["uid"]
        within(STARTED_S, _is_later, lab, lease)


@pytest.mark.smoke
def test_a_cluster_reports_its_own_nodes_only(lab: Lab) -> None:
    large, small = lab.group("large", nodes=3, cpu="8"), lab.group("small", nodes=1, cpu="2")
    lab.serve(large, small)

    def look() -> None:
        for group, nodes, cpu in ((large, 3, "24"), (small, 1, "2")):
            status = lab.cluster(group.name)["status"]
            assert status["nodeSummary"] == {"totalNum": nodes, "readyNum": nodes}
            assert status["resourceSummary"]["allocatable"]["cpu"] == cpu
            assert status["resourceSummary"]["allocatable"]["pods"] == str(110 * nodes)

    within(STARTED_S, look)


def test_a_cluster_reports_the_version_of_the_host(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    version = lab.host.get("/version")["gitVersion"]
    assert lab.cluster(group.name)["status"]["kubernetesVersion"] == version


def test_a_cluster_offers_what_it_takes_and_hides_what_would_be_refused(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    offered = _offered(lab.cluster(group.name))
    assert {
        ("apps/v1", "Deployment"),
        ("v1", "Namespace"),
        ("v1", "ConfigMap"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    } <= offered
    hidden = {
        ("v1", "Node"),
        ("apiregistration.k8s.io/v1", "APIService"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    }
    assert not hidden & offered


def test_the_models_that_the_hub_fills_in_count_nothing(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    within(STARTED_S, lambda: _has_no_modelings(lab.cluster(group.name)))


@pytest.mark.own_agent
def test_a_cluster_carries_what_the_settings_say_of_it(lab: Lab) -> None:
    group = lab.group("a")
    taint = {"key": "edge", "value": "far", "effect": "NoSchedule"}
    entry = group.settings(
        clusterLabels={"tier": "edge"},
        provider="acme",
        region="north",
        zones=["n1", "n2"],
        taints=[taint],
    )
    lab.serve(entry)
    cluster = lab.cluster(group.name)
    assert cluster["metadata"]["labels"]["tier"] == "edge"
    assert cluster["spec"]["provider"] == "acme"
    assert cluster["spec"]["region"] == "north"
    assert cluster["spec"]["zones"] == ["n1", "n2"]
    assert any(taint.items() <= each.items() for each in cluster["spec"]["taints"])


@pytest.mark.own_agent
def test_a_cluster_keeps_its_identity_when_the_agent_restarts(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group)
    within(STARTED_S, lambda: _has_no_modelings(lab.cluster(group.name)))
    before = lab.cluster(group.name)
    agent.terminate()
    agent.start()
    within(STARTED_S, lambda: _has_started_again(agent.log()))
    lab.add_node(group)
    within(STARTED_S, lambda: _counts(lab.cluster(group.name), 2))
    after = lab.cluster(group.name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert _spec_of_ours(after) == _spec_of_ours(before)


@pytest.mark.smoke
def test_a_cluster_that_exists_on_the_hub_is_listed_by_kubectl(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    names = {cluster["metadata"]["name"] for cluster in lab.hub.list(CLUSTERS)}
    assert group.name in names


def _spec_of_ours(cluster: Object) -> Object:
    """Return what the agent writes; Karmada takes its taint off some time after Ready."""
    return {key: value for key, value in cluster["spec"].items() if key != "taints"}


def _is_later(lab: Lab, lease: Object) -> None:
    now = lab.hub.get(f"{LEASES}/{lease['metadata']['name']}")
    assert now["spec"]["renewTime"] > lease["spec"]["renewTime"]


def _offered(cluster: Object) -> set[tuple[str, str]]:
    return {
        (version["groupVersion"], resource["kind"])
        for version in cluster["status"]["apiEnablements"]
        for resource in version.get("resources", [])
    }


def _has_no_modelings(cluster: Object) -> None:
    assert cluster["spec"]["resourceModels"]
    assert "allocatableModelings" not in cluster["status"]["resourceSummary"]


def _has_started_again(log: str) -> None:
    assert log.count("Serving") == 2


def _counts(cluster: Object, nodes: int) -> None:
    assert cluster["status"]["nodeSummary"] == {"totalNum": nodes, "readyNum": nodes}
