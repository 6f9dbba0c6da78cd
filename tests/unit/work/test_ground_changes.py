"""GroundChanges: a change brings up the Works that were refused for it, and nobody else's."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.cluster.node_groups import NODE_GROUP
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.refusal import Code
from karmada_vc_agent.work.ground_changes import GroundChanges
from karmada_vc_agent.work.grounds import Ground, depending_on
from karmada_vc_agent.work.work_memory import WorkMemory
from tests.fakes import objects

GADGET = GroupVersionKind("example.com", "v1", "Gadget")
OTHERS_PLACE = "edge-v-branch-b"
OF_B = [
    (Code.NODE_NAME_FORBIDDEN, ""),
    (Code.NODE_SCOPE_FORBIDDEN, "west"),
    (Code.NAMESPACE_NOT_OWNED, OTHERS_PLACE),
    (Code.NAMESPACE_CLAIM_CONFLICT, ""),
    (Code.KIND_FORBIDDEN, "/".join(GADGET)),
    (Code.VOLUME_FORBIDDEN, ""),
]
"""A Work of branch-b is refused for each, and named by its code."""


class Given:
    """Refused Works of branch-b, and which of them a change brought up."""

    def __init__(self) -> None:
        self.memory = WorkMemory(Scopes())
        for code, about in OF_B:
            depends_on = depending_on(code, "branch-b", about)
            work = objects.work(vc="branch-b", name=str(code))
            self.memory.note(work, (str(code),), depends_on)
        self.found: set[str] = set()
        self.changes = GroundChanges({"branch-a", "branch-b"}, self._tell)

    def _tell(self, ground: Ground, about: str | None) -> None:
        self.found |= {name for _, name in self.memory.depending_on(ground, about)}


def group(name: str, *nodes: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodes": list(nodes)}}


def served(*gvks: GroupVersionKind) -> ServedApis:
    resource = Resource(GADGET, "gadgets", namespaced=True, verbs=frozenset())
    return MagicMock(spec=ServedApis, by_kind=dict.fromkeys(gvks, resource))


def claimed(cluster: str, name: str, **fields: Any) -> Object:
    return objects.claimed(cluster, name, f"{name}-v-{cluster}", **fields)


PLACE = objects.namespace(OTHERS_PLACE)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda c: c.namespace(None, PLACE), {Code.NAMESPACE_NOT_OWNED}),
        (lambda c: c.namespace(PLACE, PLACE), set()),
        (lambda c: c.namespace(PLACE, None), {Code.NAMESPACE_NOT_OWNED}),
        (
            lambda c: c.namespace(None, claimed("branch-b", "new")),
            {Code.NAMESPACE_CLAIM_CONFLICT},
        ),
        (lambda c: c.namespace(None, claimed("branch-a", "new")), set()),
        (lambda c: c.nodes("branch-b"), {Code.NODE_NAME_FORBIDDEN, Code.NODE_SCOPE_FORBIDDEN}),
        (lambda c: c.nodes("branch-a"), set()),
        (lambda c: c.node_group(None, group("west")), {Code.NODE_SCOPE_FORBIDDEN}),
        (lambda c: c.node_group(group("west", "n1"), None), {Code.NODE_SCOPE_FORBIDDEN}),
        (lambda c: c.node_group(None, group("east")), set()),
        (lambda c: c.node_group(group("west"), group("west")), set()),
        (lambda c: c.served(served(GADGET)), {Code.KIND_FORBIDDEN}),
        (lambda c: c.served(served(NODE_GROUP)), {Code.NODE_SCOPE_FORBIDDEN}),
    ],
)
def test_refused_works_come_up_for_what_they_were_refused_for(
    change: Any, found: set[Code]
) -> None:
    given = Given()
    change(given.changes)
    assert given.found == {str(code) for code in found}


def test_kind_that_stays_served_brings_up_nothing() -> None:
    given = Given()
    given.changes.served(served(GADGET))
    given.found.clear()
    given.changes.served(served(GADGET, NODE_GROUP._replace(kind="Other")))
    assert given.found == set()


def test_thousand_namespace_events_of_one_cluster_bring_up_no_work_of_another() -> None:
    given = Given()
    for number in range(1000):
        before = claimed("branch-a", f"n{number % 7}", annotations={"n": str(number)})
        after = claimed("branch-a", f"n{number % 7}", annotations={"n": str(number + 1)})
        given.changes.namespace(before, after)
        given.changes.namespace(before, None)
    assert given.found == set()
