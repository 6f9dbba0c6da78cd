"""What tenants are held to in Strict: whom it names and what; what it does is tried end to end."""

from dataclasses import replace

import pytest

from karmada_vc_agent.access.admission import PolicyOwner, allowances, desired_policies, held_by
from karmada_vc_agent.access.templates import cel_list
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, Guard
from karmada_vc_agent.model.vocabulary import BALANCER_POOL_LABEL
from karmada_vc_agent.translation.guards import ANNOTATIONS, NETWORK_SOURCES
from tests.fakes.objects import virtual_cluster

ALL = {
    "LoadBalancerAddresses/services/a",
    "LoadBalancerAddresses/ingresses/a",
    "LoadBalancerClasses/services/a",
    "ExternalNames/services/a",
    "ForeignEndpoints/services/a",
    "ForeignEndpoints/ingresses/a",
    "ExternalDNS/services/a",
    "ExternalDNS/ingresses/a",
    "ExternalDNS/pods/a",
    "WildcardHosts/ingresses/a",
    "NetworkVolumes/pods/a",
    "PodAddresses/pods/a",
    "LoadBalancerAddresses/routes/a",
    "ExternalDNS/routes/a",
    "WildcardHosts/routes/a",
    "ControllerKinds/routes/a",
}


def spec_of(owner: PolicyOwner, name: str) -> Object:
    """Return the spec of a policy."""
    [spec] = [
        obj["spec"]
        for obj in desired_policies(owner, {})
        if obj["kind"].endswith("Policy") and obj["metadata"]["name"] == owner.name(name)
    ]
    return dict(spec)


def shared_proxies(owner: PolicyOwner) -> Object:
    return spec_of(owner, "shared-proxies")


def pod_limits(owner: PolicyOwner) -> Object:
    return spec_of(owner, "pod-limits")


def policy(*held: str, allowed: tuple[str, ...] = ()) -> Object:
    return shared_proxies(PolicyOwner("agent", "agents", "user", held=held, allowed=allowed))


def rule_about(spec: Object, guard: Guard) -> Object:
    """Return the validation that says it is allowed by the name of a guard."""
    [found] = [each for each in spec["validations"] if f"[{guard}]" in each.get("message", "")]
    return dict(found)


def test_tenants_are_held_to_what_strict_refuses_their_works() -> None:
    assert held_by(virtual_cluster("a"), STRICT) == ALL
    assert held_by(virtual_cluster("a"), SHARED) == set()


@pytest.mark.parametrize(
    ("allowed", "gone"),
    [
        ("ExternalNames", {"ExternalNames/services/a"}),
        ("ExternalDNS", {each for each in ALL if each.startswith("ExternalDNS/")}),
        ("WildcardHosts", {"WildcardHosts/ingresses/a", "WildcardHosts/routes/a"}),
        ("networking.k8s.io/Ingress", {each for each in ALL if "/ingresses/" in each}),
        ("HostPath", set()),
    ],
)
def test_what_is_allowed_to_works_is_allowed_to_tenants(allowed: str, gone: set[str]) -> None:
    assert held_by(virtual_cluster("a", allow=(allowed,)), STRICT) == ALL - gone


def test_policy_that_binds_no_one_is_as_in_shared() -> None:
    spec = policy()
    assert len(spec["validations"]) == 5
    assert "cluster" not in {each["name"] for each in spec["variables"]}


def test_a_service_of_a_load_balancer_is_in_the_pool_of_its_nodes() -> None:
    [pool] = [each for each in policy()["validations"] if "lbpool" in each["message"]]
    assert "node-selector'].split(',')).filter(p, p.startsWith(" in pool["expression"]
    assert f"'{BALANCER_POOL_LABEL}='" in pool["expression"]


def test_each_rule_names_the_virtual_clusters_that_it_holds_and_no_others() -> None:
    spec = policy(
        "ExternalDNS/ingresses/a",
        "ExternalDNS/services/a",
        "ExternalDNS/services/b",
        "WildcardHosts/ingresses/b",
    )
    assert len(spec["validations"]) == 7
    names = rule_about(spec, Guard.EXTERNAL_DNS)["expression"]
    assert names.startswith(
        "!(request.resource.resource == 'services' && variables.cluster in ['a', 'b']"
        " || request.resource.resource == 'ingresses' && variables.cluster in ['a']) || "
    )
    hosts = rule_about(spec, Guard.WILDCARD_HOSTS)["expression"]
    assert hosts.startswith(
        "!(request.resource.resource == 'ingresses' && variables.cluster in ['b']) || "
    )


def test_annotations_are_those_that_works_are_refused() -> None:
    spec = policy(*ALL)
    address = rule_about(spec, Guard.LOAD_BALANCER_ADDRESSES)["expression"]
    assert cel_list(ANNOTATIONS["load_balancer_keys"]) in address
    assert cel_list(ANNOTATIONS["dns_names"]) in rule_about(spec, Guard.EXTERNAL_DNS)["expression"]


def test_an_external_name_may_name_its_own_namespace_or_another_by_the_template() -> None:
    owner = PolicyOwner(
        "agent", "agents", "user", held=("ExternalNames/services/a",), domain="edge.local"
    )
    first = replace(owner, template="{cluster}-x-{namespace}")
    for each, wanted, others in (
        (owner, "'[a-z0-9-]*-v-' + c + '(--[0-9a-f]{12})?'", "p.endsWith('-v-' + c)"),
        (first, "c + '-x-[a-z0-9-]*'", "p.startsWith(c + '-x-')"),
        (replace(owner, clusters=("*",)), "'[a-z0-9-]*-v-' + c", "!(h.indexOf('-v-') != "),
        (replace(first, clusters=("*",)), "c + '-x-", "!(h.lastIndexOf('-x-') != c.size())"),
    ):
        names = rule_about(shared_proxies(each), Guard.EXTERNAL_NAMES)["expression"]
        assert "h == request.namespace || variables.homes.exists(c," in names
        assert f"h.matches('^' + {wanted}" in names
        assert others in names
        assert r".matches('[.][^.]+[.]svc([.]edge\\.local)?[.]?$')" in names


