"""ExecutionController: what is refused for good, what comes again, what is made again."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import ApplyAs, DefaultAccount, LabelSelector
from tests.fakes import objects
from tests.fakes.world import World, new_world

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CONFLICTING = objects.deployment(nodeSelector={"branch": "b"})


def given(world: World, *manifests: Object) -> None:
    work = objects.work(*manifests)
    if world.hub.find(f"{CLUSTERS_PATH}/branch-a") is None:
        world.register()
    if world.hub.find(WORK) is None:
        world.hub.seed(work)
    else:
        world.hub.change(WORK, spec=work["spec"])
    world.look()
    world.forget_requests()


def applied(world: World) -> Object:
    found: list[Object] = world.hub.live(WORK)["status"]["conditions"]
    return next(c for c in found if c["type"] == "Applied")


async def test_refusal_is_said_in_the_condition_with_virtual_names(world: World) -> None:
    given(world, CONFLICTING)
    await world.execution.reconcile(KEY)
    assert applied(world)["message"] == (
        'Failed to apply all manifests (0/1): virtual cluster "branch-a" refused Deployment '
        "edge/web: NodeSelectorConflict: "
        'spec.template.spec.nodeSelector["branch"] is "b", required "a"'
    )


async def test_refusal_is_final_and_remembered_for_its_triggers(world: World) -> None:
    given(world, CONFLICTING)
    await world.execution.reconcile(KEY)
    assert list(world.memory.refusals()) == [("branch-a", "NodeSelectorConflict")]


async def test_refused_work_leaves_one_line_in_the_log_for_each_reason(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for selector in ("b", "b", "c"):
        given(world, objects.deployment(nodeSelector={"branch": selector}))
        await world.execution.reconcile(KEY)
    lines = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage() for each in lines] == ["Not applying all of a Work"] * 2
    assert {vars(each)["work"] for each in lines} == {"karmada-es-branch-a/web-1"}
    assert 'is "c", required "a"' in vars(lines[-1])["reason"]


async def test_refused_work_that_is_mended_is_no_longer_refused(world: World) -> None:
    given(world, CONFLICTING)
    await world.execution.reconcile(KEY)
    given(world, objects.deployment())
    await world.execution.reconcile(KEY)
    assert applied(world)["reason"] == "AppliedSuccessful"
    assert list(world.memory.refusals()) == []


async def test_refused_work_that_is_deleted_is_forgotten(world: World) -> None:
    given(world, CONFLICTING)
    await world.execution.reconcile(KEY)
    world.hub.remove(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert list(world.memory.refusals()) == []


async def test_refusal_beside_a_failure_is_retried(world: World) -> None:
    given(world, CONFLICTING, objects.config_map())
    world.host.fail(500, method="POST", path="/api/v1/namespaces/edge-v-branch-a/configmaps")
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)


async def test_namespace_that_is_not_ours_refuses_until_it_may_be_adopted(world: World) -> None:
    world.host.seed(objects.namespace("edge-v-branch-a"))
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    assert "NamespaceNotOwned" in applied(world)["message"]
    assert list(world.memory.refusals()) == [("branch-a", "NamespaceNotOwned")]
    allow = {"virtualcluster.kubeedge.io/allow-adoption": "branch-a"}
    world.host.seed(objects.namespace("edge-v-branch-a", annotations=allow))
    world.look()
    await world.execution.reconcile(KEY)
    assert applied(world)["reason"] == "AppliedSuccessful"
    assert world.host.live(SETTINGS)


async def test_terminating_namespace_is_retried(world: World) -> None:
    terminating = objects.claimed(
        deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/wait"]
    )
    world.host.seed(terminating)
    given(world, objects.config_map())
    with pytest.raises(RetryError, match="NamespaceTerminating"):
        await world.execution.reconcile(KEY)


async def test_nothing_is_created_while_an_older_cluster_owns_a_node() -> None:
    older = objects.virtual_cluster("branch-a", node_selector=LabelSelector({"site": "one"}))
    younger = objects.virtual_cluster("branch-b", node_selector=LabelSelector({"rack": "two"}))
    async with new_world(older, younger) as world:
        world.register("branch-a", creationTimestamp="2026-01-01T00:00:00Z")
        world.register("branch-b", creationTimestamp="2026-01-02T00:00:00Z")
        world.host.seed(objects.node("n1", {"site": "one", "rack": "two"}))
        for name in ("branch-a", "branch-b"):
            world.hub.seed(objects.work(objects.config_map(), vc=name))
        world.look()
        await world.execution.reconcile(("branch-a", "web-1"))
        await world.execution.reconcile(("branch-b", "web-1"))
        assert list(world.memory.refusals()) == [("branch-b", "NodeOverlap")]
        assert world.host.listed("/api/v1/namespaces/edge-v-branch-b/configmaps") == []


async def test_what_is_there_may_be_changed_while_an_older_cluster_owns_a_node() -> None:
    older = objects.virtual_cluster("branch-a", node_selector=LabelSelector({"site": "one"}))
    younger = objects.virtual_cluster("branch-b", node_selector=LabelSelector({"rack": "two"}))
    async with new_world(older, younger) as world:
        world.register("branch-a", creationTimestamp="2026-01-01T00:00:00Z")
        world.register("branch-b", creationTimestamp="2026-01-02T00:00:00Z")
        path = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-b/works/web-1"
        world.hub.seed(objects.work(objects.config_map(), vc="branch-b"))
        world.look()
        await world.execution.reconcile(("branch-b", "web-1"))
        world.host.seed(objects.node("n1", {"site": "one", "rack": "two"}))
        changed = objects.work(objects.config_map(value="2"), vc="branch-b")
        world.hub.change(path, spec=changed["spec"])
        world.look()
        await world.execution.reconcile(("branch-b", "web-1"))
        found = world.host.live("/api/v1/namespaces/edge-v-branch-b/configmaps/settings")
        assert found["data"] == {"value": "2"}


async def test_immovable_job_is_refused_for_good_and_its_status_still_reported() -> None:
    async with new_world(objects.virtual_cluster("branch-a")) as world:
        given(world, objects.job())
        await world.execution.reconcile(KEY)
        world.virtual_clusters.put(
            objects.virtual_cluster(
                "branch-a", node_selector=LabelSelector({"branch": "a", "disk": "ssd"})
            )
        )
        path = "/apis/batch/v1/namespaces/edge-v-branch-a/jobs/once"
        ready = {"type": "Complete", "status": "True"}
        status = {"succeeded": 1, "active": 0, "failed": 0, "conditions": [ready]}
        world.host.seed({**world.host.live(path), "status": status})
        world.look()
        world.host.fail(422, "Invalid", method="PUT", message="spec.template: field is immutable")
        await world.execution.reconcile(KEY)
        assert applied(world)["message"] == (
            'Failed to apply all manifests (0/1): virtual cluster "branch-a" refused Job '
            "edge/once: Immutable: spec.template.spec.nodeSelector cannot be changed to select "
            "disk=ssd; the object stays where it is: to move it, delete and recreate it"
        )
        assert list(world.memory.refusals()) == [("branch-a", "Immutable")]
        (entry,) = world.hub.live(WORK)["status"]["manifestStatuses"]
        assert entry["status"]["succeeded"] == 1


async def test_object_deleted_on_the_host_is_made_again_and_says_so(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    world.host.remove(SETTINGS)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)["data"] == {"value": "1"}
    assert (applied(world)["status"], applied(world)["reason"]) == ("True", "ReCreateSuccessful")


async def test_reason_of_a_recreation_stays_until_the_work_changes(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    world.host.remove(SETTINGS)
    world.look()
    await world.execution.reconcile(KEY)
    world.look()
    await world.execution.reconcile(KEY)
    assert applied(world)["reason"] == "ReCreateSuccessful"
    given(world, objects.config_map(value="2"))
    await world.execution.reconcile(KEY)
    assert applied(world)["reason"] == "AppliedSuccessful"


async def test_object_that_cannot_be_made_again_is_retried(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    world.host.remove(SETTINGS)
    world.look()
    world.host.fail(500, method="POST", message="disk full")
    with pytest.raises(RetryError, match="disk full"):
        await world.execution.reconcile(KEY)
    assert applied(world)["status"] == "False"
    assert "disk full" in applied(world)["message"]


async def test_recreation_is_an_event_on_the_template_alone(world: World) -> None:
    manifest = objects.config_map()
    manifest["metadata"]["annotations"] = {"resourcetemplate.karmada.io/uid": "uid-1"}
    given(world, manifest)
    await world.execution.reconcile(KEY)
    told = len(await world.events())
    world.host.remove(SETTINGS)
    world.look()
    world.host.fail(500, method="POST", message="disk full")
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    await world.execution.reconcile(KEY)
    events = [e for e in (await world.events())[told:] if e[1].startswith("Sync")]
    failed = "Failed to create or update resource(edge/settings) in member cluster(branch-a)"
    assert events == [
        ("ConfigMap", "SyncFailed", f"{failed}: disk full"),
        (
            "ConfigMap",
            "SyncSucceed",
            "Successfully applied resource(edge/settings) to cluster branch-a",
        ),
    ]


async def test_recreation_that_fails_has_a_reason_of_its_own(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    world.host.remove(SETTINGS)
    world.look()
    world.host.fail(500, method="POST", message="disk full")
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    assert (applied(world)["reason"], applied(world)["message"]) == ("ReCreateFailed", "disk full")


async def test_repair_is_not_announced(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    told = len(await world.events())
    world.host.change(SETTINGS, data={"value": "other"})
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)["data"] == {"value": "1"}
    assert not [e for e in (await world.events())[told:] if e[1].startswith("Sync")]


async def test_successes_of_a_failing_work_are_reported_too(world: World) -> None:
    bad, good = objects.config_map("bad"), objects.config_map("good")
    for manifest in (bad, good):
        manifest["metadata"]["annotations"] = {"resourcetemplate.karmada.io/uid": "uid-1"}
    given(world, bad, good)
    world.host.fail(422, method="POST", message="no room")
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    told = [(kind, reason) for kind, reason, _ in await world.events() if kind == "ConfigMap"]
    assert told == [("ConfigMap", "SyncFailed"), ("ConfigMap", "SyncSucceed")]


async def test_manifest_without_a_name_is_refused_and_reported(world: World) -> None:
    manifest = objects.config_map()
    manifest["metadata"] = {"generateName": "settings-", "namespace": "edge"}
    manifest["metadata"]["annotations"] = {"resourcetemplate.karmada.io/uid": "uid-1"}
    nameless: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None}
    template = {"resourcetemplate.karmada.io/uid": "uid-1"}
    unnamed = {"name": {"a": "b"}, "namespace": ["c"], "annotations": template}
    odd: list[Any] = [
        *([], "x", None),
        {**objects.config_map(), "metadata": {"annotations": ["x"]}},
        {**objects.config_map(), "metadata": unnamed},
    ]
    given(world, manifest, nameless, *odd)
    await world.execution.reconcile(KEY)
    assert "ManifestInvalid: metadata.name is not set" in applied(world)["message"]
    assert "ManifestInvalid: apiVersion is not set" in applied(world)["message"]
    assert {reason for _, reason, _ in await world.events()} >= {"SyncFailed", "ManifestInvalid"}


async def test_status_event_of_an_object_without_namespace_keeps_the_slash(world: World) -> None:
    given(world, objects.namespace_manifest())
    await world.execution.reconcile(KEY)
    told = [message for _, reason, message in await world.events() if reason.startswith("Reflect")]
    assert told == ["Reflect status for object(Namespace//edge) succeed."]


async def test_health_is_reported_only_of_kinds_that_have_a_rule(world: World) -> None:
    given(world, objects.config_map(), objects.deployment())
    await world.execution.reconcile(KEY)
    told = [
        message for _, reason, message in await world.events() if reason.startswith("Interpret")
    ]
    assert told == ["Interpret health of object(Deployment/edge/web) as unhealthy."]


async def test_recreation_that_succeeds_later_still_says_so(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    world.host.remove(SETTINGS)
    world.look()
    world.host.fail(500, method="POST", message="disk full")
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    await world.execution.reconcile(KEY)
    assert applied(world)["reason"] == "ReCreateSuccessful"


async def test_suspended_work_is_not_made_again(world: World) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    live = world.hub.live(WORK)
    world.hub.change(WORK, spec={**live["spec"], "suspendDispatching": True})
    world.host.remove(SETTINGS)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None


def impersonator_work(world: World) -> Object:
    """Return the Work by which Karmada tells a Cluster who may be impersonated."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "karmada-impersonator", "labels": {"karmada.io/system": "true"}},
    }
    work = objects.work(binding)
    uid = world.register()["metadata"]["uid"]
    owner = {
        "apiVersion": vocabulary.CLUSTER_API,
        "kind": "Cluster",
        "name": "branch-a",
        "uid": uid,
    }
    work["metadata"]["ownerReferences"] = [owner]
    return work


