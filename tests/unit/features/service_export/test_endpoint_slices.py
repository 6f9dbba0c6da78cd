"""EndpointSliceController: slices of exported Services become Works, and cease to be."""

from typing import Any

import pytest

from karmada_vc_agent.features.service_export import feature as service_export
from karmada_vc_agent.features.service_export.feature import (
    ENDPOINT_SLICE,
    SERVICE_EXPORT,
    SYNCING,
    EndpointSliceController,
    Reporter,
    ServiceKey,
)
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from tests.fakes import objects
from tests.fakes.world import World, fill

KEY = ("branch-a", VirtualNamespace("edge"), "web")
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"
NAME = vocabulary.work_name("EndpointSlice", "web-abc12", "edge")
REPORT = f"{WORKS}/{NAME}"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/edge-v-branch-a/endpointslices/web-abc12"
EXPORTS = "/apis/multicluster.x-k8s.io/v1alpha1/serviceexports"
EXPORT = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/edge-v-branch-a/serviceexports/web"
EXPORT_LABELS = {
    "endpointslice.karmada.io/namespace": "edge",
    "endpointslice.karmada.io/name": "web",
}
MCS_LABELS = {
    "multiclusterservice.karmada.io/namespace": "edge",
    "multiclusterservice.karmada.io/name": "web",
}


def endpoint_slice(
    name: str = "web-abc12", ns: str = "edge-v-branch-a", service: str = "web", **labels: str
) -> Object:
    """Return a slice as the host has it: with the labels of the Service, ours among them."""
    copied = {
        vocabulary.MANAGED_LABEL: "true",
        CLUSTER_LABEL: "branch-a",
        NAMESPACE_LABEL: "edge",
        "app": "web",
    }
    target = {"kind": "Pod", "name": "web-1", "namespace": ns}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": ns,
            "generateName": "web-",
            "ownerReferences": [{"kind": "Service", "name": "web"}],
            "labels": copied | {"kubernetes.io/service-name": service} | labels,
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "edge-1", "targetRef": target}],
        "ports": [{"port": 80}],
    }


def export(ns: str, name: str = "web") -> Object:
    return {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ServiceExport",
        "metadata": {"name": name, "namespace": ns},
    }


def multi_cluster_service_work() -> Object:
    manifest = {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "edge"},
    }
    work = objects.work(manifest, name="web-mcs", spec={"suspendDispatching": True})
    work["metadata"] |= {"labels": MCS_LABELS, "finalizers": []}
    return work


class Setting:
    """A world in which branch-a is Ready and the Service edge/web is exported."""

    def __init__(self, world: World, *reporters: Reporter) -> None:
        self.world = world
        self.enqueued: list[ServiceKey] = []
        self.controller = EndpointSliceController(
            world.parts, reporters or service_export.REPORTERS, self.enqueued.append
        )

    async def look(self) -> None:
        self.world.look()
        for informers, gvk, path in (
            (self.controller.slices, ENDPOINT_SLICE, SLICES),
            (self.controller.exports, SERVICE_EXPORT, EXPORTS),
        ):
            store = await self.controller._store(informers, gvk)
            assert store is not None
            fill(store, self.world.host, path)
        self.world.forget_requests()

    async def settle(self, key: ServiceKey = KEY) -> None:
        await self.look()
        await self.controller.reconcile(key)
        self.world.look()

    def report(self) -> Object:
        return self.world.hub.live(REPORT)

    def writes(self) -> list[str]:
        return [str(request) for request in self.world.hub.writes()]


@pytest.fixture
def setting(world: World) -> Setting:
    world.register()
    world.host.seed(objects.claimed(), export("edge-v-branch-a"), endpoint_slice())
    return Setting(world)