def test_pods_are_held_to_their_own_rules_and_services_to_theirs() -> None:
    spec = pod_limits(PolicyOwner("agent", "agents", "user", held=tuple(sorted(ALL))))
    volumes = rule_about(spec, Guard.NETWORK_VOLUMES)["expression"]
    assert volumes.startswith("!(request.resource.resource == 'pods' && variables.cluster in")
    assert all(f"has(v.{source})" in volumes for source in NETWORK_SOURCES)
    assert (
        cel_list(ANNOTATIONS["pod_addresses"])
        in rule_about(spec, Guard.POD_ADDRESSES)["expression"]
    )
    assert "'services'" not in rule_about(spec, Guard.EXTERNAL_DNS)["expression"]
    assert "'pods'" not in rule_about(policy(*ALL), Guard.EXTERNAL_DNS)["expression"]
    assert len(pod_limits(PolicyOwner("agent", "agents", "user"))["validations"]) == 2


def test_routes_are_held_to_what_they_may_say_of_hosts_names_and_addresses() -> None:
    owner = PolicyOwner("agent", "agents", "user", held=("WildcardHosts/routes/a",))
    spec = spec_of(owner, "shared-routes")
    hosts = rule_about(spec, Guard.WILDCARD_HOSTS)["expression"]
    assert hosts.startswith("!(variables.cluster in ['a']) || ")
    assert len(spec["validations"]) == 4  # for all: addresses, and configuration of proxies
    whole = spec_of(replace(owner, held=tuple(sorted(ALL))), "shared-routes")
    assert len(whole["validations"]) == 7
    assert cel_list(ANNOTATIONS["dns_names"]) in rule_about(whole, Guard.EXTERNAL_DNS)["expression"]


def test_owner_of_a_namespace_is_on_its_label() -> None:
    variables = {each["name"]: each["expression"] for each in policy(*ALL)["variables"]}
    label = "namespaceObject.metadata.labels['virtualcluster.kubeedge.io/cluster']"
    assert variables["cluster"] == label


def test_variables_come_before_those_that_use_them() -> None:
    spec = policy(*ALL)
    names = [each["name"] for each in spec["variables"]]
    assert len(names) == len(set(names))
    for index, each in enumerate(spec["variables"]):
        assert not [name for name in names[index:] if f"variables.{name}" in each["expression"]]


@pytest.mark.parametrize("tenancy", [SHARED, STRICT])
@pytest.mark.parametrize(
    ("allow", "allowed"),
    [
        ((), set()),
        (("ExternalDNS", "HostPath"), set()),
        (("ExternalAddresses",), {"ExternalAddresses/services/a"}),
        (("ProxySnippets",), {"ProxySnippets/ingresses/a"}),
        (("networking.k8s.io/Ingress",), {"ProxySnippets/ingresses/a"}),
    ],
)
def test_tenants_are_let_through_with_what_their_works_may_in_both_profiles(
    tenancy: str, allow: tuple[str, ...], allowed: set[str]
) -> None:
    assert allowances(virtual_cluster("a", allow=allow), tenancy) == allowed


def test_what_is_refused_everybody_is_let_through_where_it_is_allowed_only() -> None:
    addresses, snippets, paths, *others = policy()["validations"]
    spec = policy(
        allowed=(
            "ExternalAddresses/services/b",
            "ExternalAddresses/services/a",
            "ProxySnippets/ingresses/b",
        )
    )
    variables = [each["name"] for each in spec["variables"]]
    assert "cluster" in variables
    assert "new_hosts" not in variables
    assert [each["expression"] for each in spec["validations"]] == [
        f"variables.cluster in ['a', 'b'] || {addresses['expression']}",
        f"variables.cluster in ['b'] || {snippets['expression']}",
        f"variables.cluster in ['b'] || {paths['expression']}",
        *(each["expression"] for each in others),
    ]


def test_unlisted_virtual_cluster_has_no_exceptions() -> None:
    spec = policy("ExternalDNS/services/a")
    assert [each["expression"] for each in spec["validations"][:5]] == [
        each["expression"] for each in policy()["validations"]
    ]


def test_a_default_backend_is_for_every_host_also_beside_rules() -> None:
    variables = {each["name"]: each["expression"] for each in policy(*ALL)["variables"]}
    for name, obj in (("old_hosts", "oldObject"), ("new_hosts", "object")):
        assert variables[name].endswith(
            f" + ({obj} != null && has({obj}.spec.defaultBackend) ? [''] : [])"
        )


def test_a_route_without_hosts_at_a_gateway_of_others_is_for_every_host() -> None:
    owner = PolicyOwner("agent", "agents", "user", held=("WildcardHosts/routes/a",))
    variables = {
        each["name"]: each["expression"] for each in spec_of(owner, "shared-routes")["variables"]
    }
    for name, obj in (("old_hosts", "oldObject"), ("new_hosts", "object")):
        by_hosts, _, by_parents = variables[name].partition(f".size() > 0 ? {obj}.spec.hostnames")
        assert by_hosts.endswith(f"{obj}.spec.hostnames")
        assert f"{obj}.spec.parentRefs.filter(p, has(p.namespace)).map(p," in by_parents
        assert by_parents.endswith("? [''] : []")
