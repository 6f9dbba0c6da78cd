"""What ends leaves nothing in host namespaces, and waits for nothing that was never there."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.lab import accounts, objects
from e2e.lab.api import Api, ApiError, Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within
from e2e.lab.works import condition
from e2e.test_virtual_cluster_objects import OBJECTS, _served, serve

__all__ = ["_served"]

DOMAIN = "virtualcluster.kubeedge.io"
HOLD = f"{DOMAIN}/hold"
OF_THE_CLAIM = (
    *(("v1", "ResourceQuota"), ("v1", "LimitRange"), ("networking.k8s.io/v1", "NetworkPolicy")),
    (f"{accounts.RBAC}/v1", "RoleBinding"),
)
ADOPTED = 10
BOUNDED: dict[str, Any] = {
    "quota": {"pods": "40"},
    "limits": [{"type": "Container", "default": {"cpu": "10m"}}],
    "networkPolicy": "isolate",
}
READS_SECRETS: Object = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


@pytest.mark.parametrize("settings", [{"paused": True}, {"namespaces": "OnDemand"}, {}])
def test_what_was_never_applied_is_finalised(lab: Lab, settings: dict[str, Any]) -> None:
    """Paused; refused, so that no namespace is needed; in a namespace of somebody else."""
    group = lab.group("a")
    lab.serve(group.settings(**settings))
    if not settings:
        lab.host.create(objects.namespace(group.host_namespace(lab.id)))
    name = lab.namespace()
    manifest = objects.deployment(name, node_selector={lab.label: "elsewhere"})
    works = [lab.create_work(group, "refused", manifest)]
    if settings.get("paused"):
        within(PERIODIC_S, _has, lab, works[0], "Dispatching", "False")
    else:
        lab.wait_applied(works[0], "False")
    if not settings.get("namespaces"):  # there the first one that is applied claims it
        names = ("plain", "last")
        works += [lab.create_work(group, each, objects.config_map(name, each)) for each in names]
    for work in works:
        lab.hub.delete(work)
    for work in works:
        wait_until_deleted(lab.hub, work)
    lab.create_work(group, "with-its-cluster", manifest)
    lab.hub.delete(f"{CLUSTERS}/{group.name}")
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{group.name}")
    if not settings:
        assert lab.host.find(f"{NAMESPACES}/{group.host_namespace(name)}") is not None
        lab.host.delete(f"{NAMESPACES}/{group.host_namespace(name)}")


def test_cluster_that_is_deleted_as_soon_as_it_is_registered_leaves(lab: Lab) -> None:
    group = lab.group("a")
    name = lab.namespace()
    lab.new_agent(group).start()
    path = f"{CLUSTERS}/{group.name}"
    within(PERIODIC_S, lab.hub.get, path)
    lab.create_work(group, "early", objects.config_map(name))
    lab.hub.delete(path)
    wait_until_deleted(lab.hub, path)


@pytest.fixture
def preserved(lab: Lab) -> Iterator[Group]:
    """Return the group of a VirtualCluster object that adopts namespaces, and preserves all."""
    group = lab.group("b", nodes=2, cpu="40")
    names = [f"{lab.id}-{number}" for number in range(ADOPTED)]
    for number, name in enumerate(names):
        home = objects.namespace(name)
        home["metadata"]["annotations"] = {f"{DOMAIN}/allow-adoption": group.name}
        lab.host.create(home)  # first: an agent for the whole host would bring it there
        lab.namespace(f"-{number}")
    serve(lab, lab.group("a"))
    spec = {"deletionPolicy": "Preserve", "adoptNamespaces": names} | BOUNDED
    lab.host.create(
        {
            "apiVersion": f"{DOMAIN}/v1alpha1",
            "kind": "VirtualCluster",
            "metadata": {"name": group.name, "labels": {f"{DOMAIN}/agent": lab.id}},
            "spec": {"nodeSelector": {"matchLabels": group.selector}} | spec,
        }
    )
    lab.wait_ready(group.name)
    yield group
    for agent in lab.agents:
        agent.kill()
    path = f"{OBJECTS}/{group.name}"
    if lab.host.find(path) is not None:
        lab.host.delete(path)
        lab.host.patch(path, {"metadata": {"finalizers": None}})
    for name in names:
        lab.host.delete(f"{NAMESPACES}/{name}")


def test_preserved_namespaces_keep_nothing_of_ours_and_start_pods_again(
    lab: Lab, preserved: Group
) -> None:
    names = lab.namespaces
    templates = [objects.deployment(name, replicas=1) for name in names]
    for template in templates:
        lab.propagate([template], preserved)
    _bind_everywhere(lab, preserved, names[0], "reader")
    for template in templates:
        lab.wait_status(template, readyReplicas=1)
    account = accounts.service_account(lab.host, names[0], "reader", lab.directory)
    secrets = [path_of(lab.host.create(objects.secret(name))) for name in names]
    for path in secrets:
        within(PERIODIC_S, account.get, path)
    for name in names:
        assert len(_of_the_claim(lab, name)) >= len(OF_THE_CLAIM)

    lab.host.delete(f"{OBJECTS}/{preserved.name}")
    wait_until_deleted(lab.host, f"{OBJECTS}/{preserved.name}")
    assert lab.hub.find(f"{CLUSTERS}/{preserved.name}") is None
    for name, path in zip(names, secrets, strict=True):
        assert _of_the_claim(lab, name) == []
        metadata = lab.host.get(f"{NAMESPACES}/{name}")["metadata"]
        marks = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
        assert not [key for key in marks if DOMAIN in key]
        within(PERIODIC_S, _is_forbidden, account, path)
        (pod,) = lab.pods(name)
        lab.host.delete(f"{collection('v1', 'Pod', name)}/{pod['metadata']['name']}", force=True)
    for name in names:
        within(PERIODIC_S, _has_a_pod, lab, name)


def test_rights_of_a_cluster_role_binding_end_in_all_namespaces_but_held_ones(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group.settings(quota={"pods": "8"}))
    names = [lab.namespace(f"-{letter}") for letter in "abc"]
    homes = [group.host_namespace(name) for name in names]
    for name in names:
        lab.propagate([objects.config_map(name)], group)
    work = _bind_everywhere(lab, group, names[0], "reader", "writer")
    bound = [
        f"{collection(f'{accounts.RBAC}/v1', 'RoleBinding', home)}/vc:crb:e2e-reader"
        for home in homes
    ]
    for path in bound:
        assert len(within(PERIODIC_S, lab.host.get, path)["subjects"]) == 2
    lab.host.patch(f"{NAMESPACES}/{homes[0]}", {"metadata": {"annotations": {HOLD: "audit"}}})
    within(PERIODIC_S, _is_held, lab, group)

    manifests = lab.hub.get(work)["spec"]["workload"]["manifests"]
    manifests[1]["subjects"].pop()
    lab.hub.patch(work, {"spec": {"workload": {"manifests": manifests}}})
    for path in bound[1:]:
        within(PERIODIC_S, _has_subjects, lab, path, 1)
    assert len(lab.host.get(bound[0])["subjects"]) == 2
    web = objects.deployment(names[2], replicas=6)
    lab.propagate([web], group)
    lab.wait_status(web, readyReplicas=6)

    lab.hub.delete(work)
    for path in bound[1:]:
        wait_until_deleted(lab.host, path)
    assert lab.host.find(bound[0]) is not None
    lab.host.patch(f"{NAMESPACES}/{homes[0]}", {"metadata": {"annotations": {HOLD: None}}})
    wait_until_deleted(lab.host, bound[0])
    wait_until_deleted(lab.hub, work)


def test_preserved_binding_whose_role_is_missing_is_released(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    name = lab.namespace()
    binding = accounts.role_binding(name, "nowhere", accounts.subject(name, "reader"))
    binding["roleRef"]["kind"] = "Role"
    work = lab.create_work(group, "bound", binding, preserveResourcesOnDeletion=True)
    lab.wait_applied(work)
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    live = lab.host.get(path_of(binding, group.host_namespace(name)))
    assert not [key for key in live["metadata"].get("labels", {}) if DOMAIN in key]


def _bind_everywhere(lab: Lab, group: Group, namespace: str, *names: str) -> str:
    """Write a Work with a ClusterRoleBinding of ServiceAccounts; return its path."""
    role = accounts.cluster_role("e2e-reader", READS_SECRETS)
    subjects = [accounts.subject(namespace, name) for name in names]
    bound = accounts.cluster_role_binding("e2e-reader", *subjects)
    return lab.create_work(group, "rights", role, bound)


def _of_the_claim(lab: Lab, namespace: str) -> list[str]:
    return [
        f"{kind} {obj['metadata']['name']}"
        for api_version, kind in OF_THE_CLAIM
        for obj in lab.host.list(collection(api_version, kind, namespace))
    ]


def _has(lab: Lab, path: str, kind: str, status: str) -> None:
    assert condition(lab.hub.get(path), kind)["status"] == status


def _has_subjects(lab: Lab, path: str, count: int) -> None:
    assert len(lab.host.get(path)["subjects"]) == count


def _is_forbidden(account: Api, path: str) -> None:
    said = "it is not"
    try:
        account.get(path)
    except ApiError as error:
        said = str(error)
    assert "forbidden" in said


def _has_a_pod(lab: Lab, namespace: str) -> None:
    assert lab.pods(namespace)


def _is_held(lab: Lab, group: Group) -> None:
    assert condition(lab.cluster(group.name), "NamespacesHeld")["status"] == "True"
