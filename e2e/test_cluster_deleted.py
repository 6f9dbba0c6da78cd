"""A Cluster deleted on the hub is finalised, and stays deleted until somebody wants it back."""

from typing import Any

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, path_of
from e2e.lab.cleanup import RBAC
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import GONE_S, wait_until_deleted, within
from e2e.lab.works import execution_namespace

CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
LEFT_DELETED = "Not registering a Cluster that was deleted on the hub"


@pytest.mark.smoke
def test_a_deleted_cluster_takes_its_host_objects_with_it_and_the_others_stay(lab: Lab) -> None:
    kept, deleted = lab.group("kept"), lab.group("deleted")
    agent, template = _serve_application(lab, kept, deleted)
    before = lab.on_host(template, kept)
    _delete_cluster(lab, deleted)
    assert lab.host.list("/api/v1/namespaces", f"{CLUSTER_LABEL}={kept.name}")
    assert lab.on_host(template, kept)["metadata"]["uid"] == before["metadata"]["uid"]
    assert agent.is_running()
    _wait_left_deleted(agent, deleted)
    lab.wait_ready(kept.name)


def test_a_deleted_cluster_stays_deleted_when_the_agent_restarts(lab: Lab) -> None:
    kept, deleted = lab.group("kept"), lab.group("deleted")
    agent, _ = _serve_application(lab, kept, deleted)
    _delete_cluster(lab, deleted)
    agent.kill()
    before = len(_left_deleted(agent, deleted))
    agent.start()
    _wait_left_deleted(agent, deleted, before)
    marker = objects.config_map(lab.namespace("-marker"))
    lab.propagate([marker], kept)
    lab.wait_fully_applied(marker)
    assert lab.hub.find(f"{CLUSTERS}/{deleted.name}") is None


def test_cluster_deleted_while_the_agent_restarts_is_removed(lab: Lab) -> None:
    """The rights in its execution namespace end before the agent has listed the Works."""
    kept, deleted = lab.group("kept"), lab.group("deleted")
    agent, _ = _serve_application(lab, kept, deleted)
    agent.kill()
    lab.hub.delete(f"{CLUSTERS}/{deleted.name}")
    rights = f"{RBAC}/namespaces/{execution_namespace(deleted.name)}/rolebindings"
    within(GONE_S, _has_none, lab, rights)
    agent.start(keeps_rights=True)
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{deleted.name}")
    assert lab.host.list("/api/v1/namespaces", f"{CLUSTER_LABEL}={deleted.name}")
    lab.wait_ready(kept.name)


def test_deleted_cluster_returns_with_reregister(lab: Lab) -> None:
    kept, deleted = lab.group("kept"), lab.group("deleted")
    agent, template = _serve_application(lab, kept, deleted)
    _delete_cluster(lab, deleted)
    agent.terminate()
    agent.start("--reregister", deleted.name)
    lab.wait_ready(deleted.name)
    within(GONE_S, lab.on_host, template, deleted)


def test_deleted_cluster_returns_with_changed_settings(lab: Lab) -> None:
    kept, deleted = lab.group("kept"), lab.group("deleted")
    agent, _ = _serve_application(lab, kept, deleted)
    _delete_cluster(lab, deleted)
    agent.terminate()
    entries: list[Any] = [kept.settings(), deleted.settings(region="new")]
    agent.settings["virtualClusters"] = entries
    agent.start()
    cluster = lab.wait_ready(deleted.name)
    assert cluster["spec"]["region"] == "new"
    template = objects.config_map(lab.namespace("-back"))
    lab.propagate([template], deleted)
    lab.wait_fully_applied(template)


def test_a_cluster_that_vanished_while_the_agent_was_down_is_registered_again(lab: Lab) -> None:
    """Nobody deleted it before the agent's eyes: it was lost, as by a backup of the hub."""
    group = lab.group("a")
    agent = lab.serve(group)
    before = lab.cluster(group.name)["metadata"]["uid"]
    agent.kill()
    path = f"{CLUSTERS}/{group.name}"
    lab.hub.delete(path)
    within(GONE_S, _is_ending, lab, group)
    if lab.hub.find(path):
        lab.hub.patch(path, {"metadata": {"finalizers": None}})
    wait_until_deleted(lab.hub, path)
    within(GONE_S, _end_works, lab, group)
    agent.start()
    assert lab.wait_ready(group.name)["metadata"]["uid"] != before
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)


def _has_none(lab: Lab, collection: str) -> None:
    assert lab.hub.list(collection) == []


def _is_ending(lab: Lab, group: Group) -> None:
    """Assert that Karmada has begun to remove a Cluster; of one that is gone it removes nothing."""
    namespace = lab.hub.find(f"/api/v1/namespaces/{execution_namespace(group.name)}")
    assert namespace is None or namespace["metadata"].get("deletionTimestamp")


def _end_works(lab: Lab, group: Group) -> None:
    """Finalise the Works of a Cluster that vanished, which nobody else does; see them gone."""
    for work in lab.works(group):
        lab.hub.patch(path_of(work), {"metadata": {"finalizers": None}})
    namespace = lab.hub.find(f"/api/v1/namespaces/{execution_namespace(group.name)}")
    assert namespace is None, namespace["status"]


def _serve_application(lab: Lab, kept: Group, deleted: Group) -> tuple[Agent, Object]:
    agent = lab.serve(kept, deleted)
    template = objects.deployment(lab.namespace())
    lab.propagate([template], kept, deleted)
    lab.wait_fully_applied(template)
    # A namespace whose own Work the hub makes later stays, as `default` does.
    lab.wait_namespace_sent(template["metadata"]["namespace"], deleted)
    return agent, template


def _delete_cluster(lab: Lab, group: Group) -> None:
    """Delete a Cluster and wait until it and all its Works had made on the host is gone.

    `default`, which no Work made, stays as a member's does (docs/adr/0005).
    """
    lab.hub.delete(f"{CLUSTERS}/{group.name}")

    def look() -> None:
        cluster = lab.hub.find(f"{CLUSTERS}/{group.name}")
        assert cluster is None, f"Cluster {group.name} is still there: {cluster['metadata']}"
        left = lab.host.list("/api/v1/namespaces", f"{CLUSTER_LABEL}={group.name}")
        names = [namespace["metadata"]["name"] for namespace in left]
        assert names == [f"default-v-{group.name}"]
        for kind in ("/apis/apps/v1/deployments", "/api/v1/configmaps"):
            assert not lab.host.list(kind, f"{CLUSTER_LABEL}={group.name}")

    within(GONE_S, look)


def _wait_left_deleted(agent: Agent, group: Group, before: int = 0) -> None:
    def look() -> None:
        lines = _left_deleted(agent, group)
        assert len(lines) == before + 1, lines

    within(GONE_S, look)


def _left_deleted(agent: Agent, group: Group) -> list[str]:
    """Return what the agent has logged of a Cluster that it left deleted, once in each run."""
    lines = agent.log().splitlines()
    return [line for line in lines if LEFT_DELETED in line and group.name in line]
