"""ClusterAccess: what the hub is told of a virtual cluster, in which order."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.config.settings import GatewaySettings
from karmada_vc_agent.features.gateway import gateway_controllers
from karmada_vc_agent.features.gateway.gateway_controllers import (
    ACCESS_PERIOD,
    ACCESS_SOON,
    ClusterAccess,
    ProbedEndpoint,
)
from karmada_vc_agent.features.gateway.tokens import clusters_of, matching, sealing_key_of, sums_of
from karmada_vc_agent.kube.controller import Requeue, RetryError
from karmada_vc_agent.kube.errors import ApiError, ForbiddenError, NotFoundError
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.runner import controllers
from tests.fakes import objects
from tests.fakes.world import AGENT, AGENT_NAMESPACE, World, new_world

CLUSTER = f"{CLUSTERS_PATH}/branch-a"
TOKENS = "/api/v1/namespaces/karmada-cluster/secrets"
SECRET = f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/{AGENT}-gateway"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ANCHOR = "/api/v1/namespaces/vc-system-v-branch-a"
AUTH_ROLE = f"vc-agent:{AGENT}:unified-auth"
ENDPOINT = "https://gateway.example:8443/virtualclusters/branch-a/"
PUBLISHED = {
    "apiEndpoint": ENDPOINT,
    "secretRef": {"namespace": "karmada-cluster", "name": "branch-a"},
    "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "branch-a-impersonator"},
    "proxyURL": "https://proxy.example:8090",
}


class Gateway:
    """Answers for the gateway. problem: what is wrong with it, None = nothing."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.asked: list[ProbedEndpoint] = []

    async def __call__(self, endpoint: ProbedEndpoint) -> str | None:
        self.asked.append(endpoint)
        return self.problem


