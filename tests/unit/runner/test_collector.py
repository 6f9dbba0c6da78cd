"""MetricsCollector: what is told of each virtual cluster, and of which ones."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.controller import Controller, ControllerSpec, WorkQueue
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.runner.collector import MetricsCollector, work_state
from karmada_vc_agent.runner.controllers import all_controllers
from karmada_vc_agent.telemetry.metrics import Metrics
from tests.fakes import objects
from tests.fakes.world import World

NOW = 1_790_000_000.0
Told = dict[tuple[str, ...], float]


class Setting:
    """A collector over the world, of one queue of Works."""

    def __init__(self, world: World) -> None:
        self.time = 100.0
        self.queue: WorkQueue[tuple[str, str]] = WorkQueue(
            lambda key: key[0], clock=lambda: self.time
        )
        spec = ControllerSpec("execution", self.queue, world.execution.reconcile, 3)
        execution = Controller(spec)
        by_node: WorkQueue[str] = WorkQueue(lambda name: name)
        by_node.add("branch-a")
        nodes = ControllerSpec("membership", by_node, _nothing, by_cluster=False)
        membership: Controller[Any] = Controller(nodes)
        parts = world.parts
        parts.orphaned.note("branch-a", ["a", "b", "c", "d"])
        parts.works.recorder.dropped = 7
        self.collector = MetricsCollector(
            parts.common,
            parts.works,
            parts.orphaned,
            parts.missing_rights,
            [execution, membership],
            wall_clock=lambda: NOW,
        )

    def told(self, family: str) -> Told:
        samples = [s for s in self.collector.samples() if s.family == family]
        told = {sample.labels: sample.value for sample in samples}
        assert len(told) == len(samples), "a series is told twice"
        return told


async def _nothing(_: str) -> None:
    return None


@pytest.fixture
def setting(world: World) -> Setting:
    world.register()
    world.look()
    return Setting(world)


def _work(name: str, **changes: Any) -> Object:
    work = objects.work(objects.config_map(), name=name)
    work["metadata"] |= changes.pop("metadata", {})
    work["spec"] |= changes.pop("spec", {})
    applied = changes.pop("applied", None)
    if applied:
        condition = objects.condition("Applied", applied, "Any", "any")
        work["status"] = {"conditions": [condition]}
    return work


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "pending"),
        ({"applied": "True"}, "applied"),
        ({"applied": "False"}, "failed"),
        ({"applied": "True", "spec": {"suspendDispatching": True}}, "suspended"),
        (
            {"spec": {"suspendDispatching": True}, "metadata": {"deletionTimestamp": "t"}},
            "deleting",
        ),
    ],
)
def test_work_has_one_state(changes: dict[str, Any], state: str) -> None:
    assert work_state(_work("w", **changes)) == state


async def test_works_are_counted_by_state_zeros_too(world: World, setting: Setting) -> None:
    world.hub.seed(_work("one", applied="True"), _work("two", applied="True"), _work("three"))
    world.look()
    assert setting.told("virtual_cluster_works") == {
        ("branch-a", "applied"): 2,
        ("branch-a", "failed"): 0,
        ("branch-a", "pending"): 1,
        ("branch-a", "waiting"): 0,
        ("branch-a", "suspended"): 0,
        ("branch-a", "deleting"): 0,
    }


async def test_refused_manifests_are_counted_by_code_until_they_are_mended(
    world: World, setting: Setting
) -> None:
    bad = objects.deployment(nodeSelector={"branch": "b"})
    world.hub.seed(objects.work(bad))
    world.look()
    await world.execution.reconcile(("branch-a", "web-1"))
    told = setting.told("virtual_cluster_refused_manifests")
    assert told == {("branch-a", "NodeSelectorConflict"): 1}
    path = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
    world.hub.change(path, spec=objects.work(objects.deployment())["spec"])
    world.look()
    await world.execution.reconcile(("branch-a", "web-1"))
    assert setting.told("virtual_cluster_refused_manifests") == {}


async def test_nodes_and_host_objects_are_counted(world: World, setting: Setting) -> None:
    world.host.seed(objects.node("n1", {"branch": "a"}), objects.node("n2", {"branch": "b"}))
    world.look()
    world.namespace_store.replace_all(
        [
            {"metadata": {"name": name, "uid": name, "labels": {CLUSTER_LABEL: cluster}}}
            for name, cluster in (("x", "branch-a"), ("y", "branch-a"), ("z", "branch-b"))
        ]
    )
    assert setting.told("virtual_cluster_nodes") == {("branch-a",): 1}
    assert setting.told("virtual_cluster_node_overlaps") == {("branch-a",): 0}
    assert setting.told("virtual_cluster_host_objects") == {("branch-a",): 2}


async def test_queues_of_these_controllers_alone_are_of_no_virtual_cluster(world: World) -> None:
    made = all_controllers(world.parts)
    not_by_cluster = {each.name for each in made if not each.spec.by_cluster}
    assert not_by_cluster == {"admin-role", "orphans", "policy-status", "service-names"}
    assert len(made) > 15


async def test_queue_reports_depth_and_oldest_of_each_virtual_cluster(setting: Setting) -> None:
    families = ("virtual_cluster_queue_depth", "virtual_cluster_queue_oldest_seconds")
    assert [setting.told(each) for each in families] == [{}, {}], "nothing waits"
    setting.queue.add(("branch-a", "one"))
    setting.time += 5.0
    setting.queue.add(("branch-a", "two"))
    setting.time += 1.0
    label = ("branch-a", "execution-controller")
    assert setting.told("virtual_cluster_queue_depth") == {label: 2}
    assert setting.told("virtual_cluster_queue_oldest_seconds") == {label: 6.0}
    name = ("execution-controller", "execution-controller")
    assert setting.told("workqueue_depth")[*name, "0"] == 2
    await setting.queue.take()
    setting.time += 2.0
    assert setting.told("workqueue_longest_running_processor_seconds")[name] == 2.0
    assert setting.told("controller_runtime_active_workers")[name[:1]] == 1
    assert setting.told("controller_runtime_max_concurrent_reconciles")[name[:1]] == 3


async def test_contacts_statuses_and_orphans_are_the_last_reported(setting: Setting) -> None:
    setting.collector.contact("branch-a", "hub")
    status = {"nodeSummary": {"totalNum": 3, "readyNum": 2}}
    setting.collector.synced("branch-a", 0.1, status, None)
    contacts = setting.told("virtual_cluster_last_contact_timestamp_seconds")
    assert contacts == {("branch-a", "hub"): NOW}
    assert setting.told("orphaned_objects") == {("branch-a",): 4}
    assert setting.told("cluster_ready_node_number") == {("branch-a",): 2}
    assert setting.told("events_dropped_total") == {(): 7}


async def test_virtual_cluster_whose_cluster_is_deleted_has_no_samples(
    world: World, setting: Setting
) -> None:
    setting.collector.contact("branch-a", "host")
    setting.collector.synced("branch-a", 0.1, {}, None)
    world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    assert not [s for s in setting.collector.samples() if "branch-a" in s.labels]


async def test_forgotten_virtual_cluster_returns_without_its_past(
    world: World, setting: Setting
) -> None:
    metrics = world.parts.common.metrics
    setting.collector.synced("branch-a", 0.1, {}, 200)
    assert setting.told("cluster_ready_state") == {("branch-a",): 0}
    world.parts.common.scopes.end("branch-a")
    assert setting.told("cluster_ready_state") == {}
    assert setting.told("virtual_cluster_last_contact_timestamp_seconds") == {}
    name, labels = "cluster_sync_status_duration_seconds_count", {"member_cluster": "branch-a"}
    assert metrics.registry.get_sample_value(name, labels) is None


@pytest.mark.parametrize("http_status", [500, None])
async def test_host_that_is_not_well_is_no_contact(
    setting: Setting, http_status: int | None
) -> None:
    setting.collector.synced("branch-a", 0.1, {}, http_status)
    assert setting.told("virtual_cluster_last_contact_timestamp_seconds") == {}


async def test_every_sample_fits_its_family(setting: Setting) -> None:
    setting.collector.contact("branch-a", "hub")
    assert len(list(setting.collector.samples())) > 10
    sampled = Metrics().sampled
    for sample in setting.collector.samples():
        assert len(sample.labels) == len(sampled[sample.family].labels), sample
