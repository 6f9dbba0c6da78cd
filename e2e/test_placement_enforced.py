"""What nobody translated stays on the group's nodes all the same, and claims stay the agent's."""

import copy
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from e2e.lab import accounts, objects
from e2e.lab.api import Api, ApiError, Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES, POLICIES
from e2e.lab.lab import AGENT_LABEL, NODES, Group, Lab
from e2e.lab.lone_server import lone_api_server
from e2e.lab.wait import eventually
from e2e.lab.works import condition

DOMAIN = "virtualcluster.kubeedge.io"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
POLICY, BINDING = POLICIES[1], POLICIES[0]
REPORTED_S = 5.0
ADVICE = "pod must select the nodes of its virtual cluster: add nodeSelector"


def test_the_cluster_says_what_holds_its_pods(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, installPolicies=True)
    message = _wait_enforced(lab, group.name, "True", "PodsKept")["message"]
    assert message.startswith("held by ")
    assert "ValidatingAdmissionPolicy" in message


# --- pods -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        pytest.param({}, ADVICE, id="bare"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, ADVICE, id="another-selector"),
        pytest.param({"nodeName": "{foreign}"}, ADVICE, id="foreign-node-by-name"),
        pytest.param(
            {"nodeName": "{foreign}", "nodeSelector": "{required}"},
            "pod must not name its node",
            id="foreign-node-by-name-with-the-selector",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "In",
                                            "values": ["{foreign}"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                },
                "tolerations": [{"operator": "Exists"}],
            },
            ADVICE,
            id="foreign-node-by-affinity",
        ),
    ],
)
def test_a_pod_that_could_run_elsewhere_is_refused(lab: Lab, spec: Object, answer: str) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    filled = _filled(spec, {"{foreign}": other.nodes[0], "{required}": group.selector})
    with pytest.raises(ApiError, match=answer):
        lab.host.create(_pod(namespace, **filled))


