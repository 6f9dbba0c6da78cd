"""Two tenants fill all their bounds at once: the agent keeps below its limit, and serves others."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.lone_server import lone_api_server
from e2e.lab.memory import ENOUGH_BYTES, peak_bytes
from e2e.lab.wait import BACKED_OFF_S, within
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, WORK_ANNOTATION

CONFIG_MAPS, NAMESPACES, WORKS = 250, 20, 8
"""Of each tenant: 0.95 MB each, 250 kB of annotations each, 5 MB of memory each."""
TINY_ITEMS = 20_000
PAD = "x" * 250_000
NEIGHBOUR_S = 60.0
"""How long a Work of a neighbour takes at most; the machine of the tests is busy then."""


@pytest.fixture
def own_host(lab: Lab) -> Iterator[None]:
    """Put the lab on a host of its own: what fills it, agents of other stories would list."""
    shared = lab.host
    try:
        with lone_api_server(lab.directory / "server") as lab.host:
            yield
            for agent in lab.agents:
                agent.kill()
    finally:
        lab.host = shared


@pytest.mark.usefixtures("own_host")
def test_two_tenants_that_fill_all_bounds_at_once_leave_a_fifth_of_the_memory(lab: Lab) -> None:
    groups = [lab.group(letter, nodes=0) for letter in "abc"]
    agent = lab.serve(*groups, flags=(*FAST, *QUICK_LEASE))
    namespace, kind = lab.namespace(), f"{lab.id}.example.org"
    lab.host.create(objects.custom_definition(kind))
    for group in groups:
        lab.wait_applied(lab.create_work(group, "first", objects.config_map(namespace, "first")))
    attackers, neighbour = groups[:2], groups[2]
    with ThreadPoolExecutor(8) as pool:
        calls: list[Callable[[], object]] = []
        for group in attackers:
            calls += _attacks(lab, group, namespace, kind)
        under_way = [pool.submit(call) for call in calls]
        took_s = [_apply(lab, neighbour, namespace, f"during-{number}") for number in range(5)]
        for each in under_way:
            each.result()
    took_s.append(_apply(lab, neighbour, namespace, "after"))
    for group in attackers:
        within(BACKED_OFF_S, _some_applied, lab, group)
    first = peak_bytes(agent.process_id)

    agent.restart()  # all of it is listed at once
    lab.wait_serving(agent)
    took_s.append(_apply(lab, neighbour, namespace, "anew"))
    within(BACKED_OFF_S, _assert_looked, agent.log, "Host objects have no Work on the hub")
    took_s.append(_apply(lab, neighbour, namespace, "at-the-end"))
    peaks = (first, peak_bytes(agent.process_id))
    assert max(peaks) < ENOUGH_BYTES, [f"{peak >> 20} MiB" for peak in peaks]
    assert max(took_s) < NEIGHBOUR_S, took_s


def _attacks(lab: Lab, group: Group, namespace: str, api_group: str) -> list[Callable[[], object]]:
    """Return what a tenant does, in an order that mixes it."""
    marks = {
        "labels": {CLUSTER_LABEL: group.name},
        "annotations": {WORK_ANNOTATION: f"karmada-es-{group.name}/gone"},
    }
    host, home = lab.as_agent(), group.host_namespace(namespace)
    large: list[Object] = []
    for number in range(CONFIG_MAPS):
        metadata = {"name": f"large-{number}", "namespace": home, **marks}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        large.append({**body, "data": {"pad": "x" * 950_000}})
    calls: list[Callable[[], object]] = [lambda each=each: host.create(each) for each in large]  # type: ignore[misc]
    for number in range(NAMESPACES):
        metadata = {"name": f"{namespace}-{number}", "annotations": {"example.org/pad": PAD}}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        name = f"space-{number}"
        calls.insert(8 * number, lambda name=name, space=space: lab.create_work(group, name, space))  # type: ignore[misc]
    for number in range(WORKS):
        tiny = {
            "apiVersion": f"{api_group}/v1",
            "kind": "Widget",
            "metadata": {"name": f"tiny-{number}", "namespace": namespace},
            "spec": {"items": [{"a": {}}] * TINY_ITEMS},
        }
        name = f"tiny-{number}"
        calls.insert(9 * number, lambda name=name, tiny=tiny: lab.create_work(group, name, tiny))  # type: ignore[misc]
    return calls


def _apply(lab: Lab, group: Group, namespace: str, name: str) -> float:
    """Return how long it takes until a Work is applied."""
    began = time.monotonic()
    lab.wait_applied(lab.create_work(group, name, objects.config_map(namespace, name)))
    return time.monotonic() - began


def _some_applied(lab: Lab, group: Group) -> None:
    """Check that Works within the bound are applied, and those over it refused."""
    found = [each for each in lab.works(group) if each["metadata"]["name"].startswith("tiny")]
    texts = [str(each.get("status")) for each in found]
    assert sum("AppliedSuccessful" in text for text in texts) >= WORKS // 2
    assert any("BoundExceeded" in text for text in texts)


def _assert_looked(log: Callable[[], str], text: str) -> None:
    assert text in log().rpartition("Starting")[2]
