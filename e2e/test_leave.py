"""`karmada-vc-agent leave`: one virtual cluster goes cleanly, whoever is there to help."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import accounts, objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection, path_of
from e2e.lab.checkpoint import saved, secrets_of
from e2e.lab.cleanup import NAMESPACES, POLICIES
from e2e.lab.lab import AGENT_LABEL, CLUSTERS, FAST, QUICK_LEASE, Group, Lab
from e2e.lab.leave import leave
from e2e.lab.wait import GONE_S, wait_until_deleted, within
from e2e.lab.works import works_path

CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
ROLES = collection("rbac.authorization.k8s.io/v1", "ClusterRole")
HUB_PATIENCE_S = 25.0
"""Karmada finalises the Works itself of a Cluster whose Lease is 40 s old; it may have been 15 s
old when its agent ended."""


def test_a_running_agent_cleans_and_the_other_virtual_cluster_stays(lab: Lab) -> None:
    kept, leaving = lab.group("kept"), lab.group("leaving")
    agent, template = _serve(lab, kept, leaving)
    within(GONE_S, _assert_saved, lab, agent, kept, leaving)
    installed = _policies(lab)
    done = leave(lab, leaving.name)
    assert done.returncode == 1
    assert f"resourcebinding {template['metadata']['namespace']}/" in done.stdout
    assert "use --yes" in done.stderr
    lab.wait_ready(leaving.name)

    done = leave(lab, leaving.name, "--yes")
    assert done.returncode == 0, done.stderr
    assert "served by a running agent" in done.stdout
    _assert_left(lab, leaving)
    assert saved(lab.host, agent).clusters == [kept.name]
    assert installed == _policies(lab) != [], "they protect the one that stays"
    role = lab.hub.get(f"{ROLES}/vc-agent:{agent.name}")
    named = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
    assert named == [[kept.name], [kept.name], ["kube-system"]]
    assert lab.on_host(template, kept)
    agent.kill()
    agent.start()
    text = "Not registering a virtual cluster that has left"
    within(GONE_S, lambda: _assert_says(agent, text))
    assert lab.hub.find(f"{CLUSTERS}/{leaving.name}") is None
    again = leave(lab, leaving.name, "--yes")
    assert again.returncode == 0, again.stderr


@pytest.mark.smoke
def test_without_an_agent_leave_cleans_by_itself(lab: Lab) -> None:
    """Though policies let only the agent give namespaces up; they go with the last one."""
    first, last = lab.group("first"), lab.group("last")
    agent, _ = _serve(lab, first, last)
    within(GONE_S, _assert_saved, lab, agent, first, last)
    installed = _policies(lab)
    agent.terminate()
    stopped = time.monotonic()
    done = leave(lab, first.name, "--yes", host=_reader(lab))
    assert done.returncode == 1
    account = f"system:serviceaccount:{agent.namespace}:{agent.name}"
    assert f"lets only {account} release namespaces" in done.stderr
    assert (
        f'{{apiGroups: [""], resources: [serviceaccounts], resourceNames: [{agent.name}], '
        f"verbs: [impersonate]}} in namespace {agent.namespace}"
    ) in done.stderr
    assert not lab.cluster(first.name)["metadata"].get("deletionTimestamp")

    done = leave(lab, first.name, "--yes")
    assert done.returncode == 0, done.stderr
    assert "no agent is running: cleaning up from here" in done.stdout
    if time.monotonic() - stopped < HUB_PATIENCE_S:
        assert "hub: removed the finalizer of" in done.stdout
    _assert_left(lab, first)
    assert saved(lab.host, agent).clusters == [last.name]
    assert installed == _policies(lab) != []
    assert lab.host.list(NAMESPACES, f"{CLUSTER_LABEL}={last.name}")

    done = leave(lab, last.name, "--yes")
    assert done.returncode == 0, done.stderr
    assert "host: remove ValidatingAdmissionPolicy namespace-claims" in done.stdout
    _assert_left(lab, last)
    assert secrets_of(lab.host, agent) == []
    assert _policies(lab) == []
    assert lab.hub.find(f"{ROLES}/vc-agent:{agent.name}") is None
    assert lab.hub.find(f"{ROLES}/vc-agent:{agent.name}:works") is None


def test_preserved_resources_stay_without_marks(lab: Lab) -> None:
    group = lab.group("a")
    _, template = _serve(lab, group)
    done = leave(lab, group.name, "--yes", "--preserve-resources")
    assert done.returncode == 0, done.stderr
    live = lab.host.get(lab.host_path(template, group))
    marks = live["metadata"].get("labels", {}) | live["metadata"].get("annotations", {})
    # Karmada leaves its conflict resolution on preserved objects (contract 5.8).
    kept = {"work.karmada.io/conflict-resolution"}
    assert not [key for key in marks.keys() - kept if "kubeedge.io/" in key or "karmada.io/" in key]
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    _wait_host_clean(lab, group)
    assert _policies(lab) == []
    for name in (group.host_namespace("default"), live["metadata"]["namespace"]):
        lab.host.delete(f"{NAMESPACES}/{name}")


def test_preserved_resources_stay_though_the_hub_rewrites_their_works(lab: Lab) -> None:
    """Karmada writes each Work from its binding, without the mark, whenever that changes."""
    group = lab.group("a")
    _, template = _serve(lab, group)
    head = {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"}
    (work,) = (path_of(head | each) for each in lab.works(group) if _is_of(each, template))
    lab.hub.patch(work, {"spec": {"preserveResourcesOnDeletion": True}})
    lab.hub.patch(path_of(template), {"data": {"key": "other"}})
    within(GONE_S, _is_unmarked, lab, work)
    uid = lab.on_host(template, group)["metadata"]["uid"]
    with _changing(lab, template):
        done = leave(lab, group.name, "--yes", "--preserve-resources")
    assert done.returncode == 0, done.stderr
    assert lab.host.get(lab.host_path(template, group))["metadata"]["uid"] == uid
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    _wait_host_clean(lab, group)
    for name in ("default", template["metadata"]["namespace"]):
        lab.host.delete(f"{NAMESPACES}/{group.host_namespace(name)}")


def _is_of(work: Object, template: Object) -> bool:
    (manifest, *_) = work["spec"]["workload"]["manifests"]
    return bool(manifest["kind"] == template["kind"])


def _is_unmarked(lab: Lab, work: str) -> None:
    assert not lab.hub.get(work)["spec"].get("preserveResourcesOnDeletion")


@contextmanager
def _changing(lab: Lab, template: Object) -> Iterator[None]:
    """Change a template again and again, as users do: each time the hub writes its Work anew."""
    ended = threading.Event()

    def change() -> None:
        for count in itertools.count():
            if ended.wait(0.05):
                return
            lab.hub.patch(path_of(template), {"data": {"key": str(count)}})

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_host_that_is_away_is_cleaned_once_it_is_back(lab: Lab) -> None:
    group = lab.group("a")
    agent, template = _serve(lab, group)
    agent.kill()
    away = _leads_nowhere(lab, lab.host.kubeconfig)
    done = leave(lab, group.name, "--yes", host=away)
    assert done.returncode == 1
    assert "no answer from the host" in done.stderr
    done = leave(lab, group.name, "--yes", "--force", host=away)
    assert done.returncode == 0, done.stderr
    assert f"namespaces with label {CLUSTER_LABEL}={group.name}" in done.stdout
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    assert lab.host.get(lab.host_path(template, group))
    done = leave(lab, group.name, "--yes")
    assert done.returncode == 0, done.stderr
    _assert_left(lab, group)


def test_the_host_is_cleaned_while_the_hub_is_away(lab: Lab) -> None:
    group = lab.group("a")
    agent, _ = _serve(lab, group)
    away = _leads_nowhere(lab, lab.hub.kubeconfig)
    done = leave(lab, group.name, "--yes", "--force", hub=away)
    assert done.returncode == 1, "an agent still runs"
    assert "would restore what is removed; stop it" in done.stderr
    agent.kill()
    done = leave(lab, group.name, "--yes", "--force", hub=away)
    assert done.returncode == 0, done.stderr
    assert f"its Works in karmada-es-{group.name}" in done.stdout
    _wait_host_clean(lab, group)
    assert _policies(lab) == []
    done = leave(lab, group.name, "--yes")
    assert done.returncode == 0, done.stderr
    _assert_left(lab, group)


def test_cluster_of_another_owner_is_not_touched(lab: Lab) -> None:
    group = lab.group("a")
    cluster = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": group.name},
        "spec": {"id": f"id-of-{group.name}", "syncMode": "Pull"},
    }
    lab.hub.create(cluster)
    lab.new_agent(group)
    done = leave(lab, group.name, "--yes")
    assert done.returncode == 1
    assert "is not a virtual cluster of this host" in done.stderr
    assert lab.hub.get(f"{CLUSTERS}/{group.name}")


def test_orphans_are_reported_and_only_prune_removes_them(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE))
    namespace = lab.namespace()
    kept = objects.config_map(namespace, "kept")
    lost = objects.config_map(namespace, "lost")
    for template in (kept, lost):
        lab.create_work(group, template["metadata"]["name"], template)
        lab.on_host(template, group)
    agent.kill()
    work = f"{works_path(group.name)}/lost"
    lab.hub.patch(work, {"metadata": {"finalizers": []}})
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    agent.start()
    within(GONE_S, lambda: _assert_says(agent, "Host objects have no Work on the hub"))
    assert f"ConfigMap {group.host_namespace(namespace)}/lost" in agent.log()
    assert lab.host.get(lab.host_path(lost, group)), "the agent removes none"

    listed = leave(lab, "--prune")
    assert listed.returncode == 0, listed.stderr
    name = f"{group.host_namespace(namespace)}/lost"
    assert f"{group.name}: orphaned ConfigMap {name} (Work lost)" in listed.stdout
    assert "to remove these " in listed.stdout
    assert lab.host.get(lab.host_path(lost, group))
    pruned = leave(lab, "--prune", "--yes")
    assert pruned.returncode == 0, pruned.stderr
    wait_until_deleted(lab.host, lab.host_path(lost, group))
    assert lab.host.get(lab.host_path(kept, group))
    # Those of other tests, which come and go here, may be listed still.
    assert group.host_namespace(namespace) not in leave(lab, "--prune").stdout


def test_prune_removes_a_namespace_only_when_nothing_of_others_is_in_it(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE), installPolicies=True)
    kept, orphaned = lab.namespace(), lab.namespace("-orphaned")
    homes = [f"/api/v1/namespaces/{group.host_namespace(name)}" for name in (kept, orphaned)]
    for path in homes:
        within(GONE_S, lab.host.get, path)
    theirs = lab.host.create(objects.config_map(group.host_namespace(orphaned), "theirs"))
    agent.kill()
    [work] = [path_of(work) for work in _works_about(lab, group, orphaned)]
    lab.hub.delete(f"/api/v1/namespaces/{orphaned}")
    within(GONE_S, lambda: lab.hub.get(work)["metadata"]["deletionTimestamp"])
    lab.hub.patch(work, {"metadata": {"finalizers": []}})
    wait_until_deleted(lab.hub, work)

    name = group.host_namespace(orphaned)
    stays = f"{group.name}: orphaned Namespace {name} stays: ConfigMap {name}/theirs does not"
    assert stays in leave(lab, "--prune", group.name, "--yes").stdout
    assert "deletionTimestamp" not in lab.host.get(homes[1])["metadata"]
    lab.host.delete(path_of(theirs))
    listed = leave(lab, "--prune", group.name)
    assert f"{group.name}: orphaned Namespace {name}\n" in listed.stdout
    assert "deletionTimestamp" not in lab.host.get(homes[1])["metadata"]
    pruned = leave(lab, "--prune", group.name, "--yes")
    assert f"host: namespace {name} deleted" in pruned.stdout
    wait_until_deleted(lab.host, homes[1])
    assert "deletionTimestamp" not in lab.host.get(homes[0])["metadata"]


def test_deleting_a_cluster_of_fifty_works_ends_in_time_with_the_agents_own_rights(
    lab: Lab,
) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    works = [
        lab.create_work(group, f"many-{number}", objects.config_map(namespace, f"many-{number}"))
        for number in range(50)
    ]
    for work in works:
        lab.wait_applied(work)
    started = time.monotonic()
    lab.hub.delete(f"{CLUSTERS}/{group.name}")

    def look() -> None:
        cluster = lab.hub.find(f"{CLUSTERS}/{group.name}")
        assert cluster is None, cluster and cluster["metadata"]

    within(GONE_S, look)
    print(f"50 Works: gone after {time.monotonic() - started:.0f} s")
    assert not lab.host.list("/api/v1/configmaps", f"{CLUSTER_LABEL}={group.name}")


def _serve(lab: Lab, *groups: Group) -> tuple[Agent, Object]:
    agent = lab.serve(*groups, flags=(*FAST, *QUICK_LEASE))
    template = objects.config_map(lab.namespace())
    lab.propagate([template], *groups)
    lab.wait_fully_applied(template)
    return agent, template


def _works_about(lab: Lab, group: Group, namespace: str) -> list[Object]:
    """Return the Works that bring a Namespace."""
    return [
        {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"} | work
        for work in lab.works(group)
        if [manifest["metadata"]["name"] for manifest in work["spec"]["workload"]["manifests"]]
        == [namespace]
    ]


def _reader(lab: Lab) -> Path:
    """Return a kubeconfig of the host for an account that may only read."""
    name = f"{lab.id}-reader"
    reader = accounts.service_account(lab.host, lab.agents[0].namespace, name, lab.directory)
    subject = accounts.subject(lab.agents[0].namespace, name)
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    role = f"vc-agent:{lab.id}:works"  # of a name that is cleaned up with the agent's
    lab.host.create(accounts.cluster_role(role, rule))
    lab.host.create(accounts.cluster_role_binding(role, subject))
    within(GONE_S, reader.get, NAMESPACES)
    return reader.kubeconfig


def _policies(lab: Lab) -> list[str]:
    """Return the names of the policies and bindings of the first agent."""
    mine = f"{AGENT_LABEL}={lab.agents[0].name}"
    return [each["metadata"]["name"] for place in POLICIES for each in lab.host.list(place, mine)]


def _assert_saved(lab: Lab, agent: Agent, *groups: Group) -> None:
    """Assert that a start without the hub would serve them."""
    assert saved(lab.host, agent).clusters == sorted(group.name for group in groups)


def _assert_left(lab: Lab, group: Group) -> None:
    """Assert that nothing of a virtual cluster is left."""
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    leases = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")
    assert lab.hub.find(f"{leases}/{group.name}") is None
    wait_until_deleted(lab.hub, f"{NAMESPACES}/karmada-es-{group.name}")
    _wait_host_clean(lab, group)


def _wait_host_clean(lab: Lab, group: Group) -> None:
    def look() -> None:
        left = lab.host.list(NAMESPACES, f"{CLUSTER_LABEL}={group.name}")
        assert not left, [item["metadata"] for item in left]

    within(GONE_S, look)


def _leads_nowhere(lab: Lab, kubeconfig: Path) -> Path:
    content: Any = yaml.safe_load(kubeconfig.read_text())
    for entry in content["clusters"]:
        entry["cluster"]["server"] = "https://127.0.0.1:1"
    path = lab.directory / f"away-{kubeconfig.name}"
    path.write_text(yaml.safe_dump(content))
    return path


def _assert_says(agent: Agent, text: str) -> None:
    assert text in agent.log()
