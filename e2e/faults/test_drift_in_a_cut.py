"""Hundreds of objects drift while the hub is away; how soon each is repaired is printed."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.followed import BEGINS, says
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.tiers import rows
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import works_path

DRIFTED = 500
AT_ONCE = 8
REPAIRED_S = 120.0
WATCHED_S = 300


class Repairs:
    """When each ConfigMap of a namespace drifted, and when it was as it should be again."""

    def __init__(self, lab: Lab, path: str) -> None:
        self._lab, self._path = lab, path
        self.drifted_at: dict[str, float] = {}
        self.repaired_at: dict[str, float] = {}
        events = lab.host.watch(path, WATCHED_S, lab.host.version(path))
        threading.Thread(target=self._watch, args=(events,), daemon=True).start()

    def drift(self, name: str) -> None:
        self._lab.host.patch(f"{self._path}/{name}", {"data": {"key": "by hand"}})
        self.drifted_at[name] = time.monotonic()

    def all_done(self) -> None:
        left = self.drifted_at.keys() - self.repaired_at.keys()
        assert not left, f"{len(left)} of {len(self.drifted_at)} are not repaired"

    def seconds(self) -> list[float]:
        took = [at - self.drifted_at[name] for name, at in self.repaired_at.items()]
        return sorted(max(0.0, each) for each in took)

    def _watch(self, events: Iterator[Object]) -> None:
        by_hand: set[str] = set()
        for live in events:
            name = live["metadata"]["name"]
            if (live.get("data") or {}).get("key") == "by hand":
                by_hand.add(name)
            elif name in by_hand:
                self.repaired_at.setdefault(name, time.monotonic())


@pytest.mark.parametrize("how", rows(["cut", "silence"], nightly=["cut"]))
def test_what_drifts_at_once_is_repaired_without_the_hub(
    lab: Lab, hub_wire: Proxy, how: str
) -> None:
    """A hub that falls silent is not known to be away: each status waits for its answer."""
    group = lab.group("a")
    agent = lab.new_agent(group, flags=FAST, hub=hub_wire.kubeconfig).start()
    lab.wait_serving(agent)
    path = _served(lab, group)
    if how == "silence":
        hub_wire.silence()
    else:
        hub_wire.cut()
        within(BACKED_OFF_S, says, agent, BEGINS)
    repairs = Repairs(lab, path)
    names = [f"map-{number}" for number in range(DRIFTED)]
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(repairs.drift, names))
    took_s = time.monotonic() - began
    within(REPAIRED_S, repairs.all_done)
    found = repairs.seconds()
    print(
        f"{how}: {DRIFTED} objects drifted in {took_s:.1f} s; repaired after p50 "
        f"{found[len(found) // 2]:.3f} s, p99 {found[int(len(found) * 0.99)]:.3f} s, "
        f"longest {found[-1]:.3f} s"
    )
    hub_wire.restore()
    lab.hub.delete(works_path(group.name))
    within(REPAIRED_S, _has_none, lab, path)


def _served(lab: Lab, group: Group) -> str:
    """Have all ConfigMaps on the host; return the collection they are in."""
    namespace = lab.namespace()
    path = collection("v1", "ConfigMap", group.host_namespace(namespace))

    def create(number: int) -> None:
        name = f"map-{number}"
        lab.create_work(group, name, objects.config_map(namespace, name, key="1"))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(create, range(DRIFTED)))
    within(BACKED_OFF_S, _has_all, lab, path)
    return path


def _has_none(lab: Lab, path: str) -> None:
    """Check what is left: deleted Works go sooner with an agent than with the Cluster."""
    found = {obj["metadata"]["name"] for obj in lab.host.list(path)}
    assert not [name for name in found if name.startswith("map-")]


def _has_all(lab: Lab, path: str) -> None:
    found = {obj["metadata"]["name"] for obj in lab.host.list(path)}
    assert len([name for name in found if name.startswith("map-")]) == DRIFTED
