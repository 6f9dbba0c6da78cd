"""ClusterStatusController: each row of contract 4.2, what is kept, when nothing is written."""

from typing import Any

import pytest
from msgspec import structs

from karmada_vc_agent.cluster import status
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, HubContact
from karmada_vc_agent.cluster.hub_clusters import Clock as TimeOfDay
from karmada_vc_agent.cluster.rules.conditions import Thresholds
from karmada_vc_agent.cluster.status import ClusterStatusController, HostStatus, ReachableNodes
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.features.policies.feature import (
    PlacementState,
    placement_enforced,
    rights_confined,
)
from karmada_vc_agent.kube.discovery import HealthProbe
from karmada_vc_agent.kube.errors import ConflictError, UnauthorizedError
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.virtual_cluster import LabelSelector
from karmada_vc_agent.model.vocabulary import HUB_CONTACT_ANNOTATION, OBSERVED_AT_ANNOTATION
from karmada_vc_agent.runner.parts import ClusterConditions
from tests.fakes import objects
from tests.fakes.virtual_time import Clock
from tests.fakes.world import NOW, World, new_world

CLUSTER = f"{CLUSTERS_PATH}/branch-a"
DAMPED = Thresholds(success_s=30.0, failure_s=30.0)
UNDAMPED = Thresholds(success_s=0.0, failure_s=0.0)

MODELS = [
    {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]},
    {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "9223372036854775807"}]},
]
GRADED = objects.virtual_cluster(resource_models=tuple(MODELS))


class Setting:
    """A controller with its world; ready: for which Clusters a Lease was started."""

    def __init__(
        self,
        world: World,
        thresholds: Thresholds = UNDAMPED,
        *,
        with_resources: bool = True,
        with_models: bool = True,
    ) -> None:
        self.world = world
        self.ready: list[str] = []
        self.told: list[tuple[str, str, int | None]] = []
        self.clock = Clock()
        self.may_report = True
        self.barred: set[str] = set()
        self.judgements = world.parts.common.judgements
        self.scopes = Scopes()
        self.scopes.ended.subscribe(lambda name: self.told.append((name, "forgotten", None)))
        self.contact = HubContact(40.0, self.scopes, self.clock)
        self.nodes_told: list[str] = []
        self.reachable = ReachableNodes(
            world.membership,
            thresholds,
            lambda _, found: self.nodes_told.append(found["reason"]),
            self.clock,
            self.scopes,
        )
        self.host_status = HostStatus(
            client=world.host_client,
            probe=HealthProbe(world.host_client, 0.0, self.clock),
            discovery=world.host_discovery,
            membership=world.membership,
            pods=world.pods,
            claims=world.claims,
            cluster_scoped_kinds={},
            conditions=ClusterConditions(world.parts).of,
            clock=self.clock,
            with_resources=with_resources,
            with_models=with_models,
            discovery_max_age_s=5.0,
        )
        self.controller = ClusterStatusController(
            hub=world.hub_client,
            clusters=world.clusters,
            host=self.host_status,
            virtual_clusters=world.virtual_clusters,
            frequency_s=10.0,
            thresholds=thresholds,
            scopes=self.scopes,
            judgements=self.judgements,
            reachable=self.reachable,
            contact=self.contact,
            may_report=lambda: self.may_report,
            why_terminating=lambda name: "the host is clean" if name in self.barred else "",
            on_ready=self.ready.append,
            on_synced=self.synced,
            clock=TimeOfDay(self.clock, lambda: NOW),
        )

    def synced(self, name: str, took_s: float, reported: Object, http_status: int | None) -> None:
        assert took_s >= 0
        ready = next(c for c in reported["conditions"] if c["type"] == "Ready")
        self.told.append((name, ready["status"], http_status))

    async def sync(self, name: str = "branch-a") -> float | None:
        self.world.look()
        self.world.forget_requests()
        outcome = await self.controller.reconcile(name)
        return outcome.after_s if outcome else None

    def status(self, name: str = "branch-a") -> Object:
        found: Object = self.world.hub.live(f"{CLUSTERS_PATH}/{name}").get("status") or {}
        return found

    def condition(self, kind: str = "Ready") -> tuple[str, str] | None:
        for c in self.status().get("conditions") or ():
            if c["type"] == kind:
                return c["status"], c["reason"]
        return None


