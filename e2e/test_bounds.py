"""What is over the bounds of a virtual cluster is refused, and comes in when there is room."""

import time

from e2e.lab import objects
from e2e.lab.accounts import role_binding, service_account, subject
from e2e.lab.api import Object
from e2e.lab.interpreting import events_of
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import eventually, wait_gone
from karmada_vc_agent.model.domain import CLUSTER_LABEL, WORK_ANNOTATION
from karmada_vc_agent.model.karmada import execution_namespace

REFUSED = "BoundExceeded"
MOST = 0.8 * 512 * 2**20
"""Of the memory limit in manifests/."""


def test_works_over_a_bound_are_refused_by_age_and_come_in_when_there_is_room(lab: Lab) -> None:
    one, other = lab.group("a", nodes=0), lab.group("b", nodes=0)
    namespace = lab.namespace()
    bounds = {"bytes": "300Ki", "manifestsPerWork": 3, "kinds": 3}
    # Two of 100 kB fit, and what Karmada itself brings: namespaces and the rights of its users.
    agent = lab.serve(one.settings(bounds=bounds), other.settings())
    large = [objects.config_map(namespace, f"large-{n}", text="x" * 100_000) for n in range(3)]
    works = []
    for number, manifest in enumerate(large):
        works.append(lab.create_work(one, f"large-{number}", manifest))
        time.sleep(1.1)  # creation times are whole seconds, and they decide
    lab.wait_applied(works[0])
    lab.wait_applied(works[1])
    found = lab.wait_applied(works[2], "False")
    text = found["status"]["conditions"]
    assert (
        f"refused Work large-2: {REFUSED}: the virtual cluster may have 307200 bytes of memory"
        in str(text)
    )
    assert eventually(lambda: _some(events_of(lab.hub, works[2], REFUSED)))
    eventually(lambda: _some(_events_of_cluster(lab, one.name)))
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
    wait_gone(lab.hub, works[2])
    wait_gone(lab.host, lab.host_path(large[2], one))

    many = lab.create_work(
        one, "many", *(objects.config_map(namespace, f"m-{n}") for n in range(4))
    )
    found = lab.wait_applied(many, "False")
    assert "may have 3 manifests in one Work" in str(found["status"]["conditions"])
    lab.hub.delete(many)
    wait_gone(lab.hub, many)


def test_two_tenants_do_not_fill_the_memory_of_the_agent(lab: Lab) -> None:
    """Objects of 0.95 MB made on the host, and Works of tiny keys, of both at once."""
    groups = [lab.group(letter, nodes=0) for letter in "ab"]
    agent = lab.serve(*groups)
    namespace = lab.namespace()
    tiny = {f"k{n}": "" for n in range(75_000)}
    works: list[list[str]] = []
    for group in groups:
        lab.wait_applied(lab.create_work(group, "first", objects.config_map(namespace)))
        _fill_host(lab, group, namespace)
        maps = [objects.config_map(namespace, f"tiny-{n:02}") | {"data": tiny} for n in range(9)]
        works.append([lab.create_work(group, each["metadata"]["name"], each) for each in maps])
    for group, (first, *_, last) in zip(groups, works, strict=True):
        lab.wait_applied(first)
        assert REFUSED in str(lab.wait_applied(last, "False")["status"])
        eventually(_kept_less, lab, group.name)
    assert agent.most_memory() < MOST
    agent.restart()
    lab.wait_serving(agent)
    for group in groups:
        last = lab.create_work(group, "last", objects.config_map(namespace, "last"))
        assert REFUSED in str(lab.wait_applied(last, "False")["status"])
    time.sleep(10.0)  # lists of the host come beside the first Works
    assert agent.most_memory() < MOST
    for made in works:
        for each in made:
            lab.hub.delete(each)  # the hub alone takes minutes for them
    for made in works:
        wait_gone(lab.hub, made[-1])


def _fill_host(lab: Lab, group: Group, namespace: str) -> None:
    """Make objects as an account of the tenant, every other one as if a Work had made it."""
    lies_in = group.host_namespace(namespace)
    account = service_account(lab.host, lies_in, "bot", lab.directory)
    lab.host.create(role_binding(lies_in, "edit", subject(lies_in, "bot")))
    work = {WORK_ANNOTATION: f"{execution_namespace(group.name)}/first"}
    for number in range(100):
        made = objects.config_map(lies_in, f"large-{number}", text="x" * 950_000)
        made["metadata"]["labels"] = {CLUSTER_LABEL: group.name}
        made["metadata"]["annotations"] = work if number % 2 else {}
        eventually(account.create, made)


def _kept_less(lab: Lab, name: str) -> None:
    found = [event["message"] for event in _events_of_cluster(lab, name)]
    assert any("objects on the host in memory" in text for text in found)


def _events_of_cluster(lab: Lab, name: str) -> list[Object]:
    assert lab.hub.get(f"{CLUSTERS}/{name}")
    found = lab.hub.list("/api/v1/namespaces/default/events")
    return [e for e in found if e["reason"] == REFUSED and e["involvedObject"]["name"] == name]


def _some(found: list[Object]) -> list[Object]:
    assert found
    return found
