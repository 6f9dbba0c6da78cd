"""The roles inside virtual clusters: each lists what the host serves, leaves what is not ours."""

from karmada_vc_agent.features.gateway import gateway_controllers
from karmada_vc_agent.features.gateway.gateway_controllers import ROLES_PERIOD
from tests.fakes.world import World

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ADMIN_ROLE = "virtual-cluster-admin"
PATH = f"{ROLES}/{ADMIN_ROLE}"


async def reconcile(world: World) -> None:
    assert (
        await world.spec(gateway_controllers.setup_admin_role).reconcile(ADMIN_ROLE) is ROLES_PERIOD
    )


async def test_role_lists_every_namespaced_resource_and_no_wildcard(world: World) -> None:
    await reconcile(world)
    rules = world.host.live(PATH)["rules"]
    granted = {(g, r) for rule in rules for g in rule["apiGroups"] for r in rule["resources"]}
    assert {("", "pods"), ("apps", "deployments"), ("example.com", "widgets")} <= granted
    assert not {("", "nodes"), ("", "namespaces")} & granted
    assert not any("*" in value for rule in rules for values in rule.values() for value in values)


async def test_role_that_is_right_is_not_written(world: World) -> None:
    await reconcile(world)
    world.forget_requests()
    await reconcile(world)
    assert world.host.writes() == []


async def test_changed_role_is_mended(world: World) -> None:
    await reconcile(world)
    wanted = world.host.live(PATH)["rules"]
    world.host.change(PATH, rules=[])
    await reconcile(world)
    assert world.host.live(PATH)["rules"] == wanted


async def test_role_of_another_owner_is_left(world: World) -> None:
    world.host.seed(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "virtual-cluster-admin"},
            "rules": [],
        }
    )
    await reconcile(world)
    assert world.host.live(PATH)["rules"] == []


async def test_copy_of_the_hosts_role_is_cut(world: World) -> None:
    world.host.seed(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "edit"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps", "nodes"],
                    "verbs": ["get", "patch"],
                },
                {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
                {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
                {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["x"]},
            ],
        }
    )
    assert (
        await world.spec(gateway_controllers.setup_admin_role).reconcile("vc-edit") is ROLES_PERIOD
    )
    assert world.host.live(f"{ROLES}/vc-edit")["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]}
    ]


async def test_copy_of_what_the_host_lacks_grants_nothing(world: World) -> None:
    assert (
        await world.spec(gateway_controllers.setup_admin_role).reconcile("vc-view") is ROLES_PERIOD
    )
    assert world.host.live(f"{ROLES}/vc-view")["rules"] == []