@pytest.fixture
def setting(world: World) -> Setting:
    world.register(ready=None)
    world.host.seed(
        objects.node("n1", {"branch": "a"}),
        objects.node("n2", {"branch": "a"}, status="False"),
        objects.node("n3", {"branch": "b"}),
    )
    return Setting(world)


async def test_healthy_host_makes_the_cluster_ready_with_all_fields(setting: Setting) -> None:
    assert await setting.sync() == 10.0
    assert setting.condition() == ("True", "ClusterReady")
    assert setting.condition("CompleteAPIEnablements") == ("True", "Complete")
    reported = setting.status()
    assert reported["kubernetesVersion"] == "v1.34.0"
    assert reported["nodeSummary"] == {"totalNum": 2, "readyNum": 1}
    assert reported["resourceSummary"]["allocatable"]["cpu"] == "4"
    groups = [entry["groupVersion"] for entry in reported["apiEnablements"]]
    assert groups == sorted(groups)
    assert setting.ready == ["branch-a"]


async def test_leases_of_all_with_a_status_start_by_one_probe() -> None:
    vcs = tuple(objects.virtual_cluster(f"branch-{letter}") for letter in "abcd")
    async with new_world(*vcs) as world:
        world.register("branch-a")
        world.hub.seed({**world.register("branch-b"), "status": {}})
        world.register("branch-c")
        world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-c")
        setting = Setting(world)
        world.look()
        world.forget_requests()
        await setting.controller.judge_all()
        assert setting.ready == ["branch-a"], "b has no status, c is deleted, d is not registered"
        assert setting.judgements.is_ready("branch-a")
        assert len(world.host.requests) == 1
        assert world.hub.requests == []


async def test_no_lease_starts_while_the_host_does_not_answer(setting: Setting) -> None:
    setting.world.register()
    setting.world.look()
    setting.world.host.health = {"/readyz": 500}
    await setting.controller.judge_all()
    assert setting.ready == []


async def test_second_sync_writes_nothing(setting: Setting) -> None:
    await setting.sync()
    await setting.sync()
    assert setting.world.hub.writes() == []


async def test_only_what_changed_is_sent(setting: Setting) -> None:
    await setting.sync()
    setting.world.host.seed(objects.node("n4", {"branch": "a"}))
    await setting.sync()
    (patch,) = setting.world.hub.writes()
    assert set(patch.body["status"]) == {"conditions", "nodeSummary", "resourceSummary"}
    assert setting.status()["nodeSummary"]["totalNum"] == 3
    assert isinstance(setting.status()["apiEnablements"], list)


async def test_changed_apis_are_sent_whole(setting: Setting) -> None:
    await setting.sync()
    served = setting.world.host.storage.served
    setting.world.host.storage.served = [r for r in served if r.kind != "Deployment"]
    await setting.sync()
    groups = [entry["groupVersion"] for entry in setting.status()["apiEnablements"]]
    assert "apps/v1" not in groups
    assert "v1" in groups


async def test_lists_of_apis_are_kept_of_the_settings_that_are_used(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "ENABLEMENTS_KEPT", 2)
    setting = Setting(setting.world)
    for number in range(4):
        vcs = setting.world.virtual_clusters
        denied = (f"Kind{number}.example.com",)
        vcs.put(structs.replace(vcs["branch-a"], denied_kinds=denied))
        await setting.sync()
    assert len(setting.host_status._enablements) == 2


