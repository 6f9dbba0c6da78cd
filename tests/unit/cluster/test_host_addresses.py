"""HostAddresses: whose a machine's address is."""

import msgspec
import pytest

from karmada_vc_agent.cluster.host_objects import ADDRESS_INDEX, HostAddresses, addresses_of
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node

OWNERS = {"own": "branch-a", "theirs": "branch-b"}
TAKEN = "192.0.2.4"


def node(name: str, *addresses: str) -> Node:
    metadata = {"name": name, "resourceVersion": "1"}
    status = {"addresses": [{"address": address} for address in addresses]}
    return msgspec.convert({"metadata": metadata, "status": status}, Node)


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
    nodes: Store[Node] = Store(Codec(Node), {ADDRESS_INDEX: addresses_of})
    nodes.apply(node("own", "192.0.2.1", "192.0.2.4", "192.0.2.5", "own"))
    nodes.apply(node("theirs", "192.0.2.2", "192.0.2.4"))
    nodes.apply(node("control-plane", "192.0.2.3"))
    known = HostAddresses(nodes, ("192.0.2.5", "api.example", None), OWNERS.get)
    assert known.is_foreign(address, "branch-a") == is_foreign


def test_an_address_stays_with_the_node_that_reported_it_first() -> None:
    nodes: Store[Node] = Store(Codec(Node), {ADDRESS_INDEX: addresses_of})
    known = HostAddresses(nodes, (), OWNERS.get)
    nodes.replace_all([node("own", TAKEN), node("theirs")])
    nodes.apply(node("theirs", TAKEN))
    assert not known.is_foreign(TAKEN, "branch-a")
    assert known.is_foreign(TAKEN, "branch-b")
    nodes.apply(node("own"))
    assert not known.is_foreign(TAKEN, "branch-b")
    nodes.apply(node("own", TAKEN))  # it gave the address up, so nobody was first
    assert known.is_foreign(TAKEN, "branch-a")
    assert known.is_foreign(TAKEN, "branch-b")
    nodes.remove(node("theirs", TAKEN))
    assert not known.is_foreign(TAKEN, "branch-a")


@pytest.mark.parametrize("names", [("own", "theirs"), ("theirs", "own")])
def test_of_those_that_report_an_address_at_the_start_none_has_it(names: tuple[str, str]) -> None:
    nodes: Store[Node] = Store(Codec(Node), {ADDRESS_INDEX: addresses_of})
    known = HostAddresses(nodes, (), OWNERS.get)
    nodes.replace_all([node(name, TAKEN) for name in names])
    nodes.apply(node("third", TAKEN))
    assert known.is_foreign(TAKEN, "branch-a")
    assert known.is_foreign(TAKEN, "branch-b")
