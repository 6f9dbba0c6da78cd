"""MissingRights: a right that one virtual cluster lacks is not one that all lack."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from karmada_vc_agent.cluster.lease import MissingRights
from karmada_vc_agent.kube.errors import Need, need_of
from karmada_vc_agent.model.user_text import JOIN_OF_THIS_VERSION
from tests.fakes import objects
from tests.fakes.fixtures import host, hub, world
from tests.fakes.reported import Reported
from tests.fakes.world import World

__all__ = ["host", "hub", "world"]

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases"
WORKS = "/apis/work.karmada.io/v1alpha1"


@dataclass
class Missing:
    """What is missing: (server, method, path)."""

    world: World
    refused: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = ("branch-a", "branch-b")
        claims = self.world.claims
        self.rights = MissingRights(self._lacking, names, claims, "agents", max_age_s=0.0)
        self.world.parts.missing_rights = self.rights
        self.granted = Reported(self.world, "RightsGranted")

    def _lacking(self) -> Iterator[tuple[str, Need]]:
        for server, method, path in self.refused:
            need = need_of(method, path)
            assert need is not None
            yield server, need


@pytest.fixture
def missing(world: World) -> Missing:
    return Missing(world)


@pytest.mark.parametrize(
    "refused",
    [
        ("hub", "PATCH", f"{CLUSTERS}/branch-a/status"),
        ("hub", "PUT", f"{LEASES}/branch-a"),
        ("hub", "GET", f"{WORKS}/namespaces/karmada-es-branch-a/works"),
        ("hub", "PUT", f"{WORKS}/namespaces/karmada-es-branch-a/works/web/status"),
        ("host", "POST", "/apis/apps/v1/namespaces/edge-v-branch-a/deployments"),
    ],
)
def test_right_of_one_concerns_no_other(missing: Missing, refused: tuple[str, str, str]) -> None:
    missing.world.host.seed(objects.claimed())
    missing.world.look()
    missing.refused.append(refused)
    assert list(missing.rights.by_cluster()) == ["branch-a"]
    assert missing.rights.of_all() is None
    (warning,) = missing.rights.warnings()
    assert warning.startswith(f"branch-a: {refused[0]}: the agent lacks rule")
    assert missing.granted.condition(objects.virtual_cluster("branch-b"), {}) == []


@pytest.mark.parametrize(
    "refused",
    [
        ("hub", "GET", CLUSTERS),
        ("hub", "POST", CLUSTERS),
        ("hub", "POST", LEASES),
        ("hub", "GET", f"{WORKS}/works"),
        ("host", "GET", "/api/v1/nodes"),
        ("host", "POST", "/api/v1/namespaces"),
        ("host", "PATCH", "/api/v1/namespaces/agents/configmaps/karmada-vc-agent-state"),
    ],
)
def test_right_that_all_need_fails_all(missing: Missing, refused: tuple[str, str, str]) -> None:
    missing.refused.append(refused)
    told = missing.rights.of_all()
    assert told is not None
    assert told.startswith(f"{refused[0]}: the agent lacks rule")
    assert missing.rights.by_cluster() == {}
    assert missing.rights.warnings() == []


@pytest.mark.parametrize(
    "refused",
    [
        ("host", "GET", "/apis/example.com/v1/widgets"),
        ("host", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("host", "GET", "/api/v1/nodes/n1"),
        ("host", "GET", "/api/v1/namespaces/kube-system/configmaps/coredns"),
        ("hub", "POST", "/api/v1/namespaces/bank/events"),
        ("hub", "GET", f"{CLUSTERS}/not-ours"),
    ],
)
def test_right_for_single_kinds_and_objects_is_a_warning(
    missing: Missing, refused: tuple[str, str, str]
) -> None:
    missing.refused.append(refused)
    assert missing.rights.of_all() is None
    assert missing.rights.by_cluster() == {}
    assert len(missing.rights.warnings()) == 1


def test_where_each_lacks_one_all_do(missing: Missing) -> None:
    missing.refused.append(("hub", "PUT", f"{LEASES}/branch-a"))
    assert missing.rights.of_all() is None
    missing.refused.append(("hub", "PATCH", f"{CLUSTERS}/branch-b/status"))
    assert missing.rights.of_all() is not None


def test_condition_says_what_is_missing_until_it_is_not(
    missing: Missing, caplog: pytest.LogCaptureFixture
) -> None:
    vc = objects.virtual_cluster("branch-a")
    missing.refused += [
        ("hub", "PUT", f"{LEASES}/branch-a"),
        ("hub", "GET", f"{CLUSTERS}/branch-a"),
    ]
    with caplog.at_level(logging.WARNING):
        (condition,) = missing.granted.condition(vc, {})
        missing.granted.condition(vc, {})
    assert condition["status"] == "False"
    assert "resourceNames: [branch-a]" in condition["message"]
    assert condition["message"].endswith(f"{JOIN_OF_THIS_VERSION} (and 1 more)")
    assert "rollback" in condition["message"]
    assert len(caplog.messages) == 1
    missing.refused.clear()
    (condition,) = missing.granted.condition(vc, {"conditions": [condition]})
    assert condition["status"] == "True"
    assert missing.granted.condition(vc, {}) == []


@pytest.mark.parametrize(("method", "name"), [("GET", "/spared"), ("POST", ""), ("GET", "/other")])
def test_optional_right_fails_no_one(world: World, method: str, name: str) -> None:
    """As that to the Secrets of the checkpoint; creating is not confined by name."""
    need = need_of(method, f"/api/v1/namespaces/agents/secrets{name}")
    assert need is not None
    spared = need.name in ("spared", "")
    rights = MissingRights(
        lambda: [("host", need)],
        ("branch-a",),
        world.claims,
        "agents",
        lambda each: each.name in ("spared", ""),
    )
    assert (rights.of_all() is None) == spared
    assert bool(rights.warnings()) == spared


def test_what_many_lack_is_sorted_once_a_second_and_always_the_same(world: World) -> None:
    verbs, asked, now = ["update", "get"], [], [0.0]

    def lacking() -> list[tuple[str, Need]]:
        asked.append(now[0])
        lease = partial(Need, group="coordination.k8s.io", resource="leases", name="branch-a")
        return [("hub", lease(verb, namespace="karmada-cluster")) for verb in verbs]

    rights = MissingRights(lacking, ("branch-a",), world.claims, "agents", clock=lambda: now[0])
    first, *_ = (rights.by_cluster()["branch-a"] for _ in range(1000))
    assert asked == [0.0]
    verbs.reverse()  # the order is that in which they were refused last
    now[0] = 1.5
    assert rights.by_cluster()["branch-a"] == first
    assert asked == [0.0, 1.5]
