"""An agent is killed at each step of a checkpoint's write and of a Work's removal.

It is started again while the hub is away: nothing that was removed comes back, nothing that was
kept is lost, and once the hub is back all is as the hub wants it.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object
from e2e.lab.checkpoint import KEPT, manifest_saved
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.step import Step
from e2e.lab.tiers import rows
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within

SAVES = Step(methods="POST PATCH", path="/secrets(/.*-checkpoint-|$)", body=r'"(works|cluster)\.')
REMOVES = Step(methods="DELETE", path="/configmaps/gone$")
FINALISES = Step(methods="PATCH", path="/works/.*gone", body="finalizers")
"""A Secret written for a virtual cluster; the host object of a Work; the Work on the hub."""
MANY = 10
ROUNDS = 4


def _before(step: Step, nth: int = 1) -> Step:
    return msgspec.structs.replace(step, nth=nth, is_before=True)


def _after(step: Step, nth: int = 1) -> Step:
    return msgspec.structs.replace(step, nth=nth)


REMOVAL = {
    "before it is struck out": _before(SAVES),
    "struck out": _after(SAVES),
    "before its object is deleted": _before(REMOVES),
    "its object deleted": _after(REMOVES),
    "before it is finalised": _before(FINALISES),
    "finalised": _after(FINALISES),
}
CHANGE = {"before the change is saved": _before(SAVES), "the change saved": _after(SAVES)}
ALWAYS = {"struck out", "its object deleted", "after 2 Secrets", "after 5 Secrets"}
"""Of the removal and the split; deaths one step earlier or later are nightly."""
SPLIT = {f"after {n} Secrets": _after(SAVES, n) for n in range(1, 8)}
"""Parts into which Works are split anew, the Cluster that says so, and what is outdated."""


class Scene:
    """One virtual cluster, whose agent reaches the hub by a wire."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.group: Group = lab.group("a")
        self.namespace = lab.namespace()
        self.wire = Proxy(lab.hub.kubeconfig, directory / "hub-wire")
        self.agent: Agent = lab.new_agent(
            self.group, flags=(*FAST, *QUICK_LEASE), hub=self.wire.kubeconfig, checkpoint=KEPT
        )
        self._armed = directory / "armed"

    def start(self, step: Step) -> None:
        """Start an agent that will die at a step once it is armed."""
        self.agent.dies_at = msgspec.structs.replace(step, armed=str(self._armed))
        self.agent.start()
        self.lab.wait_ready(self.group.name)

    def keep(self, *names: str) -> list[str]:
        """Make a Work for each name and wait until it is in the checkpoint; return their paths."""
        works = [self.lab.create_work(self.group, name, self.map(name)) for name in names]
        for work, name in zip(works, names, strict=True):
            self.lab.wait_applied(work)
            within(BACKED_OFF_S, self.is_kept, name)
        return works

    def arm(self) -> None:
        self._armed.touch()

    def dies(self) -> None:
        """Wait until the agent was killed, and cut the hub off."""
        code = self.agent.wait_exit()
        assert code == -signal.SIGKILL, self.agent.log_tail()
        self.wire.cut()
        self._armed.unlink()
        self.agent.dies_at = None

    def start_alone(self, *lost: str) -> None:
        """Start an agent without the hub, after objects were lost; return once they are back."""
        for name in lost:
            self.lab.host.delete(self.path(name))
        self.agent.start()
        for name in lost:
            within(BACKED_OFF_S, self.has, name, "1")
        for name in lost:  # by now everything was looked at once
            self.lab.host.patch(self.path(name), {"data": {"key": "drifted"}})
        for name in lost:
            within(BACKED_OFF_S, self.has, name, "1")

    def is_kept(self, name: str, value: str = "1") -> None:
        found = manifest_saved(self.lab.host, self.agent, self.group.name, self.map(name))
        assert found is not None, f"{name} is not in the checkpoint"
        assert found["data"] == {"key": value}

    def has(self, name: str, *values: str) -> None:
        assert self.lab.host.get(self.path(name))["data"]["key"] in values

    def map(self, name: str, value: str = "1") -> Object:
        return objects.config_map(self.namespace, name, key=value)

    def path(self, name: str) -> str:
        return self.lab.host_path(self.map(name), self.group)


