"""Each finding of `doctor`: what is wrong, and a next step that helps."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from karmada_vc_agent.access.agent_objects import pod_affinity
from karmada_vc_agent.cluster.host_objects import NodeTrust
from karmada_vc_agent.diagnosis import findings
from karmada_vc_agent.diagnosis.findings import Finding
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.model.vocabulary import EDGE_LABEL, MEMBERSHIP_LABEL
from tests.fakes import objects
from tests.fakes.authority import START, Authority
from tests.fakes.objects import virtual_cluster

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
JOIN = "karmada-vc-agent join --config agent.yaml --apply"
LONG_AGO = "2026-11-26T11:00:00Z"


def lines(found: object) -> list[str]:
    return [str(each) for each in found]  # type: ignore[attr-defined]


def test_a_finding_is_one_line_with_its_next_step() -> None:
    assert str(Finding("hub", "two\nlines\x1b", "act")) == "hub: two lines\\x1b; next: act"


@pytest.mark.parametrize(("ahead_s", "way"), [(9.4, "9 s ahead of"), (-61, "61 s behind")])
def test_clocks_that_differ(ahead_s: float, way: str) -> None:
    (found,) = findings.of_clock("hub", ahead_s)
    assert found.problem == f"its clock is {way} the clock here"
    assert "NTP" in found.step


def test_clocks_that_agree_but_for_the_second_of_a_header() -> None:
    assert not list(findings.of_clock("host", -1.9))


def test_rules_that_are_missing_are_named_one_by_one() -> None:
    rules = [f"+ {{verbs: [get], apiGroups: [''], resources: [r{n}]}}" for n in range(7)]
    changes = [
        "host: change ClusterRole vc-agent:a\n    .rules:\n      " + "\n      ".join(rules),
        "host: create RoleBinding a/vc-agent:a",
        'host: change Deployment a/a\n    .spec.replicas: 1 -> 2\n    .x: "a" -> "b"',
        "host: remove ClusterRole vc-agent:a:old",
    ]
    found = list(findings.of_changes("host", changes, JOIN))
    assert {each.step for each in found} == {JOIN}
    assert [each.problem for each in found] == [
        *(f"ClusterRole vc-agent:a lacks rule {rule.removeprefix('+ ')}" for rule in rules[:5]),
        "ClusterRole vc-agent:a lacks 2 more rules",
        "RoleBinding a/vc-agent:a is missing",
        'Deployment a/a differs: .spec.replicas: 1 -> 2 .x: "a" -> "b"',
        "ClusterRole vc-agent:a:old differs: host: remove ClusterRole vc-agent:a:old",
    ]


def of_groups(*vcs: VirtualCluster, nodes: tuple[Object, ...]) -> list[str]:
    store = findings.nodes_of(nodes)
    trust = NodeTrust(cast(ApiClient, None), store)
    trust.node_restriction = True
    conditions = findings.of_groups(vcs, store, trust)
    return lines(findings.of_conditions(conditions))


def by_label(name: str, label: str = "a") -> VirtualCluster:
    key = "node-restriction.kubernetes.io/branch"
    return virtual_cluster(name, node_selector=LabelSelector({key: label}))


GOOD = objects.node("n1", {"node-restriction.kubernetes.io/branch": "a"})


def test_a_group_that_is_fine_is_no_finding() -> None:
    assert of_groups(by_label("branch-a"), nodes=(GOOD,)) == []


def test_groups_that_overlap_name_each_other() -> None:
    step = "next: let only one of the two select it (nodeSelector, nodeNames)"
    overlaps = [
        line
        for line in of_groups(by_label("branch-a"), by_label("branch-b"), nodes=(GOOD,))
        if "NodeOverlap" in line
    ]
    text = 'NodeOverlap=True: node "n1" is also selected by virtual cluster'
    assert overlaps == [
        f'branch-a: {text} "branch-b"; {step}',
        f'branch-b: {text} "branch-a"; {step}',
    ]


def test_an_empty_group_and_names_without_a_node() -> None:
    found = of_groups(virtual_cluster(node_selector=LabelSelector(), node_names=("x",)), nodes=())
    assert found == [
        "branch-a: NodesMissing=True: no node is named x; next: correct nodeNames, or add the node",
        (
            "branch-a: NodesReachable=False: no node of the host is in the group; next: correct "
            "nodeSelector or nodeNames, or label or add nodes"
        ),
    ]


def test_a_group_that_nodes_can_join_by_themselves() -> None:
    (found,) = of_groups(virtual_cluster(), nodes=(objects.node("n1", {"branch": "a"}),))
    assert found.startswith("branch-a: GroupTrusted=False: the group is selected by label branch")
    assert found.endswith(
        "next: select nodes by nodeNames or node-restriction.kubernetes.io/ labels"
    )


def test_conditions_of_all_are_reported_once_and_what_is_unknown_not_at_all() -> None:
    confined = objects.condition("RightsConfined", "False", "X", "it is weak; run join")
    trusted = objects.condition("GroupTrusted", "Unknown", "KubeEdge", "may be")
    idle = objects.condition("NetworkIsolation", "False", "NotIsolated", "not configured")
    away = objects.ready("Unknown")
    of_each = {"a": [confined, trusted, idle, away], "b": [confined]}
    assert lines(findings.of_conditions(of_each)) == [  # type: ignore[arg-type]
        "agent: RightsConfined=False: it is weak; next: run join",
        (
            "a: Ready=Unknown: Cluster status controller stopped posting cluster status.; next: "
            "kubectl describe cluster a on the hub; karmada-vc-agent explain shows one object"
        ),
    ]


POD = {"affinity": pod_affinity([by_label("branch-a")])}


def with_spec(node: Object, **spec: object) -> Object:
    return {**node, "spec": spec}


TAINT = {"key": "dedicated", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "why", "command"),
    [
        (objects.node("n"), "", ""),
        (objects.node("n", {EDGE_LABEL: ""}), "is an edge node", ""),
        (objects.node("n", {MEMBERSHIP_LABEL: "branch-a"}), "is in a group", ""),
        (GOOD, "is, or may be, in a group (affinity)", ""),
        (with_spec(objects.node("n"), unschedulable=True), "is cordoned", "kubectl uncordon n"),
        (
            with_spec(objects.node("n"), taints=[TAINT]),
            "has taint dedicated:NoSchedule",
            "kubectl taint nodes n dedicated:NoSchedule-",
        ),
        (objects.node("n", status="False"), "is not Ready", "kubectl describe node n"),
    ],
)
def test_why_the_agent_fits_not_on_a_node(node: Object, why: str, command: str) -> None:
    assert findings.unfit(node, POD) == (why, command)


def test_taint_that_is_tolerated_keeps_no_agent_away() -> None:
    pod = {**POD, "tolerations": [{"operator": "Exists"}]}
    assert findings.unfit(with_spec(objects.node("n"), taints=[TAINT]), pod) == ("", "")


def test_no_node_fits_says_why_of_each_and_a_command_if_one_helps() -> None:
    edges = [objects.node(f"e{n}", {EDGE_LABEL: ""}) for n in range(4)]
    assert lines(findings.of_nodes(edges, POD, "add a node")) == [
        "host: the agent fits on no node: e0, e1, e2 and 1 more is an edge node; next: add a node"
    ]
    tainted = with_spec(objects.node("n"), taints=[TAINT])
    (found,) = findings.of_nodes([*edges, tainted], POD, "add a node")
    assert found.step == "kubectl taint nodes n dedicated:NoSchedule-"
    assert not list(findings.of_nodes([*edges, objects.node("n")], POD, ""))


def deployment(version: str = "0.1.0", managers: tuple[str, ...] = (), release: str = "") -> Object:
    container = {"name": "agent", "env": [{"name": "MANIFESTS_VERSION", "value": version}]}
    metadata: Object = {
        "name": "agent",
        "annotations": {"meta.helm.sh/release-name": release} if release else {},
        "managedFields": [{"manager": each} for each in managers],
    }
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}


def test_deployment_of_another_version() -> None:
    (found,) = findings.of_deployment(deployment("0.0.9"), JOIN)
    assert found == ("host", "Deployment agent is of version 0.0.9, and this is 0.1.0", JOIN)


@pytest.mark.parametrize("managers", [("helm",), ("karmada-vc-agent-join",)])
def test_one_way_to_install_is_no_finding(managers: tuple[str, ...]) -> None:
    assert not list(findings.of_deployment(deployment(managers=managers), JOIN))


def test_mix_of_helm_and_join_is_named() -> None:
    mixed = deployment(managers=("helm", "karmada-vc-agent-join"), release="edge")
    (found,) = findings.of_deployment(mixed, JOIN)
    assert "by Helm and by join" in found.problem
    assert "helm upgrade --install --take-ownership edge" in found.step


def lease(renewed: str) -> Object:
    return {"spec": {"renewTime": renewed, "leaseDurationSeconds": 40}}


def test_leases_that_are_missing_or_stale() -> None:
    assert lines(findings.of_lease("branch-a", None, NOW, "look")) == [
        "branch-a: it has no Lease: no agent serves it; next: look"
    ]
    (stale,) = findings.of_lease("branch-a", lease(LONG_AGO), NOW, "look")
    assert stale.problem == "its Lease was not renewed for 60m: no agent serves it"
    assert not list(findings.of_lease("branch-a", lease("2026-11-26T11:59:30.5Z"), NOW, "look"))


@pytest.mark.parametrize(
    ("days", "text"), [(50, ""), (90, "expires at 2026"), (101, "expired at 2026")]
)
def test_certificates_that_end(days: int, text: str) -> None:
    chain, _ = Authority().pair()
    now = START + timedelta(days=days)
    found = lines(findings.of_certificate("karmada-kubeconfig", chain, now, JOIN))
    assert bool(found) == bool(text)
    assert all(text in line and line.endswith(JOIN) for line in found)


def test_deletions_that_are_stuck_say_what_holds_them() -> None:
    ending = objects.namespace("edge", deletionTimestamp=LONG_AGO)
    ending["status"] = {
        "conditions": [
            objects.condition("NamespaceContentRemaining", "True", "x", "1 pods remain"),
            objects.condition("NamespaceDeletionGroupVersionParsingFailure", "False", "x", "fine"),
        ]
    }
    recent = objects.namespace("new", deletionTimestamp="2026-11-26T11:59:00Z")
    cluster = objects.cluster("branch-a", "id")
    cluster["metadata"]["deletionTimestamp"] = LONG_AGO
    first, second = findings.of_deletions("host", [ending, recent, cluster], NOW)
    assert first.problem == "Namespace edge is being deleted for 60 min, held by 1 pods remain"
    assert second.problem.endswith("held by finalizer karmada.io/cluster-controller")
    assert second.step == "karmada-vc-agent leave branch-a continues it"


def test_claims_without_a_cluster() -> None:
    assert lines(findings.of_claims(["branch-b"], "LEAVE --yes")) == [
        (
            "branch-b: namespaces on the host are claimed for branch-b, which has no Cluster on "
            "the hub; next: LEAVE --yes branch-b # removes what remains of it"
        )
    ]
