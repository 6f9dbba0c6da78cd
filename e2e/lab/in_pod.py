"""A command as `kubectl exec` runs it in a Pod of the agent: `python -m e2e.lab.in_pod status`.

Its own environment says where what Kubernetes mounts is: below POD, by its path in a Pod.
"""

import os
from pathlib import Path

from karmada_vc_agent import cli
from karmada_vc_agent.diagnosis import servers
from karmada_vc_agent.kube import kubeconfig

VARIABLE = "E2E_POD"


def mounted(root: Path, path: Path) -> Path:
    """Return where a path of a Pod is."""
    return root / path.relative_to("/")


if __name__ == "__main__":
    root = Path(os.environ[VARIABLE])
    kubeconfig.SERVICE_ACCOUNT = mounted(root, kubeconfig.SERVICE_ACCOUNT)
    servers.MOUNTED |= {key: mounted(root, path) for key, path in servers.MOUNTED.items()}
    cli.main()
