"""A Service exported by one virtual cluster can be reached from another by its name there."""

import pytest

from e2e.lab import multi_cluster as mcs
from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, wait_until_deleted, within

MANAGED_BY = "endpointslice.karmada.io/managed-by"


@pytest.mark.smoke
def test_exported_service_is_imported_by_another_virtual_cluster(lab: Lab) -> None:
    mcs.install_kinds(lab.hub, lab.host)
    provider, consumer = lab.group("a"), lab.group("b")
    lab.serve(provider, consumer)
    namespace = lab.namespace()
    exported = _export(lab, provider, namespace)
    live = within(THROUGH_HUB_S, _slice_with, lab, provider, namespace, 2)
    report = within(THROUGH_HUB_S, _report_of, lab, provider, live)
    _assert_virtual(report, live, namespace)

    imported = mcs.service_import(namespace)
    lab.propagate([imported], consumer, propagateDeps=True)
    path = f"imported-{provider.name}-{live['metadata']['name']}"
    within(THROUGH_HUB_S, _assert_imported, lab, consumer, namespace, path, mcs.addresses([live]))

    lab.hub.delete(path_of(exported))
    wait_until_deleted(lab.hub, _work_path(report))
    assert lab.host.get(path_of(live))["metadata"]["uid"] == live["metadata"]["uid"]
    within(THROUGH_HUB_S, _assert_no_slices_on_the_hub, lab, namespace)


def test_two_virtual_clusters_report_their_own_slices(lab: Lab) -> None:
    mcs.install_kinds(lab.hub, lab.host)
    groups = [lab.group("a"), lab.group("b")]
    agent = lab.serve(*groups)
    namespace = lab.namespace()
    _export(lab, groups[0], namespace, groups[1])
    for group in groups:
        live = within(THROUGH_HUB_S, _slice_with, lab, group, namespace, 2)
        report = within(THROUGH_HUB_S, _report_of, lab, group, live)
        _assert_virtual(report, live, namespace)
        assert len(_reports(lab, group)) == 1

    # What changes while the agent is away is seen by the next one without a further event.
    agent.kill()
    group = groups[0]
    deployment = objects.deployment(namespace)
    lab.host.patch(lab.host_path(deployment, group), {"spec": {"replicas": 0}})
    live = within(THROUGH_HUB_S, _slice_with, lab, group, namespace, 0)
    lab.hub.patch(path_of(deployment), {"spec": {"replicas": 0}})
    agent.start("--controllers", "clusterStatus,serviceExport")
    within(THROUGH_HUB_S, _assert_reports, lab, group, live, set())


def test_switched_off_nothing_is_reported(lab: Lab) -> None:
    mcs.install_kinds(lab.hub, lab.host)
    group = lab.group("a")
    lab.serve(group, controllers="*,-serviceExport")
    namespace = lab.namespace()
    exported = _export(lab, group, namespace)
    within(THROUGH_HUB_S, _slice_with, lab, group, namespace, 2)
    lab.wait_fully_applied(exported)
    assert _reports(lab, group) == []


def _export(lab: Lab, group: Group, namespace: str, *more: Group) -> Object:
    """Run two pods behind a Service in each group, and export it."""
    exported = mcs.service_export(namespace)
    deployment = objects.deployment(namespace, replicas=2)
    lab.propagate([deployment, mcs.service(namespace), exported], group, *more)
    return exported


def _slice_with(lab: Lab, group: Group, namespace: str, count: int) -> Object:
    """Return the one slice of the Service on the host, once it has so many addresses."""
    found = mcs.slices(lab.host, group.host_namespace(namespace), "web")
    assert len(found) == 1
    assert len(mcs.addresses(found)) == count
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"} | found[0]


def _reports(lab: Lab, group: Group) -> list[Object]:
    return [work for work in lab.works(group) if MANAGED_BY in work["metadata"].get("labels", {})]


def _one_report(lab: Lab, group: Group) -> Object:
    found = _reports(lab, group)
    assert len(found) == 1, f"{len(found)} reports"
    return found[0]


def _report_of(lab: Lab, group: Group, live: Object) -> Object:
    """Return the Work that reports a slice with the addresses it has now, once it is looked at."""
    work = _one_report(lab, group)
    manifest = _manifest(work)
    assert manifest["metadata"]["name"] == live["metadata"]["name"]
    assert mcs.addresses([manifest]) == mcs.addresses([live])
    reasons = [c["reason"] for c in (work.get("status") or {}).get("conditions", [])]
    assert reasons == ["SuspendDispatching"], reasons
    return work


def _assert_reports(lab: Lab, group: Group, live: Object, expected: set[str]) -> None:
    work = _one_report(lab, group)
    assert _manifest(work)["metadata"]["name"] == live["metadata"]["name"]
    assert mcs.addresses([_manifest(work)]) == expected


def _assert_virtual(report: Object, live: Object, namespace: str) -> None:
    """Check that nothing in a report tells of the host's names or of us."""
    labels = report["metadata"]["labels"]
    assert labels["endpointslice.karmada.io/namespace"] == namespace
    assert labels["endpointslice.karmada.io/name"] == "web"
    assert labels[MANAGED_BY] == "ServiceExport"
    assert report["metadata"]["finalizers"] == ["karmada.io/endpointslice-controller"]
    assert report["spec"]["suspendDispatching"] is True
    manifest = _manifest(report)
    assert manifest["metadata"]["namespace"] == namespace
    assert live["metadata"]["namespace"] not in str(manifest)
    assert "virtualcluster.kubeedge.io" not in str(manifest)
    uid = manifest["metadata"]["annotations"]["resourcetemplate.karmada.io/uid"]
    assert uid == live["metadata"]["uid"]
    targets = {one["targetRef"]["namespace"] for one in manifest["endpoints"]}
    assert targets == {namespace}
    assert all(endpoint["nodeName"] for endpoint in manifest["endpoints"])


def _assert_imported(
    lab: Lab, consumer: Group, namespace: str, name: str, expected: set[str]
) -> None:
    """Check that the consumer has the derived Service and the slice the hub made for it."""
    home = consumer.host_namespace(namespace)
    assert lab.host.find(f"/api/v1/namespaces/{home}/services/derived-web") is not None
    found = {s["metadata"]["name"]: s for s in mcs.slices(lab.host, home, "derived-web")}
    assert name in found, list(found)
    assert mcs.addresses([found[name]]) == expected
    endpoints = found[name]["endpoints"]
    assert not any("nodeName" in endpoint for endpoint in endpoints), "a node of the provider"


def _assert_no_slices_on_the_hub(lab: Lab, namespace: str) -> None:
    found = mcs.slices(lab.hub, namespace, "derived-web")
    assert not found, [item["metadata"]["name"] for item in found]


def _manifest(work: Object) -> Object:
    (manifest,) = work["spec"]["workload"]["manifests"]
    return dict(manifest)


def _work_path(work: Object) -> str:
    return path_of({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"} | work)
