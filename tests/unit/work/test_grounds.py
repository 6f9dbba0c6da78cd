"""What refusals rest on, and who is remembered for it."""

import pytest

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.translation.refusal import Code
from karmada_vc_agent.work.grounds import GROUNDS, Dependency, Ground, depending_on
from karmada_vc_agent.work.work_memory import WorkMemory
from tests.fakes import objects

A, B = ("branch-a", "web-1"), ("branch-b", "web-1")
NODES_OF_A = Dependency(Ground.OWN_NODES, "branch-a")


def test_every_code_says_what_it_rests_on() -> None:
    assert set(GROUNDS) == set(Code)


@pytest.mark.parametrize(
    ("code", "about", "rests"),
    [
        (Code.NODE_NAME_FORBIDDEN, "", {NODES_OF_A}),
        (Code.NODE_OVERLAP, "", {NODES_OF_A}),
        (Code.NODE_SCOPE_FORBIDDEN, "g", {NODES_OF_A, Dependency(Ground.NODE_GROUP, "g")}),
        (Code.NAMESPACE_NOT_OWNED, "ns", {Dependency(Ground.HOST_NAMESPACE, "ns")}),
        (
            Code.NAMESPACE_CLAIM_CONFLICT,
            "ns",
            {
                Dependency(Ground.OWN_NAMESPACES, "branch-a"),
                Dependency(Ground.HOST_NAMESPACE, "ns"),
            },
        ),
        (Code.KIND_FORBIDDEN, "x/v1/Y", {Dependency(Ground.KIND, "x/v1/Y")}),
        (Code.MANIFEST_INVALID, "", set()),
    ],
)
def test_refusal_rests_on_its_own_cluster_and_on_what_it_names(
    code: Code, about: str, rests: set[Dependency]
) -> None:
    assert set(depending_on(code, "branch-a", about)) == rests


def test_work_is_remembered_for_what_it_rests_on_until_it_fares_otherwise() -> None:
    scopes = Scopes()
    memory = WorkMemory(scopes)
    work = objects.work()
    memory.note(work, ("NodeOverlap",), [NODES_OF_A])
    memory.note(objects.work(vc="branch-b"), (), [Dependency(Ground.KIND, "k")])
    assert memory.depending_on(*NODES_OF_A) == [A]
    assert memory.depending_on(Ground.OWN_NODES, "branch-b") == []
    assert memory.depending_on(Ground.KIND, None) == [B]
    memory.note(work)
    assert memory.depending_on(*NODES_OF_A) == []
    scopes.end("branch-b")
    assert memory.depending_on(Ground.KIND, None) == []


def test_result_is_outdated_if_what_it_depends_on_changed_during_the_sync() -> None:
    memory = WorkMemory(Scopes())
    memory.begin(A)
    memory.note(objects.work(), ("NodeOverlap",), [NODES_OF_A])
    assert memory.depending_on(*NODES_OF_A) == [A]
    assert not memory.is_outdated(A)  # a question changes nothing
    memory.ground_changed(Ground.OWN_NODES, "branch-b")
    assert not memory.is_outdated(A)
    memory.ground_changed(Ground.OWN_NODES, None)
    assert memory.is_outdated(A)
    memory.end(A)
    memory.ground_changed(*NODES_OF_A)
    assert not memory.is_outdated(A)
