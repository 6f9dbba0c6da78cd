"""What podman and the image of nodes need of Debian, installed where that can be done."""

import os
import platform
import shutil
from collections.abc import Mapping

from control_planes.errors import ControlPlanesError
from kind_clusters import shell
from kind_clusters.progress import say

WANTED = ("aardvark-dns", "conmon", "iptables", "mmdebstrap", "netavark", "podman", "runc")
_APT = ("apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=300")
_INSTALL = ("install", "--yes", "--no-install-recommends", "--no-remove")


def missing() -> list[str]:
    """Return which packages are not installed; all of them where dpkg is not there."""
    return [name for name in WANTED if not _is_installed(name)]


def install() -> None:
    """Install what is missing. Raises ControlPlanesError where this is not to be done here."""
    wanted = missing()
    if not wanted:
        return
    if problem := _why_not():
        raise ControlPlanesError(f"cannot install {', '.join(wanted)}: {problem}")
    say(f"installing {', '.join(wanted)} with apt")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        shell.run(*_APT, *_INSTALL, *wanted, environment=environment)
    except ControlPlanesError:  # the lists of a fresh machine are old, or not there
        shell.run(*_APT, "update", environment=environment)
        shell.run(*_APT, *_INSTALL, *wanted, environment=environment)


def _is_installed(name: str) -> bool:
    try:
        state = shell.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", name)
    except ControlPlanesError:
        return False
    return state == "installed"


def _why_not() -> str:
    if _release().get("ID") != "debian" or shutil.which("apt-get") is None:
        return "this is not Debian"
    return "" if os.geteuid() == 0 else "needs root"


def _release() -> Mapping[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}
