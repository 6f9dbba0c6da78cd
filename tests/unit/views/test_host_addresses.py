"""HostAddresses: whose a machine's address is."""

import pytest

from karmada_vc_agent.kube.codec import StructCodec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Meta, Node, NodeAddress, NodeStatus
from karmada_vc_agent.views.host_addresses import ADDRESS_INDEX, HostAddresses, addresses_of

OWNERS = {"own": "branch-a", "theirs": "branch-b"}


def node(name: str, *addresses: str) -> Node:
    said = [NodeAddress(address) for address in addresses]
    return Node(Meta(name=name, resource_version="1"), NodeStatus(addresses=said))


@pytest.mark.parametrize(
    ("address", "is_foreign"),
    [
        ("192.0.2.1", False),  # its own node
        ("192.0.2.2", True),
        ("192.000.002.002", True),
        ("::ffff:192.0.2.2", True),
        ("192.0.2.3", True),  # a node of no virtual cluster
        ("192.0.2.4", True),  # two nodes say that it is theirs
        ("192.0.2.5", True),  # the API server, although its own node says so, too
        ("192.0.2.9", False),
        ("own", False),
    ],
)
def test_address_of_a_machine_of_others_is_foreign(address: str, is_foreign: bool) -> None:
    nodes: Store[Node] = Store(StructCodec(Node), {ADDRESS_INDEX: addresses_of})
    nodes.apply(node("own", "192.0.2.1", "192.0.2.4", "192.0.2.5", "own"))
    nodes.apply(node("theirs", "192.0.2.2", "192.0.2.4"))
    nodes.apply(node("control-plane", "192.0.2.3"))
    known = HostAddresses(nodes, ("192.0.2.5", "api.example", None), OWNERS.get)
    assert known.is_foreign(address, "branch-a") == is_foreign
