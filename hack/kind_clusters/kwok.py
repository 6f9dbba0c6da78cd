"""Play the nodes and pods of tests on a kind cluster: `python -m kind_clusters.kwok DIR HOST`."""

import os
import sys
from pathlib import Path

from control_planes import tools
from control_planes.host import KWOK_MODULE, LEASE_DURATION_S, STAGES
from control_planes.nodes import KWOK_ANNOTATION


def command(directory: Path, host: str, module: Path) -> list[str]:
    """Return how kwok is run beside a cluster. module: where its stages lie."""
    stages = module / "kustomize" / "stage"
    return [
        str(directory / "bin" / "kwok"),
        f"--kubeconfig={directory / f'{host}.kubeconfig'}",
        *(f"--config={stages / stage}" for stage in STAGES),
        f"--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}=fake",
        f"--node-lease-duration-seconds={LEASE_DURATION_S}",
        "--node-ip=127.0.0.1",
        "--server-address=127.0.0.1:0",
    ]


if __name__ == "__main__":
    found = command(Path(sys.argv[1]), sys.argv[2], tools.module_directory("kwok", KWOK_MODULE))
    os.execv(found[0], found)  # noqa: S606
