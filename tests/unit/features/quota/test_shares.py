"""The division of a quota: the sum holds at every step, and every wish that fits is met."""

import copy
import random

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from karmada_vc_agent.features.quota.shares import (
    Share,
    amounts_of,
    divide,
    next_hard,
    quantities_of,
    requested_by,
    share_of,
)
from karmada_vc_agent.model.objects import Object


def share(hard: int = 0, used: int = 0, requested: int = 0, rolling: int = 0) -> Share:
    amounts = [{"pods": amount} for amount in (hard, used, requested, max(requested, rolling))]
    return Share(amounts[0], amounts[0], amounts[1], amounts[2], amounts[3])


def divided(total: int, **shares: Share) -> dict[str, int]:
    return {name: t["pods"] for name, t in divide({"pods": total}, shares).items()}


def test_quota_requested_by_no_one_is_divided_evenly() -> None:
    assert divided(7, a=share(), b=share(), c=share()) == {"a": 3, "b": 2, "c": 2}


def test_wishes_come_before_the_rest() -> None:
    assert divided(10, a=share(requested=7), b=share()) == {"a": 9, "b": 1}


def test_smallest_request_is_first() -> None:
    assert divided(6, a=share(requested=5), b=share(requested=2)) == {"a": 4, "b": 2}


def test_running_precedes_rolling() -> None:
    assert divided(6, a=share(requested=5, rolling=7), b=share(requested=1)) == {"a": 5, "b": 1}


def test_what_is_used_is_not_taken() -> None:
    assert divided(6, a=share(hard=6, used=5), b=share(requested=6)) == {"a": 5, "b": 1}


def test_division_that_serves_is_kept() -> None:
    kept = {"a": share(hard=6, used=2), "b": share(hard=4, used=1)}
    assert divided(10, **kept) == {"a": 6, "b": 4}


def test_namespace_without_space_gets_some_of_the_rest() -> None:
    assert divided(10, a=share(hard=6, used=2), b=share(hard=4, used=4)) == {"a": 4, "b": 6}


@pytest.mark.parametrize("others", [10, 13, 19])
def test_new_namespace_gets_one_where_an_even_part_is_one(others: int) -> None:
    each, rest = divmod(20, others)
    shares = {f"n{n:02}": share(hard=each + (n < rest)) for n in range(others)}
    result = divided(20, **shares, new=share())
    assert result["new"] == 1
    assert min(result.values()) == 1
    assert sum(result.values()) == 20


def test_rest_smaller_than_the_number_of_namespaces_is_spread() -> None:
    fresh = {f"n{n:02}": share() for n in range(19)}
    result = divided(20, a=share(hard=10), b=share(hard=10), **fresh)
    assert sorted(result.values()) == [0] + [1] * 20
    kept = {name: share(hard=amount) for name, amount in result.items()}
    assert divided(20, **kept) == result
    assert divided(20, **kept | {"a": share(hard=1, used=1)}) == result, "a pod moves no share"


def test_changed_total_is_divided_again() -> None:
    assert divided(4, a=share(hard=6), b=share(hard=4)) == {"a": 2, "b": 2}


def test_nothing_new_starts_while_more_runs_than_may() -> None:
    assert divided(4, a=share(hard=6, used=6), b=share(hard=2, used=2)) == {"a": 3, "b": 1}


def test_no_namespaces_have_no_shares() -> None:
    assert divided(4) == {}


def step(total: int, shares: dict[str, Share], *, may_raise: bool = True) -> dict[str, int]:
    amounts = {"pods": total}
    targets = divide(amounts, shares)
    hard = next_hard(amounts, shares, targets, may_raise=may_raise)
    return {name: amounts["pods"] for name, amounts in hard.items()}


def test_lowering_is_first_and_frees_nothing_before_it_is_enforced() -> None:
    shares = {"a": share(hard=6), "b": share(requested=6)}
    assert step(6, shares) == {"a": 0, "b": 0}


def test_share_that_was_raised_but_not_enforced_yet_frees_nothing_while_it_is_lowered() -> None:
    raised = Share({"pods": 5}, {"pods": 0}, {}, {}, {})
    assert step(6, {"a": raised, "b": share(hard=1, requested=6)}) == {"a": 0, "b": 1}


def test_what_is_enforced_as_free_is_raised() -> None:
    assert step(6, {"a": share(), "b": share(requested=6)}) == {"a": 0, "b": 6}


def test_pod_created_in_between_is_counted() -> None:
    lowered = Share({"pods": 0}, {"pods": 0}, {"pods": 1}, {}, {})
    assert step(6, {"a": lowered, "b": share(requested=6)}) == {"a": 1, "b": 5}


@pytest.mark.parametrize("enforced", [None, {}, {"cpu": 1}])
def test_nothing_is_raised_while_one_is_not_counted(enforced: dict[str, int] | None) -> None:
    fresh = Share({"pods": 0}, enforced, {}, {}, {})
    assert step(6, {"a": fresh, "b": share(hard=2, requested=6)})["b"] == 2


def test_nothing_is_raised_while_a_namespace_has_no_quota() -> None:
    shares = {"a": share(hard=3), "b": share(hard=1, requested=6)}
    assert step(6, shares, may_raise=False) == {"a": 0, "b": 1}


