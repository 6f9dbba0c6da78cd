"""What a claimed Namespace of the host carries: whose it is to change."""

import pytest

from e2e.lab import accounts
from e2e.lab.api import ApiError, Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES
from e2e.lab.lab import Lab
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.works import condition


def test_labels_of_a_claimed_namespace_are_for_who_may_write_all_namespaces(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    home = group.host_namespace("default")
    within(PERIODIC_S, lab.host.get, f"{collection('v1', 'ServiceAccount', home)}/default")
    within(PERIODIC_S, _is_enforced, lab, group.name)
    path = f"{NAMESPACES}/{home}"
    name = f"{lab.id}-operator"
    rule: Object = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "patch"]}
    operator = lab.host.acting_as(name)
    who = {"kind": "User", "apiGroup": accounts.RBAC, "name": name}
    role = lab.host.create(accounts.cluster_role(name, {**rule, "resourceNames": [home]}))
    bound = lab.host.create(accounts.cluster_role_binding(name, who))
    label = {"metadata": {"labels": {"team": name}}}
    try:
        within(PERIODIC_S, operator.patch, path, {"metadata": {}})
        with pytest.raises(ApiError) as raised:
            operator.patch(path, label)
        assert "for who may update all namespaces: write them in the Namespace on the hub" in str(
            raised.value
        )
        lab.host.patch(path_of(role), {"rules": [rule]})
        within(PERIODIC_S, operator.patch, path, label)
        assert lab.host.get(path)["metadata"]["labels"]["team"] == name
    finally:
        for made in (bound, role):
            lab.host.delete(path_of(made))


def test_objects_of_the_agent_are_for_who_may_change_its_policies(lab: Lab) -> None:
    """Administrators are that, in whatever group: kubeadm's are not in system:masters."""
    group = lab.group("a")
    lab.serve(group)
    home = group.host_namespace("default")
    within(PERIODIC_S, _is_enforced, lab, group.name)
    name = f"{lab.id}-operator"
    limits: Object = {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["*"]}
    policies: Object = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingadmissionpolicies"],
        "verbs": ["update"],
    }
    operator = lab.host.acting_as(name)
    who = {"kind": "User", "apiGroup": accounts.RBAC, "name": name}
    role = lab.host.create(accounts.cluster_role(name, limits))
    bound = lab.host.create(accounts.cluster_role_binding(name, who))
    made: Object = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "vc-probe", "namespace": home},
        "spec": {"limits": []},
    }
    try:
        within(PERIODIC_S, operator.list, collection("v1", "LimitRange", home))
        with pytest.raises(ApiError, match="change the settings of the agent instead"):
            operator.create(made)
        lab.host.patch(path_of(role), {"rules": [limits, policies]})
        within(PERIODIC_S, operator.create, made)
        operator.delete(path_of(made))
    finally:
        for each in (bound, role):
            lab.host.delete(path_of(each))


def _is_enforced(lab: Lab, cluster: str) -> None:
    assert condition(lab.cluster(cluster), "PlacementEnforced")["reason"] == "PodsKept"
