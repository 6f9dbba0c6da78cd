"""Routes between the podCIDRs of nodes, where no CNI image can be pulled."""

import json
from typing import Any

from kind_clusters import network
from kind_clusters.network import NodeAddress

ONE = NodeAddress("w", "10.89.0.3", "10.244.1.0/24")
OTHER = NodeAddress("w2", "10.89.0.4", "10.244.2.0/24")


def node(name: str, pods: str | None, *addresses: tuple[str, str]) -> dict[str, Any]:
    found = [{"type": kind, "address": address} for kind, address in addresses]
    spec = {} if pods is None else {"podCIDR": pods}
    return {"metadata": {"name": name}, "spec": spec, "status": {"addresses": found}}


def test_addresses_are_internal_ones_of_ipv4() -> None:
    nodes = [
        node("w", "10.244.1.0/24", ("Hostname", "w"), ("InternalIP", "fc00::3")),
        node("w2", OTHER.pods, ("InternalIP", "fc00::4"), ("InternalIP", OTHER.address)),
        node("w3", None, ("InternalIP", "10.89.0.5")),
    ]
    assert network.addresses({"items": nodes}) == [OTHER]


def test_each_node_has_its_own_range() -> None:
    document = json.loads(network.conflist(ONE.pods))
    link, ports = document["plugins"]
    assert link["ipam"]["ranges"] == [[{"subnet": ONE.pods}]]
    assert link["ipMasq"] is False, "pods of other nodes see the address of a pod"
    assert ports["type"] == "portmap"


def test_routes_lead_to_the_others_and_may_be_made_again() -> None:
    lines = network.script(ONE, [OTHER]).splitlines()
    assert lines[0] == "ip route replace 10.244.2.0/24 via 10.89.0.4"
    (masquerade,) = lines[1:]
    assert f"-C POSTROUTING -s {ONE.pods} ! -d {network.PODS}" in masquerade
    assert " || iptables-nft -w -t nat -A " in masquerade
