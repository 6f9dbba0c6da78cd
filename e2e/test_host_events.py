"""Why something does not run is told on the hub, to those who see neither the host nor Works."""

import time
from typing import Any

import pytest

from e2e.lab import objects
from e2e.lab.accounts import role_binding, service_account, subject
from e2e.lab.api import Api, ApiError, Object, collection
from e2e.lab.host_events import event_of_template, event_of_work, pods, reasons, report, told
from e2e.lab.lab import FAST, QUICK_LEASE, Lab
from e2e.lab.wait import BACKED_OFF_S, PERIODIC_S, eventually, within
from e2e.lab.works import execution_namespace, works_path

NO_PULL = 'Failed to pull image "registry.example/app:1": rpc error: code = NotFound'
CRASHES = "Back-off restarting failed container app in pod {pod}_{namespace}({uid})"
BURST = 25
"""Events about one object, of one component: client-go's."""
PROMPT_S = 60.0
DOMAIN = "virtualcluster.kubeedge.io"


def admin_of(lab: Lab, namespace: str) -> Api:
    """Return a client of somebody who may look at one namespace of the hub, and at nothing else."""
    account = service_account(lab.hub, namespace, "somebody", lab.directory)
    lab.hub.create(role_binding(namespace, "view", subject(namespace, "somebody")))
    eventually(account.list, collection("v1", "Event", namespace))
    return account


# --- stories ------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_who_sees_one_namespace_of_the_hub_sees_why_pods_wait(lab: Lab) -> None:
    group, neighbour = lab.group("a"), lab.group("b", nodes=2)
    lab.serve(group, neighbour)
    mine, theirs = lab.namespace("-1"), lab.namespace("-2")
    template = objects.deployment(mine, replicas=2, cpu="100")
    lab.propagate([template], group)
    lab.propagate([objects.deployment(theirs)], neighbour)
    somebody = admin_of(lab, mine)
    for path in (works_path(group.name), collection("v1", "Event", theirs)):
        with pytest.raises(ApiError, match="403"):
            somebody.list(path)

    event = eventually(event_of_template, somebody, template, "FailedScheduling")
    start, _, text = event["message"].partition(": 0/")
    assert start.startswith(f"cluster {group.name}: Pod web-"), event["message"]
    assert text == "1 nodes are available: 1 Insufficient cpu.", event["message"]
    assert event["type"] == "Warning"
    on_work = eventually(event_of_work, lab, group, template, "FailedScheduling")
    assert on_work["message"] == event["message"]

    def both() -> None:
        assert event_of_template(somebody, template, "FailedScheduling")["count"] >= 2

    within(BACKED_OFF_S, both)  # one series for two pods
    for namespace in (theirs, execution_namespace(neighbour.name)):
        assert reasons(lab.hub, namespace) == set()
        assert not [e for e in told(lab.hub, namespace) if group.name in e["message"]]


def test_every_workload_over_quota_says_so(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group.settings(quota={"pods": 0}))
    namespace = lab.namespace()
    made = [
        objects.deployment(namespace),
        objects.stateful_set(namespace),
        objects.daemon_set(namespace),
        objects.job(namespace),
    ]
    lab.propagate(made, group)
    over = "exceeded quota: vc-quota"
    for template in made:
        event = eventually(event_of_template, lab.hub, template, "FailedCreate", over)
        assert group.host_namespace(namespace) not in event["message"]
        eventually(event_of_work, lab, group, template, "FailedCreate", over)


def test_what_kubelets_report_is_counted_over_the_pods(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE))
    namespace = lab.namespace()
    template = objects.deployment(namespace, replicas=2)
    lab.propagate([template], group)
    one, other = pods(lab, group, namespace, 2)
    report(lab, one, "Failed", NO_PULL, count=3)
    report(lab, other, "Failed", NO_PULL, count=4)
    for pod in (one, other):
        text = CRASHES.format(**_names(pod))
        report(lab, pod, "BackOff", text)
    pull = eventually(event_of_template, lab.hub, template, "Failed")
    assert NO_PULL in pull["message"], pull["message"]
    crash = within(PERIODIC_S, event_of_template, lab.hub, template, "BackOff")
    assert f"_{namespace}(" in crash["message"], "the namespace has its virtual name"

    def counted() -> None:
        assert event_of_template(lab.hub, template, "Failed")["count"] == 7
        assert event_of_template(lab.hub, template, "BackOff")["count"] == 2

    within(BACKED_OFF_S, counted)
    agent.restart()
    lab.wait_ready(group.name)
    report(lab, one, "FailedMount", 'configmap "settings" not found')
    within(PERIODIC_S, event_of_template, lab.hub, template, "FailedMount")
    assert event_of_template(lab.hub, template, "Failed")["count"] == 7, "the same series goes on"


def _names(pod: Object) -> dict[str, str]:
    metadata = pod["metadata"]
    return {"pod": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}


