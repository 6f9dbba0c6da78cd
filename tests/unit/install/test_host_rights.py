"""What an agent is given on the host, by its settings."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from karmada_vc_agent.access.admission import PolicyOwner, entries_of, held_by
from karmada_vc_agent.access.agent_objects import HostInstall
from karmada_vc_agent.access.rights import host_roles
from karmada_vc_agent.config.loading import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig, ObjectSettings
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.discovered.records import DiscoverSettings, NodeGroupSettings
from karmada_vc_agent.install.host_rights import HostRights, described_on_host, host_rights
from karmada_vc_agent.model.virtual_cluster import (
    SHARED,
    STRICT,
    ApplyAs,
    VirtualCluster,
    VirtualClusterSettings,
)
from karmada_vc_agent.runner.parts import Described
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.objects import virtual_cluster
from tests.fakes.served import Served

INSTALL = HostInstall("agent", "home", image="")
ACCOUNT_ROLE = "vc-agent:agent:account"


def rights(*names: str, **settings: Any) -> HostRights:
    """Return the rights of an agent on a host that is not asked."""
    clusters = tuple(virtual_cluster(name) for name in names)
    config = AgentConfig(agent_name="agent", **({"virtual_clusters": clusters} | settings))
    config = with_profile_defaults(config, "home")
    names = tuple(vc.name for vc in config.virtual_clusters)
    return host_rights(INSTALL, config, names, None)


def test_tenants_have_an_account_each_that_the_agent_may_act_as() -> None:
    access = rights("a", "b", tenancy=STRICT).access
    assert access.acts_as == (("home", "a.agent"), ("home", "b.agent"))
    assert set(access.bound_roles) == {ACCOUNT_ROLE}
    assert rights("a", "b", tenancy=SHARED).access.acts_as == ()


@pytest.mark.parametrize("tenancy", [SHARED, STRICT])
def test_account_of_the_settings_is_the_one_that_is_used(tenancy: str) -> None:
    cluster = virtual_cluster("a", apply_as=ApplyAs("tenants", "x", "edit"))
    access = rights(virtual_clusters=(cluster,), tenancy=tenancy).access
    assert (access.acts_as, access.bound_roles) == ((("tenants", "x"),), ("edit",))


def test_policies_are_not_required_by_everybody() -> None:
    given = rights("a", install_policies=False)
    assert given.policies == []
    assert not given.access.is_confined
    assert rights("a").access.is_confined


def test_what_policies_protected_stays_protected() -> None:
    known = rights("a").owner
    config = AgentConfig(agent_name="agent", virtual_clusters=(virtual_cluster("b"),))
    owner = host_rights(INSTALL, config, ("b",), None, known).owner
    assert owner.clusters == ("a", "b")
    assert owner.schedulers == known.schedulers


ALL = {each.partition("/")[0] for each in held_by(virtual_cluster("a"), STRICT)}


def held(cluster: str, owner: PolicyOwner) -> set[str]:
    return {each.partition("/")[0] for each in entries_of(owner.held, cluster)}


def test_tenants_are_held_by_policy_to_what_the_settings_do_not_allow() -> None:
    clusters = (virtual_cluster("a"), virtual_cluster("b", allow=("ExternalDNS",)))
    owner = rights(virtual_clusters=clusters, tenancy=STRICT).owner
    assert held("a", owner) == ALL
    assert held("b", owner) == ALL - {"ExternalDNS"}
    assert rights(virtual_clusters=clusters, tenancy=SHARED).owner.held == ()


def test_settings_decide_what_tenants_are_held_to_and_others_stay_held() -> None:
    known = rights("a", "b", tenancy=STRICT).owner
    allowing = (virtual_cluster("b", allow=("ExternalDNS", "WildcardHosts")),)
    config = AgentConfig(agent_name="agent", virtual_clusters=allowing, tenancy=STRICT)
    owner = host_rights(INSTALL, config, ("b",), None, known).owner
    assert entries_of(owner.held, "a") == entries_of(known.held, "a")
    assert held("b", owner) == ALL - {"ExternalDNS", "WildcardHosts"}
    by_name = AgentConfig(agent_name="agent")
    owner = host_rights(INSTALL, by_name, ("a", "b"), None, known).owner
    assert owner.held == known.held


def test_settings_decide_what_tenants_are_let_through_with_and_others_stay_as_they_were() -> None:
    clusters = tuple(virtual_cluster(name, allow=("ProxySnippets",)) for name in ("a", "b"))
    known = rights(virtual_clusters=clusters).owner
    assert known.allowed == ("ProxySnippets/ingresses/a", "ProxySnippets/ingresses/b")
    config = AgentConfig(agent_name="agent", virtual_clusters=(virtual_cluster("b"),))
    owner = host_rights(INSTALL, config, ("b",), None, known).owner
    assert owner.allowed == ("ProxySnippets/ingresses/a",)


def test_namespaces_to_adopt_are_marked_for_the_one_that_may() -> None:
    cluster = virtual_cluster("a", adopt_namespaces=("mine",))
    assert rights(virtual_clusters=(cluster,)).adoptions == {"mine": "a"}


def test_objects_bring_their_crd_and_rights_to_hold_and_report_them() -> None:
    given = rights("a", objects=ObjectSettings(enabled=True))
    (crd,) = given.definitions
    assert crd["metadata"]["name"] == "virtualclusters.virtualcluster.kubeedge.io"
    found = {
        resource: rule["verbs"]
        for rule in host_roles(given.access)[0]["rules"]
        for resource in rule.get("resources", ())
        if "virtualcluster.kubeedge.io" in rule.get("apiGroups", ())
    }
    assert found == {
        "virtualclusters": ["get", "list", "watch", "patch"],
        "virtualclusters/status": ["patch"],
    }
    assert rights("a").definitions == []


def test_any_name_is_in_the_policies_as_long_as_it_is_set() -> None:
    known = rights("a", objects=ObjectSettings(enabled=True, any_name=True)).owner
    assert known.clusters == ("*", "a")
    config = AgentConfig(agent_name="agent", virtual_clusters=(virtual_cluster("b"),))
    owner = host_rights(INSTALL, config, ("b",), None, known).owner
    assert owner.clusters == ("a", "b")


def test_discovery_protects_group_labels_and_may_write_events() -> None:
    discover = DiscoverSettings(node_label="branch")
    config = replace(CONFIG(), agent_name="agent", discover=discover)
    given = host_rights(INSTALL, config, (), None, described=Described(frozenset(("tier",))))
    assert given.owner.group_labels == ("branch", "tier")
    events = [
        rule
        for role in host_roles(given.access)
        if role["metadata"].get("namespace") == "default"
        for rule in role["rules"]
    ]
    assert [(rule["resources"], rule["verbs"]) for rule in events] == [
        (["events"], ["create", "patch"])
    ]
    assert "features/discovered/roles.yaml" not in rights("a").access.of_features


async def test_labels_of_objects_and_groups_are_requested(host: FakeApiServer) -> None:
    async with host.client() as client:
        config = replace(
            CONFIG(),
            agent_name="agent",
            objects=ObjectSettings(enabled=True),
            node_groups=NodeGroupSettings(enabled=True),
        )
        assert await described_on_host(client, config) == Described(), "the host serves neither"


NODE_GROUPS = Served(
    "apps.kubeedge.io/v1alpha1", "nodegroups", "NodeGroup", namespaced=False, is_custom=True
)
ALLOWING = VirtualClusterSettings(allow=("ExternalDNS", "ProxySnippets"))


@pytest.fixture
async def edge() -> AsyncIterator[FakeApiServer]:
    """Return a host that serves NodeGroups."""
    async with FakeApiServer((*served.HOST, NODE_GROUPS)) as server:
        yield server


async def test_exceptions_of_discovered_ones_are_those_of_the_served_ones(
    edge: FakeApiServer,
) -> None:
    """The settings file comes first, then objects, NodeGroups and values of the label."""
    config = replace(
        CONFIG(),
        agent_name="agent",
        agent_namespace="home",
        virtual_clusters=(virtual_cluster("of-file"),),
        node_groups=NodeGroupSettings(enabled=True, settings=ALLOWING),
        discover=DiscoverSettings(
            node_label="branch", settings=VirtualClusterSettings(allow=("WildcardHosts",))
        ),
        objects=ObjectSettings(enabled=True),
    )
    names = ("of-label", "of-group", "of-object", "of-file")
    for number, name in enumerate(names):
        edge.seed(objects.node(f"node-{number}", {"branch": name}))
    for name in (*names[1:], "Not.A.Name"):
        head = {"apiVersion": NODE_GROUPS.api_version, "kind": NODE_GROUPS.kind}
        edge.seed({**head, "metadata": {"name": name}, "spec": {"nodes": ["node-1"]}})
    spec = {"nodeNames": ["node-2"], "allow": ["HostPath"]}
    head = {"apiVersion": "virtualcluster.kubeedge.io/v1alpha1", "kind": "VirtualCluster"}
    edge.seed({**head, "metadata": {"name": "of-object"}, "spec": spec})
    async with edge.client() as client:
        found = await described_on_host(client, config)
    assert {name: found.allow(name) for name in (*names, "unknown")} == {
        "of-label": ("WildcardHosts",),
        "of-group": ALLOWING.allow,
        "of-object": ("HostPath",),
        "of-file": (),
        "unknown": (),
    }


def test_discovered_tenants_are_held_to_what_their_settings_do_not_allow() -> None:
    known = rights("a", "b", "c", tenancy=STRICT).owner
    config = AgentConfig(agent_name="agent", tenancy=STRICT)
    allowing = VirtualCluster("a", allow=ALLOWING.allow)
    found = Described(virtual_clusters=(allowing, VirtualCluster("d", allow=ALLOWING.allow)))
    owner = host_rights(INSTALL, config, ("b",), None, known, found).owner
    assert held("a", owner) == ALL - {"ExternalDNS"}
    assert entries_of(owner.allowed, "a") == {"ProxySnippets/ingresses/a"}
    for name in "bc":
        assert entries_of(owner.held, name) == entries_of(known.held, name)
        assert not entries_of(owner.allowed, name)
    assert not entries_of({*owner.held, *owner.allowed}, "d"), "it was given no rights"
    # What describes it is gone: it is held to all again.
    owner = host_rights(INSTALL, config, (), None, owner).owner
    assert entries_of(owner.held, "a") == entries_of(known.held, "a")
    assert not entries_of(owner.allowed, "a")


def test_former_names_of_discovered_ones_are_in_the_policies() -> None:
    """The gateway may write Namespaces there whose host names have the former name."""
    found = Described(
        virtual_clusters=(
            VirtualCluster("a", former_names=("a", "a-0")),
            VirtualCluster("d", former_names=("d-0",)),
        )
    )
    config = AgentConfig(agent_name="agent", virtual_clusters=(virtual_cluster("b"),))
    owner = host_rights(INSTALL, config, ("a", "b"), None, None, found).owner
    assert owner.renames == ("a-0/a",), "d was given no rights"
    any_name = AgentConfig(agent_name="agent", objects=ObjectSettings(enabled=True, any_name=True))
    owner = host_rights(INSTALL, any_name, (), None, None, found).owner
    assert owner.renames == ("a-0/a", "d-0/d")


def test_exceptions_of_discovered_ones_count_without_tenants_too() -> None:
    config = AgentConfig(agent_name="agent", objects=ObjectSettings(enabled=True, any_name=True))
    found = Described(virtual_clusters=(VirtualCluster("a", allow=ALLOWING.allow),))
    owner = host_rights(INSTALL, config, (), None, None, found).owner
    assert owner.allowed == ("ProxySnippets/ingresses/a",)


def test_tenants_with_only_a_name_have_accounts_and_are_held() -> None:
    known = PolicyOwner("agent", "home", "user", ("b", "was"))
    config = AgentConfig(
        agent_name="agent",
        tenancy=STRICT,
        virtual_clusters=(VirtualCluster("a", former_names=("was",)),),
    )
    config = with_profile_defaults(config, "home")
    found = host_rights(INSTALL, config, ("a", "c"), None, known)
    assert found.access.acts_as == tuple(("home", f"{name}.agent") for name in "abc")
    assert set(found.install.accounts) >= {("home", f"{name}.agent") for name in "bc"}
    assert found.owner.held == tuple(
        sorted({one for name in "abc" for one in held_by(VirtualCluster(name), STRICT)})
    )
