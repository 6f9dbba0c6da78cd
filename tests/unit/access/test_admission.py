"""Admission policies: names, order, whom they concern; what they do is tested end to end."""

from dataclasses import replace

import pytest

from karmada_vc_agent.access import admission
from karmada_vc_agent.access.admission import (
    MUTATING,
    VERSIONS,
    PolicyOwner,
    desired_policies,
    is_as_wanted,
    owner_of,
    protected_user,
)
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL

OWNER = PolicyOwner("agent-1", "agents", "system:serviceaccount:agents:agent-1")


def named(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj["spec"] for obj in objects}


def everything(owner: PolicyOwner = OWNER) -> list[Object]:
    return desired_policies(owner, {MUTATING: "v1beta1"})


def test_every_policy_has_a_binding_and_precedes_it() -> None:
    seen = set()
    bound = set()
    for obj in everything():
        name = obj["metadata"]["name"]
        if obj["kind"].endswith("Binding"):
            assert obj["spec"]["policyName"] in seen
            bound.add(obj["spec"]["policyName"])
        else:
            seen.add(name)
    assert seen == bound


def test_the_probe_is_bound_after_the_namespaces() -> None:
    names = [obj["metadata"]["name"] for obj in everything() if obj["kind"].endswith("Binding")]
    for policy in (OWNER.name(admission.PLACEMENT), OWNER.name(admission.SELECTOR)):
        assert names.index(policy) < names.index(f"probe.{policy}")


def test_everything_carries_the_name_of_its_agent() -> None:
    other = PolicyOwner("agent-2", "agents", OWNER.user)
    ours, theirs = (set(named(everything(owner))) for owner in (OWNER, other))
    assert ours.isdisjoint(theirs)
    assert all(obj["metadata"]["labels"] == {AGENT_LABEL: "agent-1"} for obj in everything())


def test_pods_are_looked_at_in_namespaces_that_this_agent_claimed() -> None:
    for kind, policy in (
        ("ValidatingAdmissionPolicyBinding", OWNER.name(admission.PLACEMENT)),
        ("MutatingAdmissionPolicyBinding", OWNER.name(admission.SELECTOR)),
    ):
        spec = named(everything())[kind, policy]
        assert spec["matchResources"]["namespaceSelector"]["matchExpressions"] == [
            {"key": CLUSTER_LABEL, "operator": "Exists"},
            {"key": AGENT_LABEL, "operator": "In", "values": ["agent-1"]},
        ]


def test_the_probe_concerns_one_name_in_the_namespace_of_the_agent() -> None:
    for kind, policy in (
        ("ValidatingAdmissionPolicyBinding", OWNER.name(admission.PLACEMENT)),
        ("MutatingAdmissionPolicyBinding", OWNER.name(admission.SELECTOR)),
    ):
        match = named(everything())[kind, f"probe.{policy}"]["matchResources"]
        probe = admission.probe_pod(OWNER, policy)["metadata"]
        [rule] = match["resourceRules"]
        assert rule["resourceNames"] == [probe["name"]]
        own = match["namespaceSelector"]["matchLabels"]
        assert own == {"kubernetes.io/metadata.name": probe["namespace"]}


def test_only_validating_bindings_say_what_to_do() -> None:
    assert len({obj["kind"] for obj in everything()}) == 4
    for obj in everything():
        actions = obj["spec"].get("validationActions")
        wanted = ["Deny"] if obj["kind"] == "ValidatingAdmissionPolicyBinding" else None
        assert actions == wanted


@pytest.mark.parametrize("version", VERSIONS["MutatingAdmissionPolicy"])
def test_mutating_policies_are_written_in_the_version_that_is_served(version: str) -> None:
    desired = desired_policies(OWNER, {MUTATING: version})
    mutating = [obj for obj in desired if obj["kind"].startswith("Mutating")]
    found = {obj["apiVersion"] for obj in mutating}
    assert found == {f"admissionregistration.k8s.io/{version}"}


def test_updates_by_subresources_are_matched_wherever_updates_are() -> None:
    for (kind, name), spec in named(everything()).items():
        if kind.endswith("Binding"):
            continue
        rules = spec["matchConstraints"]["resourceRules"]
        by_part = {each for rule in rules for each in rule["resources"] if "/" in each}
        for rule in rules:
            if "UPDATE" in rule["operations"]:
                whole = [each for each in rule["resources"] if "/" not in each]
                assert {f"{each}/*" for each in whole} <= by_part, name


