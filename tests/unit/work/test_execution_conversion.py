"""ExecutionController: ClusterRoleBindings, renamed objects, what rests on the claims."""

from contextlib import suppress

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import HOLD_ANNOTATION
from tests.fakes import objects
from tests.fakes.world import World, new_world

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings/vc:crb:dev"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def binding() -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "dev"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "reader",
        },
        "subjects": [{"kind": "User", "name": "alice"}],
    }


def role() -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader", "labels": {"karmada.io/managed": "true"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }


async def seed_and_reconcile(world: World, manifest: Object, *namespaces: str) -> None:
    world.register()
    for namespace in namespaces:
        await world.namespace_writer.claim(world.vc(), VirtualNamespace(namespace))
    world.hub.seed(objects.work(manifest))
    world.look()
    await world.execution.reconcile(KEY)


async def test_cluster_role_binding_is_bound_in_every_namespace(world: World) -> None:
    await seed_and_reconcile(world, binding(), "edge", "ops")
    for namespace in ("edge-v-branch-a", "ops-v-branch-a"):
        made = world.host.live(BINDINGS.format(namespace))
        assert made["roleRef"]["name"] == "reader-v-branch-a"
        assert made["subjects"] == [{"kind": "User", "name": "vc:branch-a:alice"}]
    [entry] = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert (entry["identifier"]["kind"], entry["health"]) == ("ClusterRoleBinding", "Healthy")
    assert "status" not in entry


async def test_cluster_role_binding_follows_namespaces_that_come(world: World) -> None:
    await seed_and_reconcile(world, binding(), "edge")
    assert world.manifests.depending_on_claims("branch-a") == ["karmada-es-branch-a/web-1"]
    assert world.manifests.depending_on_claims("branch-b") == []
    await world.namespace_writer.claim(world.vc(), VirtualNamespace("ops"))
    await world.execution.reconcile(KEY)
    assert world.host.find(BINDINGS.format("ops-v-branch-a")) is not None


async def test_no_one_is_bound_in_a_namespace_that_is_not_set_up() -> None:
    """A claim that another one wrote: its quota is there before the first who may use it."""
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        world.register()
        world.host.seed(objects.claimed())
        world.hub.seed(objects.work(binding()))
        world.look()
        world.forget_requests()
        await world.execution.reconcile(KEY)
        posted = [each for each in world.host.writes() if each.method == "POST"]
        made = [each.path.rpartition("/")[2] for each in posted]
        assert made.index("resourcequotas") < made.index("rolebindings")


async def test_role_bindings_go_with_their_cluster_role_binding(world: World) -> None:
    manifest = binding()
    manifest["metadata"]["labels"] = {"karmada.io/managed": "true"}
    await seed_and_reconcile(world, manifest, "edge", "ops")
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(BINDINGS.format("edge-v-branch-a")) is None
    assert world.host.find(BINDINGS.format("ops-v-branch-a")) is None
    assert world.manifests.depending_on_claims("branch-a") == []


async def test_renamed_object_is_created_reported_by_its_own_name_and_removed(world: World) -> None:
    await seed_and_reconcile(world, role())
    assert world.host.find(f"{ROLES}/reader-v-branch-a") is not None
    assert world.host.find(f"{ROLES}/reader") is None
    [entry] = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert entry["identifier"]["name"] == "reader"
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(f"{ROLES}/reader-v-branch-a") is None


async def test_renamed_object_of_the_host_is_a_conflict_in_virtual_words(world: World) -> None:
    foreign = role()
    foreign["metadata"] = {"name": "reader-v-branch-a"}
    world.host.seed(foreign)
    world.register()
    world.hub.seed(objects.work(role()))
    world.look()
    message = await applied_message(world)
    assert "resource(kind=ClusterRole, /reader) already exists in the cluster branch-a" in message
    assert "reader-v-" not in message


async def applied_message(world: World) -> str:
    with suppress(RetryError):
        await world.execution.reconcile(KEY)
    conditions = world.hub.live(WORK)["status"]["conditions"]
    return str(next(c["message"] for c in conditions if c["type"] == "Applied"))


async def test_terminating_namespace_gets_no_role_binding(world: World) -> None:
    await seed_and_reconcile(world, binding(), "edge", "ops")
    world.host.remove(BINDINGS.format("ops-v-branch-a"))
    live = world.host.live("/api/v1/namespaces/ops-v-branch-a")
    live["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z"
    world.namespace_store.accept(live)
    await world.execution.reconcile(KEY)
    assert world.host.find(BINDINGS.format("edge-v-branch-a")) is not None
    assert world.host.find(BINDINGS.format("ops-v-branch-a")) is None


async def test_hold_on_one_namespace_keeps_rights_in_no_other(world: World) -> None:
    manifest = binding()
    manifest["metadata"]["labels"] = {"karmada.io/managed": "true"}
    manifest["subjects"].append({"kind": "User", "name": "bob"})
    await seed_and_reconcile(world, manifest, "edge", "ops")
    live = world.host.live("/api/v1/namespaces/edge-v-branch-a")
    live["metadata"]["annotations"][HOLD_ANNOTATION] = "audit"
    world.host.seed(live)
    manifest["subjects"].pop()
    world.hub.change(WORK, spec=objects.work(manifest)["spec"])
    world.look()
    assert "NamespaceHeld" in await applied_message(world)
    assert len(world.host.live(BINDINGS.format("ops-v-branch-a"))["subjects"]) == 1
    assert len(world.host.live(BINDINGS.format("edge-v-branch-a"))["subjects"]) == 2
    world.hub.mark_deleted(WORK)
    world.look()
    with pytest.raises(RetryError, match="NamespaceHeld"):
        await world.execution.reconcile(KEY)
    assert world.host.find(BINDINGS.format("ops-v-branch-a")) is None
    assert world.host.find(BINDINGS.format("edge-v-branch-a")) is not None
