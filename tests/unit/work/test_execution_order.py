"""ExecutionController: the manifests of one Work, in their order."""

from typing import Any

import pytest

from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
HOST = "edge-v-branch-a"
MAPS = f"/api/v1/namespaces/{HOST}/configmaps"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "rbac.authorization.k8s.io"


def given(world: World, *manifests: Object) -> None:
    world.register()
    world.hub.seed(objects.work(*manifests))
    world.look()
    world.forget_requests()


def posted(world: World) -> list[str]:
    return [request.path for request in world.host.writes() if request.method == "POST"]


def definition() -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": objects.managed("widgets.example.com"),
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True}],
        },
    }


def of_rbac(kind: str, name: str, **fields: Any) -> Object:
    metadata = objects.managed(name, "edge")
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **fields}


async def test_namespaces_and_definitions_go_first(world: World) -> None:
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": objects.managed("one", "edge"),
    }
    given(world, widget, objects.config_map(), definition(), objects.namespace_manifest())
    await world.execution.reconcile(KEY)
    paths = posted(world)
    assert paths[:2] == [DEFINITIONS, NAMESPACES]
    assert paths[2:] == [f"/apis/example.com/v1/namespaces/{HOST}/widgets", MAPS]


async def test_reports_keep_the_order_of_the_work(world: World) -> None:
    refused = objects.deployment(nodeSelector={"branch": "nowhere"})
    forbidden = objects.namespace_manifest("kube-system")
    given(world, objects.config_map(), refused, objects.config_map("more"), forbidden)
    await world.execution.reconcile(KEY)
    status = world.hub.live(WORK)["status"]
    entries = [entry["identifier"]["ordinal"] for entry in status["manifestStatuses"]]
    assert entries == [0, 2]
    (message,) = [c["message"] for c in status["conditions"] if c["type"] == "Applied"]
    assert message.index("NodeSelectorConflict") < message.index("NamespaceForbidden")
    reasons = [reason for kind, reason, _ in await world.events() if kind == "Work"]
    assert reasons.index("NodeSelectorConflict") < reasons.index("NamespaceForbidden")


async def test_role_is_there_before_its_binding_is_written(world: World) -> None:
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": "edge"}]
    binding = of_rbac("RoleBinding", "to-it", roleRef=reference, subjects=subjects)
    given(world, objects.namespace_manifest(), of_rbac("Role", "reader", rules=[]), binding)
    await world.execution.reconcile(KEY)
    api = f"/apis/{RBAC}/v1/namespaces/{HOST}"
    assert posted(world)[1:] == [f"{api}/roles", f"{api}/rolebindings"]


async def test_object_that_is_named_twice_is_what_the_last_one_says(world: World) -> None:
    given(world, objects.config_map(value="1"), objects.config_map(value="2"))
    await world.execution.reconcile(KEY)
    assert world.host.live(f"{MAPS}/settings")["data"] == {"value": "2"}
    assert [request.method for request in world.host.writes()] == ["POST", "POST", "PUT"]


async def test_outage_costs_no_condition_and_stops_the_rest(world: World) -> None:
    given(world, objects.namespace_manifest(), *(objects.config_map(f"m-{n}") for n in range(20)))
    with world.host.down("POST", MAPS), pytest.raises(UnreachableError):
        await world.execution.reconcile(KEY)
    assert world.hub.writes() == []
    assert len(posted(world)) == 2
