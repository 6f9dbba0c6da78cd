"""Two virtual clusters with the same cluster-scoped objects: each has its own, or they share."""

import json
from collections.abc import Iterator

import pytest

from e2e.lab import objects
from e2e.lab.accounts import Who, may
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within

RBAC = "rbac.authorization.k8s.io/v1"
CLUSTER_ROLES = collection(RBAC, "ClusterRole")
CRDS = collection("apiextensions.k8s.io/v1", "CustomResourceDefinition")
PRIORITY_CLASSES = collection("scheduling.k8s.io/v1", "PriorityClass")
VOLUMES = collection("v1", "PersistentVolume")
OWNERS = "virtualcluster.kubeedge.io/owners"
CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
SHARED_LABEL = "virtualcluster.kubeedge.io/shared"


@pytest.fixture
def kinds(lab: Lab) -> Iterator[Lab]:
    """A lab whose cluster-scoped objects on the host go too."""
    yield lab
    mine = ",".join(lab.clusters)
    for path in (CLUSTER_ROLES, VOLUMES):
        for obj in lab.host.list(path, f"{CLUSTER_LABEL} in ({mine})"):
            lab.host.delete(f"{path}/{obj['metadata']['name']}")
    for path in (CRDS, PRIORITY_CLASSES):
        for obj in lab.host.list(path, SHARED_LABEL):
            if lab.id in obj["metadata"]["name"]:
                lab.host.delete(f"{path}/{obj['metadata']['name']}")


def cluster_role(lab: Lab) -> Object:
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["list"]},
    ]
    return _object(RBAC, "ClusterRole", f"{lab.id}-reader", rules=rules)


def cluster_role_binding(lab: Lab, namespace: str) -> Object:
    return _object(
        RBAC,
        "ClusterRoleBinding",
        f"{lab.id}-readers",
        roleRef={
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": f"{lab.id}-reader",
        },
        subjects=[
            {"kind": "ServiceAccount", "name": "bot", "namespace": namespace},
            {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Group",
                "name": "system:serviceaccounts",
            },
        ],
    )


def definition(lab: Lab, *versions: str) -> Object:
    return objects.custom_definition(f"{lab.id}.example.com", versions=versions)


def priority_class(lab: Lab, value: int) -> Object:
    return _object("scheduling.k8s.io/v1", "PriorityClass", f"{lab.id}-high", value=value)


def volume(lab: Lab) -> Object:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "storageClassName": "none",
        "claimRef": {"namespace": lab.id, "name": "data"},
    }
    return _object("v1", "PersistentVolume", f"{lab.id}-data", spec=spec)


@pytest.mark.smoke
def test_each_virtual_cluster_has_its_own_roles_and_volumes_and_loses_only_them(
    kinds: Lab,
) -> None:
    lab = kinds
    kept, deleted = lab.group("a"), lab.group("b")
    lab.serve(kept, deleted)
    namespace = lab.namespace()
    for group in (kept, deleted):
        works = [
            lab.create_work(group, "role", cluster_role(lab)),
            lab.create_work(group, "binding", cluster_role_binding(lab, namespace)),
            lab.create_work(group, "volume", volume(lab)),
            lab.create_work(group, "crd", definition(lab, "v1")),
            lab.create_work(group, "class", priority_class(lab, 10)),
        ]
        for work in works:
            lab.wait_applied(work)
        within(BACKED_OFF_S, _is_bound, lab, group, namespace)
    _assert_rights(lab, kept, deleted, namespace)
    tied = lab.host.get(f"{VOLUMES}/{lab.id}-data-v-{kept.name}")
    [term] = tied["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": lab.label, "operator": "In", "values": ["a"]}]

    before = _everything_of(lab, kept, namespace)
    lab.hub.delete(f"{CLUSTERS}/{deleted.name}")
    within(BACKED_OFF_S, _was_deleted, lab, deleted)
    assert _everything_of(lab, kept, namespace) == before
    assert _owners(lab, f"{CRDS}/widgets.{lab.id}.example.com") == {kept.name}
    assert _owners(lab, f"{PRIORITY_CLASSES}/{lab.id}-high") == {kept.name}


