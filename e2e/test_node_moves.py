"""A node that moves to another group: both Clusters say so at once, and its pods stay or go."""

import time

from e2e.lab import objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import FAST, NODES, Group, Lab
from e2e.lab.wait import NODE_GRACE_S, within
from e2e.lab.works import condition

SELDOM = ("--cluster-status-update-frequency", "2m")
MOVED_S = 40.0
"""How soon the status of both Clusters is right, also on a busy machine; it is not by SELDOM."""
MOVES = 4
SOON = (*FAST, "--cluster-failure-threshold", "2s")
"""Who evicts waits for so long as a host must be away."""


def test_both_clusters_are_right_soon_after_each_move_of_a_node(lab: Lab) -> None:
    """What is not reported at once waits for the frequency of status."""
    left, joined = lab.group("a", nodes=2), lab.group("b", nodes=1)
    lab.serve(left, joined, flags=SELDOM)
    for group, nodes in ((left, 2), (joined, 1)):
        within(NODE_GRACE_S, _has_nodes, lab, group, nodes)
    took: list[float] = []
    moving = left.nodes[1]
    for _ in range(MOVES):
        _move(lab, moving, joined)
        started = time.monotonic()
        within(MOVED_S, _has_nodes, lab, left, 1)
        within(MOVED_S - (time.monotonic() - started), _has_nodes, lab, joined, 2)
        took.append(time.monotonic() - started)
        left, joined = joined, left
    print(f"both Clusters were right after {', '.join(f'{each:.2f}' for each in took)} s")


def _has_nodes(lab: Lab, group: Group, total: int) -> None:
    status = lab.cluster(group.name)["status"]
    assert status.get("nodeSummary") == {"totalNum": total, "readyNum": total}
    allocatable = status["resourceSummary"]["allocatable"]
    assert (allocatable["cpu"], allocatable["pods"]) == (str(4 * total), str(110 * total))


# --- pods on a node that leaves -----------------------------------------------------------------


def test_pods_stay_on_a_node_that_leaves_unless_they_are_to_be_evicted(lab: Lab) -> None:
    keeps, evicts, other = lab.group("a"), lab.group("b"), lab.group("c")
    agent = lab.serve(keeps, evicts.settings(onNodeLeave="Evict"), other, flags=SOON)
    namespace = lab.namespace()
    web, probe = objects.deployment(namespace), objects.daemon_set(namespace)
    lab.propagate([web, probe], keeps, evicts)
    for group in (keeps, evicts):
        within(NODE_GRACE_S, _runs, lab, group, namespace, 3, group.nodes[:1])
        lab.add_node(group)
        within(NODE_GRACE_S, _runs_probe, lab, group, namespace, group.nodes[1])
    before = {group.name: _uids(lab, group, namespace, "web-") for group in (keeps, evicts)}
    bystander = lab.host.create(objects.bystander(lab.id, evicts.nodes[0]))
    try:
        for group in (keeps, evicts):
            _move(lab, group.nodes[0], other)
        # Two pods ran there, and both run again where they belong.
        within(NODE_GRACE_S, _runs, lab, evicts, namespace, 3, evicts.nodes[1:])
        lab.wait_fully_applied(web)
        # The controller of a DaemonSet takes its pod away, in both.
        within(NODE_GRACE_S, _runs_probe, lab, keeps, namespace, keeps.nodes[1], is_alone=True)
        assert not before[evicts.name] & _uids(lab, evicts, namespace, "web-")
        assert before[keeps.name] == _uids(lab, keeps, namespace, "web-")
        within(NODE_GRACE_S, _has_been_reported, lab, evicts, "PodEvicted", f"pod {namespace}/web-")
        assert lab.host.get(path_of(bystander))["metadata"]["uid"] == bystander["metadata"]["uid"]
        log = agent.log()
        evicted = [line for line in log.splitlines() if "Evicting a pod" in line]
        assert len(evicted) == 2, evicted
        assert all(f"pod={evicts.host_namespace(namespace)}/web-" in line for line in evicted)
        assert "Traceback" not in log
    finally:
        lab.host.delete(path_of(bystander), force=True)


