"""The rights by which Karmada impersonates users are kept and bound to nobody; a template cannot
widen them.
"""

import time

import pytest

from e2e.lab.api import Object, path_of
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within
from e2e.lab.works import condition

NAME = "karmada-impersonator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.mark.smoke
def test_impersonator_of_the_hub_is_stored_and_bound_to_no_one(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    reference = {"namespace": "karmada-cluster", "name": f"{group.name}-impersonator"}
    lab.hub.patch(f"{CLUSTERS}/{group.name}", {"spec": {"impersonatorSecretRef": reference}})
    role = lab.hub.create(_proxy_role(lab, group))
    try:
        for work in within(THROUGH_HUB_S, _impersonator_works, lab, group, path_of(role)):
            (owner,) = work["metadata"]["ownerReferences"]
            assert owner["kind"] == "Cluster"
        _assert_nothing_on_the_host(lab)
        _assert_stored_unbound(lab, group)
        binding = _binding_to(NAME, lab.namespace())
        lab.wait_applied(lab.create_work(group, "bound", binding), "False")
    finally:
        lab.hub.delete(path_of(role))


def test_template_of_that_name_is_no_system_object(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": {"karmada.io/system": "true"}},
        "rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}],
    }
    work = lab.create_work(group, "widened", role)
    lab.wait_applied(work, "False")
    _assert_nothing_on_the_host(lab)


def _proxy_role(lab: Lab, group: Group) -> Object:
    """Return a role that lets somebody use the proxy of the Cluster."""
    rule = {
        "apiGroups": ["cluster.karmada.io"],
        "resources": ["clusters/proxy"],
        "resourceNames": [group.name],
        "verbs": ["get"],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{lab.id}-proxy"},
        "rules": [rule],
    }


def _impersonator_works(lab: Lab, group: Group, role: str) -> list[Object]:
    # The hub looks at a Cluster when such a role changes, and may not know its new secret yet.
    lab.hub.patch(role, {"metadata": {"annotations": {"changed": str(time.time_ns())}}})
    works = [work for work in lab.works(group) if work["metadata"]["name"].startswith(NAME)]
    assert len(works) == 2, [work["metadata"]["name"] for work in works]
    for work in works:
        applied = condition(work, "Applied")
        assert (applied["status"], applied["reason"]) == ("True", "AppliedSuccessful")
    return works


def _assert_stored_unbound(lab: Lab, group: Group) -> None:
    stored = lab.host.get(f"{RBAC}/clusterroles/{NAME}-v-{group.name}")
    assert stored["metadata"]["labels"]["virtualcluster.kubeedge.io/cluster"] == group.name
    verbs = {verb for rule in stored["rules"] for verb in rule["verbs"]}
    assert verbs == {"impersonate"}
    for plural in ("clusterrolebindings", "rolebindings"):
        for binding in lab.host.list(f"{RBAC}/{plural}"):
            assert binding["roleRef"]["name"] != stored["metadata"]["name"]


def _binding_to(role: str, namespace: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "bound", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": "alice"}],
    }


def _assert_nothing_on_the_host(lab: Lab) -> None:
    for plural in ("clusterroles", "clusterrolebindings"):
        assert lab.host.find(f"{RBAC}/{plural}/{NAME}") is None
