"""With its Work an object is removed, whatever became of it on the host meanwhile."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Api, collection, path_of
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import eventually, wait_until_deleted
from e2e.lab.works import hand_written

OBJECTS = 30
FAR = (100_000_000, 2.0)
"""Bits a second, and seconds for a round trip: watch events arrive a second late."""
OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def test_recreated_objects_are_removed_with_their_works(lab: Lab) -> None:
    """The agent sees late that another writer replaced each: their marks count, not their UIDs."""
    group = lab.group("a")
    with Proxy(lab.host.kubeconfig, lab.directory / "wire") as wire:
        off = {"checkpoint": {"enabled": False}}
        lab.serve(group, flags=FAST, host=wire.kubeconfig, **off)
        namespace = lab.namespace()
        maps = [objects.config_map(namespace, f"map-{n}") for n in range(OBJECTS)]
        works = [lab.create_work(group, m["metadata"]["name"], m) for m in maps]
        for work in works:
            lab.wait_applied(work)
        wire.thin(*FAR)
        for work, manifest in zip(works, maps, strict=True):
            _replace(lab.host, path_of(manifest, group.host_namespace(namespace)))
            lab.hub.delete(work)
        for work in works:
            wait_until_deleted(lab.hub, work)
        eventually(_nothing_is_left, lab.host, group)


@pytest.mark.parametrize("preserve", [False, True], ids=["removed", "preserved"])
def test_what_a_work_created_is_removed_at_another_version(lab: Lab, *, preserve: bool) -> None:
    """The definition serves v1 no longer: the object is that of v2, which the Work never named."""
    group = lab.group("a")
    api = f"{lab.id}.example.com"
    definition = objects.custom_definition(api, versions=("v1", "v2"))
    namespace = lab.namespace()
    widget = {
        "apiVersion": f"{api}/v1",
        "kind": "Widget",
        "metadata": {"name": "dial", "namespace": namespace},
        "spec": {"size": 1},
    }
    lab.host.create(definition)
    try:
        lab.serve(group)
        work = lab.create_work(group, "dial", widget, preserveResourcesOnDeletion=preserve)
        lab.wait_applied(work)
        home = group.host_namespace(namespace)
        later = f"{collection(f'{api}/v2', 'Widget', home)}/dial"
        before = eventually(lab.host.get, later)
        v1, v2 = definition["spec"]["versions"]
        versions = [{**v1, "served": False, "storage": False}, {**v2, "storage": True}]
        lab.host.patch(path_of(definition), {"spec": {"versions": versions}})
        wait_until_deleted(lab.host, f"{collection(f'{api}/v1', 'Widget', home)}/dial")
        lab.hub.delete(work)
        wait_until_deleted(lab.hub, work)
        live = lab.host.find(later)
        if preserve:
            assert live is not None
            assert live["metadata"]["uid"] == before["metadata"]["uid"]
            assert live["spec"] == before["spec"]
            assert "labels" not in live["metadata"], live["metadata"]["labels"]
        else:
            assert live is None
    finally:
        lab.host.delete(path_of(definition))


def test_an_object_of_two_works_stays_until_both_are_deleted(lab: Lab) -> None:
    """Whichever of them wrote it last is deleted first: the other one writes it again."""
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    works = {}
    for name in ("one", "two"):
        works[name] = lab.create_work(group, name, objects.config_map(namespace, of=name))
        lab.wait_applied(works[name])
    path = path_of(objects.config_map(namespace), group.host_namespace(namespace))
    before = eventually(lab.host.get, path)
    last = before["data"]["of"]
    other = "two" if last == "one" else "one"
    lab.hub.delete(works[last])
    wait_until_deleted(lab.hub, works[last])
    assert eventually(_has, lab.host, path, other) == before["metadata"]["uid"]
    lab.wait_applied(works[other])
    lab.hub.delete(works[other])
    wait_until_deleted(lab.hub, works[other])
    assert lab.host.find(path) is None


def test_an_object_without_the_label_of_karmada_is_created_and_left_alone(lab: Lab) -> None:
    """As by karmada-agent: nobody but its author put that manifest into a Work."""
    group = lab.group("a")
    lab.serve(group)
    manifest = objects.config_map(lab.namespace(), of="first")
    written = hand_written(group.name, "bare", manifest)
    del written["spec"]["workload"]["manifests"][0]["metadata"]["labels"]
    work = path_of(lab.hub.create(written))
    lab.wait_applied(work)
    path = lab.host_path(manifest, group)
    uid = eventually(_has, lab.host, path, "first")
    manifests = lab.hub.get(work)["spec"]["workload"]["manifests"]
    manifests[0]["data"] = {"of": "last"}
    lab.hub.patch(work, {"spec": {"workload": {"manifests": manifests}}})
    message = str(lab.wait_applied(work, "False")["status"]["conditions"])
    assert "strategy value is empty, Karmada will not manage this resource" in message
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    assert _has(lab.host, path, "first") == uid
    lab.host.delete(path)


def _has(host: Api, path: str, work: str) -> str:
    """Return the UID of an object whose data are those of a Work."""
    live = host.get(path)
    assert live["data"] == {"of": work}
    return str(live["metadata"]["uid"])


def _replace(host: Api, path: str) -> None:
    live = host.get(path)
    live["metadata"] = {k: v for k, v in live["metadata"].items() if k not in OF_THE_SERVER}
    host.delete(path)
    host.create(live)


def _nothing_is_left(host: Api, group: Group) -> None:
    label = f"virtualcluster.kubeedge.io/cluster={group.name}"
    found = host.list(collection("v1", "ConfigMap"), label)
    names = [obj["metadata"]["name"] for obj in found]
    assert not names, f"{len(names)} ConfigMaps are left, as {names[0]}"
