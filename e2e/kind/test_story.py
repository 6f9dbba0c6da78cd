"""One story on real nodes and containers, told in order: each test goes on where the last ended.

hack/kind-story runs it. The host has three workers, two of group a and one of group b.
"""

import os
import time
from pathlib import Path

import pytest
import yaml

from e2e.kind import workloads
from e2e.kind.installed import AGENT, Installed, is_ready, lives
from e2e.lab import objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.wait import REAL_S, wait_until_deleted, within
from e2e.lab.works import condition

LABEL = "node-restriction.kubernetes.io/branch"
BRANCHES = {"a": "branch-a", "b": "branch-b"}
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
OBJECTS = "/apis/virtualcluster.kubeedge.io/v1alpha1/virtualclusters"
HOLD = "virtualcluster.kubeedge.io/hold"
SHOP = "shop"
CUT = """
nft add table inet cut
for hook in input output forward; do
  nft add chain inet cut $hook "{ type filter hook $hook priority -300; }"
  nft add rule inet cut $hook iifname eth0 drop
  nft add rule inet cut $hook oifname eth0 drop
done
"""
MEND = "nft delete table inet cut"
SETTINGS = {
    "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
    "kind": "AgentConfig",
    "objects": {"enabled": True, "anyName": True},
    "deletionBrake": {"share": 1},  # stories empty their virtual clusters
    "virtualClusters": [],
}


def virtual_cluster(group: str) -> Object:
    return {
        "apiVersion": "virtualcluster.kubeedge.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": BRANCHES[group]},
        "spec": {"nodeSelector": {"matchLabels": {LABEL: group}}},
    }


def templates() -> list[Object]:
    return [
        workloads.web(SHOP, replicas=2),
        workloads.service(SHOP, "web"),
        workloads.probe(SHOP),
        workloads.db(SHOP),
        workloads.service(SHOP, "db", clusterIP="None"),
        workloads.once(SHOP),
        objects.config_map(SHOP, "settings", key="1"),
    ]


def on_host(group: str) -> str:
    return f"{SHOP}-v-{BRANCHES[group]}"


def pods_of(kind: Installed, group: str, app: str) -> list[Object]:
    """Return the pods of an app, all of them ready; at least one."""
    found = [
        pod for pod in kind.pods(BRANCHES[group]) if pod["metadata"]["labels"].get("app") == app
    ]
    assert found
    assert all(is_ready(pod) for pod in found), [pod["status"] for pod in found]
    return found


def staying(kind: Installed, *groups: str) -> dict[str, tuple[str, int]]:
    """Return the lives of the pods of groups that are to stay."""
    return lives([pod for group in groups for pod in kind.pods(BRANCHES[group])])


def ask(kind: Installed, group: str, url: str = "http://web/") -> str:
    """Ask a Service from a pod of the StatefulSet; return version and pod that answered."""
    return kind.in_pod(on_host(group), "db-0", workloads.ASK.format(url=url))


def assert_in_their_groups(kind: Installed) -> None:
    nodes = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(LABEL)
        for node in kind.host.list("/api/v1/nodes")
    }
    for group, branch in BRANCHES.items():
        where = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in kind.pods(branch)}
        assert where
        assert {nodes[node] for node in where.values() if node} == {group}, where


def assert_ready(kind: Installed, group: str, nodes: int) -> None:
    cluster = kind.hub.get(f"{CLUSTERS}/{BRANCHES[group]}")
    assert condition(cluster, "Ready")["status"] == "True"
    summary = cluster["status"]["nodeSummary"]
    assert summary.get("readyNum") == nodes, summary


def assert_status(kind: Installed, template: Object, **expected: int) -> None:
    status = kind.hub.get(path_of(template)).get("status") or {}
    assert {key: status.get(key) for key in expected} == expected, status


def node_condition(kind: Installed, node: str) -> str:
    return str(condition(kind.host.get(f"/api/v1/nodes/{node}"), "Ready")["status"])


def assert_node(kind: Installed, node: str, status: str) -> None:
    assert node_condition(kind, node) == status


def test_agent_is_installed_from_a_release(kind: Installed, tmp_path: Path) -> None:
    release = Path(os.environ["KIND_RELEASE"])
    (image,) = release.glob("*.tar")
    kind.load(image)
    # On clusters where `join` ran before, it set some of these fields for its settings.
    install = str(release / "install.yaml")
    kind.kubectl("apply", "--server-side", "--force-conflicts", "-f", install)
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump(SETTINGS))
    kind.join("--config", str(tmp_path / "agent.yaml"), "--apply")
    kind.kubectl("-n", AGENT, "rollout", "status", f"deployment/{AGENT}", "--timeout=300s")

    def both() -> None:
        pods = kind.agent_pods()
        assert len(pods) == 2
        assert any(is_ready(pod) for pod in pods)

    within(REAL_S, both)


