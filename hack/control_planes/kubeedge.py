"""The CRDs of KubeEdge, read from its module; they are never kept here."""

from pathlib import Path
from typing import Any

import yaml

from control_planes.tools import pinned_directory

MODULE = "github.com/kubeedge/kubeedge@v1.23.1"
CHECKSUM = "h1:KPQk8EUHn2kEmpZHGoy9taGj12CrjOYnjnlk3ndAME8="
CRDS = Path("build/crds/apps")


def crds() -> list[dict[str, Any]]:
    """Return the CRDs of NodeGroup and EdgeApplication, fetching the module if need be."""
    paths = sorted((pinned_directory(MODULE, CHECKSUM) / CRDS).glob("*.yaml"))
    return [yaml.safe_load(path.read_text()) for path in paths]
