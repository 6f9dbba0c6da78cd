"""DependencyChanges: a change retries the Works that wait for it, and none of a neighbour's."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.work.reporting import Dependency, kind_dependency, refused
from karmada_vc_agent.work.work_watches import DependencyChanges
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
    """Refused Works of branch-b, and which of them a change retried."""

    def __init__(self) -> None:
        vc = objects.virtual_cluster("branch-b")
        refusals = [Refusal(code, "spec", "detail", about) for code, about in OF_B]
        self.waits_for = {
            refusal.code: set(refused(vc, objects.config_map(), refusal).waits_for)
            for refusal in refusals
        }
        self.found: set[Code] = set()
        self.changed: set[Dependency] = set()
        self.changes = DependencyChanges(["branch-a", "branch-b"], self._emit)

    def _emit(self, changed: set[Dependency]) -> None:
        self.changed |= changed
        self.found |= {code for code, waits_for in self.waits_for.items() if waits_for & changed}


def group(name: str, *nodes: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodes": list(nodes)}}


def served(*gvks: GroupVersionKind) -> ServedApis:
    resource = Resource(GADGET, "gadgets", namespaced=True, verbs=frozenset())
    return MagicMock(spec=ServedApis, by_kind=dict.fromkeys(gvks, resource))


def claimed(cluster: str, name: str, **fields: Any) -> Object:
    return objects.claimed(cluster, name, f"{name}-v-{cluster}", **fields)


OF_ITS_CLUSTER = {code for code, _ in OF_B} - {Code.VOLUME_FORBIDDEN}
PLACE = objects.namespace(OTHERS_PLACE)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda c: c.namespace(None, PLACE), {Code.NAMESPACE_NOT_OWNED}),
        (lambda c: c.namespace(PLACE, PLACE), set()),
        (lambda c: c.namespace(PLACE, None), {Code.NAMESPACE_NOT_OWNED}),
        (
            lambda c: c.namespace(None, claimed("branch-b", "new")),
            OF_ITS_CLUSTER,
        ),
        (lambda c: c.namespace(None, claimed("branch-a", "new")), set()),
        (lambda c: c.namespace(claimed("branch-b", "old"), None), OF_ITS_CLUSTER),
        (lambda c: c.cluster("branch-b"), OF_ITS_CLUSTER),
        (lambda c: c.cluster("branch-a"), set()),
        (lambda c: c.node_group(None, group("west")), {Code.NODE_SCOPE_FORBIDDEN}),
        (lambda c: c.node_group(group("west", "n1"), None), {Code.NODE_SCOPE_FORBIDDEN}),
        (lambda c: c.node_group(None, group("east")), set()),
        (lambda c: c.node_group(group("west"), group("west")), set()),
        (lambda c: c.served(served(NODE_GROUP)), OF_ITS_CLUSTER),
    ],
)
def test_refused_works_come_up_for_what_they_were_refused_for(
    change: Any, found: set[Code]
) -> None:
    given = Given()
    change(given.changes)
    assert given.found == found


def test_kind_that_stays_served_brings_up_nothing() -> None:
    given = Given()
    given.changes.served(served(GADGET))
    given.found.clear()
    given.changes.served(served(GADGET, NODE_GROUP._replace(kind="Other")))
    assert given.found == set()


def test_kind_that_is_served_later_brings_up_what_names_it() -> None:
    given = Given()
    given.changes.served(served(NODE_GROUP))
    given.found.clear()
    given.changed.clear()
    given.changes.served(served(NODE_GROUP, GADGET))
    assert given.found == {Code.KIND_FORBIDDEN}
    assert given.changed == {kind_dependency(GADGET)}


def test_deleted_object_requeues_what_waits_for_its_kind() -> None:
    given = Given()
    gone: Object = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    given.changes.own_object(gone, gone)
    given.changes.own_object(None, gone)
    assert given.changed == set()
    given.changes.own_object(gone, None)
    assert given.changed == {("example.com/Gadget",)}


def test_claim_that_changes_is_of_its_cluster_and_names_its_host_namespace() -> None:
    given = Given()
    namespace = claimed("branch-a", "edge")
    given.changes.namespace(namespace, None)
    assert given.changed == {"branch-a", ("edge-v-branch-a",)}
    given.changed.clear()
    given.changes.namespace(namespace, namespace)
    assert given.changed == set()


def test_thousand_namespace_events_of_one_cluster_bring_up_no_work_of_another() -> None:
    given = Given()
    for number in range(1000):
        before = claimed("branch-a", f"n{number % 7}", annotations={"n": str(number)})
        after = claimed("branch-a", f"n{number % 7}", annotations={"n": str(number + 1)})
        given.changes.namespace(before, after)
        given.changes.namespace(before, None)
    assert given.found == set()
