"""What refusals wait for: their own virtual cluster, and what they name."""

import pytest

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.work.reporting import Dependency, refused
from karmada_vc_agent.work.works import WorkMemory
from tests.fakes import objects

A = "branch-a"


@pytest.mark.parametrize(
    ("code", "about", "waits_for"),
    [
        (Code.NODE_NAME_FORBIDDEN, "", {A}),
        (Code.NODE_AFFINITY_CONFLICT, "", {A}),
        (Code.NODE_OVERLAP, "", {A}),
        (Code.NODE_SCOPE_FORBIDDEN, "g", {A, ("g",)}),
        (Code.NAMESPACE_NOT_OWNED, "ns", {A, ("ns",)}),
        (Code.NAMESPACE_CLAIM_CONFLICT, "ns", {A, ("ns",)}),
        (Code.NAMESPACE_HELD, "ns", {A, ("ns",)}),
        (Code.NAMESPACE_TERMINATING, "", {A}),
        (Code.KIND_FORBIDDEN, "x/v1/Y", {A, ("x/v1/Y",)}),
        (Code.RULE_FORBIDDEN, "", {A}),
        (Code.MANIFEST_INVALID, "", set()),
        (Code.VOLUME_FORBIDDEN, "", set()),
        (Code.IMMUTABLE, "", set()),
    ],
)
def test_refusal_waits_for_its_own_cluster_and_for_what_it_names(
    code: Code, about: str, waits_for: set[Dependency]
) -> None:
    vc = objects.virtual_cluster(A)
    failure = refused(vc, objects.config_map(), Refusal(code, "spec", "detail", about))
    assert set(failure.waits_for) == waits_for
    assert failure.is_final


def test_codes_of_a_work_are_remembered_until_it_fares_otherwise() -> None:
    scopes = Scopes()
    memory = WorkMemory(scopes)
    work = objects.work()
    memory.note(work, ("NodeOverlap",))
    memory.note(objects.work(vc="branch-b"), ("KindForbidden",))
    assert list(memory.refusals()) == [(A, "NodeOverlap"), ("branch-b", "KindForbidden")]
    memory.note(work)
    scopes.end("branch-b")
    assert list(memory.refusals()) == []