async def test_pods_on_the_nodes_and_waiting_for_them_are_counted(setting: Setting) -> None:
    setting.world.host.seed(
        objects.claimed(),
        objects.pod("on-a-node", "kube-system", "n1"),
        objects.pod("done", "kube-system", "n1", phase="Succeeded"),
        objects.pod("elsewhere", "kube-system", "n3"),
        objects.pod("waiting", "edge-v-branch-a", phase="Pending"),
        objects.pod("selecting", "other", phase="Pending", nodeSelector={"branch": "a"}),
        objects.pod("both", "edge-v-branch-a", phase="Pending", nodeSelector={"branch": "a"}),
        objects.pod("foreign", "other", phase="Pending", nodeSelector={"branch": "b"}),
    )
    await setting.sync()
    summary = setting.status()["resourceSummary"]
    assert summary["allocated"] == {"cpu": "100m", "pods": "1"}
    assert summary["allocating"] == {"cpu": "300m", "pods": "3"}


async def test_models_of_the_settings_are_counted(setting: Setting) -> None:
    setting.world.virtual_clusters.put(GRADED)
    await setting.sync()
    assert "allocatableModelings" not in setting.status()["resourceSummary"], "not the same yet"
    live = setting.world.hub.live(CLUSTER)
    setting.world.hub.change(CLUSTER, spec={**live["spec"], "resourceModels": MODELS})
    await setting.sync()
    assert setting.status()["resourceSummary"]["allocatableModelings"] == [
        {"grade": 0, "count": 0},
        {"grade": 1, "count": 2},
    ]


async def test_models_that_only_the_hub_has_are_not_counted(setting: Setting) -> None:
    """Without counts Karmada divides by the sums; its own grades count small nodes as nothing."""
    live = setting.world.hub.live(CLUSTER)
    setting.world.hub.change(CLUSTER, spec={**live["spec"], "resourceModels": MODELS})
    await setting.sync()
    assert "allocatableModelings" not in setting.status()["resourceSummary"]


async def test_models_are_not_counted_where_their_gate_is_closed(world: World) -> None:
    cluster = world.register(ready=None)
    world.hub.change(CLUSTER, spec={**cluster["spec"], "resourceModels": MODELS})
    world.virtual_clusters.put(GRADED)
    world.host.seed(objects.node("n1", {"branch": "a"}))
    setting = Setting(world, with_models=False)
    await setting.sync()
    summary = setting.status()["resourceSummary"]
    assert summary["allocatable"]["cpu"] == "2"
    assert "allocatableModelings" not in summary


async def test_without_resources_neither_nodes_nor_sums_are_reported(world: World) -> None:
    world.register(ready=None)
    setting = Setting(world, with_resources=False)
    await setting.sync()
    assert "resourceSummary" not in setting.status()
    assert "nodeSummary" not in setting.status()
    assert setting.condition() == ("True", "ClusterReady")


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ({"/readyz": 500}, ("False", "ClusterNotReachable")),
        ({"/readyz": 404, "/healthz": 200}, ("True", "ClusterReady")),
        ({"/readyz": 404, "/healthz": 500}, ("False", "ClusterNotReachable")),
        ({"/readyz": 404, "/healthz": 404}, ("False", "ClusterNotReachable")),
        ({"/readyz": 401}, ("False", "ClusterNotReachable")),
    ],
)
async def test_ready_follows_the_probe(
    setting: Setting, health: dict[str, int], expected: tuple[str, str]
) -> None:
    setting.world.host.health.update(health)
    await setting.sync()
    assert setting.condition() == expected


async def test_cluster_whose_host_is_away_keeps_all_but_ready(setting: Setting) -> None:
    await setting.sync()
    before = setting.status()
    with setting.world.host.down():
        assert await setting.sync() == 10.0
    assert setting.condition() == ("False", "ClusterNotReachable")
    after = setting.status()
    kept = ("apiEnablements", "nodeSummary", "resourceSummary", "kubernetesVersion")
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert setting.condition("CompleteAPIEnablements") == ("True", "Complete")


