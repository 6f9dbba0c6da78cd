"""A pair of versions: the Kubernetes of the host, Karmada, and the Kubernetes of the hub."""

import re
from dataclasses import dataclass

from control_planes import tools
from control_planes.directory import ETCD, KINE
from control_planes.errors import ControlPlanesError

_PAIR = re.compile(r"(\d+\.\d+)/(\d+\.\d+)(?:/(\d+\.\d+))?(\+kine)?")
MEASURED = (
    *(
        f"{minor}/1.18"
        for minor in ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
    ),
    *("1.32/1.16", "1.32/1.17"),
    *("1.34/1.18/1.35", "1.34/1.18/1.37"),
    "1.32/1.18+kine",
)
"""What a plain `hack/compat` measures."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Minor versions, written as HOST/KARMADA or HOST/KARMADA/HUB, with +kine on SQLite."""

    host: str
    karmada: str
    hub: str
    datastore: str = ETCD

    def __str__(self) -> str:
        """Return it as it is given on the command line."""
        default = tools.default_minor(tools.KUBERNETES)
        hub = "" if self.hub == default else f"/{self.hub}"
        return f"{self.host}/{self.karmada}{hub}{self._store('+')}"

    def _store(self, mark: str) -> str:
        return "" if self.datastore == ETCD else f"{mark}{self.datastore}"

    @property
    def file_name(self) -> str:
        store = self._store("-")
        return f"host-{self.host}-karmada-{self.karmada}-hub-{self.hub}{store}.json"

    @property
    def options(self) -> list[str]:
        """Return the options of `hack/control-planes up`."""
        versions = str(tools.Versions(self.host, self.hub, self.karmada)).split()
        return [*versions, "--datastore", self.datastore]


def parse(text: str) -> Pair:
    """Read HOST/KARMADA[/HUB]; refuse what is not pinned before anything is started."""
    match = _PAIR.fullmatch(text)
    if match is None:
        raise ControlPlanesError(f"{text} is no pair HOST/KARMADA[/HUB][+kine], such as 1.32/1.18")
    host, karmada, hub, kine = match.groups()
    hub = hub or tools.default_minor(tools.KUBERNETES)
    for minor in (host, hub):
        tools.pinned(tools.KUBERNETES, minor)
    tools.pinned(tools.KARMADA, karmada)
    return Pair(host, karmada, hub, KINE if kine else ETCD)