def test_a_pod_that_selects_the_nodes_runs_there(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    pod = lab.host.create(_pod(namespace, nodeSelector=group.selector))

    def look() -> None:
        assert lab.host.get(path_of(pod))["spec"]["nodeName"] == group.nodes[0]

    eventually(look)


def test_what_makes_pods_without_the_selector_is_told_what_to_add(lab: Lab) -> None:
    """As an operator does: a ReplicaSet made on the host, which the agent never saw."""
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    made = lab.host.create(_replica_set(namespace))

    def look() -> None:
        failure = condition(lab.host.get(path_of(made)), "ReplicaFailure")
        assert failure["reason"] == "FailedCreate"
        assert f"{ADVICE} {lab.label}=a" in failure["message"]

    eventually(look)
    assert lab.pods(namespace) == []
    template = {"spec": {"template": {"spec": {"nodeSelector": group.selector}}}}
    lab.host.patch(path_of(made), template)

    def look_again() -> None:
        nodes = [pod["spec"].get("nodeName") for pod in lab.pods(namespace)]
        assert nodes == group.nodes

    eventually(look_again)


def test_an_older_pod_can_end_after_the_selector_changed(lab: Lab) -> None:
    """Who only takes a finalizer off, or changes a label, is not asked for the new selector."""
    group = lab.group("a")
    agent = lab.serve(group, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    older = _pod(namespace, nodeSelector=group.selector)
    older["metadata"]["finalizers"] = [f"{lab.id}/wait"]
    path = path_of(lab.host.create(older))
    selector = {"matchLabels": group.selector | {lab.disk: "ssd"}}
    agent.settings["virtualClusters"][0]["nodeSelector"] = selector
    agent.restart()

    def look() -> None:
        newer = _pod(namespace, "newer", nodeSelector=group.selector)
        assert f"{ADVICE} {lab.disk}=ssd,{lab.label}=a" in lab.host.refusal(newer)

    eventually(look)
    lab.host.patch(path, {"metadata": {"labels": {"touched": "yes"}}})
    lab.host.delete(path, force=True)
    lab.host.patch(path, {"metadata": {"finalizers": None}})

    def look_gone() -> None:
        assert lab.host.find(path) is None

    eventually(look_gone)


def test_namespaces_of_another_agent_are_left_alone(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, installPolicies=True)
    _protected_namespace(lab, group)
    theirs = objects.namespace(f"{lab.id}-theirs")
    labels = {"cluster": group.name, "namespace": "x", "agent": f"{lab.id}-other"}
    theirs["metadata"]["labels"] = {f"{DOMAIN}/{key}": value for key, value in labels.items()}
    lab.host.create(theirs)
    try:
        pod = _pod(theirs["metadata"]["name"])
        eventually(lab.host.create, pod)
    finally:
        lab.host.delete(path_of(theirs))


# --- claims -----------------------------------------------------------------------------


def _relabel(tenant: Api, path: str, live: Object) -> None:
    tenant.patch(path, {"metadata": {"labels": {f"{DOMAIN}/cluster": "another"}}})


def _drop_labels(tenant: Api, path: str, live: Object) -> None:
    tenant.patch(path, {"metadata": {"labels": None}})


def _change_agent(tenant: Api, path: str, live: Object) -> None:
    tenant.patch(path, {"metadata": {"labels": {AGENT_LABEL: "another"}}})


def _drop_selector(tenant: Api, path: str, live: Object) -> None:
    tenant.patch(path, {"metadata": {"annotations": {SELECTOR: None}}})


def _change_selector(tenant: Api, path: str, live: Object) -> None:
    tenant.patch(path, {"metadata": {"annotations": {SELECTOR: "kubernetes.io/os=linux"}}})


def _claim_to_be_adopted(tenant: Api, path: str, live: Object) -> None:
    tenant.patch(path, {"metadata": {"annotations": {f"{DOMAIN}/adopted": "true"}}})


def _relabel_through_status(tenant: Api, path: str, live: Object) -> None:
    live["metadata"]["labels"][f"{DOMAIN}/cluster"] = "another"
    tenant.replace(f"{path}/status", live)


def _relabel_through_finalize(tenant: Api, path: str, live: Object) -> None:
    live["metadata"]["labels"][f"{DOMAIN}/cluster"] = "another"
    tenant.replace(f"{path}/finalize", live)


def _delete(tenant: Api, path: str, live: Object) -> None:
    tenant.delete(path)


@pytest.mark.parametrize(
    "attempt",
    [
        _relabel,
        _drop_labels,
        _change_agent,
        _drop_selector,
        _change_selector,
        _claim_to_be_adopted,
        _relabel_through_status,
        _relabel_through_finalize,
        _delete,
    ],
)
def test_a_tenant_with_all_rights_in_its_namespace_cannot_change_the_claim(
    lab: Lab, attempt: Callable[[Api, str, Object], None]
) -> None:
    """For RBAC a Namespace lies in itself: cluster-admin bound in it may patch and delete it."""
    group = lab.group("a")
    lab.serve(group, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    tenant = accounts.service_account(lab.host, namespace, "tenant", lab.directory)
    subject = accounts.subject(namespace, "tenant")
    lab.host.create(accounts.role_binding(namespace, "cluster-admin", subject))
    path = f"{NAMESPACES}/{namespace}"

    def may_write() -> None:
        tenant.patch(path, {"metadata": {"annotations": {"owner": "tenant"}}})

    eventually(may_write)
    before = lab.host.get(path)
    with pytest.raises(ApiError, match="delete the namespace on the hub"):
        attempt(tenant, path, copy.deepcopy(before))
    after = lab.host.get(path)
    assert after["metadata"] == before["metadata"]


def test_nobody_else_makes_a_namespace_that_looks_claimed(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    creator = accounts.service_account(lab.host, namespace, "creator", lab.directory)
    name = f"{lab.id}-creator"
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "get"]}
    role = accounts.cluster_role(name, rule)
    binding = accounts.cluster_role_binding(name, accounts.subject(namespace, "creator"))
    claimed = objects.namespace(f"{lab.id}-fake")
    for obj in (role, binding):
        lab.host.create(obj)
    try:
        label = {f"{DOMAIN}/cluster": group.name}
        for labels in (label, label | {AGENT_LABEL: lab.id}):
            claimed["metadata"]["labels"] = labels

            def look() -> None:
                assert "the claim on namespace" in creator.refusal(claimed)

            eventually(look)
    finally:
        for obj in (binding, role):
            lab.host.delete(path_of(obj))


# --- the policies themselves ------------------------------------------------------------


def test_policies_that_are_deleted_or_changed_come_back(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, installPolicies=True)
    namespace = _protected_namespace(lab, group)
    before = {path: lab.host.get(path)["spec"] for path in _policies(lab)}
    assert len(before) == 5
    for path in before:
        lab.host.delete(path)
    _wait_policies(lab, before)
    policy, binding = (f"{place}/pod-placement.{lab.id}.{DOMAIN}" for place in (POLICY, BINDING))
    lab.host.patch(policy, {"spec": {"failurePolicy": "Ignore", "validations": [_ALL_IS_WELL]}})
    lab.host.patch(binding, {"spec": {"validationActions": ["Audit"]}})
    lab.host.patch(
        f"{POLICY}/namespace-claims.{lab.id}.{DOMAIN}",
        {"metadata": {"labels": None}, "spec": {"matchConditions": [_NEVER]}},
    )
    _wait_policies(lab, before)

    def look() -> None:
        assert ADVICE in lab.host.refusal(_pod(namespace))

    eventually(look)


def test_a_policy_that_somebody_else_made_is_reported_and_left(lab: Lab) -> None:
    group = lab.group("a")
    theirs: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"pod-placement.{lab.id}.{DOMAIN}"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [f"{lab.id}.example"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["widgets"],
                    }
                ]
            },
            "validations": [_ALL_IS_WELL],
        },
    }
    made = lab.host.create(theirs)
    try:
        lab.serve(group, installPolicies=True)
        message = _wait_enforced(lab, group.name, "False", "ForeignPolicy")["message"]
        assert f"{theirs['metadata']['name']} was not made by agent {lab.id}" in message
        left = lab.host.get(path_of(theirs))["metadata"]["generation"]
        assert left == made["metadata"]["generation"]
    finally:
        lab.host.delete(path_of(theirs))
    _wait_enforced(lab, group.name, "True", "PodsKept")