async def test_host_that_is_away_for_a_moment_changes_nothing(world: World) -> None:
    world.register(ready="True")
    setting = Setting(world, DAMPED)
    await setting.sync()
    with world.host.down():
        await setting.sync()
    assert setting.condition() == ("True", "ClusterReady")
    assert world.hub.writes() == []


async def test_host_that_stays_away_makes_the_cluster_not_ready_after_its_time(
    world: World,
) -> None:
    world.register(ready="True")
    setting = Setting(world, DAMPED)
    await setting.sync()
    with world.host.down():
        await setting.sync()
        setting.clock.advance(29.0)
        await setting.sync()
        assert setting.condition() == ("True", "ClusterReady")
        setting.clock.advance(2.0)
        await setting.sync()
        assert setting.condition() == ("False", "ClusterNotReachable")


async def test_host_that_returns_is_not_ready_at_once(world: World) -> None:
    world.register(ready="True")
    setting = Setting(world, Thresholds(success_s=30.0, failure_s=0.0))
    await setting.sync()
    with world.host.down():
        await setting.sync()
    await setting.sync()
    assert setting.condition() == ("False", "ClusterNotReachable")
    assert setting.ready == ["branch-a"]
    setting.clock.advance(31.0)
    await setting.sync()
    assert setting.condition() == ("True", "ClusterReady")


async def test_first_look_after_a_start_counts_at_once(world: World) -> None:
    world.register(ready="True")
    setting = Setting(world, DAMPED)
    with world.host.down():
        await setting.sync()
    assert setting.condition() == ("False", "ClusterNotReachable")


async def test_unknown_set_by_the_control_plane_is_put_right(world: World) -> None:
    world.register(ready="True")
    setting = Setting(world, DAMPED)
    await setting.sync()
    world.register(ready="Unknown")
    await setting.sync()
    assert setting.condition() == ("True", "ClusterReady")


