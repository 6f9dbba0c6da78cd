"""Root file systems out of Debian packages."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from control_planes.tools import cache_root
from kind_clusters import shell

SUITE = "bookworm"
NODE_PACKAGES = (
    "bash",
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "ethtool",
    "hostname",
    "iproute2",
    "iptables",
    "jq",
    "kmod",
    "libseccomp2",
    "mount",
    "nftables",
    "pigz",
    "procps",
    "runc",
    "systemd",
    "util-linux",
)
PROXY_PACKAGES = ("conntrack", "dash", "iptables", "kmod", "libc6", "nftables")
"""What kube-proxy calls, and what that needs: iptables fails silently without its plugins."""
_INSTALLED, _EXTRACTED = "minbase", "extract"
_HOOKS = "/usr/share/mmdebstrap/hooks/merged-usr"


def of_node() -> Path:
    """Return a tar archive of a system that runs systemd and containerd. Needs root."""
    return _made(_INSTALLED, NODE_PACKAGES)


def of_proxy() -> Path:
    """Return a tar archive of what kube-proxy needs beside itself."""
    return _made(_EXTRACTED, PROXY_PACKAGES)


def _made(variant: str, packages: Sequence[str]) -> Path:
    key = hashlib.sha256("\0".join((SUITE, variant, *packages)).encode()).hexdigest()[:16]
    path = cache_root() / "kind" / f"root-{key}.tar"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    options = [f"--variant={variant}", f"--include={','.join(packages)}", "--format=tar"]
    if variant == _EXTRACTED:
        options.append(f"--hook-dir={_HOOKS}")
    shell.run("mmdebstrap", "--quiet", *options, SUITE, unfinished)
    unfinished.rename(path)
    return path
