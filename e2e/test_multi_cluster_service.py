"""Slices of a MultiClusterService are collected from its providers and reach its consumers.

The hub of these tests runs without the gate MultiClusterService, as Karmada does by default: the
Works that its controllers would write are written by hand here.
"""

import copy
from collections.abc import Iterator

import pytest

from e2e.lab import multi_cluster as mcs
from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, wait_until_deleted, within
from e2e.lab.works import hand_written

GATE = "MultiClusterService=true"
DISPATCHED = "endpointslice-dispatch-controller.karmada.io"
MANAGED_BY = "endpointslice.karmada.io/managed-by"
FINALIZER = "karmada.io/mcs-endpointslice-dispatch-controller"


@pytest.fixture
def finalised_reports(lab: Lab) -> Iterator[None]:
    """Take the finalizers off that are the part of a hub with the gate."""
    yield
    for agent in lab.agents:
        agent.kill()
    for cluster in lab.clusters:
        for report in _reports(lab, Group(cluster, {})):
            _finalise(lab, report)


@pytest.mark.smoke
@pytest.mark.usefixtures("finalised_reports")
def test_slices_are_collected_for_as_long_as_the_hub_asks(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, featureGates=GATE)
    namespace = lab.namespace()
    live = _provide(lab, group, namespace)
    assert _reports(lab, group) == []
    asking = _ask(lab, group, namespace)
    report = within(THROUGH_HUB_S, _report, lab, group, mcs.addresses([live]))
    labels = report["metadata"]["labels"]
    assert labels["multiclusterservice.karmada.io/namespace"] == namespace
    assert labels["multiclusterservice.karmada.io/name"] == "web"
    assert labels[MANAGED_BY] == "MultiClusterService"
    assert report["metadata"]["finalizers"] == [FINALIZER]
    assert report["spec"]["suspendDispatching"] is True
    (manifest,) = report["spec"]["workload"]["manifests"]
    assert manifest["metadata"]["namespace"] == namespace

    deployment = objects.deployment(namespace)
    lab.hub.patch(path_of(deployment), {"spec": {"replicas": 3}})
    within(THROUGH_HUB_S, _assert_count, lab, group, 3)

    lab.hub.delete(asking)
    within(THROUGH_HUB_S, _assert_going, lab, group)
    _finalise(lab, _reports(lab, group)[0])
    wait_until_deleted(lab.hub, path_of(_work(report)))
    assert lab.host.find(path_of(live)) is not None


@pytest.mark.usefixtures("finalised_reports")
def test_dispatched_slice_has_the_names_of_its_consumer_and_is_not_reported_back(lab: Lab) -> None:
    provider, consumer = lab.group("a"), lab.group("b")
    lab.serve(provider, consumer, featureGates=GATE)
    namespace = lab.namespace()
    live = _provide(lab, provider, namespace)
    _ask(lab, provider, namespace)
    _ask(lab, consumer, namespace)
    report = within(THROUGH_HUB_S, _report, lab, provider, mcs.addresses([live]))
    (manifest,) = report["spec"]["workload"]["manifests"]
    dispatched = _dispatched(manifest, provider)
    lab.wait_applied(lab.create_work(consumer, report["metadata"]["name"], dispatched))
    found = lab.on_host(dispatched, consumer)
    assert mcs.addresses([found]) == mcs.addresses([live])
    for endpoint in found["endpoints"]:
        assert endpoint["targetRef"]["namespace"] == consumer.host_namespace(namespace)
        assert "nodeName" not in endpoint, "a node of the provider"
    assert _reports(lab, consumer) == []


def test_without_the_gate_nothing_is_collected(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    _provide(lab, group, namespace)
    _ask(lab, group, namespace)
    lab.wait_applied(lab.create_work(group, "marker", objects.config_map(namespace)))
    assert _reports(lab, group) == []


def _provide(lab: Lab, group: Group, namespace: str) -> Object:
    """Run two pods behind a Service; return its slice on the host once it has both."""
    deployment = objects.deployment(namespace, replicas=2)
    lab.propagate([deployment, mcs.service(namespace)], group)

    def look() -> Object:
        found = mcs.slices(lab.host, group.host_namespace(namespace), "web")
        assert len(found) == 1
        assert len(mcs.addresses(found)) == 2
        return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"} | found[0]

    return within(THROUGH_HUB_S, look)


def _ask(lab: Lab, group: Group, namespace: str) -> str:
    """Write the Work by which the hub asks a provider; return its path."""
    service = {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"types": ["CrossCluster"]},
    }
    work = hand_written(group.name, "web-mcs", service, suspendDispatching=True)
    work["metadata"]["finalizers"] = []
    work["metadata"]["labels"] = {
        "multiclusterservice.karmada.io/namespace": namespace,
        "multiclusterservice.karmada.io/name": "web",
    }
    return path_of(lab.hub.create(work))


def _dispatched(manifest: Object, provider: Group) -> Object:
    """Return the manifest that the hub dispatches to a consumer."""
    copied = copy.deepcopy(manifest)
    copied["metadata"] = {
        "name": f"{provider.name}-{manifest['metadata']['name']}",
        "namespace": manifest["metadata"]["namespace"],
        "labels": {
            mcs.SERVICE_NAME: "web",
            "endpointslice.kubernetes.io/managed-by": DISPATCHED,
        },
    }
    return copied


def _reports(lab: Lab, group: Group) -> list[Object]:
    return [work for work in lab.works(group) if MANAGED_BY in work["metadata"].get("labels", {})]


def _report(lab: Lab, group: Group, expected: set[str]) -> Object:
    """Return the one report of a group, once it tells of these addresses."""
    found = _reports(lab, group)
    assert len(found) == 1, f"{len(found)} reports"
    assert mcs.addresses(found[0]["spec"]["workload"]["manifests"]) == expected
    return found[0]


def _assert_count(lab: Lab, group: Group, count: int) -> None:
    counts = [len(mcs.addresses(w["spec"]["workload"]["manifests"])) for w in _reports(lab, group)]
    assert counts == [count]


def _assert_going(lab: Lab, group: Group) -> None:
    found = _reports(lab, group)
    assert all(report["metadata"].get("deletionTimestamp") for report in found)


def _finalise(lab: Lab, report: Object) -> None:
    lab.hub.patch(path_of(_work(report)), {"metadata": {"finalizers": None}})


def _work(report: Object) -> Object:
    return {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"} | report
