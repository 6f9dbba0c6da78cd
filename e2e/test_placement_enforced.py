"""What nobody translated stays on the group's nodes all the same, and claims stay the agent's."""

import os
import time
from dataclasses import dataclass
from datetime import datetime

import pytest

from control_planes.tools import KUBERNETES, default_minor
from e2e.escapes.attempt import serves_mutating_policies
from e2e.lab import accounts, objects
from e2e.lab.api import Api, ApiError, Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES, POLICIES
from e2e.lab.lab import AGENT_LABEL, NODES, Group, Lab
from e2e.lab.lone_server import HOST_KUBERNETES, lone_api_server
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.works import condition
from karmada_vc_agent.commands.shared import CommandError

DOMAIN = "virtualcluster.kubeedge.io"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
POLICY, BINDING = POLICIES[1], POLICIES[0]
NOT_CONFINED = ("False", "PoliciesNotServed")
REPORTED_S = 30.0
"""At once, on a busy machine."""
PLUGIN = "--enable-admission-plugins=PodNodeSelector"
NO_POLICIES = "--runtime-config=admissionregistration.k8s.io/v1=false"
WITHOUT_THEIR_PLUGINS = (
    "--disable-admission-plugins="
    "ValidatingAdmissionPolicy,ValidatingAdmissionWebhook,MutatingAdmissionWebhook"
)
PLUGIN_REFUSES = "pod node label selector conflicts with its namespace node label selector"
ADVICE = "pod must select the nodes of its virtual cluster: add nodeSelector"


def test_the_cluster_says_what_holds_its_pods_and_an_administrator_what_else_to_do(
    lab: Lab,
) -> None:
    group = lab.group("a")
    lab.serve(group)
    message = _wait_enforced(lab, group.name, "True", "PodsKept")["message"]
    assert message.startswith("enforced by ")
    assert "ValidatingAdmissionPolicy" in message
    path = f"{NAMESPACES}/{_claimed_namespace(lab, group)}"
    with pytest.raises(ApiError) as raised:
        lab.host.delete(path)
    assert f"belongs to karmada-vc-agent {lab.id}: delete the namespace on the hub" in str(
        raised.value
    )
    policy = f"ValidatingAdmissionPolicy namespace-claims.{lab.id}.{DOMAIN}"
    assert f"run karmada-vc-agent leave, or first remove {policy}" in str(raised.value)
    lab.host.patch(path, {"metadata": {"labels": {"team": "edge"}}})


# --- pods -------------------------------------------------------------------------------


def test_an_older_pod_can_end_after_the_selector_changed(lab: Lab) -> None:
    """Who only takes a finalizer off, or changes a label, is not asked for the new selector."""
    group = lab.group("a")
    agent = lab.serve(group)
    namespace = _protected_namespace(lab, group)
    older = _pod(namespace, nodeSelector=group.selector)
    older["metadata"]["finalizers"] = [f"{lab.id}/wait"]
    path = path_of(lab.host.create(older))
    selector = {"matchLabels": group.selector | {lab.disk: "ssd"}}
    agent.settings["virtualClusters"][0]["nodeSelector"] = selector
    agent.terminate()
    agent.start()

    def look() -> None:
        newer = _pod(namespace, "newer", nodeSelector=group.selector)
        if serves_mutating_policies(lab.host):
            placed = lab.host.create(newer)
            lab.host.delete(path_of(newer), force=True)
            assert placed["spec"]["nodeSelector"] == group.selector | {lab.disk: "ssd"}
            return
        assert f"{ADVICE} {lab.disk}=ssd,{lab.label}=a" in lab.host.refusal(newer)

    within(PERIODIC_S, look)
    lab.host.patch(path, {"metadata": {"labels": {"touched": "yes"}}})
    lab.host.delete(path, force=True)
    lab.host.patch(path, {"metadata": {"finalizers": None}})

    def look_deleted() -> None:
        assert lab.host.find(path) is None

    within(PERIODIC_S, look_deleted)


@pytest.mark.smoke
def test_a_claimed_namespace_that_names_no_nodes_gets_no_pods(lab: Lab) -> None:
    """As one from which somebody took the annotation while no policy was there."""
    group = lab.group("a")
    nowhere = objects.namespace(f"{lab.id}-nowhere")
    labels = {"cluster": f"{lab.id}-gone", "namespace": "x", "agent": lab.id}
    nowhere["metadata"]["labels"] = {f"{DOMAIN}/{key}": value for key, value in labels.items()}
    lab.host.create(nowhere)
    lab.serve(group)
    _protected_namespace(lab, group)

    def look() -> None:
        refusal = lab.host.refusal(_pod(f"{lab.id}-nowhere", nodeSelector=group.selector))
        assert "the namespace does not specify its nodes" in refusal

    within(PERIODIC_S, look)


