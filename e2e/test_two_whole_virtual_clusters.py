"""Two virtual clusters with the same of everything: one goes, nothing of the other changes."""

import json
from collections.abc import Callable
from copy import deepcopy

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.branch import Branch
from e2e.lab.deletions import confirm_deletions
from e2e.lab.inventory import chosen
from e2e.lab.lab import BRAKE, CLUSTERS, Group, Lab
from e2e.lab.leave import leave
from e2e.lab.wait import GONE_S, THROUGH_HUB_S, within
from e2e.lab.works import condition, execution_namespace

CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
SHARED_LABEL = "virtualcluster.kubeedge.io/shared"
OWNERS = "virtualcluster.kubeedge.io/owners"
BINDING_ID = "resourcebinding.karmada.io/permanent-id"
Everything = dict[str, Object]


def _delete_on_the_hub(lab: Lab, group: Group) -> None:
    """Delete a Cluster on the hub; so much is deleted by that that the site has to confirm it."""
    lab.hub.delete(f"{CLUSTERS}/{group.name}")
    within(THROUGH_HUB_S, _is_held, lab, group)
    confirm_deletions(lab, group.name)


def _is_held(lab: Lab, group: Group) -> None:
    assert condition(lab.cluster(group.name), "DeletionsHeld")["status"] == "True"


def _leave(lab: Lab, group: Group) -> None:
    done = leave(lab, group.name, "--yes")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("go", [_delete_on_the_hub, _leave])
def test_one_is_removed_and_the_other_is_untouched_bit_by_bit(
    lab: Lab, go: Callable[[Lab, Group], None]
) -> None:
    kept, going = lab.group("kept"), lab.group("going")
    lab.serve(kept, going, installPolicies=True, deletionBrake=BRAKE)
    branch = Branch(lab.id, lab.namespace("-shop"), lab.namespace("-stock"))
    _propagate_all(lab, branch, kept, going)
    try:
        _wait_running(lab, branch, kept, going)
        _wait_settled(lab, branch, kept)
        before = _everything_of(lab, branch, kept)
        _assert_is_whole(before, branch, kept)
        _assert_is_whole(_everything_of(lab, branch, going), branch, going)
        # Karmada's ids do not tell them apart (contract, trap 26).
        assert len({_binding_id(lab, branch, group) for group in (kept, going)}) == 1

        go(lab, going)
        within(GONE_S, _was_deleted, lab, going, leaves_default=go is _delete_on_the_hub)
        after = _everything_of(lab, branch, kept)
        assert after.keys() == before.keys()
        assert {path: after[path] for path in before if after[path] != before[path]} == {}
        _assert_owners(lab, branch, kept)
    finally:
        _remove_cluster_wide(lab, branch)


# --- setting up -------------------------------------------------------------------------


def _propagate_all(lab: Lab, branch: Branch, *groups: Group) -> None:
    wide = branch.cluster_wide()
    for template in wide:
        lab.hub.create(template)
    placement = objects.to_clusters(*(group.name for group in groups))
    policy = objects.policy("", lab.id, wide, placement)
    policy["kind"] = "ClusterPropagationPolicy"
    del policy["metadata"]["namespace"]
    lab.hub.create(policy)
    # Karmada sends a kind only to Clusters that say they serve it.
    within(THROUGH_HUB_S, _is_announced, lab, branch, groups)
    lab.propagate(branch.of_shop(), *groups)
    lab.propagate(branch.of_stock(), *groups)


def _is_announced(lab: Lab, branch: Branch, groups: tuple[Group, ...]) -> None:
    for group in groups:
        enabled = lab.cluster(group.name)["status"]["apiEnablements"]
        assert f"{branch.group}/v1" in {entry["groupVersion"] for entry in enabled}


def _wait_running(lab: Lab, branch: Branch, *groups: Group) -> None:
    for template in [*branch.of_shop(), *branch.of_stock()]:
        lab.wait_fully_applied(template)
    for namespace in (branch.shop, branch.stock):
        lab.wait_namespace_sent(namespace, *groups)
    for group in groups:
        within(THROUGH_HUB_S, _all_works_are_applied, lab, group)
    runs = len(groups)
    lab.wait_status(branch.web(), readyReplicas=2 * runs)
    lab.wait_status(branch.of_stock()[0], readyReplicas=runs)


def _all_works_are_applied(lab: Lab, group: Group) -> None:
    failed = [
        (work["metadata"]["name"], condition(work, "Applied")["message"])
        for work in lab.works(group)
        if condition(work, "Applied")["status"] != "True"
    ]
    assert failed == []


def _wait_settled(lab: Lab, branch: Branch, group: Group) -> None:
    """Wait for what the controllers of the host write once, some of them after a while."""

    def look() -> None:
        autoscaler = lab.on_host(branch.autoscaler(), group)
        condition(autoscaler, "ScalingActive")
        volume = lab.host.get(f"/api/v1/persistentvolumes/{branch.volume_name}-v-{group.name}")
        assert volume["status"]["phase"] == "Bound"
        first = _everything_of(lab, branch, group)
        assert _everything_of(lab, branch, group) == first

    within(THROUGH_HUB_S, look)


# --- looking ----------------------------------------------------------------------------


