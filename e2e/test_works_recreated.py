"""Works are deleted and created anew under their names faster than the agent looks at them."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from e2e.lab import objects
from e2e.lab.api import Api, ApiError, Object, collection
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within
from e2e.lab.works import works_path

T = TypeVar("T")

WORKS = int(os.environ.get("STRESS_WORKS", "40"))
"""More than workers there are; STRESS_WORKS=500 for a long run by hand."""
ROUNDS = 2
BUSY = (
    *FAST,
    *("--kube-api-qps", "60", "--kube-api-burst", "10"),
)
"""So that many more keys wait than there are workers, as in a big fleet."""


def test_recreated_works_leave_nothing_behind_and_lose_nothing(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, flags=BUSY)
    namespace = lab.namespace()
    space = lab.create_work(group, "space", _namespace_manifest(namespace))
    host_namespace = f"/api/v1/namespaces/{group.host_namespace(namespace)}"
    maps = [objects.config_map(namespace, f"map-{n}") for n in range(WORKS)]
    paths = [f"{works_path(group.name)}/{m['metadata']['name']}" for m in maps]
    _all_at_once(lambda manifest: _create(lab, group, manifest), maps)
    for path in paths:
        lab.wait_applied(path)
    before = lab.host.get(host_namespace)["metadata"]["uid"]

    for _ in range(ROUNDS):
        _all_at_once(lambda manifest: _recreate(lab, group, manifest), maps)
    lab.hub.delete(space)
    for path, manifest in zip(paths, maps, strict=True):
        lab.wait_applied(path)
        assert lab.on_host(manifest, group)
    assert lab.host.get(host_namespace)["metadata"]["uid"] == before
    assert "deletionTimestamp" not in lab.host.get(host_namespace)["metadata"]

    _all_at_once(lambda path: within(BACKED_OFF_S, lab.hub.delete, path), paths)
    for path in paths:
        wait_until_deleted(lab.hub, path)
    wait_until_deleted(lab.hub, space)
    within(BACKED_OFF_S, _nothing_is_left, lab.host, group)


def _recreate(lab: Lab, group: Group, manifest: Object) -> None:
    path = f"{works_path(group.name)}/{manifest['metadata']['name']}"
    within(BACKED_OFF_S, lab.hub.delete, path)
    wait_until_deleted(lab.hub, path)
    _create(lab, group, manifest)


def _create(lab: Lab, group: Group, manifest: Object) -> None:
    """Create a Work; a busy hub may not answer in time, and have it all the same."""

    def create() -> None:
        try:
            lab.create_work(group, manifest["metadata"]["name"], manifest)
        except ApiError as error:
            if error.code != 409:
                raise

    within(BACKED_OFF_S, create)


def _namespace_manifest(name: str) -> Object:
    manifest = objects.namespace(name)
    manifest["metadata"]["labels"] = {"kubernetes.io/metadata.name": name}
    return manifest


def _all_at_once(act: Callable[[T], None], items: Iterable[T]) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(act, items))


def _nothing_is_left(host: Api, group: Group) -> None:
    label = f"virtualcluster.kubeedge.io/cluster={group.name}"
    found = host.list(collection("v1", "ConfigMap"), label)
    names = [obj["metadata"]["name"] for obj in found]
    assert not names, f"{len(names)} ConfigMaps are left, as {names[0]}"