async def test_slice_is_reported_with_the_names_of_its_virtual_cluster(setting: Setting) -> None:
    await setting.settle()
    work = setting.report()
    assert labels_of(work) == EXPORT_LABELS | {
        "endpointslice.karmada.io/managed-by": "ServiceExport"
    }
    assert work["metadata"]["finalizers"] == ["karmada.io/endpointslice-controller"]
    assert work["spec"]["suspendDispatching"] is True
    (manifest,) = work["spec"]["workload"]["manifests"]
    meta = manifest["metadata"]
    assert (meta["namespace"], meta["name"]) == ("edge", "web-abc12")
    assert manifest["endpoints"] == [
        {
            "addresses": ["10.0.0.1"],
            "nodeName": "edge-1",
            "targetRef": {"kind": "Pod", "name": "web-1", "namespace": "edge"},
        }
    ]
    assert labels_of(manifest) == {
        vocabulary.MANAGED_LABEL: "true",
        "app": "web",
        "kubernetes.io/service-name": "web",
    }
    uid = setting.world.host.live(SLICE)["metadata"]["uid"]
    assert annotations_of(manifest) == {
        vocabulary.TEMPLATE_UID_ANNOTATION: uid,
        vocabulary.WORK_NAME_ANNOTATION: NAME,
        vocabulary.WORK_NAMESPACE_ANNOTATION: "karmada-es-branch-a",
        vocabulary.MANAGED_LABELS_ANNOTATION: "app,karmada.io/managed,kubernetes.io/service-name",
        vocabulary.MANAGED_ANNOTATIONS_ANNOTATION: (
            "resourcetemplate.karmada.io/managed-annotations,"
            "resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,"
            "work.karmada.io/name,work.karmada.io/namespace"
        ),
    }
    assert not {"uid", "resourceVersion", "ownerReferences"} & meta.keys()


async def test_second_look_writes_nothing(setting: Setting) -> None:
    await setting.settle()
    await setting.settle()
    assert setting.writes() == []


async def test_label_that_the_hub_gave_the_report_is_no_difference(setting: Setting) -> None:
    await setting.settle()
    work = setting.report()
    work["metadata"]["labels"][vocabulary.WORK_PERMANENT_ID_LABEL] = "p1"
    setting.world.hub.change(REPORT, metadata=work["metadata"])
    await setting.settle()
    (manifest,) = setting.report()["spec"]["workload"]["manifests"]
    assert labels_of(manifest)[vocabulary.WORK_PERMANENT_ID_LABEL] == "p1"
    await setting.settle()
    assert setting.writes() == []


async def test_changed_slice_changes_its_report(setting: Setting) -> None:
    await setting.settle()
    setting.world.host.change(SLICE, endpoints=[{"addresses": ["10.0.0.2"]}])
    await setting.settle()
    assert setting.writes() == [f"PUT {REPORT}"]
    (manifest,) = setting.report()["spec"]["workload"]["manifests"]
    assert manifest["endpoints"] == [{"addresses": ["10.0.0.2"]}]


@pytest.mark.parametrize("gone", [SLICE, EXPORT])
async def test_report_is_removed_with_the_slice_or_the_export(setting: Setting, gone: str) -> None:
    await setting.settle()
    setting.world.host.remove(gone)
    await setting.settle()
    assert setting.writes() == [f"DELETE {REPORT}"]
    # The hub's controller still has to clean up what it made of the report.
    assert setting.report()["metadata"]["deletionTimestamp"]
    await setting.settle()
    assert setting.writes() == []


async def test_slice_deleted_while_the_agent_was_away_is_withdrawn_by_its_report(
    setting: Setting,
) -> None:
    await setting.settle()
    setting.world.host.remove(SLICE)
    setting.world.host.remove(EXPORT)
    fresh = Setting(setting.world)
    [key] = fresh.controller.keys_of_work("branch-a", None, setting.report())
    assert key == KEY
    await fresh.settle(key)
    assert fresh.writes() == [f"DELETE {REPORT}"]