@pytest.fixture
def scene(lab: Lab, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(lab, tmp_path)
    with made.wire:
        yield made


@pytest.mark.parametrize("end", rows(REMOVAL, REMOVAL.keys() - ALWAYS))
def test_a_removal_is_neither_undone_nor_anything_lost(scene: Scene, end: str) -> None:
    lab = scene.lab
    scene.start(REMOVAL[end])
    _, work = scene.keep("stays", "gone")
    scene.arm()
    lab.hub.delete(work)
    scene.dies()
    is_struck = manifest_saved(lab.host, scene.agent, scene.group.name, scene.map("gone")) is None
    assert is_struck or REMOVAL[end].path == SAVES.path, "it was removed before it was struck out"
    was_there = lab.host.find(scene.path("gone")) is not None
    scene.start_alone("stays", *(["gone"] if not is_struck else []))
    assert (lab.host.find(scene.path("gone")) is not None) == was_there
    if was_there and is_struck:
        lab.host.delete(scene.path("gone"))
        scene.agent.kill()
        scene.start_alone("stays")
        assert lab.host.find(scene.path("gone")) is None
    scene.wire.restore()
    wait_until_deleted(lab.hub, work)
    wait_until_deleted(lab.host, scene.path("gone"))
    scene.has("stays", "1")
    scene.agent.terminate()


@pytest.mark.parametrize("end", CHANGE)
def test_a_change_is_kept_whole_or_not_at_all(scene: Scene, end: str) -> None:
    lab = scene.lab
    scene.start(CHANGE[end])
    _, work = scene.keep("stays", "changed")
    scene.arm()
    manifest = lab.hub.get(work)["spec"]["workload"]["manifests"][0] | {"data": {"key": "2"}}
    lab.hub.patch(work, {"spec": {"workload": {"manifests": [manifest]}}})
    scene.dies()
    found = manifest_saved(lab.host, scene.agent, scene.group.name, scene.map("changed"))
    assert found is not None
    kept = found["data"]["key"]
    assert kept in ("1", "2")
    scene.start_alone("stays")
    within(BACKED_OFF_S, scene.has, "changed", kept)
    scene.wire.restore()
    within(BACKED_OFF_S, scene.has, "changed", "2")
    lab.wait_applied(work)
    scene.agent.terminate()


@pytest.mark.parametrize("end", rows(SPLIT, SPLIT.keys() - ALWAYS))
def test_resharded_works_are_all_there(scene: Scene, end: str) -> None:
    lab = scene.lab
    scene.start(SPLIT[end])
    kept = [f"kept-{n}" for n in range(MANY)]
    *_, work = scene.keep(*kept, "gone")
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    scene.arm()
    _until_dead(scene, lambda name: lab.create_work(scene.group, name, scene.map(name)))
    scene.dies()
    scene.start_alone(*kept)
    assert lab.host.find(scene.path("gone")) is None
    scene.wire.restore()
    for name in kept:
        scene.has(name, "1")
    within(BACKED_OFF_S, scene.is_kept, "more-0")
    scene.agent.terminate()


def _until_dead(scene: Scene, make: Callable[[str], object]) -> None:
    """Make Works, each time as many as there are, until the agent has died of them."""
    made = 0
    for _ in range(ROUNDS):
        wanted = made + len(scene.lab.works(scene.group))
        for number in range(made, wanted):
            make(f"more-{number}")
        made = wanted
        within(BACKED_OFF_S, _is_dead_or_has, scene, f"more-{made - 1}")
        if not scene.agent.is_running():
            return


def _is_dead_or_has(scene: Scene, name: str) -> None:
    if scene.agent.is_running():
        scene.is_kept(name)