async def test_impersonator_role_is_stored_with_the_agents_own_rights() -> None:
    """Accounts of tenants may not make such a role; nothing in it is theirs."""
    vc = objects.virtual_cluster("branch-a", apply_as=ApplyAs("tenants", "a"))
    async with new_world(vc) as world:
        work = impersonator_work(world)
        [manifest] = work["spec"]["workload"]["manifests"]
        rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
        work["spec"]["workload"]["manifests"] = [
            {**manifest, "kind": "ClusterRole", "rules": [rule]},
            objects.config_map(),
        ]
        world.hub.seed(work)
        world.look()
        await world.execution.reconcile(KEY)
        assert applied(world)["reason"] == "AppliedSuccessful"
        stored = world.host.live(f"{CLUSTER_ROLES}/karmada-impersonator-v-branch-a")
        assert stored["rules"] == [rule]
        as_tenant = {r.path for r in world.host.writes() if "Impersonate-User" in r.headers}
        assert as_tenant == {SETTINGS.rpartition("/")[0]}


async def test_what_has_no_namespace_is_not_written_by_an_account_that_join_made() -> None:
    """The policy for the agent's own account says whose it must be; theirs has no such policy."""
    account = DefaultAccount("home", "branch-a.agent", "vc-agent:agent:account")
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [rule],
    }
    vc = objects.virtual_cluster("branch-a", apply_as=account)
    async with new_world(vc) as world:
        world.register()
        world.hub.seed(objects.work(role, objects.config_map()))
        world.look()
        await world.execution.reconcile(KEY)
        assert applied(world)["reason"] == "AppliedSuccessful"
        users = {r.path: r.headers.get("Impersonate-User") for r in world.host.writes()}
        assert users[CLUSTER_ROLES] is None
        assert users[SETTINGS.rpartition("/")[0]] == account.user


async def test_impersonator_binding_is_applied_without_an_object(world: World) -> None:
    world.hub.seed(impersonator_work(world))
    world.look()
    await world.execution.reconcile(KEY)
    assert applied(world)["reason"] == "AppliedSuccessful"
    assert world.host.writes() == []
    assert "manifestStatuses" not in world.hub.live(WORK)["status"]


@pytest.mark.parametrize(
    "changes",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{"kind": "Cluster", "name": "branch-a", "uid": "another"}]},
        {"labels": {vocabulary.CLUSTER_BINDING_PERMANENT_ID_LABEL: "1b2c"}},
    ],
)
async def test_impersonator_that_is_not_the_clusters_own_is_an_ordinary_binding(
    world: World, changes: dict[str, Any]
) -> None:
    """It is not absorbed: it counts as a ClusterRoleBinding that the virtual cluster made."""
    work = impersonator_work(world)
    world.hub.seed({**work, "metadata": {**work["metadata"], **changes}})
    world.look()
    await world.execution.reconcile(KEY)
    [entry] = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert entry["identifier"]["kind"] == "ClusterRoleBinding"
