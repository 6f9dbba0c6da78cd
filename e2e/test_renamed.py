"""A virtual cluster gets another name: what runs goes on running, under the new one."""

from typing import Any

import pytest

from e2e.lab import accounts, objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES, RBAC
from e2e.lab.lab import CLUSTERS, FAST, NODES, Group, Lab
from e2e.lab.wait import STARTED_S, wait_until_deleted, within
from e2e.lab.works import execution_namespace

DOMAIN = "virtualcluster.kubeedge.io"
CLUSTER = f"{DOMAIN}/cluster"
MEMBERSHIP = "node-restriction.kubernetes.io/virtual-cluster"
LEASE = ("--cluster-lease-duration", "10s")
KINDS = ("Deployment", "StatefulSet", "ReplicaSet")


@pytest.mark.smoke
def test_a_new_name_takes_all_over_and_restarts_no_pod(lab: Lab) -> None:
    """Its nodes are listed by name: then even the selector of its pods has the name in it."""
    old = lab.group("branch-a")
    entry: dict[str, Any] = {"nodeNames": old.nodes, "serviceNames": "SearchDomain"}
    agent = lab.serve({"name": old.name} | entry, flags=(*FAST, *LEASE))
    namespace, home = lab.namespace(), old.host_namespace(lab.id)
    web, settings = objects.deployment(namespace), objects.config_map(namespace)
    templates = [web, objects.stateful_set(namespace), settings]
    policy = lab.propagate(templates, old)
    role, bound = _reader(lab, namespace)
    lab.create_work(old, "rights", role, bound)
    lab.wait_status(web, readyReplicas=2)
    lab.wait_status(templates[1], readyReplicas=1)
    binding = f"{collection('rbac.authorization.k8s.io/v1', 'RoleBinding', home)}/read"
    within(STARTED_S, lab.host.get, binding)
    pods, before = _pods(lab, home), _uids(lab, home)
    assert len(pods) == 3
    assert _label(lab, old) == old.name

    new = Group(f"{lab.id}-shop-7", old.selector, old.nodes)
    agent.settings["virtualClusters"] = [{"name": new.name, "formerNames": [old.name]} | entry]
    agent.reload()
    lab.wait_ready(new.name)
    for name in ("default", namespace):
        within(STARTED_S, _is_claimed_by, lab, old.host_namespace(name), new.name)
    lab.hub.patch(path_of(policy), {"spec": {"placement": objects.to_clusters(new.name)}})
    lab.create_work(new, "rights", role, bound)
    for template in templates:
        within(STARTED_S, _is_of, lab, path_of(template, home), new.name)
    for path in (binding, f"{RBAC}/clusterroles/{role['metadata']['name']}-v-{old.name}"):
        within(STARTED_S, _is_of, lab, path, new.name)
    lab.wait_status(web, readyReplicas=2)
    assert _pods(lab, home) == pods

    lab.hub.delete(f"{CLUSTERS}/{old.name}")
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{old.name}")
    wait_until_deleted(lab.hub, f"{NAMESPACES}/{execution_namespace(old.name)}")
    lab.hub.patch(path_of(settings), {"data": {"key": "2"}})
    within(STARTED_S, _has_data, lab, path_of(settings, home))
    assert _pods(lab, home) == pods
    assert _uids(lab, home) == before, "all of it is the same as ever"
    assert _label(lab, old) == old.name, "pods select it"
    assert lab.host.find(f"{NAMESPACES}/{new.host_namespace(namespace)}") is None

    agent.terminate()
    agent.start()
    later = lab.namespace("-later")
    marker = objects.config_map(later)
    lab.propagate([marker], new)
    within(STARTED_S, lab.host.get, path_of(marker, old.host_namespace(later)))
    assert _pods(lab, home) == pods
    lab.hub.delete(path_of(settings))
    wait_until_deleted(lab.host, path_of(settings, home))
    assert "Traceback" not in agent.log()