def _everything_of(lab: Lab, branch: Branch, group: Group) -> Everything:
    """Return every host object of a virtual cluster as it is, with uid and resourceVersion.

    Left out is what is not of this test: Karmada brings each namespace of the hub to every
    virtual cluster, and those of other tests come and go. In what is shared the list of owners
    is: it names the one that goes; `_assert_owners` looks at it.
    """
    own = {group.host_namespace(name) for name in ("default", branch.shop, branch.stock)}

    def wants(path: str, obj: Object) -> bool:
        metadata = obj["metadata"]
        if path.startswith("/api/v1/namespaces/"):
            return path.split("/")[4] in own
        if metadata.get("namespace"):
            return metadata["namespace"] in own
        labels = metadata.get("labels", {})
        shared = SHARED_LABEL in labels and lab.id in metadata["name"]
        return labels.get(CLUSTER_LABEL) == group.name or shared

    found = chosen(lab.host, wants)
    return {path: _without_what_others_move(path, obj) for path, obj in found.items()}


def _without_what_others_move(path: str, obj: Object) -> Object:
    """Leave out the owners of what is shared, and what autoscalers report of metrics of the host.

    These come and go with another story.
    """
    if "/horizontalpodautoscalers/" not in path:
        return _without_owners(obj)
    rest = {key: value for key, value in obj.items() if key != "status"}
    moved_by_it = ("resourceVersion", "managedFields")
    rest["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in moved_by_it}
    return rest


def _without_owners(obj: Object) -> Object:
    if SHARED_LABEL not in obj["metadata"].get("labels", {}):
        return obj
    rest = deepcopy(obj)
    del rest["metadata"]["annotations"][OWNERS]
    for moved_by_it in ("resourceVersion", "managedFields"):
        del rest["metadata"][moved_by_it]
    return rest


def _assert_is_whole(found: Everything, branch: Branch, group: Group) -> None:
    """Assert that the comparison is about all that was sent, and what came of it."""
    sent = {
        path_of(template, group.host_namespace(template["metadata"]["namespace"]))
        for template in (*branch.of_shop(), *branch.of_stock())
    }
    assert sent <= found.keys(), sent - found.keys()
    kinds = {path.split("/")[-2] for path in found}
    made_by_the_host = {"pods", "replicasets", "endpointslices", "controllerrevisions"}
    wide = {"persistentvolumes", "clusterroles", "customresourcedefinitions", "priorityclasses"}
    assert made_by_the_host | wide | {"namespaces", "rolebindings"} <= kinds
    print(f"{len(found)} host objects of {len(kinds)} kinds are compared")


def _binding_id(lab: Lab, branch: Branch, group: Group) -> str:
    return str(lab.on_host(branch.web(), group)["metadata"]["labels"][BINDING_ID])


def _was_deleted(lab: Lab, group: Group, *, leaves_default: bool) -> None:
    """Assert that nothing on hub or host is of, or named after, a virtual cluster.

    leaves_default: without a Work nobody tells the agent to remove `default` (docs/adr/0005),
    nor its own rights in there.
    """
    default = f"/api/v1/namespaces/{group.host_namespace('default')}"

    def is_its(path: str, obj: Object) -> bool:
        labels = obj["metadata"].get("labels", {})
        return labels.get(CLUSTER_LABEL) == group.name or group.name in path

    on_host = chosen(lab.host, is_its)
    nodes = {f"/api/v1/nodes/{name}" for name in group.nodes}
    leases = {f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
              for name in group.nodes}  # fmt: skip
    left = on_host.keys() - nodes - leases
    if leaves_default:
        rights = f"/namespaces/{group.host_namespace('default')}/rolebindings/vc-agent:"
        left = {
            path
            for path in left
            if not path.endswith(_MADE_IN_EACH_NAMESPACE) and rights not in path
        } - {default}
    assert not left, sorted(left)
    shared = chosen(lab.host, lambda _, obj: OWNERS in obj["metadata"].get("annotations", {}))
    assert not [path for path, obj in shared.items() if group.name in _owners_of(obj)]

    space = execution_namespace(group.name)
    on_hub = chosen(lab.hub, lambda path, _: f"/{group.name}" in path or f"/{space}" in path)
    assert not on_hub, sorted(on_hub)


_MADE_IN_EACH_NAMESPACE = ("/configmaps/kube-root-ca.crt", "/serviceaccounts/default")


def _assert_owners(lab: Lab, branch: Branch, kept: Group) -> None:
    for template in branch.cluster_wide()[:2]:
        assert _owners_of(lab.host.get(path_of(template))) == {kept.name}


def _owners_of(obj: Object) -> set[str]:
    return set(json.loads(obj["metadata"]["annotations"][OWNERS]))


def _remove_cluster_wide(lab: Lab, branch: Branch) -> None:
    """Remove what goes with no namespace; on the host the agent would, but its test ends."""
    policies = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
    lab.hub.delete(f"{policies}/{lab.id}")
    for template in branch.cluster_wide():
        lab.hub.delete(path_of(template))
        for name in ("", *(f"-v-{group}" for group in lab.clusters)):
            lab.host.delete(f"{path_of(template)}{name}")
