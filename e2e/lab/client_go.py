"""A controller written with client-go, hack/tools/client-go, as a process."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from control_planes import tools
from e2e.lab.agent import clean_environment
from e2e.lab.api import Object

TIMEOUT_S = 150


def client_go(kubeconfig: Path, name: str, objects: list[Object], *, by_watch_list: bool) -> Any:
    """Let it use the namespace of these objects; return what it was told.

    objects: are there, one of each kind. name: of the copies that it makes.
    """
    program = tools.program_paths((tools.CLIENT_GO,))["client-go-user"]
    if not program.exists():
        pytest.skip("client-go-user is not built; run hack/control-planes up --access")
    task = {"namespace": objects[0]["metadata"]["namespace"], "name": name, "objects": objects}
    done = subprocess.run(
        [str(program)],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env={
            **clean_environment(),
            "KUBECONFIG": str(kubeconfig),
            "KUBE_FEATURE_WatchListClient": str(by_watch_list).lower(),
        },
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
