"""The directory of one set of control planes: what lies where, and who works on it."""

import fcntl
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from control_planes.errors import ControlPlanesError
from control_planes.nodes import NodeBatch
from control_planes.tools import Versions

ETCD, KINE = "etcd", "kine"
STARTING, UP, DOWN = "starting", "up", "down"
ACCESS_FILE = "access.json"
"""How the hub reaches the hosts; see access.py."""
OUR_KUBECONFIG = re.compile(r"(hub|host\d*)\.kubeconfig")


@dataclass(frozen=True, slots=True)
class Shape:
    """What `up` was asked for; in words, the options that ask for it."""

    hosts: int
    nodes: NodeBatch
    access: bool = False
    audit: bool = False
    versions: Versions = field(default_factory=Versions)
    datastore: str = ETCD
    karmada_qps: int = 0

    def __str__(self) -> str:
        size, nodes = self.nodes.size, self.nodes
        labels = "".join(f" --label {label}" for label in nodes.labels)
        return (
            f"--hosts {self.hosts} --nodes {nodes.count}{labels}"
            f" --cpu {size.cpu} --memory {size.memory} --pods {size.pods}"
            f"{' --access' if self.access else ''}{' --audit' if self.audit else ''}"
            f"{self.versions}{'' if self.datastore == ETCD else f' --datastore {self.datastore}'}"
            f"{f' --karmada-qps {self.karmada_qps}' if self.karmada_qps else ''}"
        )


@dataclass(frozen=True, slots=True)
class Directory:
    """Paths of one set; everything below `root` that is named here is ours to remove."""

    root: Path

    @property
    def shown(self) -> str:
        """Return the path as a reader knows it: from where they are, if it lies there."""
        here = Path.cwd()
        return str(self.root.relative_to(here) if self.root.is_relative_to(here) else self.root)

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def processes(self) -> Path:
        return self.root / "processes"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def kubeconfig(self, cluster: str) -> Path:
        return self.root / f"{cluster}.kubeconfig"

    @property
    def _marker(self) -> Path:
        return self.root / "control-planes.json"

    @property
    def _lock(self) -> Path:
        return self.root / ".lock"

    @property
    def is_ours(self) -> bool:
        return self._marker.exists()

    def read_state(self) -> tuple[str, str]:
        """Return how far the set is, and its shape in words."""
        document = json.loads(self._marker.read_text())
        return document["state"], document["shape"]

    def write_state(self, state: str, shape: str = "") -> None:
        unfinished = self._marker.with_suffix(".new")
        unfinished.write_text(json.dumps({"state": state, "shape": shape}) + "\n")
        unfinished.rename(self._marker)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands off this directory; refuse when one works on it already."""
        with self._lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ControlPlanesError(
                    f"another hack/control-planes works on {self.root}; wait for it or stop it"
                ) from error
            yield

    def create(self) -> None:
        """Make the directory; refuse one that holds something else."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            foreign = not self.is_ours and any(
                entry.name != self._lock.name for entry in self.root.iterdir()
            )
        except OSError as error:
            raise ControlPlanesError(
                f"cannot use {self.root}: {error.strerror}; name another directory"
            ) from error
        if foreign:
            raise ControlPlanesError(
                f"{self.root} is not empty and holds no control planes; name an empty directory"
            )

    def prepare(self, shape: Shape) -> None:
        """Make room for a start: nothing is left of an earlier one."""
        self.remove_data()
        shutil.rmtree(self.logs, ignore_errors=True)
        self.write_state(STARTING, str(shape))
        for path in (self.logs, self.bin, self.data, self.pki, self.processes):
            path.mkdir()
        for path in (self.data, self.pki):
            path.chmod(0o700)

    def remove_data(self) -> None:
        """Remove everything but the logs and the marker."""
        for path in (self.bin, self.data, self.pki, self.processes):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.root.glob("*.kubeconfig"):
            if OUR_KUBECONFIG.fullmatch(path.name):
                path.unlink()
        (self.root / ACCESS_FILE).unlink(missing_ok=True)

    def purge(self) -> None:
        """Remove everything of ours, and the directory itself when nothing else is in it."""
        self.remove_data()
        shutil.rmtree(self.logs, ignore_errors=True)
        self._marker.unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()
