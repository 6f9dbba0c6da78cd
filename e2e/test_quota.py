"""A FederatedResourceQuota becomes a ResourceQuota of each virtual cluster; its use is summed."""

import pytest

from e2e.lab import objects
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, eventually, within

QUOTAS = "/apis/policy.karmada.io/v1alpha1/namespaces/{}/federatedresourcequotas"


@pytest.mark.smoke
def test_quota_is_divided_and_its_use_is_summed(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    namespace = lab.namespace()
    quota = lab.hub.create(
        objects.federated_quota(namespace, {groups[0].name: "3", groups[1].name: "5"})
    )
    for group, pods in zip(groups, ("3", "5"), strict=True):
        path = f"/api/v1/namespaces/{group.host_namespace(namespace)}/resourcequotas/shared"
        live = eventually(lab.host.get, path)
        assert live["spec"]["hard"] == {"pods": pods}
        within(THROUGH_HUB_S, _assert_status_reported, lab, group)

    lab.propagate([objects.deployment(namespace, replicas=2)], groups[0])
    path = f"{QUOTAS.format(namespace)}/{quota['metadata']['name']}"

    def look() -> None:
        status = lab.hub.get(path)["status"]
        assert status["overallUsed"] == {"pods": "2"}, status
        used = {one["clusterName"]: one["used"]["pods"] for one in status["aggregatedStatus"]}
        assert used == {groups[0].name: "2", groups[1].name: "0"}, status

    within(THROUGH_HUB_S, look)


def _assert_status_reported(lab: Lab, group: Group) -> None:
    """Check that a quota never goes without a status: the hub's controller would panic."""
    label = "federatedresourcequota.karmada.io/name"
    works = [work for work in lab.works(group) if label in work["metadata"].get("labels", {})]
    assert len(works) == 1
    entry = works[0]["status"]["manifestStatuses"][0]
    assert entry["identifier"]["kind"] == "ResourceQuota"
    assert "status" in entry
