"""Claims: the index over the labels of host namespaces."""

import pytest

from karmada_vc_agent.cluster.virtual_clusters import Claim, Claims, claim_of
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from tests.fakes import objects
from tests.fakes.world import AGENT

EDGE = VirtualNamespace("edge")


@pytest.fixture
def store() -> Store[Object]:
    return Store(RawCodec())


@pytest.fixture
def claims(store: Store[Object]) -> Claims:
    return Claims(store, AGENT)


def at(version: int, obj: Object) -> Object:
    metadata = {**obj["metadata"], "resourceVersion": str(version)}
    metadata.setdefault("uid", obj["metadata"]["name"])
    return {**obj, "metadata": metadata}


def test_claim_is_what_the_labels_say() -> None:
    assert claim_of(objects.claimed()) == Claim("branch-a", EDGE, AGENT)


@pytest.mark.parametrize("missing", [CLUSTER_LABEL, NAMESPACE_LABEL])
def test_half_a_claim_is_none(missing: str) -> None:
    obj = objects.claimed()
    del obj["metadata"]["labels"][missing]
    assert claim_of(obj) is None


def test_claim_without_an_agent_belongs_to_no_one(store: Store[Object], claims: Claims) -> None:
    obj = objects.claimed()
    del obj["metadata"]["labels"][AGENT_LABEL]
    store.apply(at(1, obj))
    assert claim_of(obj) == Claim("branch-a", EDGE, "")
    assert claims.of("branch-a") == {}


def test_claim_is_added_and_removed_with_its_namespace(
    store: Store[Object], claims: Claims
) -> None:
    store.apply(at(1, objects.claimed()))
    assert claims.of("branch-a") == {"edge": "edge-v-branch-a"}
    store.remove(at(2, objects.claimed()))
    assert claims.of("branch-a") == {}


def test_claim_is_returned_by_its_host_namespace(store: Store[Object], claims: Claims) -> None:
    store.apply(at(1, objects.claimed()))
    store.apply(at(2, objects.claimed(virtual="theirs", agent="another")))
    assert claims.on("edge-v-branch-a") == Claim("branch-a", EDGE, AGENT)
    assert claims.on("theirs-v-branch-a") is None
    assert claims.on("absent") is None


def test_claim_is_removed_with_its_labels(store: Store[Object], claims: Claims) -> None:
    store.apply(at(1, objects.claimed()))
    store.apply(at(2, objects.namespace("edge-v-branch-a")))
    assert claims.of("branch-a") == {}


def test_claim_that_moves_to_another_cluster_moves(store: Store[Object], claims: Claims) -> None:
    store.apply(at(1, objects.claimed(host="hns")))
    store.apply(at(2, objects.claimed(vc="branch-b", virtual="ops", host="hns")))
    assert claims.of("branch-a") == {}
    assert claims.of("branch-b") == {"ops": "hns"}


def test_claims_of_other_agents_do_not_count(store: Store[Object], claims: Claims) -> None:
    store.apply(at(1, objects.claimed(agent="another")))
    assert claims.of("branch-a") == {}


def test_doubled_claim_is_seen_and_ends(store: Store[Object], claims: Claims) -> None:
    first, second = objects.claimed(), objects.claimed(host="second")
    store.apply(at(1, first))
    assert not claims.is_claimed_twice("branch-a", EDGE)
    store.apply(at(2, second))
    assert claims.is_claimed_twice("branch-a", EDGE)
    assert claims.of("branch-a") == {"edge": "edge-v-branch-a"}
    store.remove(at(3, first))
    assert not claims.is_claimed_twice("branch-a", EDGE)
    assert claims.of("branch-a") == {"edge": "second"}


def test_claim_observed_before_the_watch_shows_it_is_entered_by_the_watch(
    store: Store[Object], claims: Claims
) -> None:
    store.observe(at(1, objects.claimed()))
    store.apply(at(1, objects.claimed()))
    assert claims.of("branch-a") == {"edge": "edge-v-branch-a"}


def test_marks_count_in_the_namespaces_of_the_one_they_name(
    store: Store[Object], claims: Claims
) -> None:
    mine = at(1, objects.claimed())
    store.apply(mine)
    store.apply(at(2, {"metadata": {"name": "of-nobody"}}))

    def inside(namespace: str) -> Object:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace}}

    assert claims.may_speak_for(inside("edge-v-branch-a"), "branch-a")
    assert not claims.may_speak_for(inside("edge-v-branch-a"), "branch-b")
    assert not claims.may_speak_for(inside("of-nobody"), "branch-a")
    assert claims.may_speak_for(inside("gone"), "branch-a")
    assert claims.may_speak_for({"kind": "ClusterRole", "metadata": {"name": "x"}}, "branch-a")


def test_a_namespace_speaks_for_the_one_that_claims_it(claims: Claims) -> None:
    namespace = objects.claimed()
    assert claims.may_speak_for(namespace, "branch-a")
    assert not claims.may_speak_for(namespace, "branch-b")
    del namespace["metadata"]["labels"][AGENT_LABEL]
    assert not claims.may_speak_for(namespace, "branch-a")