@pytest.fixture
def authorities(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_text("authorities")
    return path


@pytest.fixture
def settings(authorities: Path) -> GatewaySettings:
    return GatewaySettings(
        enabled=True,
        host="gateway.example",
        proxy_url="https://proxy.example:8090",
        ca_file=str(authorities),
    )


@pytest.fixture
async def world(settings: GatewaySettings) -> AsyncIterator[World]:
    async with new_world(gateway=settings) as made:
        made.host.seed(objects.namespace(AGENT_NAMESPACE))
        made.host.seed(_secret(AGENT_NAMESPACE, f"{AGENT}-gateway"))
        made.hub.seed(_role(AUTH_ROLE))
        made.host.seed(_role("karmada-impersonator-v-branch-a", "alice"))
        made.restart()
        await made.parts.common.state.load()
        yield made


def _secret(namespace: str, name: str, **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def _role(name: str, *users: str) -> Object:
    rule = {
        "apiGroups": [""],
        "resources": ["users"],
        "resourceNames": list(users),
        "verbs": ["impersonate"],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {CLUSTER_LABEL: "branch-a"}},
        "rules": [rule] if users else [],
    }


async def reconcile(world: World, gateway: Gateway | None = None) -> Requeue | None:
    """Reconcile once with what is known now; gateway: None = one that answers."""
    world.parts.common.part(ClusterAccess).ask = gateway or Gateway()
    world.look()
    world.parts.common.part(ClusterAccess).has_rules_of_karmada(world.vc())  # is listed from now on
    world.look()
    made: Requeue | None = await world.spec(gateway_controllers.setup_cluster_access).reconcile(
        "branch-a"
    )
    return made


async def register(world: World) -> Object:
    """Register the virtual cluster; return its Cluster."""
    world.look()
    await world.spec(controllers.registration).reconcile("branch-a")
    world.look()
    return world.hub.live(CLUSTER)


def access_fields(world: World) -> dict[str, Any]:
    spec = world.hub.live(CLUSTER)["spec"]
    return {key: value for key, value in spec.items() if key in PUBLISHED}


def token_of(world: World, name: str) -> str:
    return b64decode(world.hub.live(f"{TOKENS}/{name}")["data"]["token"]).decode()


async def test_cluster_is_created_with_what_unified_auth_needs_and_no_endpoint(
    world: World,
) -> None:
    cluster = await register(world)
    assert access_fields(world) == {"impersonatorSecretRef": PUBLISHED["impersonatorSecretRef"]}
    order = [str(request) for request in world.hub.changes() if request.method == "POST"]
    assert order == [f"POST {TOKENS}", f"POST {TOKENS}", f"POST {CLUSTERS_PATH}"]
    assert world.host.find(ANCHOR) is not None
    assert cluster["metadata"]["annotations"]["virtualcluster.kubeedge.io/gateway"] == "true"


async def test_endpoint_is_published_once_the_gateway_answers(world: World) -> None:
    await register(world)
    gateway = Gateway()
    gateway.problem = "refused"
    assert await reconcile(world, gateway) is ACCESS_SOON
    assert "apiEndpoint" not in access_fields(world)
    gateway.problem = None
    assert await reconcile(world, gateway) is ACCESS_PERIOD
    assert access_fields(world) == PUBLISHED
    tried = ProbedEndpoint(
        ENDPOINT, token_of(world, "branch-a"), b"authorities", "https://proxy.example:8090"
    )
    assert gateway.asked == [tried, tried]


async def test_endpoint_stays_while_the_gateway_is_away(world: World) -> None:
    await register(world)
    await reconcile(world)
    away = Gateway()
    away.problem = "refused"
    assert await reconcile(world, away) is ACCESS_SOON
    assert access_fields(world) == PUBLISHED
    (sample,) = [
        each for each in world.parts.collector.samples() if each[0] == "virtual_cluster_endpoint_up"
    ]
    assert sample[1:] == (("branch-a",), False)


async def test_host_has_sums_of_the_tokens_and_never_the_tokens(world: World) -> None:
    await register(world)
    secret = world.host.live(SECRET)
    sums = sums_of(secret)
    assert {each.kind for each in sums} == {"access", "impersonator"}
    for kind, name in (("access", "branch-a"), ("impersonator", "branch-a-impersonator")):
        token = token_of(world, name)
        assert len(token) >= 43, "256 bits"
        found = matching(sums, token)
        assert found is not None
        assert (found.kind, found.cluster) == (kind, "branch-a")
        assert token not in str(secret)
    assert sealing_key_of(secret) is not None
    assert clusters_of(secret) == (world.vc(),)
    access = world.hub.live(f"{TOKENS}/branch-a")
    assert b64decode(access["data"]["caBundle"]) == b"authorities"
    assert "caBundle" not in world.hub.live(f"{TOKENS}/branch-a-impersonator")["data"]


async def test_what_is_right_is_not_written(world: World) -> None:
    await register(world)
    await reconcile(world)
    world.forget_requests()
    assert await reconcile(world) is ACCESS_PERIOD
    assert world.hub.changes() == []
    assert world.host.changes() == []


async def test_token_that_the_hub_lost_is_replaced_and_the_old_sum_stays(world: World) -> None:
    await register(world)
    old = token_of(world, "branch-a")
    world.hub.remove(f"{TOKENS}/branch-a")
    await reconcile(world)
    new = token_of(world, "branch-a")
    assert new != old
    sums = sums_of(world.host.live(SECRET))
    assert matching(sums, old)
    assert matching(sums, new)
    assert len(sums) == 3


async def test_token_whose_sum_was_revoked_is_replaced(world: World) -> None:
    await register(world)
    old = token_of(world, "branch-a")
    world.host.change(SECRET, data={})
    await reconcile(world)
    assert token_of(world, "branch-a") != old
    assert matching(sums_of(world.host.live(SECRET)), old) is None


async def test_new_authorities_are_published_without_a_new_token(
    world: World, authorities: Path
) -> None:
    await register(world)
    token = token_of(world, "branch-a")
    await asyncio.to_thread(authorities.write_text, "others")
    await reconcile(world)
    assert b64decode(world.hub.live(f"{TOKENS}/branch-a")["data"]["caBundle"]) == b"others"
    assert token_of(world, "branch-a") == token


async def test_secret_of_another_owner_is_never_touched(world: World) -> None:
    theirs = _secret("karmada-cluster", "branch-a", token=b64encode(b"theirs").decode())
    world.hub.seed(theirs)
    cluster = await register(world)
    assert "impersonatorSecretRef" not in cluster["spec"], "registered all the same"
    with pytest.raises(RetryError, match="belongs to another owner"):
        await reconcile(world)
    assert token_of(world, "branch-a") == "theirs"


async def test_missing_join_keeps_no_cluster_from_being_registered(world: World) -> None:
    world.host.remove(SECRET)
    cluster = await register(world)
    assert "impersonatorSecretRef" not in cluster["spec"]
    with pytest.raises(RetryError, match="run karmada-vc-agent join"):
        await reconcile(world)


async def test_gateway_may_impersonate_whom_karmada_names(world: World) -> None:
    await register(world)
    await reconcile(world)
    role = world.host.live(f"{ROLES}/vc:gateway-v-branch-a")
    users = next(rule for rule in role["rules"] if rule["resources"] == ["users"])
    assert {"vc:branch-a:alice", "vc:branch-a:karmada"} <= set(users["resourceNames"])
    world.host.change(f"{ROLES}/karmada-impersonator-v-branch-a", rules=[])
    await reconcile(world)
    users = world.host.live(f"{ROLES}/vc:gateway-v-branch-a")["rules"][0]
    assert "vc:branch-a:alice" not in users["resourceNames"]
    assert "vc:branch-a:karmada" in users["resourceNames"]


async def test_karmada_is_requested_for_its_rules_until_they_arrive(world: World) -> None:
    world.host.remove(f"{ROLES}/karmada-impersonator-v-branch-a")
    await register(world)
    assert await reconcile(world) is ACCESS_SOON
    asked = world.hub.live(f"{ROLES}/{AUTH_ROLE}")["metadata"]["annotations"]
    assert "virtualcluster.kubeedge.io/asked-at" in asked
    assert access_fields(world) == PUBLISHED


async def test_cluster_that_was_there_before_the_gateway_gets_access(world: World) -> None:
    world.register()
    assert await reconcile(world) is ACCESS_PERIOD
    assert access_fields(world) == PUBLISHED


async def test_access_ends_with_the_cluster(world: World) -> None:
    await register(world)
    await reconcile(world)
    world.hub.change(
        CLUSTER,
        metadata={**world.hub.live(CLUSTER)["metadata"], "finalizers": ["karmada.io/x"]},
    )
    world.hub.mark_deleted(CLUSTER)
    world.forget_requests()
    await reconcile(world)
    assert sums_of(world.host.live(SECRET)) == ()
    assert clusters_of(world.host.live(SECRET)) == ()
    assert world.hub.listed(TOKENS) == []
    assert world.host.find(f"{ROLES}/vc:gateway-v-branch-a") is None
    assert dig(world.host.find(ANCHOR), "metadata", "deletionTimestamp") or not world.host.find(
        ANCHOR
    )
    revoked = world.host.changes()[0]
    assert str(revoked).startswith("PATCH"), "tokens are revoked first"


@pytest.mark.parametrize("error", [ForbiddenError, NotFoundError])
async def test_cluster_is_registered_without_access_that_cannot_be_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[ApiError]
) -> None:
    async def fails(*_: object) -> None:
        raise error(404, "NotFound", 'namespaces "karmada-cluster" not found')

    monkeypatch.setattr(ClusterAccess, "prepare", fails)
    await register(world)
    assert access_fields(world) == {}