def test_virtual_clusters_come_by_kubectl_apply(kind: Installed) -> None:
    for group in BRANCHES:
        kind.kubectl("apply", "-f", "-", content=yaml.safe_dump(virtual_cluster(group)))
    for group, nodes in (("a", 2), ("b", 1)):
        within(REAL_S, assert_ready, kind, group, nodes)
    told = kind.kubectl("get", "vc")
    columns = "NAME READY NODES WORKS FAILED HUB AGE MESSAGE"
    assert told.splitlines()[0].split() == columns.split()


def test_workloads_run_in_both_groups_and_nowhere_else(kind: Installed) -> None:
    kind.hub.create(objects.namespace(SHOP))
    made = templates()
    for template in made:
        kind.hub.create(template)
    placement = objects.to_clusters(*BRANCHES.values())
    kind.hub.create(objects.policy(SHOP, "all", made, placement))
    web, _, probe, db, _, once, _ = made
    within(300, assert_status, kind, web, readyReplicas=4, updatedReplicas=4)
    within(300, assert_status, kind, db, readyReplicas=4)
    within(300, assert_status, kind, probe, numberReady=3, desiredNumberScheduled=3)
    within(300, assert_status, kind, once, succeeded=2)
    assert_in_their_groups(kind)


def test_status_and_explain_work_in_a_pod_of_the_agent(kind: Installed) -> None:
    run = ("-n", AGENT, "exec", f"deploy/{AGENT}", "--", AGENT)
    rows = {
        row[0]: row[1:3]
        for line in kind.kubectl(*run, "status").splitlines()
        if (row := line.split())
    }
    assert rows[BRANCHES["a"]] == ["True", "2/2"]
    assert rows[BRANCHES["b"]] == ["True", "1/1"]
    held = f"/api/v1/namespaces/{on_host('a')}"
    kind.host.patch(held, {"metadata": {"annotations": {HOLD: "belt stopped"}}})
    try:
        told = kind.kubectl(*run, "explain", f"{SHOP}/deploy/web", "-C", BRANCHES["a"], code=5)
    finally:
        kind.host.patch(held, {"metadata": {"annotations": {HOLD: None}}})
    first, step, *_ = told.splitlines()
    assert first == f"an administrator of the host holds namespace {on_host('a')}: belt stopped"
    assert step == f"next: kubectl annotate namespace {on_host('a')} {HOLD}- # on the host"
    assert "2 of 2 ready" in told
    assert "template not seen: hub: the account used needs rule" in told


@pytest.mark.parametrize("group", BRANCHES)
def test_pods_answer_through_services(kind: Installed, group: str) -> None:
    names = {pod["metadata"]["name"] for pod in pods_of(kind, group, "web")}

    def all_of_them() -> None:
        answered = {ask(kind, group) for _ in range(6)}
        assert answered == {f"1 {name}" for name in names}

    within(REAL_S, all_of_them)
    assert ask(kind, group, f"http://db-1.db.{on_host(group)}:{workloads.PORT}/") == "1 db-1"


@pytest.mark.parametrize("group", BRANCHES)
def test_projected_token_says_who_a_pod_is(kind: Installed, group: str) -> None:
    pod = pods_of(kind, group, "probe")[0]["metadata"]["name"]
    who = kind.in_pod(on_host(group), pod, workloads.WHO_AM_I)
    assert who == f"system:serviceaccount:{on_host(group)}:default"


def test_rolling_update_is_seen_from_the_hub_and_always_answers(kind: Installed) -> None:
    web = workloads.web(SHOP, replicas=2)
    before = {group: staying(kind, group) for group in BRANCHES}
    kind.hub.patch(path_of(web), workloads.set_version(web, "2"))
    versions: set[str] = set()

    def done() -> None:
        versions.update(ask(kind, group).split()[0] for group in BRANCHES)
        assert_status(kind, web, updatedReplicas=4, readyReplicas=4, replicas=4)
        for group in BRANCHES:
            assert {ask(kind, group).split()[0] for _ in range(4)} == {"2"}

    within(300, done)
    assert versions <= {"1", "2"}
    for group in BRANCHES:
        kept = {name: life for name, life in before[group].items() if "/web-" not in name}
        assert kept.items() <= staying(kind, group).items()
    assert_in_their_groups(kind)


