"""The directory of one set of kind clusters, and what it tells those who use the set."""

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from control_planes.errors import ControlPlanesError

HUB, HOST, HOST2 = "hub", "host", "host2"
"""The clusters of a set; host2 only if it was asked for."""
PREFIX = "karmada-vc"


@dataclass(frozen=True, slots=True)
class State:
    """What is up.

    environment: variables with which engine and kind are run. clusters: the name that kind has for
    hub and host. karmada_server: URL of the hub for pods. groups: of each worker of the host, by
    its name.
    """

    engine: str
    environment: dict[str, str]
    clusters: dict[str, str]
    karmada_server: str
    groups: dict[str, str]


@dataclass(frozen=True, slots=True)
class Directory:
    """Paths of one set."""

    root: Path

    def cluster(self, part: str) -> str:
        """Return the name that kind has for a cluster: sets in other directories have others."""
        path = str(self.root.resolve()).encode()
        return f"{PREFIX}-{hashlib.sha256(path).hexdigest()[:6]}-{part}"

    @property
    def clusters(self) -> dict[str, str]:
        """Return the names of all clusters of the set."""
        return {part: self.cluster(part) for part in (HUB, HOST, HOST2)}

    @property
    def hub(self) -> Path:
        """Kubeconfig of Karmada."""
        return self.root / "hub.kubeconfig"

    @property
    def hub_pods(self) -> Path:
        """Kubeconfig of the cluster in whose pods Karmada runs."""
        return self.root / "hub-pods.kubeconfig"

    @property
    def host(self) -> Path:
        return self.root / "host.kubeconfig"

    @property
    def host2(self) -> Path:
        return self.root / "host2.kubeconfig"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def karmada(self) -> Path:
        return self.root / "karmada"

    @property
    def state(self) -> Path:
        """File that is there from the beginning of `up` to the end of `down`."""
        return self.root / "kind.json"

    @property
    def variables(self) -> Path:
        """File that a shell of a user of the set sources."""
        return self.root / "env"

    @property
    def is_ours(self) -> bool:
        return self.state.exists()

    def create(self) -> None:
        """Make the directory; refuse one that holds something else. Raises ControlPlanesError."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not self.is_ours and any(self.root.iterdir()):
            raise ControlPlanesError(
                f"{self.root} is not empty and holds no kind clusters; name an empty directory"
            )
        if not self.is_ours:
            self.state.write_text("{}\n")

    def link_programs(self, programs: Mapping[str, Path]) -> None:
        """Put the programs that users of the set need into bin/."""
        self.bin.mkdir(exist_ok=True)
        for name, path in programs.items():
            link = self.bin / name
            link.unlink(missing_ok=True)
            link.symlink_to(path)

    def write_state(self, state: State) -> None:
        self.state.write_text(json.dumps(asdict(state), indent=2) + "\n")
        values = {
            **state.environment,
            "ENGINE": state.engine,
            **{f"KIND_{part.upper()}": name for part, name in state.clusters.items()},
            "KARMADA_SERVER": state.karmada_server,
            "HUB_ADDRESS": str(urlsplit(state.karmada_server).hostname),
            "KUBECONFIG": str(self.host),
        }
        lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
        path = f"export PATH={shlex.quote(str(self.bin))}:$PATH"
        self.variables.write_text("\n".join([path, *lines]) + "\n")

    def read_state(self) -> State | None:
        """Return what is up; None while it is not whole."""
        document = json.loads(self.state.read_text()) if self.is_ours else {}
        return State(**document) if document else None

    def remove(self) -> None:
        """Remove everything of ours, and the directory itself when nothing else is in it."""
        for path in (self.bin, self.karmada):
            shutil.rmtree(path, ignore_errors=True)
        files = (self.hub, self.hub_pods, self.host, self.host2, self.variables, self.state)
        for path in (*files, *self.root.glob("kwok-*.log")):
            path.unlink(missing_ok=True)
        if self.root.exists() and not any(self.root.iterdir()):
            self.root.rmdir()