async def test_turned_off_gateway_leaves_nothing(world: World) -> None:
    await register(world)
    await reconcile(world)
    world.restart(gateway=GatewaySettings())
    assert await reconcile(world) is None
    assert access_fields(world) == {}
    assert "annotations" not in world.hub.live(CLUSTER)["metadata"] or (
        "virtualcluster.kubeedge.io/gateway"
        not in world.hub.live(CLUSTER)["metadata"]["annotations"]
    )
    assert sums_of(world.host.live(SECRET)) == ()
    assert world.hub.listed(TOKENS) == []


async def test_gateway_turned_off_by_join_first_leaves_no_anchor(world: World) -> None:
    await register(world)
    await reconcile(world)
    world.restart(gateway=GatewaySettings())
    world.host.fail(403, "Forbidden", path=SECRET)
    await reconcile(world)
    assert world.host.find(ANCHOR) is None
    assert access_fields(world) == {}


async def test_cluster_without_a_gateway_is_left_alone(world: World) -> None:
    world.restart(gateway=GatewaySettings())
    cluster = await register(world)
    assert set(cluster["spec"]) == {"id", "syncMode", "resourceModels"}
    world.hub.change(CLUSTER, spec={**cluster["spec"], "apiEndpoint": "https://mine/"})
    world.forget_requests()
    await reconcile(world)
    assert access_fields(world) == {"apiEndpoint": "https://mine/"}
    assert world.host.changes() == []


async def test_host_that_forgot_the_secret_gets_new_sums(world: World) -> None:
    await register(world)
    old = token_of(world, "branch-a")
    world.host.remove(SECRET)
    world.host.seed(_secret(AGENT_NAMESPACE, f"{AGENT}-gateway"))
    await reconcile(world)
    assert token_of(world, "branch-a") != old
    assert matching(sums_of(world.host.live(SECRET)), token_of(world, "branch-a"))