def test_namespaces_of_another_agent_are_left_alone(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    _protected_namespace(lab, group)
    theirs = objects.namespace(f"{lab.id}-theirs")
    labels = {"cluster": group.name, "namespace": "x", "agent": f"{lab.id}-other"}
    theirs["metadata"]["labels"] = {f"{DOMAIN}/{key}": value for key, value in labels.items()}
    lab.host.create(theirs)
    try:
        pod = _pod(theirs["metadata"]["name"])
        within(PERIODIC_S, lab.host.create, pod)
    finally:
        lab.host.delete(path_of(theirs))


# --- the policies themselves ------------------------------------------------------------


def test_deleted_or_weak_policies_are_reported_until_join_restores_them(lab: Lab) -> None:
    """They are the administrator's: the agent, which they confine, could not write them."""
    group = lab.group("a")
    agent = lab.serve(group)
    namespace = _protected_namespace(lab, group)
    before = {path: lab.host.get(path)["spec"] for path in _policies(lab)}
    assert before
    policy, binding = (f"{place}/pod-placement.{lab.id}.{DOMAIN}" for place in (POLICY, BINDING))
    lab.host.delete(f"{POLICY}/agent-confines.{lab.id}.{DOMAIN}")
    lab.host.patch(policy, {"spec": {"failurePolicy": "Ignore", "validations": [_ALL_IS_WELL]}})
    lab.host.patch(binding, {"spec": {"validationActions": ["Audit"]}})
    confined = _wait_condition(lab, group.name, "RightsConfined", "False", "PolicyMissing")
    assert f"agent-confines.{lab.id}.{DOMAIN} does not exist: run" in confined["message"]
    enforced = _wait_enforced(lab, group.name, "False", "PolicyChanged")
    assert f"pod-placement.{lab.id}.{DOMAIN} was changed" in enforced["message"]
    within(PERIODIC_S, _assert_reported, lab, group.name, "PolicyMissing")
    account = lab.host.acting_as(agent.account)
    for act in (account.delete, lambda path: account.patch(path, {"spec": before[path]})):
        with pytest.raises(ApiError) as raised:
            act(policy)
        assert raised.value.code == 403
    agent.join()
    _wait_policies(lab, before)
    _wait_condition(lab, group.name, "RightsConfined", "True", "PoliciesInPlace")
    _protected_namespace(lab, group)
    within(
        PERIODIC_S, _assert_refused, lab, _pod(namespace, nodeSelector={lab.label: "other"})
    )  # API servers read policies a moment later


def test_policy_of_another_writer_is_left_by_join(lab: Lab) -> None:
    agent = lab.new_agent(lab.group("a"))
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
        with pytest.raises(CommandError, match="was not created by this agent's join"):
            agent.join()
        left = lab.host.get(path_of(theirs))["metadata"]["generation"]
        assert left == made["metadata"]["generation"]
    finally:
        lab.host.delete(path_of(theirs))


def test_an_agent_that_may_not_read_policies_says_which_rule_it_lacks_and_serves(lab: Lab) -> None:
    group = lab.group("a")
    home = f"{lab.id}-agent"
    lab.host.create(objects.namespace(home))
    narrow = accounts.service_account(lab.host, home, "narrow", lab.directory)
    rules: list[Object] = [
        {
            "apiGroups": ["", "apps", "coordination.k8s.io", accounts.RBAC],
            "resources": ["*"],
            "verbs": ["*"],
        },
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    role = accounts.cluster_role(home, *rules)
    binding = accounts.cluster_role_binding(home, accounts.subject(home, "narrow"))
    for obj in (role, binding):
        lab.host.create(obj)
    try:
        lab.serve(group, host=narrow.kubeconfig, is_admin=True)
        message = _wait_enforced(lab, group.name, "False", "ReadingForbidden")["message"]
        assert "add to its ClusterRole {apiGroups: [admissionregistration.k8s.io]" in message
        template = objects.config_map(lab.namespace())
        lab.propagate([template], group)
        lab.on_host(template, group)
    finally:
        for obj in (binding, role):
            lab.host.delete(path_of(obj))


@dataclass(frozen=True)
class Admission:
    """What a host adds by itself.

    refusal: of a pod that selects other nodes. since, until: minor versions that can be so.
    """

    flags: tuple[str, ...]
    message: str
    refusal: str
    with_policies: bool = True
    since: int = 0
    until: int = 99


_ADMISSIONS = {
    "plugin": Admission(
        (PLUGIN,),
        "enforced by PodNodeSelector, ",
        PLUGIN_REFUSES,
    ),
    "plugin-alone": Admission(
        (PLUGIN, NO_POLICIES, WITHOUT_THEIR_PLUGINS),
        "enforced by PodNodeSelector; the host does not serve ValidatingAdmissionPolicy",
        PLUGIN_REFUSES,
        with_policies=False,
        until=35,
    ),
    "mutating-policy": Admission(
        (
            "--feature-gates=MutatingAdmissionPolicy=true",
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        ),
        "enforced by MutatingAdmissionPolicy, ValidatingAdmissionPolicy",
        ADVICE,
        since=34,
    ),
}


@pytest.mark.parametrize("name", _ADMISSIONS)
def test_a_host_that_adds_the_selector_itself_is_recognised(lab: Lab, name: str) -> None:
    """Then pods of operators run, on the group's nodes; other nodes are refused all the same."""
    admission = _ADMISSIONS[name]
    minor = (os.environ.get(HOST_KUBERNETES) or default_minor(KUBERNETES)).partition(".")[2]
    if not admission.since <= int(minor) <= admission.until:
        pytest.skip(f"no host of 1.{minor} is like this")
    group = Group(f"{lab.id}-a", {lab.label: "a"})
    controllers = "replicaset-controller"
    with lone_api_server(
        lab.directory / "server", *admission.flags, controllers=controllers
    ) as server:
        agent = lab.serve(group, own_host=server.kubeconfig)

        def look() -> None:
            enforced = condition(lab.cluster(group.name), "PlacementEnforced")
            assert enforced["status"] == "True", enforced
            assert enforced["message"].startswith(admission.message)
            confined = condition(lab.cluster(group.name), "RightsConfined")
            wanted = ("True", "PoliciesInPlace") if admission.with_policies else NOT_CONFINED
            assert (confined["status"], confined["reason"]) == wanted

        within(PERIODIC_S, look)
        namespace = group.host_namespace("default")
        bare = server.create(_pod(namespace))
        assert bare["spec"]["nodeSelector"] == group.selector
        pod = server.create(_pod(namespace, "more", nodeSelector={"disk": "ssd"}))
        assert pod["spec"]["nodeSelector"] == {"disk": "ssd"} | group.selector
        elsewhere = _pod(namespace, "elsewhere", nodeSelector={lab.label: "b"})
        assert admission.refusal in server.refusal(elsewhere)
        named = server.refusal(_pod(namespace, "named", nodeName="foreign"))
        assert ("spec.nodeName must not be set" in named) is admission.with_policies
        server.create(objects.deployment(namespace, replicas=1) | {"kind": "ReplicaSet"})
        within(PERIODIC_S, _is_made_with, server, namespace, group.selector)
        agent.kill()


def _is_made_with(server: Api, namespace: str, selector: dict[str, str]) -> None:
    pods = server.list(collection("v1", "Pod", namespace), "app=web")
    assert [pod["spec"]["nodeSelector"] for pod in pods] == [selector]


# --- escapes ----------------------------------------------------------------------------


def test_a_pod_bound_to_a_foreign_node_is_reported_on_its_cluster(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    agent = lab.serve(group, other)
    _wait_enforced(lab, group.name, "True", "PodsKept")
    agent.settings["installPolicies"] = False
    agent.terminate()
    agent.start()
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
        f'pod default/probe runs on a node outside of virtual cluster "{group.name}"; the agent '
        "leaves it alone: delete the pod, or return its node to the group"
    )


def test_pods_of_a_node_that_leaves_the_group_are_reported_on_their_work(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other)
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


def _claimed_namespace(lab: Lab, group: Group) -> str:
    """Return the namespace that every virtual cluster has, once pods can be made in it."""
    name = group.host_namespace("default")
    within(PERIODIC_S, lab.host.get, f"{collection('v1', 'ServiceAccount', name)}/default")
    return name


def _protected_namespace(lab: Lab, group: Group) -> str:
    """Return a claimed namespace once the policies are in effect."""
    _wait_enforced(lab, group.name, "True", "PodsKept")
    return _claimed_namespace(lab, group)


def _wait_enforced(lab: Lab, cluster: str, status: str, reason: str) -> Object:
    return _wait_condition(lab, cluster, "PlacementEnforced", status, reason)


def _wait_condition(lab: Lab, cluster: str, kind: str, status: str, reason: str) -> Object:
    def look() -> Object:
        found = condition(lab.cluster(cluster), kind)
        assert (found["status"], found["reason"]) == (status, reason), found
        return found

    return within(PERIODIC_S, look)


def _assert_reported(lab: Lab, cluster: str, reason: str) -> None:
    events = lab.hub.list(collection("v1", "Event", "default"))
    assert [
        event
        for event in events
        if (event["reason"], event["involvedObject"]["name"]) == (reason, cluster)
    ]


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

    within(PERIODIC_S, look)


def _assert_refused(lab: Lab, pod: Object) -> None:
    assert ADVICE in lab.host.refusal(pod)


def _pod(namespace: str, name: str = "probe", **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "app", "image": objects.IMAGE}]} | spec,
    }


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

    event = within(PERIODIC_S, look)
    told_at = datetime.fromisoformat(event["firstTimestamp"]).timestamp()
    assert told_at - since <= REPORTED_S
    return event