def test_eviction_waits_for_what_a_disruption_budget_allows(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group.settings(onNodeLeave="Evict"), other, flags=SOON)
    namespace = lab.namespace()
    web, held = objects.deployment(namespace), objects.stateful_set(namespace)
    of_web, of_held = _budget(namespace, "web"), _budget(namespace, "db")
    lab.propagate([web, held, of_web, of_held], group)
    within(NODE_GRACE_S, _runs, lab, group, namespace, 3, group.nodes)
    within(NODE_GRACE_S, _allows, lab, group, of_web, 1)
    within(NODE_GRACE_S, _allows, lab, group, of_held, 0)
    lab.add_node(group)
    before = _uids(lab, group, namespace, "")
    db = _uids(lab, group, namespace, "db-")
    _move(lab, group.nodes[0], other)
    event = within(
        NODE_GRACE_S, _has_been_reported, lab, group, "PodEvictionHeld", f"pod {namespace}/db-0, "
    )
    assert "disruption budget" in event["message"]
    assert "-v-" not in event["message"]
    within(NODE_GRACE_S, _moved_to, lab, group, namespace, "web-", group.nodes[1])
    assert _uids(lab, group, namespace, "db-") == db, "it was evicted against its budget"
    lab.hub.delete(path_of(of_held))
    within(NODE_GRACE_S, _moved_to, lab, group, namespace, "db-", group.nodes[1])
    assert not before & _uids(lab, group, namespace, "")


def test_node_that_moved_while_the_agent_was_away_is_noticed(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    agent = lab.serve(group.settings(onNodeLeave="Evict"), other, flags=SOON)
    web = objects.deployment(lab.namespace())
    lab.propagate([web], group)
    within(NODE_GRACE_S, _runs, lab, group, lab.id, 2, group.nodes)
    agent.kill()
    lab.add_node(group)
    _move(lab, group.nodes[0], other)
    agent.start()
    within(NODE_GRACE_S, _runs, lab, group, lab.id, 2, group.nodes[1:])


def _move(lab: Lab, node: str, to: Group) -> None:
    lab.host.patch(f"{NODES}/{node}", {"metadata": {"labels": to.selector}})


def _pods(lab: Lab, group: Group, namespace: str, prefix: str = "") -> list[Object]:
    pods = lab.pods(group.host_namespace(namespace))
    return [pod for pod in pods if pod["metadata"]["name"].startswith(prefix)]


def _uids(lab: Lab, group: Group, namespace: str, prefix: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in _pods(lab, group, namespace, prefix)}


def _runs(lab: Lab, group: Group, namespace: str, count: int, nodes: list[str]) -> None:
    """Assert that so many pods run, and on these nodes alone."""
    pods = _pods(lab, group, namespace)
    found = [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in pods]
    assert len(pods) == count, found
    assert {node for _, node in found} == set(nodes), found
    assert all(condition(pod, "Ready")["status"] == "True" for pod in pods)


def _runs_probe(
    lab: Lab, group: Group, namespace: str, node: str, *, is_alone: bool = False
) -> None:
    nodes = {pod["spec"].get("nodeName") for pod in _pods(lab, group, namespace, "probe-")}
    assert nodes == {node} if is_alone else node in nodes, nodes


def _moved_to(lab: Lab, group: Group, namespace: str, prefix: str, node: str) -> None:
    pods = _pods(lab, group, namespace, prefix)
    assert pods
    assert {pod["spec"].get("nodeName") for pod in pods} == {node}


def _has_been_reported(lab: Lab, group: Group, reason: str, text: str) -> Object:
    """Return an event on the Cluster of a group."""
    events = lab.hub.list(collection("v1", "Event", "default"))
    found = [
        e for e in events if (e["reason"], e["involvedObject"]["name"]) == (reason, group.name)
    ]
    told = [e for e in found if text in e["message"]]
    assert told, found
    return told[0]


def _budget(namespace: str, app: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    }


def _allows(lab: Lab, group: Group, budget: Object, disruptions: int) -> None:
    status = lab.host.get(lab.host_path(budget, group))["status"]
    assert status["observedGeneration"] >= 1
    assert status["disruptionsAllowed"] == disruptions, status