def test_metadata_of_a_claimed_namespace_is_for_who_may_update_all_namespaces() -> None:
    spec = named(everything())["ValidatingAdmissionPolicy", OWNER.name(admission.CLAIMS)]
    _, metadata, finalizers = spec["validations"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    assert metadata["expression"] == (
        "!variables.claimed || request.operation != 'UPDATE' || variables.same_metadata"
        " || variables.is_hosts"
    )
    for verb in ("update", "patch"):  # of no namespace by name, so that no RoleBinding counts
        asked = f"authorizer.group('').resource('namespaces').check('{verb}').allowed()"
        assert asked in variables["is_hosts"]
    assert finalizers["expression"].endswith(
        "object.spec == oldObject.spec) || variables.finalizes"
    )
    asked = "authorizer.group('').resource('namespaces').subresource('finalize').check('update')"
    assert variables["finalizes"] == f"{asked}.allowed()"
    for field in ("labels", "annotations"):
        assert f"variables.old_{field} == variables.new_{field}" in variables["same_metadata"]
    for field in ("finalizers", "ownerReferences"):
        same = f"object.metadata.{field} == oldObject.metadata.{field}"
        assert same in variables["same_metadata"]


def test_no_selector_hides_a_namespace_whose_labels_are_taken_off() -> None:
    for (kind, name), spec in named(everything()).items():
        if kind.startswith("Validating") and name == OWNER.name(admission.CLAIMS):
            assert "namespaceSelector" not in spec.get("matchConstraints", {})
            assert "matchResources" not in spec


def test_the_agent_itself_is_exempt_whatever_its_name() -> None:
    owner = PolicyOwner("agent-1", "agents", "it's \\ me")
    [condition] = named(everything(owner))[
        "ValidatingAdmissionPolicy", owner.name(admission.CLAIMS)
    ]["matchConditions"]
    assert condition["expression"] == (
        "request.userInfo.username != 'it\\'s \\\\ me' || request.name == 'agents'"
    )


@pytest.mark.parametrize("user", [OWNER.user, "it's \\ me", "a' || b", "\\"])
def test_the_account_of_the_agent_can_be_read_from_its_policy(user: str) -> None:
    owner = PolicyOwner("agent-1", "agents", user)
    found = {
        obj["metadata"]["name"]: protected_user(obj)
        for obj in everything(owner)
        if obj["kind"] == "ValidatingAdmissionPolicy"
    }
    assert found[owner.name(admission.CLAIMS)] == user
    assert found[owner.name(admission.PLACEMENT)] == ""


def test_a_policy_that_says_something_else_names_no_account() -> None:
    for conditions in ([], [{"name": "not-the-agent", "expression": "true"}], [{"name": "x"}]):
        assert protected_user({"spec": {"matchConditions": conditions}}) == ""


def test_the_agent_may_not_claim_its_own_namespace() -> None:
    patch = admission.probe_claim(OWNER)
    assert patch["metadata"]["labels"] == {CLUSTER_LABEL: "probe", AGENT_LABEL: "agent-1"}


def test_policies_of_the_same_agent_are_the_same() -> None:
    assert everything() == everything(PolicyOwner("agent-1", "agents", OWNER.user))


def test_every_pod_of_a_probe_is_allowed_in_the_strictest_namespaces() -> None:
    spec = admission.bare_pod("probe", "edge", {"a": "b"})["spec"]
    assert spec["nodeSelector"] == {"a": "b"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    [container] = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_what_a_policy_was_made_for_can_be_read_from_it() -> None:
    owner = PolicyOwner("a", "n", "u", ("x", "y"), ("branch",), ("s",), ("n/pods/p",), ("E/s/x",))
    assert owner_of(everything(owner)[0]) == owner
    for broken in ({}, {"metadata": {"annotations": {f"{AGENT_LABEL}": "[1"}}}):
        assert owner_of(broken) is None


def test_any_change_of_a_policy_is_seen_and_what_a_server_fills_in_is_none() -> None:
    for wanted in everything():
        spec = dict(wanted["spec"])
        for field in ("matchConstraints", "matchResources"):
            if field in spec:
                filled = {"matchPolicy": "Equivalent", "objectSelector": {}}
                spec[field] = {"namespaceSelector": {}, **filled, **spec[field]}
        assert is_as_wanted(wanted, {**wanted, "spec": spec})
        added = {**spec, "matchConditions": [{"name": "never", "expression": "false"}]}
        assert not is_as_wanted(wanted, {**wanted, "spec": added})
        metadata = {**wanted["metadata"], "labels": {}}
        assert not is_as_wanted(wanted, {**wanted, "spec": spec, "metadata": metadata})


def test_the_agent_is_confined_for_every_kind_and_only_for_its_own_account() -> None:
    name = OWNER.name(admission.CONFINES)
    spec = named(everything())["ValidatingAdmissionPolicy", name]
    [rule] = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["*/*"], ["*"])
    assert (
        spec["matchConditions"][0]["expression"] == f"request.userInfo.username == '{OWNER.user}'"
    )
    assert "matchResources" not in named(everything())["ValidatingAdmissionPolicyBinding", name]


def test_nodes_report_addresses_of_the_networks_of_pods_alone() -> None:
    policy = OWNER.name("pod-addresses")
    for cidrs, ranges, ipv6 in (
        ((), "[[0, 4294967295]]", "true"),
        (
            ("10.244.0.0/16", "192.0.2.7/32"),
            "[[183762944, 183828479], [3221225991, 3221225991]]",
            "false",
        ),
        (
            ("10.244.0.0/16", "fd00::/64"),
            "[[183762944, 183828479]]",
            "!ip.lowerAscii().matches('^[0:]+ffff:')",
        ),
    ):
        owner = replace(OWNER, pod_cidrs=cidrs)
        spec = named(everything(owner))["ValidatingAdmissionPolicy", policy]
        [validation] = spec["validations"]
        assert f"{ranges}.exists(r," in validation["expression"]
        assert f"contains(':') ? {ipv6} :" in validation["expression"]


def test_mirror_pods_are_looked_at_wherever_no_virtual_cluster_is() -> None:
    found = named(everything())
    binding = found["ValidatingAdmissionPolicyBinding", OWNER.name("node-pods")]
    assert binding["matchResources"]["namespaceSelector"]["matchExpressions"] == [
        {"key": CLUSTER_LABEL, "operator": "DoesNotExist"}
    ]
    own, labels, name = found["ValidatingAdmissionPolicy", OWNER.name("node-pods")]["validations"]
    assert own["expression"] == "request.namespace != 'agents'"
    assert labels["expression"].endswith("all(k, k in ['component', 'tier'])")
    assert name["expression"].endswith("endsWith('-' + object.spec.nodeName.lowerAscii())")


def test_controllers_of_kubernetes_may_bind_claims_and_not_make_them() -> None:
    spec = named(everything())["ValidatingAdmissionPolicy", OWNER.name("volume-node")]
    rule = spec["validations"][0]["expression"]
    by_anyone, _, of_updates = rule.partition(" || oldObject != null && (")
    assert by_anyone == f"variables.volume == '' || request.userInfo.username == '{OWNER.user}'"
    updates, _, by_name = of_updates.partition(" || variables.homes.exists(")
    assert "startsWith('system:serviceaccount:kube-system:')" in updates
    assert "kube-system" not in by_name


def test_only_schedulers_select_the_node_of_a_claim_by_either_annotation() -> None:
    spec = named(everything())["ValidatingAdmissionPolicy", OWNER.name("volume-node")]
    rule = spec["validations"][1]["expression"]
    for version in ("", "alpha."):
        assert f"'volume.{version}kubernetes.io/selected-node'" in rule


def test_nodes_choose_no_addresses_of_pods_not_as_they_register_either() -> None:
    spec = named(everything())["ValidatingAdmissionPolicy", OWNER.name("group-labels")]
    assert spec["matchConstraints"]["resourceRules"][0]["operations"] == ["CREATE", "UPDATE"]
    labels, addresses, network, *_ = (each["expression"] for each in spec["validations"])
    assert labels.startswith("oldObject == null || ")
    assert addresses.startswith("!has(object.spec.podCIDRs) || object.spec.podCIDRs.size() == 0")
    assert "oldObject == null" not in network


def test_nodes_write_no_labels_that_networks_read_and_no_finalizers_but_as_they_register() -> None:
    spec = named(everything())["ValidatingAdmissionPolicy", OWNER.name("group-labels")]
    *_, labels, finalizers, _, _ = (each["expression"] for each in spec["validations"])
    assert labels.startswith("oldObject == null || variables.new_labels.all(k, !(")
    assert "'svccontroller.k3s.cattle.io/'" in labels
    assert "object.metadata.finalizers == oldObject.metadata.finalizers" in finalizers


def test_nodes_stay_the_machine_that_they_are() -> None:
    spec = named(everything())["ValidatingAdmissionPolicy", OWNER.name("group-labels")]
    *_, machine, name = (each["expression"] for each in spec["validations"])
    assert machine.startswith("oldObject == null || (has(object.spec.providerID)")
    assert "variables.new_labels['kubernetes.io/hostname'] == object.metadata.name" in name


def test_nodes_publish_devices_in_pools_of_their_own() -> None:
    found = named(everything())
    spec = found["ValidatingAdmissionPolicy", OWNER.name("node-devices")]
    rule, _ = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["apiVersions"]) == (["resourceslices"], ["*"])
    [pool] = (each["expression"] for each in spec["validations"])
    assert pool.endswith("object.spec.pool.name.startsWith(object.spec.nodeName + '/'))")
    binding = found["ValidatingAdmissionPolicyBinding", OWNER.name("node-devices")]
    assert "matchResources" not in binding