class Server:
    """Namespaces that use what the enforced quota allows, and a server that is behind."""

    def __init__(self, total: int, requested: dict[str, int], seed: int) -> None:
        self.total, self.requested = total, requested
        self.hard = dict.fromkeys(requested, 0)
        self.enforced = dict.fromkeys(requested, 0)
        self.used = dict.fromkeys(requested, 0)
        self.random = random.Random(seed)  # noqa: S311 - a test

    def act(self) -> None:
        """Admit a pod, end a pod, enforce a written number, or change a wish."""
        name = self.random.choice(sorted(self.requested))
        match self.random.randrange(5):
            case 0 | 1 if self.used[name] < min(self.enforced[name], self.requested[name]):
                self.used[name] += 1
            case 2 if self.used[name] > self.requested[name]:
                self.used[name] -= 1
            case 3:
                self.enforced[name] = self.hard[name]
            case 4:
                self.requested[name] = self.random.randrange(self.total + 3)

    def shares(self) -> dict[str, Share]:
        return {
            name: Share(
                {"pods": self.hard[name]},
                {"pods": self.enforced[name]},
                {"pods": self.used[name]},
                {"pods": self.requested[name]},
                {},
            )
            for name in self.requested
        }

    def step(self) -> None:
        self.hard = step(self.total, self.shares())

    def step_behind(self) -> None:
        """Step by what was read before something happened; a quota that changed is not written."""
        read = self.shares()
        self.act()
        now = self.shares()
        for name, hard in step(self.total, read).items():
            if (now[name].enforced, now[name].used) == (read[name].enforced, read[name].used):
                self.hard[name] = hard

    def settle(self) -> None:
        for _ in range(4 * (self.total + len(self.requested)) + 8):
            self.step()
            self.enforced = dict(self.hard)
            for name in self.requested:
                self.used[name] = min(
                    self.requested[name], max(self.used[name], self.enforced[name])
                )


@for_all(st.integers(0, 12), st.integers(1, 5), st.integers(0, 10**6))
def test_sum_holds_whatever_happens_and_what_fits_runs_in_the_end(
    total: int, count: int, seed: int
) -> None:
    server = Server(total, {f"n{number}": 0 for number in range(count)}, seed)
    for _ in range(60):
        server.act()
        server.step_behind()
        assert sum(server.enforced.values()) <= total
        assert sum(server.used.values()) <= total
    server.settle()
    used, requested = sum(server.used.values()), sum(server.requested.values())
    assert used == min(total, requested)
    settled = copy.copy(server.hard)
    server.settle()
    assert server.hard == settled, "a division at rest must not move"


def workload(kind: str, api_version: str = "apps/v1", **spec: object) -> Object:
    container = {
        "name": "c",
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
    }
    template = {"spec": {"containers": [container]}}
    return {"apiVersion": api_version, "kind": kind, "spec": {"template": template, **spec}}


@pytest.mark.parametrize(
    ("obj", "pods", "rolling"),
    [
        (workload("Deployment", replicas=4), 4, 5),
        (workload("Deployment"), 1, 2),
        (workload("Deployment", replicas=0), 0, 0),
        (workload("Deployment", replicas=4, strategy={"type": "Recreate"}), 4, 4),
        (
            workload("Deployment", replicas=4, strategy={"rollingUpdate": {"maxSurge": 3}}),
            4,
            7,
        ),
        (
            workload("Deployment", replicas=3, strategy={"rollingUpdate": {"maxSurge": "50%"}}),
            3,
            5,
        ),
        (workload("StatefulSet", replicas=3), 3, 3),
        (workload("DaemonSet"), 2, 2),
        (workload("Job", "batch/v1", parallelism=3), 3, 3),
        (workload("Job", "batch/v1", suspend=True), 0, 0),
        (workload("CronJob", "batch/v1"), 0, 0),
        ({**workload("Job", "batch/v1"), "status": {"completionTime": "2026"}}, 0, 0),
        (workload("ReplicationController", "v1", replicas=2), 2, 2),
    ],
)
def test_pods_of_a_workload_are_counted(obj: Object, pods: int, rolling: int) -> None:
    running, while_rolling = requested_by(obj, (), nodes=2)
    assert running.get("pods", 0) == pods
    assert while_rolling.get("pods", 0) == rolling


def test_requests_and_limits_are_counted_by_all_names_of_a_quota() -> None:
    running, _ = requested_by(workload("StatefulSet", replicas=2), (), nodes=0)
    assert running == {
        "pods": 2,
        "count/pods": 2,
        "cpu": 200,
        "requests.cpu": 200,
        "memory": 2 * 2**30,
        "requests.memory": 2 * 2**30,
        "limits.memory": 2 * 2**30,
    }


def test_containers_that_state_nothing_get_the_defaults() -> None:
    limits = ({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "50m"}},)
    obj = workload("StatefulSet")
    obj["spec"]["template"]["spec"] = {
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}],
        "overhead": {"cpu": "10m"},
    }
    running, _ = requested_by(obj, limits, nodes=0)
    assert running["requests.cpu"] == 2010
    assert running["limits.cpu"] == 1010


def test_workload_without_a_template_requests_nothing() -> None:
    odd = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": "x"}}
    assert requested_by(odd, (), nodes=1) == ({}, {})


def test_amounts_go_there_and_back() -> None:
    written = {"limits.memory": "1536Mi", "pods": "4", "requests.cpu": "1500m"}
    amounts = amounts_of(written)
    assert amounts == {"limits.memory": 1536 * 2**20, "pods": 4, "requests.cpu": 1500}
    assert quantities_of(amounts) == written


def test_share_is_read_from_a_quota() -> None:
    quota = {
        "spec": {"hard": {"pods": "4"}},
        "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}},
    }
    read = share_of(quota, {"pods": 9}, {"pods": 10})
    assert read == Share({"pods": 4}, {"pods": 3}, {"pods": 2}, {"pods": 9}, {"pods": 10})
    assert share_of({"spec": {"hard": {"pods": "4"}}}, {}, {}).enforced is None
