"""Purge: whatever `join` creates for an agent goes with it, and nothing of others."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import pytest

from karmada_vc_agent.access.admission import GROUP
from karmada_vc_agent.access.agent_objects import HostInstall, base_objects, workload_objects
from karmada_vc_agent.access.rights import HubAccess, host_bindings, host_roles, hub_objects
from karmada_vc_agent.cluster.hub_clusters import AgentState, host_id
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.config.loading import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import HUB_ROLES
from karmada_vc_agent.features.objects.definitions import API_VERSION, KIND, PATH, finalizer
from karmada_vc_agent.install.host_rights import host_rights
from karmada_vc_agent.install.leave import check_last, purge, report_agent
from karmada_vc_agent.install.leave_steps import Leaving
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import STRICT, ApplyAs
from karmada_vc_agent.model.vocabulary import ALLOW_ADOPTION_ANNOTATION, MEMBERSHIP_LABEL
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served

AGENT = Leaving("", "agent", "agents", False, 1.0)
UID, OTHER_UID = "5b5c3f5e-0000-4000-8000-000000000001", "5b5c3f5e-0000-4000-8000-000000000002"
RBAC = "rbac.authorization.k8s.io/v1"
COMMON = f"/apis/{RBAC}/clusterroles/virtual-cluster-admin"
ACCOUNTS = Served("v1", "serviceaccounts", "ServiceAccount")
BUDGETS = Served("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
POLICIES = tuple(
    Served(f"{GROUP}/v1", f"validatingadmission{plural}", f"Validating{kind}", namespaced=False)
    for plural, kind in (
        ("policies", "AdmissionPolicy"),
        ("policybindings", "AdmissionPolicyBinding"),
    )
)


def joined(agent: str = "agent", namespace: str = "agents") -> list[Object]:
    """Return what `join` creates on the host, and the agent afterwards."""
    given = ApplyAs("tenants", "x", "edit")
    clusters = (
        objects.virtual_cluster("branch-a"),
        objects.virtual_cluster("branch-b", apply_as=given),
    )
    config = AgentConfig(
        agent_name=agent, virtual_clusters=clusters, tenancy=STRICT, dns_namespace="kube-system"
    )
    config = with_profile_defaults(config, namespace)
    install = HostInstall(agent, namespace, "image", "settings: all", "kubeconfig")
    rights = host_rights(install, config, ("branch-a", "branch-b"), None)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": agent, "namespace": namespace},
    }
    return [
        *base_objects(rights.install),
        *host_roles(rights.access),
        *rights.policies,
        *host_bindings(rights.access),
        *workload_objects(rights.install),
        lease,
    ]


def state(*left: str) -> Object:
    """Return the record of an agent of branch-a and branch-b, of which some have left."""
    records = {
        f"cluster.{name}": json.dumps({"uid": "", "settings": "", "has_left": name in left})
        for name in ("branch-a", "branch-b")
    }
    return {**objects.config_map("agent-state", "agents"), "data": records}


@pytest.fixture
def installed(host: FakeApiServer) -> FakeApiServer:
    """Return a host with an agent whose virtual clusters have left."""
    host.storage.served += [ACCOUNTS, BUDGETS, *POLICIES]
    host.seed(objects.namespace("kube-system"), objects.config_map("theirs", "kube-system"))
    host.seed(*joined(), state("branch-a", "branch-b"))
    for name in ("agents", "tenants"):
        host.seed(objects.config_map("kube-root-ca.crt", name))
    return host


def there(host: FakeApiServer) -> set[str]:
    """Return `<kind> <namespace>/<name>` of all objects."""
    return set(map(_named, host.storage.objects.values()))


def _named(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{obj['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


THEIRS = {
    "Namespace /kube-system",
    "ConfigMap kube-system/theirs",
    "Namespace /tenants",
    "ServiceAccount tenants/x",
    "ConfigMap tenants/kube-root-ca.crt",
}


async def purged(client: ApiClient) -> list[str]:
    said: list[str] = []
    await purge(AGENT, None, client, said.append)
    return said


async def test_all_that_join_created_on_the_host_is_removed(
    installed: FakeApiServer, client: ApiClient
) -> None:
    said = await purged(client)
    left = there(installed) - {"ConfigMap agents/kube-root-ca.crt"}  # goes with its namespace
    assert left == THEIRS
    first = next(line for line in said if "deleted" in line)
    assert first == "host: deleted deployments/agent", "it must not write while its rights go"


async def test_purge_can_be_repeated(installed: FakeApiServer, client: ApiClient) -> None:
    await purged(client)
    before = there(installed)
    assert await purged(client) == [
        "The hub does not answer; once it does, run leave --purge again"
    ]
    assert there(installed) == before


async def test_objects_are_released_though_the_namespace_was_deleted_by_hand(
    installed: FakeApiServer, client: ApiClient
) -> None:
    metadata = {"name": "branch-a", "finalizers": [finalizer("agent")]}
    head = {"apiVersion": API_VERSION, "kind": KIND}
    installed.seed({**head, "metadata": metadata, "spec": {"nodeNames": ["n"]}})
    installed.remove("/api/v1/namespaces/agents")
    await purged(client)
    assert not installed.live(f"{PATH}/branch-a")["metadata"].get("finalizers")


async def test_another_agent_keeps_all_that_is_its_own(
    installed: FakeApiServer, client: ApiClient
) -> None:
    others = joined("agent-2", "agents-2")
    installed.seed(*others)
    await purged(client)
    assert set(map(_named, others)) <= there(installed)
    assert installed.find(COMMON), "its tenants are bound to it"


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
async def test_role_of_tenants_stays_while_a_subject_is_bound_to_it(
    installed: FakeApiServer, client: ApiClient, kind: str
) -> None:
    place = {"namespace": "tenants"} if kind == "RoleBinding" else {}
    ref = {"kind": "ClusterRole", "name": "virtual-cluster-admin"}
    metadata = {"name": "ann", **place}
    installed.seed({"apiVersion": RBAC, "kind": kind, "metadata": metadata, "roleRef": ref})
    said = await purged(client)
    where = "tenants" if place else "the cluster"
    told = f"host: ClusterRole virtual-cluster-admin stays: it is bound in {where} by ann"
    assert told in said
    assert installed.find(COMMON)


async def test_namespace_in_which_others_have_something_stays(
    installed: FakeApiServer, client: ApiClient
) -> None:
    installed.seed(objects.config_map("notes", "agents"))
    said = await purged(client)
    assert (
        "host: namespace agents stays: ConfigMap notes in it does not belong to the agent" in said
    )
    found = {one for one in there(installed) if " agents/" in one}
    assert found == {"ConfigMap agents/notes", "ConfigMap agents/kube-root-ca.crt"}


async def test_nodes_lose_the_label_of_a_former_name_and_namespaces_their_mark(
    installed: FakeApiServer, client: ApiClient
) -> None:
    state = AgentState(client, AGENT.namespace, AGENT.agent)
    await state.load()
    await state.remember_label("branch-old", "branch-a")
    installed.seed(objects.node("node-1", {MEMBERSHIP_LABEL: "branch-old"}))
    installed.seed(objects.node("node-2", {MEMBERSHIP_LABEL: "somebody's"}))
    for name, cluster in (("shop", "branch-a"), ("theirs", "somebody's")):
        mark = {ALLOW_ADOPTION_ANNOTATION: cluster, "own": "x"}
        installed.seed(objects.namespace(name, annotations=mark))
    await purged(client)
    nodes = (installed.live(f"/api/v1/nodes/node-{n}") for n in (1, 2))
    assert [MEMBERSHIP_LABEL in (node["metadata"].get("labels") or {}) for node in nodes] == [
        False,
        True,
    ]
    marks = [
        sorted(installed.live(f"/api/v1/namespaces/{name}")["metadata"]["annotations"])
        for name in ("shop", "theirs")
    ]
    assert marks == [["own"], ["own", ALLOW_ADOPTION_ANNOTATION]]


async def test_nodes_lose_the_label_of_virtual_clusters_that_left(
    installed: FakeApiServer, client: ApiClient
) -> None:
    """A virtual cluster of that name that another agent has by now keeps it."""
    for name in ("branch-a", "branch-b", "branch-c"):
        installed.seed(objects.node(f"node-{name}", {MEMBERSHIP_LABEL: name, "site": "one"}))
    installed.seed(objects.claimed("branch-b", agent="other"))
    await purged(client)
    labels = {
        node["metadata"]["name"]: node["metadata"]["labels"]
        for node in installed.listed("/api/v1/nodes")
    }
    assert [MEMBERSHIP_LABEL in labels[f"node-branch-{x}"] for x in "abc"] == [False, True, True]
    assert labels["node-branch-a"] == {"site": "one"}


# --- the hub ----------------------------------------------------------------------------


@pytest.fixture
async def hub() -> AsyncIterator[FakeApiServer]:
    kinds = [each for each in served.HOST if each.api_version == RBAC]
    async with FakeApiServer((*served.HUB, *kinds)) as server:
        yield server


def on_hub(clusters: Iterable[str], uid: str = UID) -> list[Object]:
    access = HubAccess("agent", tuple(clusters), host_id=host_id(uid), of_features=HUB_ROLES)
    return hub_objects(access)


async def test_rights_on_the_hub_go_and_what_others_share_stays(hub: FakeApiServer) -> None:
    hub.seed(
        *on_hub(()),
        *hub_objects(HubAccess("agent", (), any_name=True, gateway=True, of_features=HUB_ROLES)),
    )
    async with hub.client("hub") as client:
        await check_last(AGENT, client, None, UID)
        await purge(AGENT, client, None, lambda _: None)
    assert there(hub) == {"Namespace /karmada-cluster"}


async def test_agent_of_that_name_on_another_host_is_not_touched(hub: FakeApiServer) -> None:
    hub.seed(*on_hub((), OTHER_UID))
    async with hub.client("hub") as client:
        with pytest.raises(CommandError, match="are of an agent on another host"):
            await check_last(AGENT, client, None, UID)


@pytest.mark.parametrize("where", ["hub", "state", "claim"])
async def test_agent_that_has_a_virtual_cluster_is_not_removed(
    installed: FakeApiServer, client: ApiClient, hub: FakeApiServer, where: str
) -> None:
    hub.seed(*on_hub(("branch-a", "branch-b") if where == "hub" else ("branch-a",)))
    if where == "state":
        installed.seed(state("branch-a"))
    if where == "claim":
        installed.seed(objects.claimed("branch-b", agent="agent"))
    async with hub.client("hub") as of_hub:
        with pytest.raises(CommandError, match="has other virtual clusters: branch-b; run leave"):
            await check_last(replace(AGENT, cluster="branch-a"), of_hub, client, UID)


@pytest.mark.parametrize(
    ("left", "was_reported"), [(("branch-a", "branch-b"), True), (("branch-a",), False)]
)
async def test_last_that_leaves_says_how_to_remove_the_agent(
    installed: FakeApiServer,
    client: ApiClient,
    hub: FakeApiServer,
    left: tuple[str, ...],
    *,
    was_reported: bool,
) -> None:
    installed.seed(state(*left))
    said: list[str] = []
    async with hub.client("hub") as of_hub:
        await report_agent(AGENT, of_hub, client, said.append)
        assert ("leave --purge with the same options" in "".join(said)) == was_reported
        await purge(AGENT, of_hub, client, said.append)
        said.clear()
        await report_agent(AGENT, of_hub, client, said.append)
    assert said == [], "it is gone"