async def test_unknown_of_a_hub_that_accepts_nothing_does_not_count(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world.register(ready=None)
    world.restart(controllers="*")
    setting = Setting(world)
    setting.world.hub.fail(401, path=f"{CLUSTER}/status", times=2)
    setting.world.hub.change(CLUSTER, status={"conditions": [objects.ready("Unknown")]})
    with pytest.raises(UnauthorizedError):
        await setting.sync()
    assert setting.world.clusters.is_ready("branch-a")
    assert setting.contact.problem_of() is None
    assert "Reported readiness" not in caplog.text
    setting.clock.advance(41.0)
    with pytest.raises(UnauthorizedError):
        await setting.sync()
    trouble = setting.contact.problem_of() or ""
    assert trouble.startswith("the hub accepts no status of Cluster branch-a: ")
    await setting.sync()
    assert setting.contact.problem_of() is None
    assert setting.condition() == ("True", "ClusterReady")
    assert "Reported readiness" in caplog.text


async def test_ready_of_the_hub_does_not_count_while_the_host_is_away(world: World) -> None:
    world.register(ready="True")
    world.restart(controllers="*")
    setting = Setting(world)
    assert not world.clusters.is_ready("branch-a")
    with world.host.down():
        world.hub.fail(401, path=f"{CLUSTER}/status")
        with pytest.raises(UnauthorizedError):
            await setting.sync()
    assert setting.condition() == ("True", "ClusterReady")
    assert not world.clusters.is_ready("branch-a")


async def test_judgement_ends_with_the_cluster(setting: Setting) -> None:
    await setting.sync()
    setting.world.hub.remove(CLUSTER)
    await setting.sync()
    assert setting.judgements.of("branch-a") is None
    setting.clock.advance(1000.0)
    assert setting.contact.problem_of() is None


async def test_lease_is_not_started_while_the_host_is_away(setting: Setting) -> None:
    with setting.world.host.down():
        await setting.sync()
    assert setting.ready == []


async def test_fields_and_conditions_of_others_are_kept(setting: Setting) -> None:
    foreign: dict[str, Any] = {
        "conditions": [objects.condition("ServiceDomainNameResolutionReady", "True", "R", "m")],
        "remedyActions": ["TrafficControl"],
        "somethingNew": {"a": 1},
    }
    setting.world.hub.seed({**setting.world.hub.live(CLUSTER), "status": foreign})
    await setting.sync()
    reported = setting.status()
    assert reported["remedyActions"] == ["TrafficControl"]
    assert reported["somethingNew"] == {"a": 1}
    assert foreign["conditions"][0] in reported["conditions"]
    assert [each["type"] for each in reported["conditions"]] == [
        "ServiceDomainNameResolutionReady",
        "CompleteAPIEnablements",
        "Ready",
        "NodesReachable",
        "GroupTrusted",
    ]


async def test_status_waits_for_the_finalizer_of_the_control_plane(setting: Setting) -> None:
    live = setting.world.hub.live(CLUSTER)
    setting.world.hub.seed({**live, "metadata": {**live["metadata"], "finalizers": []}})
    assert await setting.sync() == 1.0
    assert setting.world.hub.writes() == []


async def test_cluster_changed_meanwhile_is_not_overwritten(setting: Setting) -> None:
    setting.world.hub.before(
        "PATCH",
        f"{CLUSTER}/status",
        lambda: setting.world.hub.seed(
            {**setting.world.hub.live(CLUSTER), "status": {"remedyActions": ["TrafficControl"]}}
        ),
    )
    with pytest.raises(ConflictError):
        await setting.sync()
    assert setting.status() == {"remedyActions": ["TrafficControl"]}
    await setting.sync()
    assert setting.status()["remedyActions"] == ["TrafficControl"]
    assert setting.condition() == ("True", "ClusterReady")


async def test_cluster_deleted_meanwhile_is_fine(setting: Setting) -> None:
    setting.world.hub.before(
        "PATCH", f"{CLUSTER}/status", lambda: setting.world.hub.remove(CLUSTER)
    )
    await setting.sync()
    assert await setting.sync() is None


async def test_cluster_of_another_agent_is_left_alone(world: World) -> None:
    world.hub.seed(objects.cluster("branch-a", "another-id"))
    setting = Setting(world)
    assert await setting.sync() is None
    assert world.hub.writes() == []


async def test_discovery_that_fails_leaves_the_last_list_as_partial(setting: Setting) -> None:
    await setting.sync()
    before = setting.status()["apiEnablements"]
    setting.world.host.fail(503, path="/apis")
    await setting.sync()
    assert setting.condition("CompleteAPIEnablements") == ("False", "Partial")
    assert setting.status()["apiEnablements"] == before
    assert setting.condition() == ("True", "ClusterReady")


async def test_group_that_does_not_answer_makes_the_list_partial(setting: Setting) -> None:
    setting.world.host.stale_groups = frozenset({"apps/v1"})
    await setting.sync()
    assert setting.condition("CompleteAPIEnablements") == ("False", "Partial")


async def test_each_write_says_when_the_host_was_looked_at_and_the_hub_was_reached(
    setting: Setting,
) -> None:
    await setting.sync()
    marks = annotations_of(setting.world.hub.live(CLUSTER))
    assert marks[OBSERVED_AT_ANNOTATION] == NOW
    assert HUB_CONTACT_ANNOTATION not in marks
    setting.clock.advance(3600.0)
    await setting.sync()
    assert annotations_of(setting.world.hub.live(CLUSTER)) == marks  # worth no write alone
    setting.clock.advance(3600.0)
    setting.world.host.seed(objects.node("n7", {"branch": "a"}))
    await setting.sync()
    assert annotations_of(setting.world.hub.live(CLUSTER)) == {
        OBSERVED_AT_ANNOTATION: NOW,
        HUB_CONTACT_ANNOTATION: "2026-02-01T23:00:00Z",
    }


async def test_version_is_requested_once_a_minute(setting: Setting) -> None:
    await setting.sync()
    setting.world.host.version = {"gitVersion": "v1.35.0"}
    setting.clock.advance(59.0)
    await setting.sync()
    assert setting.status()["kubernetesVersion"] == "v1.34.0"
    setting.clock.advance(2.0)
    await setting.sync()
    assert setting.status()["kubernetesVersion"] == "v1.35.0"


async def test_version_that_cannot_be_read_is_left_out(setting: Setting) -> None:
    setting.world.host.fail(500, path="/version")
    await setting.sync()
    assert "kubernetesVersion" not in setting.status()
    await setting.sync()
    assert setting.status()["kubernetesVersion"] == "v1.34.0"


async def test_overlap_is_a_condition_of_both_clusters_until_it_ends() -> None:
    vcs = (
        objects.virtual_cluster("branch-a", node_selector=LabelSelector({"site": "one"})),
        objects.virtual_cluster("branch-b", node_selector=LabelSelector({"rack": "two"})),
    )
    async with new_world(*vcs) as world:
        world.register("branch-a", creationTimestamp="2026-01-01T00:00:00Z")
        world.register("branch-b", creationTimestamp="2026-01-02T00:00:00Z")
        world.host.seed(objects.node("n1", {"site": "one", "rack": "two"}))
        setting = Setting(world)
        for name in ("branch-a", "branch-b"):
            await setting.sync(name)
            (shared,) = [
                c for c in setting.status(name)["conditions"] if c["type"] == "NodeOverlap"
            ]
            assert (shared["status"], shared["reason"]) == ("True", "NodesShared")
        assert setting.status("branch-a")["nodeSummary"] == {"totalNum": 1, "readyNum": 1}
        assert "totalNum" not in setting.status("branch-b")["nodeSummary"]
        node = world.host.live("/api/v1/nodes/n1")
        labels = {"site": "one"}
        world.host.seed({**node, "metadata": {**node["metadata"], "labels": labels}})
        await setting.sync("branch-a")
        assert setting.condition("NodeOverlap") == ("False", "NodesDisjoint")


async def test_what_holds_the_pods_is_a_condition_beside_the_others(setting: Setting) -> None:
    await setting.sync()
    assert setting.condition("PlacementEnforced") is None
    enforced = placement_enforced(frozenset(("PodNodeSelector",)))
    setting.world.parts.common.part(PlacementState).report(
        enforced, rights_confined((), is_confined=True)
    )
    await setting.sync()
    assert setting.condition("PlacementEnforced") == ("True", "PodsKept")
    assert setting.condition("Ready") == ("True", "ClusterReady")


async def test_group_without_a_ready_node_stays_ready_and_says_so() -> None:
    async with new_world(objects.virtual_cluster()) as world:
        world.register(ready=None)
        setting = Setting(world)
        await setting.sync()
        assert setting.condition() == ("True", "ClusterReady")
        assert setting.condition("NodesReachable") == ("False", "NoNodes")
        assert setting.nodes_told == ["NoNodes"]


async def test_cluster_without_a_ready_node_is_not_ready_where_required() -> None:
    vc = objects.virtual_cluster(ready_when_unreachable=False)
    async with new_world(vc, controllers="*") as world:
        world.register(ready=None)
        world.host.seed(objects.node("n1", {"branch": "a"}, status="Unknown"))
        setting = Setting(world)
        await setting.sync()
        assert setting.condition() == ("False", "NodesNotReachable")
        # All else goes on: Works, the Lease, and the numbers.
        assert world.clusters.is_ready("branch-a")
        assert setting.ready == ["branch-a"]
        assert setting.status()["nodeSummary"] == {"totalNum": 1}
        assert setting.told == [("branch-a", "False", 200)]
        world.host.seed(objects.node("n1", {"branch": "a"}))
        await setting.sync()
        assert setting.condition() == ("True", "ClusterReady")


async def test_cluster_that_is_being_deleted_is_as_ready_as_its_host() -> None:
    async with new_world(objects.virtual_cluster(ready_when_unreachable=False)) as world:
        world.register(ready=None)
        setting = Setting(world)
        await setting.sync()
        assert setting.condition() == ("False", "NodesNotReachable")
        world.hub.mark_deleted(CLUSTER)
        await setting.sync()
        assert setting.condition() == ("True", "ClusterReady")


async def test_nodes_do_not_count_while_the_host_is_away() -> None:
    async with new_world(objects.virtual_cluster(ready_when_unreachable=False)) as world:
        world.register(ready=None)
        setting = Setting(world)
        await setting.sync()
        with world.host.down():
            await setting.sync()
        assert setting.condition() == ("False", "ClusterNotReachable")


async def test_nothing_is_written_while_another_process_leads(setting: Setting) -> None:
    setting.may_report = False
    assert await setting.sync() == 10.0
    assert setting.world.hub.writes() == []


async def test_leaving_cluster_whose_works_only_the_hub_can_finalise_is_not_ready_at_once(
    world: World,
) -> None:
    damped = Setting(world, DAMPED)
    world.register(ready="True")
    await damped.sync()
    damped.barred.add("branch-a")
    await damped.sync()
    assert damped.condition() == ("False", "ClusterLeaving")


async def test_each_sync_is_reported_with_its_resulting_status(setting: Setting) -> None:
    await setting.sync()
    await setting.sync()
    setting.world.host.health = {"/readyz": 500}
    await setting.sync()
    setting.barred.add("branch-a")
    await setting.sync()
    assert setting.told == [
        ("branch-a", "True", 200),
        ("branch-a", "True", 200),
        ("branch-a", "False", 500),
        ("branch-a", "False", None),
    ]


async def test_deleted_cluster_is_reported_as_forgotten(setting: Setting) -> None:
    setting.world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    assert await setting.sync() is None
    assert setting.told == [("branch-a", "forgotten", None)]


async def test_quota_bounds_allocatable_and_takes_the_modelings_away() -> None:
    quota = {"requests.cpu": "1500m", "pods": "500"}
    vc = objects.virtual_cluster(quota=quota, resource_models=tuple(MODELS))
    async with new_world(vc) as world:
        cluster = world.register(ready=None)
        world.hub.seed({**cluster, "spec": {**cluster["spec"], "resourceModels": MODELS}})
        world.host.seed(objects.node("n1", {"branch": "a"}))
        setting = Setting(world)
        await setting.sync()
        summary = setting.status()["resourceSummary"]
        assert summary["allocatable"] == {"cpu": "1500m", "memory": "4Gi", "pods": "110"}
        assert "allocatableModelings" not in summary


async def test_each_cluster_reports_the_kinds_it_may_have() -> None:
    vcs = (objects.virtual_cluster(denied_kinds=("Secret",)), objects.virtual_cluster("branch-b"))
    async with new_world(*vcs) as world:
        setting = Setting(world)
        for vc in vcs:
            world.register(vc.name, ready=None)
            world.host.seed(objects.node(vc.name, {"branch": vc.name[-1]}))
            await setting.sync(vc.name)
        kinds = [
            {
                r["kind"]
                for e in setting.status(vc.name)["apiEnablements"]
                for r in e.get("resources", ())
            }
            for vc in vcs
        ]
        assert kinds[1] - kinds[0] == {"Secret"}


async def test_isolated_network_is_never_claimed_to_be_enforced() -> None:
    vc = objects.virtual_cluster(network_policy="isolate")
    async with new_world(vc) as world:
        world.register(ready=None)
        world.host.seed(objects.node("n1", {"branch": "a"}))
        setting = Setting(world)
        await setting.sync()
        assert setting.condition("NetworkIsolation") == ("Unknown", "PolicyInPlace")
        world.virtual_clusters.put(objects.virtual_cluster())
        await setting.sync()
        assert setting.condition("NetworkIsolation") == ("False", "NotIsolated")