def test_leader_is_killed(kind: Installed) -> None:
    before, leader = staying(kind, *BRANCHES), kind.leader()
    kind.host.delete(f"{collection('v1', 'Pod', AGENT)}/{leader}", force=True)

    def another_leads() -> None:
        assert kind.leader() != leader

    within(120, another_leads)
    settings = objects.config_map(SHOP, "settings")
    kind.hub.patch(path_of(settings), {"data": {"key": "2"}})

    def applied(group: str) -> None:
        live = kind.host.get(path_of(settings, on_host(group)))
        assert live["data"] == {"key": "2"}

    for group in BRANCHES:
        within(REAL_S, applied, group)
    assert staying(kind, *BRANCHES) == before
    within(REAL_S, _both_ready, kind)


def test_link_of_a_worker_is_cut_for_longer_than_the_grace_time(kind: Installed) -> None:
    before, node = staying(kind, *BRANCHES), workers(kind, "a")[1]
    kind.on_node(node, CUT)
    try:
        within(120, assert_node, kind, node, "Unknown")
        within(REAL_S, assert_ready, kind, "a", 1)
        assert_ready(kind, "b", 1)
        time.sleep(10)
    finally:
        kind.on_node(node, MEND)
    within(120, assert_node, kind, node, "True")
    within(REAL_S, assert_ready, kind, "a", 2)
    assert staying(kind, *BRANCHES) == before
    for group in BRANCHES:
        for app in ("web", "probe", "db"):
            within(REAL_S, pods_of, kind, group, app)
        assert within(REAL_S, ask, kind, group).startswith("2 ")
    assert_in_their_groups(kind)


def test_node_moves_to_the_other_group(kind: Installed) -> None:
    before, node = staying(kind, "b"), workers(kind, "a")[1]
    stay = lives([pod for pod in kind.pods(BRANCHES["a"]) if pod["spec"].get("nodeName") != node])
    kind.kubectl("label", "--overwrite", "node", node, f"{LABEL}=b")
    for group, nodes in (("a", 1), ("b", 2)):
        within(REAL_S, assert_ready, kind, group, nodes)
    for pod in kind.pods(BRANCHES["a"]):  # the administrator moves what runs there
        if pod["spec"].get("nodeName") == node:
            kind.host.delete(path_of(pod | {"apiVersion": "v1", "kind": "Pod"}))
    within(180, assert_in_their_groups, kind)
    web, _, probe, db, *_ = templates()
    within(180, assert_status, kind, web, readyReplicas=4)
    within(180, assert_status, kind, db, readyReplicas=4)
    within(180, assert_status, kind, probe, numberReady=3, desiredNumberScheduled=3)
    assert_in_their_groups(kind)
    assert before.items() <= staying(kind, "b").items()
    assert stay.items() <= staying(kind, "a").items()


def test_agent_stays_far_below_its_memory_limit(kind: Installed) -> None:
    used = {pod["metadata"]["name"]: memory(kind, pod) for pod in kind.agent_pods()}
    print("memory of the agent's pods in MiB:", {name: f"{n[0]:.0f}" for name, n in used.items()})
    for held, limit in used.values():
        assert 0 < held < 0.5 * limit, used


def test_virtual_cluster_is_removed_by_kubectl_delete(kind: Installed) -> None:
    before = staying(kind, "a")
    kind.kubectl("delete", "vc", BRANCHES["b"], "--timeout=300s")
    wait_until_deleted(kind.hub, f"{CLUSTERS}/{BRANCHES['b']}")
    within(REAL_S, _no_pods, kind, "b")
    assert staying(kind, "a") == before
    assert_ready(kind, "a", 1)


def workers(kind: Installed, group: str) -> list[str]:
    return [node for node, given in kind.groups.items() if given == group]


def memory(kind: Installed, pod: Object) -> tuple[float, float]:
    """Return what the container of a pod holds and may hold, in MiB, as its cgroup says."""
    script = """
import pathlib
for used, limit in (
    ("memory.current", "memory.max"),
    ("memory/memory.usage_in_bytes", "memory/memory.limit_in_bytes"),
):
    place = pathlib.Path("/sys/fs/cgroup")
    if (place / used).exists():
        print((place / used).read_text(), (place / limit).read_text())
"""
    held, limit = kind.in_pod(AGENT, pod["metadata"]["name"], script).split()
    return int(held) / 2**20, int(limit) / 2**20


def _both_ready(kind: Installed) -> None:
    pods = kind.agent_pods()
    assert len(pods) == 2
    assert all(pod["status"]["phase"] == "Running" for pod in pods)


def _no_pods(kind: Installed, group: str) -> None:
    assert not kind.pods(BRANCHES[group])
