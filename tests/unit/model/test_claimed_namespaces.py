"""Claimed namespaces: the way back from a host namespace is a look-up."""

from typing import Any

from karmada_vc_agent.model.virtual_cluster import (
    ClaimedNamespaces,
    HostNamespace,
    VirtualNamespace,
    by_host,
)
from karmada_vc_agent.translation.context import Names, NamespaceTemplate

EDGE, SHOP = VirtualNamespace("edge"), VirtualNamespace("shop")
HOST, OTHER = HostNamespace("x"), HostNamespace("y")


def test_way_back_follows_each_change() -> None:
    claims = ClaimedNamespaces({EDGE: HOST})
    assert claims.by_host == {HOST: EDGE}
    claims[SHOP] = OTHER
    assert claims.by_host == {HOST: EDGE, OTHER: SHOP}
    del claims[EDGE]
    assert claims.by_host == {OTHER: SHOP}
    claims.update({EDGE: HOST})
    assert claims.by_host == {HOST: EDGE, OTHER: SHOP}
    claims.pop(SHOP)
    assert claims.by_host == {HOST: EDGE}
    claims.setdefault(SHOP, OTHER)
    assert claims.by_host == {HOST: EDGE, OTHER: SHOP}
    claims.clear()
    assert claims.by_host == {}


def test_first_claim_on_a_host_namespace_counts() -> None:
    assert by_host({EDGE: HOST, SHOP: HOST}) == {HOST: EDGE}


class _NeverSearched(ClaimedNamespaces):
    searches = 0

    def values(self) -> Any:
        type(self).searches += 1
        return super().values()

    def items(self) -> Any:
        type(self).searches += 1
        return super().items()


def test_many_names_never_search_the_claims() -> None:
    claims = _NeverSearched({EDGE: HOST, SHOP: OTHER})
    names = Names("branch-a", NamespaceTemplate.parse("{namespace}-v-{cluster}"), claims)
    for number in range(100):
        names.host_namespace(f"n{number}")
        names.virtual_namespace(f"n{number}")
    assert _NeverSearched.searches == 0
    assert claims.by_host is claims.by_host
