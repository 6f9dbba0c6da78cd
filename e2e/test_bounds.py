"""What is over the bounds of a virtual cluster is refused, and comes in when there is room."""

import time

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.endpoints import Endpoints
from e2e.lab.interpreting import events_of
from e2e.lab.lab import CLUSTERS, FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within

REFUSED = "BoundExceeded"


@pytest.mark.smoke
def test_works_over_a_bound_are_refused_by_age_and_admitted_once_they_fit(lab: Lab) -> None:
    one, other = lab.group("a", nodes=0), lab.group("b", nodes=0)
    namespace = lab.namespace()
    bounds = {"bytes": "1500Ki", "manifestsPerWork": 3, "kinds": 3}
    # Two of 600 kB fit, and what Karmada itself brings: namespaces of other stories, too, and the
    # rights of its users.
    agent = lab.serve(one.settings(bounds=bounds), other.settings())
    large = [objects.config_map(namespace, f"large-{n}", text="x" * 600_000) for n in range(3)]
    works = []
    for number, manifest in enumerate(large):
        works.append(lab.create_work(one, f"large-{number}", manifest))
        time.sleep(1.1)  # creation times are whole seconds, and they decide
    lab.wait_applied(works[0])
    lab.wait_applied(works[1])
    found = lab.wait_applied(works[2], "False")
    text = found["status"]["conditions"]
    assert (
        f"refused Work large-2: {REFUSED}: the virtual cluster may have 1536000 bytes of memory"
        in str(text)
    )
    assert within(BACKED_OFF_S, lambda: _some(events_of(lab.hub, works[2], REFUSED)))
    within(BACKED_OFF_S, lambda: _some(_events_of_cluster(lab, one.name)))
    same = lab.create_work(other, "large-2", large[2])
    lab.wait_applied(same)

    agent.restart()  # another process comes to the same result
    lab.wait_serving(agent)
    assert lab.host.find(lab.host_path(large[2], one)) is None
    lab.on_host(large[1], one)

    lab.hub.delete(works[0])
    lab.wait_applied(works[2])
    lab.on_host(large[2], one)
    lab.hub.delete(works[2])
    wait_until_deleted(lab.hub, works[2])
    wait_until_deleted(lab.host, lab.host_path(large[2], one))

    many = lab.create_work(
        one, "many", *(objects.config_map(namespace, f"m-{n}") for n in range(4))
    )
    found = lab.wait_applied(many, "False")
    assert "may have 3 manifests in one Work" in str(found["status"]["conditions"])
    lab.hub.delete(many)
    wait_until_deleted(lab.hub, many)


def _events_of_cluster(lab: Lab, name: str) -> list[Object]:
    assert lab.hub.get(f"{CLUSTERS}/{name}")
    found = lab.hub.list("/api/v1/namespaces/default/events")
    return [e for e in found if e["reason"] == REFUSED and e["involvedObject"]["name"] == name]


def _some(found: list[Object]) -> list[Object]:
    assert found
    return found


def test_virtual_cluster_for_which_the_agent_computes_too_much_waits_for_the_others(
    lab: Lab,
) -> None:
    """Nothing it writes is large or slow; there is much of it, and it changes again and again."""
    busy, other = lab.group("a", nodes=0), lab.group("b", nodes=0)
    namespace, endpoints = lab.namespace(), Endpoints.new()
    agent = lab.new_agent(
        busy.settings(bounds={"loopMilliseconds": 5}),
        other.settings(),
        flags=(*FAST, *endpoints.flags()),
    ).start()
    lab.wait_serving(agent)
    works = [
        lab.create_work(
            busy, f"w-{n}", *(objects.config_map(namespace, f"m-{n}-{k}") for k in range(20))
        )
        for n in range(40)
    ]
    small = objects.config_map(namespace, "small")
    of_other = lab.create_work(other, "small", small)
    for number in range(10):
        data = {"n": str(number)}
        path = "/spec/workload/manifests/0/data"
        lab.hub.patch_json(of_other, {"op": "replace", "path": path, "value": data})
        within(BACKED_OFF_S, _has, lab, small, other, data)

    events = within(BACKED_OFF_S, lambda: _some(_events_of_cluster(lab, busy.name)))
    assert "more than 5 ms of a second" in events[0]["message"]
    assert not _events_of_cluster(lab, other.name)
    for work in works:  # held, never refused
        lab.wait_applied(work)
    used = endpoints.scrape().values("virtual_cluster_loop_seconds_total")
    assert used[busy.name,] > used[other.name,] > 0


def _has(lab: Lab, manifest: Object, group: Group, data: dict[str, str]) -> None:
    assert lab.on_host(manifest, group)["data"] == data
