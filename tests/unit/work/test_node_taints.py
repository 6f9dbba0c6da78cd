"""Works are looked at again when the taints of the nodes of their virtual cluster change."""

import msgspec

from karmada_vc_agent.cluster.virtual_clusters import Membership, VirtualClusters
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.work.work_watches import follow_taints
from karmada_vc_agent.work.works import Works, new_store

EDGE = Taint("edge", "", "NoSchedule")


class Branch:
    """One virtual cluster with a Work, on a store of nodes."""

    def __init__(self, *, tolerates: bool = True) -> None:
        vc = VirtualCluster("a", LabelSelector({"branch": "a"}), tolerate_node_taints=tolerates)
        self.nodes: Store[Node] = Store(Codec(Node))
        vcs = VirtualClusters([vc])
        self.membership = Membership(vcs, self.nodes, lambda _: "")
        works = new_store(RawCodec())
        works.apply(
            {"metadata": {"name": "web", "namespace": "karmada-es-a", "resourceVersion": "1"}}
        )
        self.queued: list[tuple[str, str]] = []
        self.works = Works({"a": works})
        self._version = 0

    def put(self, name: str, *taints: Taint) -> None:
        self._version += 1
        meta = {"name": name, "resourceVersion": str(self._version), "labels": {"branch": "a"}}
        node = msgspec.convert({"metadata": meta}, Node)
        node.spec.taints.extend(taints)
        self.nodes.apply(node)


async def test_works_are_queued_when_what_all_nodes_carry_changed() -> None:
    branch = Branch()
    branch.put("n1", EDGE)
    assert branch.membership.taints_of("a") == (EDGE,)
    await follow_taints(branch.membership, branch.works, branch.queued.append, "a")
    assert branch.queued == []
    branch.put("n2")
    assert branch.membership.taints_of("a") == (EDGE,)  # until it is looked at
    await follow_taints(branch.membership, branch.works, branch.queued.append, "a")
    assert branch.queued == [("a", "web")]
    assert branch.membership.taints_of("a") == ()
    branch.put("n2", EDGE)
    await follow_taints(branch.membership, branch.works, branch.queued.append, "a")
    assert branch.membership.taints_of("a") == (EDGE,)
    assert len(branch.queued) == 2


async def test_the_first_look_queues_nothing() -> None:
    branch = Branch()
    branch.put("n1", EDGE)
    await follow_taints(branch.membership, branch.works, branch.queued.append, "a")
    assert branch.queued == []
    assert branch.membership.taints_of("a") == (EDGE,)


async def test_a_virtual_cluster_may_leave_taints_alone() -> None:
    branch = Branch(tolerates=False)
    branch.put("n1", EDGE)
    await follow_taints(branch.membership, branch.works, branch.queued.append, "a")
    assert branch.membership.taints_of("a") == ()