async def test_service_that_is_not_exported_is_not_reported(setting: Setting) -> None:
    setting.world.host.seed(endpoint_slice("other-1", service="other"))
    await setting.settle(("branch-a", VirtualNamespace("edge"), "other"))
    assert setting.world.hub.listed(WORKS) == []


@pytest.mark.parametrize("maker", vocabulary.MADE_BY_KARMADA)
async def test_slice_from_the_hub_is_not_reported_back(setting: Setting, maker: str) -> None:
    marks = {"endpointslice.kubernetes.io/managed-by": maker}
    setting.world.host.remove(SLICE)
    setting.world.host.seed(endpoint_slice("branch-b-web", **marks))
    await setting.settle()
    assert setting.world.hub.listed(WORKS) == []


async def test_slice_belongs_to_the_cluster_that_claims_its_namespace_alone(
    setting: Setting,
) -> None:
    setting.world.register("branch-b")
    setting.world.host.seed(
        objects.claimed("branch-b"),
        export("edge-v-branch-b"),
        endpoint_slice("web-b", "edge-v-branch-b", **{CLUSTER_LABEL: "branch-a"}),
        objects.namespace("unclaimed"),
        endpoint_slice("web-u", "unclaimed"),
        objects.namespace(
            "others", {CLUSTER_LABEL: "x", NAMESPACE_LABEL: "edge", AGENT_LABEL: "y"}
        ),
        endpoint_slice("web-o", "others"),
    )
    await setting.look()
    assert set(setting.enqueued) == {KEY, ("branch-b", "edge", "web")}
    for key in set(setting.enqueued):
        await setting.settle(key)
    reports = setting.world.hub.listed("/apis/work.karmada.io/v1alpha1/works")
    found = {
        (w["metadata"]["namespace"], w["spec"]["workload"]["manifests"][0]["metadata"]["name"])
        for w in reports
    }
    assert found == {("karmada-es-branch-a", "web-abc12"), ("karmada-es-branch-b", "web-b")}


async def test_multi_cluster_service_reports_by_its_own_labels(setting: Setting) -> None:
    setting.world.host.remove(EXPORT)
    setting.world.hub.seed(multi_cluster_service_work())
    await setting.settle()
    work = setting.report()
    assert labels_of(work) == MCS_LABELS | {
        "endpointslice.karmada.io/managed-by": "MultiClusterService"
    }
    assert work["metadata"]["finalizers"] == ["karmada.io/mcs-endpointslice-dispatch-controller"]
    assert work["spec"]["suspendDispatching"] is True


async def test_two_who_ask_share_a_report_and_leave_it_one_by_one(setting: Setting) -> None:
    mcs = setting.world.hub.seed(multi_cluster_service_work())
    await setting.settle()
    work = setting.report()
    assert labels_of(work) == EXPORT_LABELS | MCS_LABELS | {
        "endpointslice.karmada.io/managed-by": "ServiceExport.MultiClusterService"
    }
    setting.world.host.remove(EXPORT)
    await setting.settle()
    assert labels_of(setting.report()) == MCS_LABELS | {
        "endpointslice.karmada.io/managed-by": "MultiClusterService"
    }
    setting.world.hub.remove(f"{WORKS}/{mcs['metadata']['name']}")
    await setting.settle()
    assert setting.report()["metadata"]["deletionTimestamp"]


async def test_order_of_names_that_is_there_is_no_difference(setting: Setting) -> None:
    setting.world.hub.seed(multi_cluster_service_work())
    await setting.settle()
    work = setting.report()
    turned = "MultiClusterService.ServiceExport"
    work["metadata"]["labels"]["endpointslice.karmada.io/managed-by"] = turned
    setting.world.hub.change(REPORT, metadata=work["metadata"])
    await setting.settle()
    assert setting.writes() == []


