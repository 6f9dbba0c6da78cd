"""Triggers: a change brings up the Works that rest on it, and nobody else's."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.apply.grounds import depending_on
from karmada_vc_agent.apply.held_changes import HeldChanges
from karmada_vc_agent.apply.work_memory import WorkMemory
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.service.triggers import Triggers
from karmada_vc_agent.translation.refusal import Code
from karmada_vc_agent.views.claims import Claims
from karmada_vc_agent.views.node_groups import NODE_GROUP
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
    """Triggers over a store of namespaces, with refused Works of branch-b."""

    def __init__(self) -> None:
        self.namespaces: Store[Object] = Store(RawCodec())
        self.memory = WorkMemory()
        self.queues = MagicMock()
        claims = Claims(self.namespaces, "karmada-vc-agent")
        stores = MagicMock(namespaces=self.namespaces, claims=claims)
        vcs = {name: objects.virtual_cluster(name) for name in ("branch-a", "branch-b")}
        self.triggers = Triggers(vcs, stores, self.queues, HeldChanges(self.queues.works.add))
        told: Any = MagicMock()
        told.execution.depending_on = self.memory.depending_on
        told.manifests.depending_on_claims.return_value = []
        self.triggers.connect(told)
        self.nodes_of_cluster_changed = stores.membership.add_listener.call_args.args[0]
        for code, about in OF_B:
            depends_on = depending_on(code, "branch-b", about)
            work = objects.work(vc="branch-b", name=str(code))
            self.memory.note(work, (str(code),), depends_on, is_refused=True)

    def retried(self) -> set[str]:
        """Return the refused Works that were queued since the last look."""
        calls, codes = self.queues.works.add.call_args_list, {str(code) for code, _ in OF_B}
        found = {call.args[0][1] for call in calls if call.args[0][0] == "branch-b"}
        self.queues.works.add.reset_mock()
        return found & codes


def group(name: str, *nodes: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodes": list(nodes)}}


def served(*gvks: GroupVersionKind) -> ServedApis:
    resource = Resource(GADGET, "gadgets", namespaced=True, verbs=frozenset())
    return MagicMock(spec=ServedApis, by_kind=dict.fromkeys(gvks, resource))


def test_thousand_namespace_events_of_one_cluster_cost_another_no_reconcile() -> None:
    given = Given()
    for n in range(1000):
        meta: dict[str, Any] = {"uid": f"u{n % 100}", "resourceVersion": str(n + 1)}
        changed = objects.claimed(
            "branch-a", f"n{n % 100}", f"n{n % 100}-v-branch-a", annotations={"n": str(n)}, **meta
        )
        given.namespaces.apply(changed)
        if n % 10 == 9:
            given.namespaces.remove(changed)
    assert given.queues.namespaces.add.call_count >= 1000  # they were seen
    assert given.retried() == set()


@pytest.mark.parametrize(
    ("change", "retried"),
    [
        (
            lambda g: g.namespaces.apply(objects.namespace(OTHERS_PLACE, resourceVersion="1")),
            {Code.NAMESPACE_NOT_OWNED},
        ),
        (
            lambda g: g.namespaces.apply(
                objects.claimed("branch-b", "new", "new-v-branch-b", resourceVersion="1")
            ),
            {Code.NAMESPACE_CLAIM_CONFLICT},
        ),
        (
            lambda g: g.nodes_of_cluster_changed("branch-b"),
            {Code.NODE_NAME_FORBIDDEN, Code.NODE_SCOPE_FORBIDDEN},
        ),
        (lambda g: g.nodes_of_cluster_changed("branch-a"), set()),
        (lambda g: g.triggers.group_changed(None, group("west")), {Code.NODE_SCOPE_FORBIDDEN}),
        (lambda g: g.triggers.group_changed(None, group("east")), set()),
        (lambda g: g.triggers.group_changed(group("west"), group("west")), set()),
        (lambda g: g.triggers.kinds_served(served(GADGET)), {Code.KIND_FORBIDDEN}),
        (lambda g: g.triggers.kinds_served(served(NODE_GROUP)), {Code.NODE_SCOPE_FORBIDDEN}),
    ],
)
def test_change_brings_up_what_rests_on_it(change: Any, retried: set[Code]) -> None:
    given = Given()
    change(given)
    assert given.retried() == {str(code) for code in retried}


def test_kind_that_stays_served_brings_up_nothing() -> None:
    given = Given()
    given.triggers.kinds_served(served(GADGET))
    given.retried()
    given.triggers.kinds_served(served(GADGET, NODE_GROUP._replace(kind="Other")))
    assert given.retried() == set()


def test_object_that_goes_heals_what_its_kind_held_up() -> None:
    given = Given()
    gone = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "n", "labels": {CLUSTER_LABEL: "branch-a"}},
    }
    given.triggers.host_object_changed(gone, gone)
    given.queues.works.healed.assert_not_called()
    given.triggers.host_object_changed(gone, None)
    given.queues.works.healed.assert_called_once()