@pytest.mark.parametrize("is_deleted", [False, True], ids=["at once", "later"])
def test_the_first_name_is_taken_back_and_restarts_no_pod(lab: Lab, *, is_deleted: bool) -> None:
    """Its Cluster is still on the hub, or was deleted after the rename."""
    old = lab.group("branch-a")
    new = Group(f"{lab.id}-shop-7", old.selector, old.nodes)
    entry: dict[str, Any] = {"nodeNames": old.nodes}
    agent = lab.serve({"name": old.name} | entry, flags=(*FAST, *LEASE))
    namespace = lab.namespace()
    home = old.host_namespace(namespace)
    web, settings = objects.deployment(namespace), objects.config_map(namespace)
    policy = lab.propagate([web, settings], old)
    lab.wait_status(web, readyReplicas=2)
    pods, before = _pods(lab, home), _uids(lab, home)
    assert len(pods) == 2

    def rename(to: Group, *former: Group) -> None:
        names = {"name": to.name, "formerNames": [each.name for each in former]}
        agent.settings["virtualClusters"] = [names | entry]
        agent.reload()
        lab.wait_ready(to.name)
        within(STARTED_S, _is_claimed_by, lab, home, to.name)
        lab.hub.patch(path_of(policy), {"spec": {"placement": objects.to_clusters(to.name)}})
        for template in (web, settings):
            within(STARTED_S, _is_of, lab, path_of(template, home), to.name)

    def delete(cluster: Group) -> None:
        lab.hub.delete(f"{CLUSTERS}/{cluster.name}")
        wait_until_deleted(lab.hub, f"{CLUSTERS}/{cluster.name}")

    rename(new, old)
    if is_deleted:
        delete(old)
    rename(old, old, new)
    delete(new)
    lab.hub.patch(path_of(settings), {"data": {"key": "2"}})
    within(STARTED_S, _has_data, lab, path_of(settings, home))
    lab.wait_status(web, readyReplicas=2)
    assert _pods(lab, home) == pods
    assert _uids(lab, home) == before, "all of it is the same as ever"
    assert lab.host.find(f"{NAMESPACES}/{new.host_namespace(namespace)}") is None
    assert "Traceback" not in agent.log()


def _reader(lab: Lab, namespace: str) -> tuple[Object, Object]:
    """Return a ClusterRole, which gets another name on the host, and a RoleBinding to it."""
    rule: Object = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    role = accounts.cluster_role(f"{lab.id}-reader", rule)
    binding = accounts.role_binding(
        namespace, role["metadata"]["name"], accounts.subject(namespace, "default")
    )
    binding["metadata"]["name"] = "read"
    return role, binding


def _pods(lab: Lab, home: str) -> dict[str, str]:
    """Return pod -> UID."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.pods(home)}


def _uids(lab: Lab, home: str) -> dict[str, str]:
    """Return the UIDs of the namespace and the workloads in it."""
    found = [lab.host.get(f"{NAMESPACES}/{home}")]
    for kind in KINDS:
        found += lab.host.list(collection("apps/v1", kind, home))
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


def _label(lab: Lab, group: Group) -> str:
    return str(lab.host.get(f"{NODES}/{group.nodes[0]}")["metadata"]["labels"].get(MEMBERSHIP))


def _is_claimed_by(lab: Lab, home: str, cluster: str) -> None:
    labels = lab.host.get(f"{NAMESPACES}/{home}")["metadata"]["labels"]
    assert labels[CLUSTER] == cluster, labels


def _is_of(lab: Lab, path: str, cluster: str) -> None:
    metadata = lab.host.get(path)["metadata"]
    assert metadata["labels"][CLUSTER] == cluster
    work = metadata["annotations"][f"{DOMAIN}/work"]
    assert work.startswith(f"{execution_namespace(cluster)}/"), work


def _has_data(lab: Lab, path: str) -> None:
    assert lab.host.get(path)["data"] == {"key": "2"}