async def test_marks_of_a_controller_that_is_off_stay(setting: Setting) -> None:
    setting.world.hub.seed(multi_cluster_service_work())
    await setting.settle()
    setting.world.host.remove(SLICE)
    off = Setting(setting.world, service_export.SERVICE_EXPORT_REPORTER)
    await off.settle()
    assert labels_of(setting.report()) == MCS_LABELS | {
        "endpointslice.karmada.io/managed-by": "MultiClusterService"
    }


async def test_work_that_brings_a_slice_of_that_name_is_left_alone(setting: Setting) -> None:
    brought = endpoint_slice(ns="edge")
    setting.world.hub.seed(objects.work(brought, name=NAME))
    await setting.settle()
    assert setting.writes() == []


async def test_nothing_is_withdrawn_before_the_host_is_listed(setting: Setting) -> None:
    await setting.settle()
    setting.world.forget_requests()
    fresh = Setting(setting.world)
    assert await fresh.controller.reconcile(KEY) is SYNCING
    assert fresh.writes() == []


async def test_cluster_that_is_not_ready_waits(setting: Setting) -> None:
    await setting.look()
    cluster = setting.world.register(ready="False")
    setting.world.look()
    with pytest.raises(NotReadyError, match=cluster["metadata"]["name"]):
        await setting.controller.reconcile(KEY)


async def test_cluster_that_is_going_is_left_to_the_hub(setting: Setting) -> None:
    await setting.settle()
    setting.world.register(deletionTimestamp=objects.SINCE)
    setting.world.host.remove(SLICE)
    await setting.settle()
    assert setting.writes() == []


async def test_deleting_a_report_leaves_the_slice_of_the_host(setting: Setting) -> None:
    # The slice carries all that execution asks for: Karmada's label and that of our cluster.
    await setting.settle()
    setting.world.hub.mark_deleted(REPORT)
    setting.world.look()
    setting.world.forget_requests()
    await setting.world.execution.reconcile(("branch-a", NAME))
    assert setting.world.host.writes() == []
    assert setting.world.host.find(SLICE) is not None


async def test_report_is_not_dispatched_and_has_no_status_of_its_own(setting: Setting) -> None:
    await setting.settle()
    await setting.world.execution.reconcile(("branch-a", NAME))
    status = setting.report()["status"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Dispatching", "False")
    assert "manifestStatuses" not in status
    assert setting.world.host.writes() == []


async def test_report_does_not_hold_up_the_deletion_of_its_namespace(setting: Setting) -> None:
    await setting.settle()
    world = setting.world
    world.hub.seed(objects.work(objects.namespace_manifest(), name="edge-ns"))
    world.hub.mark_deleted(f"{WORKS}/edge-ns")
    world.look()
    await world.execution.reconcile(("branch-a", "edge-ns"))
    assert world.hub.find(f"{WORKS}/edge-ns") is None


@pytest.mark.parametrize(("status", "asked"), [("True", [KEY]), ("False", []), (None, [])])
async def test_export_counts_once_it_is_applied(
    setting: Setting, status: str | None, asked: list[ServiceKey]
) -> None:
    work: dict[str, Any] = objects.work(export("edge"), name="web-export")
    if status:
        work["status"] = {"conditions": [objects.condition("Applied", status, "r", "m")]}
    assert list(setting.controller.keys_of_work("branch-a", None, work)) == asked


async def test_added_or_deleted_namespace_has_its_services_checked(setting: Setting) -> None:
    await setting.settle()
    namespace = setting.world.namespace_store.get("", "edge-v-branch-a")
    for old, new in ((None, namespace), (namespace, None)):
        assert list(setting.controller.keys_of_namespace(old, new)) == [KEY]
    assert list(setting.controller.keys_of_namespace(namespace, namespace)) == []


def test_selector_of_the_watch_excludes_slices_of_the_hub() -> None:
    assert service_export.SELECTOR == (
        "kubernetes.io/service-name,endpointslice.kubernetes.io/managed-by notin "
        "(endpointslice-dispatch-controller.karmada.io,endpointslice-controller.karmada.io)"
    )