def test_shared_object_changes_when_all_its_owners_agree(kinds: Lab) -> None:
    lab = kinds
    first, second = lab.group("a"), lab.group("b")
    lab.serve(first, second)
    works = {
        group.name: lab.create_work(group, "crd", definition(lab, "v1"))
        for group in (first, second)
    }
    for work in works.values():
        lab.wait_applied(work)
    path = f"{CRDS}/widgets.{lab.id}.example.com"
    assert _owners(lab, path) == {first.name, second.name}

    _rewrite(lab, works[first.name], definition(lab, "v1", "v2"))
    refused = lab.wait_applied(works[first.name], "False")
    message = next(c for c in refused["status"]["conditions"] if c["type"] == "Applied")["message"]
    assert message == (
        f'Failed to apply all manifests (0/1): virtual cluster "{first.name}" refused '
        f"CustomResourceDefinition widgets.{lab.id}.example.com: SharedObjectConflict: "
        "differs from the object owned by other virtual clusters at spec.versions"
    )
    assert _versions(lab, path) == ["v1"]

    _rewrite(lab, works[second.name], definition(lab, "v1", "v2"))
    for work in works.values():
        lab.wait_applied(work)
    assert _versions(lab, path) == ["v1", "v2"]

    lab.hub.delete(works[first.name])
    within(BACKED_OFF_S, lambda: _assert_equal(_owners(lab, path), {second.name}))
    _rewrite(lab, works[second.name], definition(lab, "v1", "v2", "v3"))
    within(BACKED_OFF_S, lambda: _assert_equal(_versions(lab, path), ["v1", "v2", "v3"]))
    lab.wait_applied(works[second.name])
    newcomer = lab.create_work(first, "newcomer", definition(lab, "v1"))
    refused = lab.wait_applied(newcomer, "False")
    assert f'"{first.name}" refused CustomResourceDefinition' in str(refused["status"])
    assert second.name not in str(refused["status"])
    assert _owners(lab, path) == {second.name}
    lab.hub.delete(newcomer)
    wait_until_deleted(lab.hub, newcomer)
    assert _owners(lab, path) == {second.name}

    lab.hub.delete(works[second.name])
    wait_until_deleted(lab.host, path)


def test_a_definition_that_has_objects_outlives_its_last_owner(kinds: Lab) -> None:
    lab = kinds
    group = lab.group("a")
    lab.serve(group)
    work = lab.create_work(group, "crd", definition(lab, "v1"))
    lab.wait_applied(work)
    path = f"{CRDS}/widgets.{lab.id}.example.com"
    widget = _object(f"{lab.id}.example.com/v1", "Widget", "one")
    widget["metadata"]["namespace"] = group.host_namespace("default")
    widget = within(BACKED_OFF_S, lab.host.create, widget)
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    assert _owners(lab, path) == set()
    assert lab.host.get(path_of(widget))["metadata"]["uid"] == widget["metadata"]["uid"]

    lab.host.delete(path_of(widget))
    again = lab.create_work(group, "again", definition(lab, "v1", "v2"))
    lab.wait_applied(again)
    assert _owners(lab, path) == {group.name}
    assert _versions(lab, path) == ["v1", "v2"]
    lab.hub.delete(again)
    wait_until_deleted(lab.host, path)


