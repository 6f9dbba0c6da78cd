"""AffectedWorks: a change brings up the Works that depend on it, and nobody else's."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.work_watches import AffectedWorks
from karmada_vc_agent.work.works import WorkKey
from tests.fakes import objects


class Given:
    """branch-a and branch-b, each with a Work that depends on its claims."""

    def __init__(self) -> None:
        works = MagicMock()
        works.names.side_effect = lambda cluster: [f"{cluster}-1", f"{cluster}-2"]
        self.clusters = MagicMock()
        self.clusters.is_deleting.side_effect = lambda name: name == "branch-b"
        self.affected = AffectedWorks(
            {"branch-a", "branch-b"},
            works,
            self.clusters,
            lambda cluster: [f"karmada-es-{cluster}/binding", "karmada-es-stranger/binding"],
        )


def claimed(cluster: str, name: str, **fields: Any) -> Object:
    return objects.claimed(cluster, name, f"{name}-v-{cluster}", **fields)


def test_thousand_namespace_events_of_one_cluster_bring_up_no_work_of_another() -> None:
    affected = Given().affected
    for number in range(1000):
        before = claimed("branch-a", f"n{number % 7}", annotations={"n": str(number)})
        after = claimed("branch-a", f"n{number % 7}", annotations={"n": str(number + 1)})
        found = [*affected.by_namespace(before, after), *affected.by_namespace(before, None)]
        assert {cluster for cluster, _ in found} <= {"branch-a"}


def test_claim_brings_up_its_namespace_work_and_what_depends_on_claims() -> None:
    found = list(Given().affected.by_namespace(None, claimed("branch-a", "new")))
    assert ("branch-a", "binding") in found
    assert len([name for _, name in found if name != "binding"]) == 1  # the Namespace's Work
    assert not [cluster for cluster, _ in found if cluster != "branch-a"]


def test_works_of_a_cluster_that_is_deleted_come_up() -> None:
    affected = Given().affected
    for name, found in (("branch-a", []), ("branch-b", ["branch-b-1", "branch-b-2"]), ("x", [])):
        cluster = {"metadata": {"name": name}}
        assert [work for _, work in affected.by_cluster(cluster, cluster)] == found


def test_works_of_the_namespaces_of_a_deleted_work_are_requeued() -> None:
    affected = Given().affected
    work = objects.work(objects.deployment())
    assert [cluster for cluster, _ in affected.by_work("branch-a", work, None)] == ["branch-a"]
    assert list(affected.by_work("branch-a", None, work)) == []
    assert list(affected.by_work("branch-a", work, work)) == []


@pytest.mark.parametrize(
    ("work", "found"),
    [
        ("karmada-es-branch-a/web", [("branch-a", "web")]),
        ("karmada-es-stranger/web", []),
        ("edge/web", []),
        ("", []),
    ],
)
def test_work_by_its_id_is_one_of_a_cluster_served(work: str, found: list[WorkKey]) -> None:
    assert Given().affected.by_id(work) == found
