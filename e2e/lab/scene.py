"""Two virtual clusters whose objects change on both sides, and what is to come of it.

A scene keeps a ledger: what the hub wants now, and how many writes on the host each object had a
cause for. Changes go past the wires between agent and API servers, so faults do not touch them.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import ApiError, Object, collection
from e2e.lab.audit import Target, WriteCounts
from e2e.lab.lab import QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.works import hand_written

HUB, HOST = "hub", "host"
FLAGS = (
    *QUICK_LEASE,
    *("--cluster-status-update-frequency", "2s"),
    *("--cluster-failure-threshold", "5s"),
    *("--cluster-success-threshold", "1s"),
)
KEPT = {"enabled": True}
KINDS = ("ConfigMap", "Service", "Deployment")
BY_HAND = "by hand"


@dataclass(eq=False)
class Entry:
    """One object of the hub. causes: for how many writes on the host there was a reason.

    templates: how many pod templates it had. is_quiet: nobody touches it.
    """

    group: Group
    manifest: Object
    work: str
    on_host: str
    is_quiet: bool
    is_wanted: bool = True
    causes: int = 1
    templates: int = 1
    version: int = 1

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def target(self) -> Target:
        """What the audit log of the host calls it."""
        namespace = self.group.host_namespace(self.manifest["metadata"]["namespace"])
        plural = collection("v1", self.kind).rpartition("/")[2]
        return Target(plural, namespace, self.name)


class Scene:
    """One agent, perhaps with a standby, that serves two virtual clusters over two wires."""

    def __init__(self, lab: Lab, wires: dict[str, Proxy], *flags: str) -> None:
        self.lab, self.wires = lab, wires
        self.groups = [lab.group("a"), lab.group("b")]
        self._flags = (*FLAGS, *flags)
        self.agent = self._new_agent()
        self.written = WriteCounts()
        self.entries: list[Entry] = []
        self.marks: dict[str, object] = {}
        """By which one sees that a quiet object was touched."""
        self._made = 0

    def start(self, *, has_standby: bool = False) -> None:
        """Have both virtual clusters served, and each kind there: once quiet, once in change."""
        self.agent.start()
        self.lab.wait_serving(self.agent)
        self.standby = self._new_agent().start() if has_standby else None
        self.namespace = self.lab.namespace()
        for group in self.groups:
            for kind in KINDS:
                self.create(group, kind, is_quiet=True)
                self.create(group, kind)

    def _new_agent(self) -> Agent:
        return self.lab.new_agent(
            *self.groups,
            flags=self._flags,
            hub=self.wires[HUB].kubeconfig,
            host=self.wires[HOST].kubeconfig,
            checkpoint=KEPT,
        )

    def restart(self) -> None:
        self.agent.kill()
        self.agent.start(keeps_rights=True)

    def take_over(self) -> None:
        """Kill who leads; the standby is the agent from now on."""
        assert self.standby is not None
        self.agent.kill()
        self.agent, self.standby = self.standby, None

    def wanted(self, *, quiet: bool | None = None) -> list[Entry]:
        """Return what is to be there; quiet: only what is, or is not, left alone."""
        there = [entry for entry in self.entries if entry.is_wanted]
        return [entry for entry in there if quiet is None or entry.is_quiet is quiet]

    # --- the hub ------------------------------------------------------------------------

    def create(self, group: Group, kind: str, *, is_quiet: bool = False) -> Entry:
        self._made += 1
        name = f"{kind.lower()}-{self._made}"
        manifest = _MADE[kind](self.namespace, name)
        work = self.lab.create_work(group, name, manifest)
        entry = Entry(group, manifest, work, self.lab.host_path(manifest, group), is_quiet)
        self.entries.append(entry)
        return entry

    def change(self, entry: Entry) -> None:
        """Have the hub want another content."""
        entry.version += 1
        entry.causes += 1
        if _CHANGED[entry.kind](entry.manifest, entry.version):
            entry.templates += 1
        spec = hand_written(entry.group.name, entry.name, entry.manifest)["spec"]
        self.lab.hub.patch(entry.work, {"spec": spec})

    def delete(self, entry: Entry) -> None:
        entry.is_wanted = False
        self.lab.hub.delete(entry.work)

    # --- the host -----------------------------------------------------------------------

    def drift(self, entry: Entry) -> None:
        """Change an object by hand, if it is there."""
        entry.causes += 1
        self._if_there(self.lab.host.patch, entry.on_host, _DRIFTED[entry.kind])

    def remove(self, entry: Entry) -> None:
        """Delete an object by hand."""
        entry.causes += 1
        self._if_there(self.lab.host.delete, entry.on_host)

    def _if_there(self, do: Callable[..., object], *arguments: object) -> None:
        try:
            do(*arguments)
        except ApiError as error:
            if error.code != 404:
                raise

    # --- both ---------------------------------------------------------------------------

    def change_both_sides(self) -> None:
        """In each virtual cluster: create, change, delete, drift, remove, and all at once."""
        for group in self.groups:
            for kind in KINDS:
                mine = [e for e in self.wanted(quiet=False) if (e.group, e.kind) == (group, kind)]
                self.change(mine[0])
                self.drift(mine[0])
                self.create(group, kind)
            maps = [e for e in self.wanted(quiet=False) if (e.group, e.kind) == (group, KINDS[0])]
            self.drift(maps[0])
            self.remove(maps[1])
            self.delete(self.create(group, KINDS[0]))
            if len(maps) > 2:
                self.delete(maps[2])

    def change_at_random(self, chosen: random.Random) -> None:
        """Do one of what `change_both_sides` does."""
        touched = self.wanted(quiet=False)
        group, kind = chosen.choice(self.groups), chosen.choice(KINDS)
        entry = chosen.choice(touched) if touched else self.create(group, kind)
        act = chosen.choice((self.change, self.drift, self.remove, self.delete, None, self.change))
        if act is None or (act == self.delete and len(touched) < 2 * len(KINDS)):
            self.create(group, kind)
        else:
            act(entry)


@contextmanager
def new_scene(lab: Lab, directory: Path, *flags: str) -> Iterator[Scene]:
    """Make a scene with wires of its own, not yet started."""
    with (
        Proxy(lab.hub.kubeconfig, directory / "hub-wire") as hub,
        Proxy(lab.host.kubeconfig, directory / "host-wire") as host,
    ):
        yield Scene(lab, {HUB: hub, HOST: host}, *flags)


def _config_map(namespace: str, name: str) -> Object:
    return objects.config_map(namespace, name, key="1")


def _deployment(namespace: str, name: str) -> Object:
    return objects.deployment(namespace, name, replicas=1)


_MADE: dict[str, Callable[[str, str], Object]] = {
    "ConfigMap": _config_map,
    "Service": objects.service,
    "Deployment": _deployment,
}


def _change_map(manifest: Object, version: int) -> bool:
    manifest["data"] = {"key": str(version)}
    return False


def _change_service(manifest: Object, version: int) -> bool:
    manifest["spec"]["selector"] = {"app": f"version-{version}"}
    return False


def _change_deployment(manifest: Object, version: int) -> bool:
    """Change replicas and pod template in turns; return whether it was the template."""
    if version % 2:
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = f"example/app:{version}"
        return True
    manifest["spec"]["replicas"] = 1 + version % 3
    return False


_CHANGED: dict[str, Callable[[Object, int], bool]] = {
    "ConfigMap": _change_map,
    "Service": _change_service,
    "Deployment": _change_deployment,
}
_DRIFTED: dict[str, Object] = {
    "ConfigMap": {"data": {"key": BY_HAND}},
    "Service": {"spec": {"selector": {"app": "by-hand"}}},
    "Deployment": {"spec": {"replicas": 4}},
}


def content(kind: str, obj: Object) -> object:
    """Return what hub and host must agree on."""
    match kind:
        case "ConfigMap":
            return obj["data"]
        case "Service":
            return obj["spec"]["selector"]
        case _:
            (container,) = obj["spec"]["template"]["spec"]["containers"]
            return obj["spec"]["replicas"], container["image"]


def home(scene: Scene, group: Group, kind: str) -> str:
    """Return the collection on the host in which a virtual cluster has objects of a kind."""
    version = "apps/v1" if kind in ("Deployment", "ReplicaSet") else "v1"
    return collection(version, kind, group.host_namespace(scene.namespace))
