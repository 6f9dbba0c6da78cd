"""The quota of a virtual cluster holds over all its namespaces, and Karmada schedules by it."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import BACKED_OFF_S, THROUGH_HUB_S, within
from e2e.lab.works import condition

CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
QUOTAS = collection("v1", "ResourceQuota")
PODS = collection("v1", "Pod")
BY_CAPACITY = {
    "replicaDivisionPreference": "Weighted",
    "replicaSchedulingType": "Divided",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


class Meter:
    """Looks all the time at how many pods a virtual cluster has, and how many it may have.

    forgotten: pods that run and that the host's quota controller counts no more, for its cache of
    pods was behind its cache of quotas. Kubernetes admits as many again (ADR 14).
    gives: the host namespace whose pods end, so that less of its quota is used.
    """

    def __init__(self, lab: Lab, group: Group) -> None:
        self._lab = lab
        self._group = group
        self._ended = threading.Event()
        self.most_pods = 0
        self.most_enforced = 0
        self.looks = 0
        self.forgotten = 0
        self.gives = ""

    @contextmanager
    def running(self) -> Iterator["Meter"]:
        version = self._lab.host.version(QUOTAS)
        with ThreadPoolExecutor(2) as pool:
            threads = [pool.submit(self._look), pool.submit(self._follow, version)]
            try:
                yield self
            finally:
                self._ended.set()
        for thread in threads:
            thread.result()

    def _look(self) -> None:
        for _ in self._until_the_end():
            self.most_pods = max(self.most_pods, pods_of(self._lab, self._group))
            self.most_enforced = max(self.most_enforced, enforced(self._lab, self._group))
            self.looks += 1
            time.sleep(0.05)

    def _follow(self, version: str) -> None:
        used: dict[str, int] = {}
        for _ in self._until_the_end():
            for quota in self._lab.host.watch(QUOTAS, 1, version):
                metadata = quota["metadata"]
                namespace, version = metadata["namespace"], metadata["resourceVersion"]
                if not _is_share(quota, self._group):
                    continue
                before, now = used.get(namespace, 0), _pods_in(quota, "used")
                if namespace != self.gives:
                    self.forgotten += max(0, before - now)
                used[namespace] = now

    def _until_the_end(self) -> Iterator[None]:
        is_last = False
        while not is_last:
            is_last = self._ended.is_set()  # what is there at the end is seen in any case
            yield


def test_the_sum_over_namespaces_never_exceeds_the_quota(lab: Lab) -> None:
    group = lab.group("a", nodes=3)
    lab.serve(group.settings(quota={"pods": 6, "requests.cpu": "3"}))
    templates = [
        objects.deployment(lab.namespace(f"-{number}"), replicas=5, cpu="500m")
        for number in range(3)
    ]
    with Meter(lab, group).running() as meter:
        for template in templates:  # 15 pods are wanted, 6 may be
            lab.propagate([template], group)
        within(BACKED_OFF_S, _has_pods, lab, group, 6)
        time.sleep(3)
        # Which one has most depends on which the hub sent first.
        full = max(templates, key=lambda template: len(_pods(lab, template, group)))
        meter.gives = group.host_namespace(full["metadata"]["namespace"])
        lab.hub.patch(_path(full), {"spec": {"replicas": 0}})
        others = [template for template in templates if template is not full]
        # What one namespace gives up moves to those that want it.
        within(BACKED_OFF_S, _share_six, lab, group, others)
    assert meter.looks > 20
    assert meter.most_enforced == 6, f"the shares added up to {meter.most_enforced}"
    pods, forgotten = meter.most_pods, meter.forgotten
    assert 6 <= pods <= 6 + forgotten, f"{pods} pods at once, {forgotten} forgotten"


@pytest.mark.smoke
def test_a_quota_made_smaller_or_removed_by_hand_is_put_right(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group.settings(quota={"pods": 4}, limits=[{"type": "Pod", "max": {"cpu": "1"}}]))
    namespace = lab.namespace()
    lab.propagate([objects.config_map(namespace)], group)
    host = group.host_namespace(namespace)
    quota = f"{collection('v1', 'ResourceQuota', host)}/vc-quota"
    limits = f"{collection('v1', 'LimitRange', host)}/vc-limits"
    within(THROUGH_HUB_S, lab.host.get, quota)
    within(THROUGH_HUB_S, _adds_up, lab, group, 4)
    lab.host.patch(quota, {"spec": {"hard": {"pods": "100"}}})
    within(THROUGH_HUB_S, _adds_up, lab, group, 4)
    before = lab.host.get(limits)["spec"]
    lab.host.delete(quota)
    lab.host.patch(limits, {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "100"}}]}})
    within(THROUGH_HUB_S, lab.host.get, quota)
    within(THROUGH_HUB_S, _adds_up, lab, group, 4)

    def look() -> None:
        assert lab.host.get(limits)["spec"] == before

    within(THROUGH_HUB_S, look)
    lab.host.delete(limits)
    within(THROUGH_HUB_S, look)


def test_a_quota_of_karmada_beside_ours_stops_nothing(lab: Lab) -> None:
    group = lab.group("a", nodes=2)
    lab.serve(group.settings(quota={"pods": 4}))
    first, second = lab.namespace("-1"), lab.namespace("-2")
    for namespace in (first, second):
        lab.hub.create(objects.federated_quota(namespace, {group.name: "8"}))
        path = f"{collection('v1', 'ResourceQuota', group.host_namespace(namespace))}/shared"
        within(THROUGH_HUB_S, lab.host.get, path)
    lab.propagate([objects.deployment(first, replicas=3)], group)
    within(BACKED_OFF_S, _has_pods, lab, group, 3)
    within(THROUGH_HUB_S, _adds_up, lab, group, 4)
    within(THROUGH_HUB_S, _is_divided, lab, group)


def test_replicas_are_divided_by_what_each_branch_may_use(lab: Lab) -> None:
    small, large = lab.group("small", nodes=2), lab.group("large", nodes=2)
    model = {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "8"}]}
    lab.serve(
        small.settings(quota={"requests.cpu": "2", "pods": 20}, resourceModels=[model]), large
    )
    summary = lab.cluster(small.name)["status"]["resourceSummary"]
    assert summary["allocatable"]["cpu"] == "2"
    assert summary["allocatable"]["pods"] == "20"
    assert "allocatableModelings" not in summary
    namespace = lab.namespace()
    template = objects.deployment(namespace, replicas=8, cpu="1")
    placement = objects.to_clusters(small.name, large.name) | {"replicaScheduling": BY_CAPACITY}
    with Meter(lab, small).running() as meter:
        lab.propagate([template], small, large, placement=placement)

        def shares() -> dict[str, int]:
            found = {
                target["name"]: target["replicas"]
                for target in lab.wait_fully_applied(template)["spec"]["clusters"]
            }
            assert sum(found.values()) == 8, found
            return found

        share = within(THROUGH_HUB_S, shares)[small.name]
        assert 0 < share <= 2, "without its quota the small one would get half"
        within(BACKED_OFF_S, _has_pods, lab, small, share)
    assert meter.most_pods == share


def _is_divided(lab: Lab, group: Group) -> None:
    divided = condition(lab.cluster(group.name), "QuotaDivided")
    assert divided["status"] == "True", divided


def pods_of(lab: Lab, group: Group) -> int:
    """Return how many pods run or will; one whose kubelet has ended it is listed a moment more."""
    mine = f"-v-{group.name}"
    return sum(
        pod["metadata"]["namespace"].endswith(mine)
        and pod["metadata"].get("deletionGracePeriodSeconds") != 0
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
        for pod in lab.host.list(PODS)
    )


def enforced(lab: Lab, group: Group) -> int:
    """Return what the server admits pods by, all namespaces together."""
    quotas = lab.host.list(QUOTAS)
    return sum(_pods_in(quota, "hard") for quota in quotas if _is_share(quota, group))


def _is_share(quota: Object, group: Group) -> bool:
    """Return whether it is ours; there may be others in addition."""
    metadata = quota["metadata"]
    labels = metadata.get("labels") or {}
    return metadata["name"] == "vc-quota" and labels.get(CLUSTER_LABEL) == group.name


def _pods_in(quota: Object, field: str) -> int:
    """Return the pods that status.hard or status.used says."""
    amounts = (quota.get("status") or {}).get(field) or {}
    return int(amounts.get("pods", 0))


def _pods(lab: Lab, template: Object, group: Group) -> list[Object]:
    return lab.pods(group.host_namespace(template["metadata"]["namespace"]))


def _has_pods(lab: Lab, group: Group, count: int) -> None:
    found = pods_of(lab, group)
    assert found >= count, f"{found} pods; {_quotas(lab, group)}"


def _quotas(lab: Lab, group: Group) -> dict[str, Object]:
    """Return what each namespace has of the quota, to tell a wrong share from a late count."""
    quotas = lab.host.list(QUOTAS, f"{CLUSTER_LABEL}={group.name}")
    return {each["metadata"]["namespace"]: each["status"] for each in quotas}


def _share_six(lab: Lab, group: Group, templates: list[Object]) -> None:
    counts = [len(_pods(lab, template, group)) for template in templates]
    assert sum(counts) >= 6, counts


def _adds_up(lab: Lab, group: Group, amount: int) -> None:
    found = enforced(lab, group)
    assert found == amount, f"the shares add up to {found}"


def _path(template: Object) -> str:
    metadata = template["metadata"]
    return f"{collection('apps/v1', 'Deployment', metadata['namespace'])}/{metadata['name']}"