def test_an_object_of_the_host_is_accepted_or_refused_and_outlives_all(kinds: Lab) -> None:
    lab = kinds
    group = lab.group("a")
    lab.serve(group)
    own = lab.host.create(priority_class(lab, 10))
    path = f"{PRIORITY_CLASSES}/{own['metadata']['name']}"
    work = lab.create_work(group, "class", priority_class(lab, 10))
    lab.wait_applied(work)
    _rewrite(lab, work, priority_class(lab, 20))
    lab.wait_applied(work, "False")
    lab.hub.delete(work)

    def gone() -> None:
        assert lab.hub.find(work) is None

    within(BACKED_OFF_S, gone)
    assert lab.host.get(path)["metadata"]["resourceVersion"] == own["metadata"]["resourceVersion"]
    lab.host.delete(path)


def _object(api_version: str, kind: str, name: str, **fields: object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _rewrite(lab: Lab, work: str, manifest: Object) -> None:
    [before] = lab.hub.get(work)["spec"]["workload"]["manifests"]
    changed = {**manifest, "metadata": before["metadata"]}
    lab.hub.patch(work, {"spec": {"workload": {"manifests": [changed]}}})


def _owners(lab: Lab, path: str) -> set[str]:
    return set(json.loads(lab.host.get(path)["metadata"]["annotations"][OWNERS]))


def _versions(lab: Lab, path: str) -> list[str]:
    return [version["name"] for version in lab.host.get(path)["spec"]["versions"]]


def _assert_equal(found: object, expected: object) -> None:
    assert found == expected


def _binding_path(lab: Lab, group: Group, namespace: str) -> str:
    host_namespace = group.host_namespace(namespace)
    return f"{collection(RBAC, 'RoleBinding', host_namespace)}/vc:crb:{lab.id}-readers"


def _is_bound(lab: Lab, group: Group, namespace: str) -> None:
    binding = lab.host.get(_binding_path(lab, group, namespace))
    groups = {s["name"] for s in binding["subjects"] if s["kind"] == "Group"}
    assert f"system:serviceaccounts:{group.host_namespace(namespace)}" in groups


def _assert_rights(lab: Lab, own: Group, other: Group, namespace: str) -> None:
    """Ask the host what the ServiceAccount of one virtual cluster may do."""
    home, elsewhere = (group.host_namespace(namespace) for group in (own, other))
    bot = Who(f"system:serviceaccount:{home}:bot", (f"system:serviceaccounts:{home}",))

    def own_rights() -> None:
        assert may(lab.host, bot, "get", "configmaps", home)
        assert may(lab.host, bot, "list", "deployments.apps", home)

    within(BACKED_OFF_S, own_rights)
    assert not may(lab.host, bot, "get", "configmaps", elsewhere)
    assert not may(lab.host, bot, "get", "configmaps")
    assert not may(lab.host, bot, "delete", "configmaps", home)
    assert not may(lab.host, bot, "patch", "namespaces", home)


def _everything_of(lab: Lab, group: Group, namespace: str) -> list[Object]:
    """Return what the virtual cluster alone has; nothing of it may change.

    The binding follows the namespaces of the virtual cluster, and Karmada brings it those of
    other tests too: what comes and goes with them is left out.
    """
    binding = lab.host.get(_binding_path(lab, group, namespace))
    for key in ("resourceVersion", "managedFields"):
        del binding["metadata"][key]
    binding["subjects"] = [s for s in binding["subjects"] if _is_of_test(s, lab, group)]
    return [
        lab.host.get(f"{CLUSTER_ROLES}/{lab.id}-reader-v-{group.name}"),
        lab.host.get(f"{VOLUMES}/{lab.id}-data-v-{group.name}"),
        binding,
    ]


def _is_of_test(subject: Object, lab: Lab, group: Group) -> bool:
    kind, _, namespace = subject["name"].partition(":serviceaccounts:")
    own = {group.host_namespace(name) for name in ("default", *lab.namespaces)}
    return kind != "system" or namespace in own


def _was_deleted(lab: Lab, group: Group) -> None:
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    for path in (CLUSTER_ROLES, VOLUMES):
        assert not lab.host.list(path, f"{CLUSTER_LABEL}={group.name}")