def test_an_agent_that_may_not_install_says_which_rule_it_lacks_and_serves(lab: Lab) -> None:
    group = lab.group("a")
    home = f"{lab.id}-agent"
    lab.host.create(objects.namespace(home))
    narrow = accounts.service_account(lab.host, home, "narrow", lab.directory)
    rules: list[Object] = [
        {"apiGroups": ["", "apps", "coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    role = accounts.cluster_role(home, *rules)
    binding = accounts.cluster_role_binding(home, accounts.subject(home, "narrow"))
    for obj in (role, binding):
        lab.host.create(obj)
    try:
        lab.serve(group, host=narrow.kubeconfig, is_admin=True, installPolicies=True)
        message = _wait_enforced(lab, group.name, "False", "InstallationForbidden")["message"]
        assert "add to its ClusterRole {apiGroups: [admissionregistration.k8s.io]" in message
        template = objects.config_map(lab.namespace())
        lab.propagate([template], group)
        lab.on_host(template, group)
        allowed = {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": [
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
            ],
            "verbs": ["get", "list", "watch", "create", "update"],
        }
        lab.host.patch(path_of(role), {"rules": [*rules, allowed]})
        _wait_enforced(lab, group.name, "True", "PodsKept")
    finally:
        for obj in (binding, role):
            lab.host.delete(path_of(obj))


@pytest.mark.parametrize(
    ("flags", "layers"),
    [
        pytest.param(
            ("--enable-admission-plugins=PodNodeSelector",),
            "PodNodeSelector, ValidatingAdmissionPolicy",
            id="plugin",
        ),
        pytest.param(
            (
                "--feature-gates=MutatingAdmissionPolicy=true",
                "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
            ),
            "MutatingAdmissionPolicy, ValidatingAdmissionPolicy",
            id="mutating-policy",
        ),
    ],
)
def test_a_host_that_adds_the_selector_itself_is_recognised(
    lab: Lab, flags: tuple[str, ...], layers: str
) -> None:
    group = Group(f"{lab.id}-a", {lab.label: "a"})
    with lone_api_server(lab.directory / "server", *flags) as server:
        agent = lab.serve(group, host=server.kubeconfig, is_admin=True, installPolicies=True)

        def look() -> None:
            enforced = condition(lab.cluster(group.name), "PlacementEnforced")
            assert enforced["message"] == f"held by {layers}"

        eventually(look)
        pod = server.create(_pod(group.host_namespace("default"), nodeSelector={"disk": "ssd"}))
        assert pod["spec"]["nodeSelector"] == {"disk": "ssd"} | group.selector
        agent.kill()


# --- escapes ----------------------------------------------------------------------------


def test_a_pod_bound_to_a_foreign_node_is_reported_on_its_cluster(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other, installPolicies=False)
    enforced = _wait_enforced(lab, group.name, "False", "InstallationDisabled")
    assert "set it to true" in enforced["message"]
    assert _policies(lab) == []
    namespace = _claimed_namespace(lab, group)
    pod = lab.host.create(_pod(namespace, schedulerName="nobody"))
    bound_at = time.time()
    lab.host.post(f"{path_of(pod)}/binding", _bind(pod, other.nodes[0]))
    event = _wait_escape(lab, "default", group.name, bound_at)
    assert event["type"] == "Warning"
    assert event["involvedObject"]["kind"] == "Cluster"
    assert event["message"] == (
        f'pod default/probe runs on a node outside of virtual cluster "{group.name}"; nothing is '
        "done about it: delete the pod, or give its node back to the group"
    )


def test_pods_of_a_node_that_leaves_the_group_are_reported_on_their_work(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other, installPolicies=True)
    template = objects.deployment(lab.namespace(), replicas=1)
    lab.propagate([template], group)
    lab.wait_status(template, readyReplicas=1)
    [pod] = lab.pods(group.host_namespace(lab.id))
    moved_at = time.time()
    lab.host.patch(f"{NODES}/{group.nodes[0]}", {"metadata": {"labels": other.selector}})
    execution = f"karmada-es-{group.name}"
    event = _wait_escape(lab, execution, "web-", moved_at)
    assert event["involvedObject"]["kind"] == "Work"
    assert f"pod {lab.id}/{pod['metadata']['name']} runs on a node outside" in event["message"]
    assert "-v-" not in event["message"]
    [left] = lab.pods(group.host_namespace(lab.id))
    assert left["metadata"]["uid"] == pod["metadata"]["uid"]


_ALL_IS_WELL = {"expression": "true"}
_NEVER = {"name": "never", "expression": "false"}


def _claimed_namespace(lab: Lab, group: Group) -> str:
    """Return the namespace that every virtual cluster has, once pods can be made in it."""
    name = group.host_namespace("default")
    eventually(lab.host.get, f"{collection('v1', 'ServiceAccount', name)}/default")
    return name


def _protected_namespace(lab: Lab, group: Group) -> str:
    """Return a claimed namespace once the policies about pods and about claims are in effect."""
    _wait_enforced(lab, group.name, "True", "PodsKept")
    namespace = _claimed_namespace(lab, group)
    relabel = {"metadata": {"labels": {f"{DOMAIN}/cluster": "another"}}}

    def refused() -> None:
        try:
            lab.host.patch(f"{NAMESPACES}/{namespace}?dryRun=All", relabel)
        except ApiError as error:
            assert "delete the namespace on the hub" in str(error)  # noqa: PT017 - else again
            return
        raise AssertionError("the claim is not protected yet")

    eventually(refused)
    return namespace


def _wait_enforced(lab: Lab, cluster: str, status: str, reason: str) -> Object:
    def look() -> Object:
        enforced = condition(lab.cluster(cluster), "PlacementEnforced")
        assert (enforced["status"], enforced["reason"]) == (status, reason), enforced
        return enforced

    return eventually(look)


def _policies(lab: Lab) -> list[str]:
    return [
        f"{place}/{policy['metadata']['name']}"
        for place in POLICIES
        for policy in lab.host.list(place, f"{AGENT_LABEL}={lab.id}")
    ]


def _wait_policies(lab: Lab, expected: dict[str, Object]) -> None:
    def look() -> None:
        found = {path: lab.host.get(path)["spec"] for path in _policies(lab)}
        assert found == expected

    eventually(look)


def _pod(namespace: str, name: str = "probe", **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "app", "image": objects.IMAGE}]} | spec,
    }


def _replica_set(namespace: str) -> Object:
    made = objects.deployment(namespace, replicas=1)
    return made | {"kind": "ReplicaSet"}


def _bind(pod: Object, node: str) -> Object:
    """Return what a scheduler writes."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: pod["metadata"][key] for key in ("name", "namespace")},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _wait_escape(lab: Lab, namespace: str, about: str, since: float) -> Object:
    """Return the one event about an escape; it must have come in time, in whole seconds."""

    def look() -> Object:
        found = [
            event
            for event in lab.hub.list(collection("v1", "Event", namespace))
            if event["reason"] == "PodEscaped" and event["involvedObject"]["name"].startswith(about)
        ]
        assert len(found) == 1, found
        return found[0]

    event = eventually(look)
    told_at = datetime.fromisoformat(event["firstTimestamp"]).timestamp()
    assert told_at - since <= REPORTED_S
    return event


def _filled(spec: Any, values: dict[str, Any]) -> Any:
    """Return a spec with names of this test for the placeholders."""
    if isinstance(spec, dict):
        return {key: _filled(value, values) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_filled(value, values) for value in spec]
    return values.get(spec, spec)
