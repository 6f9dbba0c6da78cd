"""The agent is killed in the middle of a burst and started again."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.wait import STARTED_S, settled, wait_until_deleted, within
from e2e.lab.works import condition

CONFIG_MAPS = 120
DEPLOYMENTS = 20
SLOW_HOST = ("--cluster-api-qps", "20", "--cluster-api-burst", "10")
"""So that the burst lasts long enough to be cut in the middle."""


@pytest.mark.smoke
def test_an_agent_killed_in_a_burst_ends_right_when_it_is_started_again(lab: Lab) -> None:
    group = lab.group("a", nodes=2)
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE, *SLOW_HOST))
    name = lab.namespace()
    namespace = group.host_namespace(name)
    within(STARTED_S, lab.host.get, f"/api/v1/namespaces/{namespace}")
    agent.kill()
    maps = [objects.config_map(name, f"map-{n}", key=str(n)) for n in range(CONFIG_MAPS)]
    apps = [objects.deployment(name, f"app-{n}", replicas=1) for n in range(DEPLOYMENTS)]
    works = {
        manifest["metadata"]["name"]: lab.create_work(group, manifest["metadata"]["name"], manifest)
        for manifest in (*apps, *maps)
    }
    agent.start()
    within(STARTED_S, _has_at_least, lab, namespace, 10)
    agent.kill()
    before = {obj["metadata"]["name"]: obj for obj in _config_maps(lab, namespace)}
    assert len(before) < CONFIG_MAPS, "the burst was over before the agent was killed"

    updated, deleted = works["map-0"], works.pop("map-1")
    value = {"op": "replace", "path": "/spec/workload/manifests/0/data/key", "value": "new"}
    lab.hub.patch_json(updated, value)
    lab.hub.delete(deleted)
    agent.start()

    expected = {f"map-{n}": {"key": str(n)} for n in range(CONFIG_MAPS) if n != 1}
    expected["map-0"] = {"key": "new"}
    within(STARTED_S, lambda: _is_exactly(_config_maps(lab, namespace), expected))
    for work in works.values():
        lab.wait_applied(work)
    wait_until_deleted(lab.hub, deleted)
    _assert_nothing_was_made_twice(lab, namespace, before)
    within(STARTED_S, _all_run_once, lab, namespace)


def test_what_changed_on_the_hub_while_the_agent_was_dead_is_carried_out(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    agent = lab.serve(group, other, flags=(*FAST, *QUICK_LEASE))
    namespace = lab.namespace()
    changed, deleted = (objects.config_map(namespace, name) for name in ("changed", "deleted"))
    lab.propagate([changed, deleted], group, other)
    lab.wait_fully_applied(changed)
    lab.wait_fully_applied(deleted)
    agent.kill()
    made = objects.config_map(namespace, "made")
    lab.hub.delete(path_of(deleted))
    lab.hub.patch(path_of(changed), {"data": {"key": "new"}})
    lab.propagate([made], group, other)
    lab.host.delete(lab.host_path(changed, other))
    agent.start()
    for one in (group, other):
        lab.on_host(made, one)
        lab.wait_data(changed, one, key="new")
        wait_until_deleted(lab.host, lab.host_path(deleted, one))


def test_objects_that_are_right_are_not_written_again_by_a_restart(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE))
    namespace = lab.namespace()
    templates = [
        objects.deployment(namespace),
        objects.config_map(namespace),
        objects.service(namespace),
    ]
    lab.propagate(templates, group)
    lab.wait_status(templates[0], availableReplicas=2)
    for template in templates:
        lab.wait_fully_applied(template)
    before, works = settled(_all_versions, lab, group, templates)
    agent.restart()
    marker = objects.config_map(namespace, "marker")
    lab.propagate([marker], group)
    lab.wait_fully_applied(marker)
    after, works_after = _all_versions(lab, group, templates)
    assert after == before
    assert works.items() <= works_after.items()


def _config_maps(lab: Lab, namespace: str) -> list[Object]:
    found = lab.host.list(collection("v1", "ConfigMap", namespace))
    return [obj for obj in found if obj["metadata"]["name"] != "kube-root-ca.crt"]


def _has_at_least(lab: Lab, namespace: str, count: int) -> None:
    found = len(_config_maps(lab, namespace))
    assert found >= count, f"{found} ConfigMaps"


def _is_exactly(found: list[Object], expected: dict[str, dict[str, str]]) -> None:
    seen = {obj["metadata"]["name"]: obj["data"] for obj in found}
    missing, extra = expected.keys() - seen.keys(), seen.keys() - expected.keys()
    assert not missing, f"{len(missing)} are missing, as {min(missing)}"
    assert not extra, f"{len(extra)} are too many, as {min(extra)}"
    assert seen == expected


def _assert_nothing_was_made_twice(lab: Lab, namespace: str, before: dict[str, Object]) -> None:
    for obj in _config_maps(lab, namespace):
        earlier = before.get(obj["metadata"]["name"])
        if earlier is not None:
            assert obj["metadata"]["uid"] == earlier["metadata"]["uid"]


def _all_run_once(lab: Lab, namespace: str) -> None:
    """One ReplicaSet and one pod for each Deployment: no rewriting rolled it twice."""
    sets = lab.host.list(collection("apps/v1", "ReplicaSet", namespace))
    owners = sorted(s["metadata"]["ownerReferences"][0]["name"] for s in sets)
    assert owners == sorted(f"app-{n}" for n in range(DEPLOYMENTS))
    running = [p for p in lab.pods(namespace) if condition(p, "Ready")["status"] == "True"]
    assert len(running) == DEPLOYMENTS, f"{len(running)} pods run"


def _works_of(lab: Lab, group: Group, namespace: str) -> list[Object]:
    """Return the Works with an object in a namespace; other tests make Works here too."""
    return [
        work
        for work in lab.works(group)
        if work["spec"]["workload"]["manifests"][0]["metadata"].get("namespace") == namespace
    ]


def _all_versions(
    lab: Lab, group: Group, templates: list[Object]
) -> tuple[list[str], dict[str, str]]:
    """Return the versions of host objects, and of the Works of their namespace by name."""
    works = _works_of(lab, group, templates[0]["metadata"]["namespace"])
    on_host = [_version(lab.on_host(template, group)) for template in templates]
    return on_host, {work["metadata"]["name"]: _version(work) for work in works}


def _version(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])
