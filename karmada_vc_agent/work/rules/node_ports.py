"""Fixed node ports that another virtual cluster already uses (rewriting-rules 4.3).

Node ports belong to the host: if two virtual clusters have the same template, the second gets
another port. The requested one is recorded on the object, so that the assigned port is kept as long
as the request does not change.
"""

import json
import re
from collections.abc import Mapping

from karmada_vc_agent.model.domain import NODE_PORTS_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, dig, put

_TAKEN = re.compile(r"Invalid value: (\d+): provided port is already allocated")

Requested = dict[str, int]
"""`<port>/<protocol>` -> the node port that the manifest requests and did not get."""


def taken_ports(message: str) -> frozenset[int]:
    """Return the node ports that an answer of the API server reports as already allocated."""
    return frozenset(int(port) for port in _TAKEN.findall(message))


def without(desired: Object, taken: frozenset[int]) -> Object:
    """Return a Service that lets the host choose the taken ports, and records the request."""
    recorded = requested_of(desired)
    for key, port in _ports(desired):
        if port.get("nodePort") in taken:
            recorded[key] = port["nodePort"]
    return _recorded(_changed(desired, dict.fromkeys(recorded)), recorded)


def keep_assigned(desired: Object, live: Object | None) -> Object:
    """Return a Service that keeps the assigned ports in place of those it still requests."""
    if live is None or NODE_PORTS_ANNOTATION not in annotations_of(live):
        return desired
    got = {key: port.get("nodePort") for key, port in _ports(live)}
    current = {key: port.get("nodePort") for key, port in _ports(desired)}
    recorded = {
        key: number
        for key, number in requested_of(live).items()
        if current.get(key) == number and got.get(key)
    }
    # Recorded even if empty: a missing annotation would be taken from the live object.
    return _recorded(_changed(desired, {key: got[key] for key in recorded}), recorded)


def reassigned(live: Object) -> list[tuple[int, int]]:
    """Return (requested, assigned) of each port that the host assigned in place of a fixed one."""
    got = {key: port["nodePort"] for key, port in _ports(live) if port.get("nodePort")}
    return [(number, got[key]) for key, number in requested_of(live).items() if key in got]


def requested_of(obj: Object) -> Requested:
    """Return the requests recorded on a Service, without malformed ones."""
    try:
        recorded = json.loads(annotations_of(obj).get(NODE_PORTS_ANNOTATION, "{}"))
    except ValueError:
        return {}
    items = recorded.items() if isinstance(recorded, dict) else ()
    return {key: port for key, port in items if isinstance(port, int)}


def _ports(service: Object) -> list[tuple[str, Object]]:
    ports = dig(service, "spec", "ports")
    listed = [port for port in ports if isinstance(port, dict)] if isinstance(ports, list) else []
    return [(f"{port.get('port')}/{port.get('protocol') or 'TCP'}", port) for port in listed]


def _changed(service: Object, node_ports: Mapping[str, int | None]) -> Object:
    """Return the Service with these node ports; None removes one."""
    ports = [
        _with_node_port(port, node_ports[key]) if key in node_ports else port
        for key, port in _ports(service)
    ]
    return put(service, ports, "spec", "ports")


def _with_node_port(port: Object, number: int | None) -> Object:
    rest = {name: value for name, value in port.items() if name != "nodePort"}
    return rest if number is None else {**rest, "nodePort": number}


def _recorded(service: Object, recorded: Requested) -> Object:
    text = json.dumps(recorded, sort_keys=True)
    return put(service, text, "metadata", "annotations", NODE_PORTS_ANNOTATION)
