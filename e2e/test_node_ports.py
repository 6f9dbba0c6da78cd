"""Two virtual clusters with one Service template and a fixed node port."""

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import eventually
from e2e.lab.works import execution_namespace

FIRST_PORT, PORTS = 30000, 30
"""Of those that a server gives only to who asks for them."""
WANTED = "virtualcluster.kubeedge.io/node-ports"


def service(lab: Lab, namespace: str) -> Object:
    template = objects.service(namespace)
    port = FIRST_PORT + int(lab.id.removeprefix("e2e-"), 16) % PORTS
    template["spec"] |= {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
    return template


def test_second_one_gets_another_port_keeps_it_and_is_reported(lab: Lab) -> None:
    first, second = lab.group("a"), lab.group("b")
    lab.serve(first, second)
    namespace = lab.namespace()
    template = service(lab, namespace)
    wanted = template["spec"]["ports"][0]["nodePort"]
    lab.wait_applied(lab.create_work(first, "web", template))
    lab.wait_applied(lab.create_work(second, "web", template))
    assert _node_port(lab, template, first) == wanted
    got = _node_port(lab, template, second)
    assert got != wanted
    text = f"node port {wanted} is taken on the host; port {got} is used instead"
    eventually(_has_been_reported, lab, second, text)

    before = lab.on_host(template, second)
    lab.host.patch(lab.host_path(template, second), {"spec": {"selector": {"app": "drifted"}}})

    def repaired() -> None:
        live = lab.on_host(template, second)
        assert live["spec"]["selector"] == before["spec"]["selector"]
        assert live["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]

    eventually(repaired)
    assert _node_port(lab, template, second) == got


def _node_port(lab: Lab, template: Object, group: Group) -> int:
    [port] = lab.on_host(template, group)["spec"]["ports"]
    number: int = port["nodePort"]
    return number


def _has_been_reported(lab: Lab, group: Group, text: str) -> None:
    events = lab.hub.list(collection("v1", "Event", execution_namespace(group.name)))
    assert ("NodePortReassigned", text) in {(e["reason"], e["message"]) for e in events}
