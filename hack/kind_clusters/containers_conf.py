"""What podman must be told so that nodes can run in its containers."""

import json
from pathlib import Path

from control_planes.tools import cache_root

CGROUPS = Path("/sys/fs/cgroup")
MOST_FILES, MOST_PROCESSES = 20000, 32768
"""Limits that every kernel lets root set; podman's own may exceed them."""


def text(*, unified: bool) -> str:
    """Return containers.conf. unified: whether the machine has cgroup v2 alone."""
    limits = (f"nofile={MOST_FILES}:{MOST_FILES}", f"nproc={MOST_PROCESSES}:{MOST_PROCESSES}")
    lines = ["[containers]", f"default_ulimits = {json.dumps(limits)}"]
    if not unified:  # crun knows no hybrid cgroups, and systemd does not manage them everywhere
        lines += ["[engine]", 'runtime = "runc"', 'cgroup_manager = "cgroupfs"']
    return "\n".join(lines) + "\n"


def written() -> Path:
    """Write containers.conf for this machine and return its path."""
    path = cache_root() / "kind" / "containers.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text(unified=(CGROUPS / "cgroup.controllers").exists())
    if not path.exists() or path.read_text() != content:  # others may be reading it
        path.write_text(content)
    return path