def test_an_event_reaches_only_the_manifest_that_its_object_is_of(lab: Lab) -> None:
    """Tenants may write Events on the host, and objects with whatever marks and owners."""
    group, neighbour = lab.group("a"), lab.group("b")
    lab.serve(group, neighbour)
    mine, other, theirs = lab.namespace("-1"), lab.namespace("-2"), lab.namespace("-3")
    template = objects.deployment(mine, replicas=1)
    lab.propagate([template], group)
    lab.propagate([objects.deployment(other, replicas=1)], group)
    lab.propagate([objects.deployment(theirs, replicas=1)], neighbour)
    (pod,) = pods(lab, group, mine, 1)
    (others,) = pods(lab, group, other, 1)
    (foreign,) = pods(lab, neighbour, theirs, 1)
    home = group.host_namespace(mine)

    def forged(name: str, **metadata: Any) -> Object:
        made = objects.config_map(home, name)
        made["metadata"] |= metadata
        return lab.host.create(made)

    (work,) = [w["metadata"] for w in lab.works(group) if _is_of(w, other, "Deployment")]
    marks = {f"{DOMAIN}/work": f"{work['namespace']}/{work['name']}"}
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    targets = [
        forged("plain"),
        forged("marked", annotations=marks),
        forged("owned", ownerReferences=[owner | _owner(others)]),
        {**pod, "metadata": {**others["metadata"], "namespace": home}},
        {**pod, "metadata": {**foreign["metadata"], "namespace": home}},
        {**pod, "metadata": {**pod["metadata"], "uid": "another"}},
        {**pod, "kind": "Nonsense"},
    ]
    for target in targets:
        report(lab, target, "Injected", "something to read")
    report(lab, pod, "SyncSucceed is no reason", "something to read")
    report(lab, pod, "Calm", "something to read", type="Normal")
    report(lab, foreign, "Genuine", "theirs")
    text = f"\x1b[31mred\nline\x1b[0m {neighbour.host_namespace(theirs)} {neighbour.nodes[0]} "
    report(lab, pod, "Genuine", f"{text}{group.nodes[0]} {home}")
    event = eventually(event_of_template, lab.hub, template, "Genuine")
    words = event["message"].partition(f"Pod {pod['metadata']['name']}: ")[2]
    assert words == f"\\x1b[31mred line\\x1b[0m ... ... {group.nodes[0]} {mine}"
    eventually(_reasons_are, lab.hub, theirs, {"Genuine"})
    assert reasons(lab.hub, mine) == {"Genuine"}
    assert reasons(lab.hub, other) == set()
    for each in (group, neighbour):
        eventually(_reasons_are, lab.hub, execution_namespace(each.name), {"Genuine"})


def _owner(pod: Object) -> Object:
    return {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def _is_of(work: Object, namespace: str, kind: str) -> bool:
    (manifest,) = work["spec"]["workload"]["manifests"]
    return bool(manifest["kind"] == kind and manifest["metadata"].get("namespace") == namespace)


def _reasons_are(hub: Api, namespace: str, expected: set[str]) -> None:
    assert reasons(hub, namespace) == expected


def test_a_flood_of_events_reaches_neither_the_hub_nor_the_neighbour(lab: Lab) -> None:
    group, neighbour = lab.group("a"), lab.group("b")
    lab.serve(group, neighbour)
    mine, theirs = lab.namespace("-1"), lab.namespace("-2")
    template, their_template = objects.deployment(mine), objects.deployment(theirs)
    lab.propagate([template], group)
    lab.propagate([their_template], neighbour)
    flooding = pods(lab, group, mine, 2)
    (calm, _) = pods(lab, neighbour, theirs, 2)
    letters = "abcdefghijklmnopqrstuvwxyz"
    for first in letters:
        for second in letters:
            report(lab, flooding[0], f"Flood{first}{second}", f"cause {first}{second}")
    report(lab, calm, "Failed", NO_PULL)
    within(PROMPT_S, event_of_template, lab.hub, their_template, "Failed")
    time.sleep(10.0)
    assert 0 < len(told(lab.hub, mine)) <= BURST
    assert 0 < len(told(lab.hub, execution_namespace(group.name))) <= BURST
    changed = objects.config_map(theirs, "later")
    lab.propagate([changed], neighbour)
    within(PROMPT_S, lab.host.get, lab.host_path(changed, neighbour))


def test_it_can_be_switched_off(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=(*FAST, "--controllers", "*,-hostEvents")).start()
    lab.wait_serving(agent)
    namespace = lab.namespace()
    template = objects.deployment(namespace, replicas=1)
    lab.propagate([template], group)
    (pod,) = pods(lab, group, namespace, 1)
    report(lab, pod, "Failed", NO_PULL)
    lab.wait_status(template, readyReplicas=1)
    time.sleep(5.0)
    assert told(lab.hub, namespace) == []
