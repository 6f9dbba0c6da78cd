"""Node ports that are taken: the host chooses, the wish is noted, the choice is kept."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object, annotations_of, copy_object, put
from karmada_vc_agent.model.vocabulary import NODE_PORTS_ANNOTATION
from karmada_vc_agent.work.rules import server_changes

MESSAGE = (
    'Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 30080: '
    "provided port is already allocated"
)


def service(*ports: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "edge"},
        "spec": {"type": "NodePort", "ports": list(ports)},
    }


def on_host(desired: Object, *got: int) -> Object:
    """Return what the host makes of it, with these node ports."""
    live = copy_object(desired)
    for port, number in zip(live["spec"]["ports"], got, strict=True):
        port["nodePort"] = number
        port["protocol"] = "TCP"
    found: Object = live
    return found


def test_taken_ports_are_read_from_the_answer() -> None:
    assert server_changes.taken_ports(MESSAGE) == {30080}
    assert server_changes.taken_ports("spec.ports: Required value") == frozenset()


def test_taken_port_is_left_to_the_host_and_noted() -> None:
    before = service({"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443})
    desired = server_changes.without_ports(before, frozenset({30080}))
    assert desired["spec"]["ports"] == [{"port": 80}, {"port": 443, "nodePort": 30443}]
    assert annotations_of(desired)[NODE_PORTS_ANNOTATION] == '{"80/TCP": 30080}'
    assert server_changes.reassigned_ports(on_host(desired, 31111, 30443)) == [(30080, 31111)]


def test_port_the_host_chose_is_kept_while_the_same_one_is_desired() -> None:
    wanted = service({"port": 80, "nodePort": 30080})
    live = on_host(server_changes.without_ports(wanted, frozenset({30080})), 31111)
    desired = server_changes.keep_assigned(wanted, live)
    assert desired["spec"]["ports"] == [{"port": 80, "nodePort": 31111}]
    assert server_changes.requested_ports(desired) == {"80/TCP": 30080}


def test_another_wish_is_tried_and_the_old_one_forgotten() -> None:
    live = on_host(
        server_changes.without_ports(service({"port": 80, "nodePort": 30080}), frozenset({30080})),
        31111,
    )
    desired = server_changes.keep_assigned(service({"port": 80, "nodePort": 30090}), live)
    assert desired["spec"]["ports"] == [{"port": 80, "nodePort": 30090}]
    assert server_changes.requested_ports(desired) == {}
    assert NODE_PORTS_ANNOTATION in annotations_of(desired)  # else the live one would stay


def test_second_port_that_is_taken_joins_the_first() -> None:
    wanted = service({"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443})
    live = on_host(server_changes.without_ports(wanted, frozenset({30080})), 31111, 30443)
    desired = server_changes.without_ports(
        server_changes.keep_assigned(wanted, live), frozenset({30443})
    )
    assert server_changes.requested_ports(desired) == {"80/TCP": 30080, "443/TCP": 30443}


def test_service_that_never_lost_a_port_is_as_it_was() -> None:
    wanted = service({"port": 80, "nodePort": 30080})
    assert server_changes.keep_assigned(wanted, None) is wanted
    assert server_changes.keep_assigned(wanted, on_host(wanted, 30080)) is wanted
    assert server_changes.reassigned_ports(on_host(wanted, 30080)) == []


@pytest.mark.parametrize("odd", ["", "[]", "{", '{"80/TCP": "x"}'])
def test_odd_notes_count_as_none(odd: str) -> None:
    obj = put(service({"port": 80}), odd, "metadata", "annotations", NODE_PORTS_ANNOTATION)
    assert server_changes.requested_ports(obj) == {}
    assert server_changes.reassigned_ports(obj) == []


@pytest.mark.parametrize("ports", [None, "x", [None], [{"port": 80}, 1]])
def test_odd_ports_end_in_an_answer(ports: Any) -> None:
    odd = put(service(), ports, "spec", "ports")
    assert server_changes.reassigned_ports(odd) == []
    assert server_changes.keep_assigned(odd, odd) is odd
