"""What a node has beside Debian: kind's own files, Kubernetes, and which services start."""

import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from oci_image.layers import Entry

SYSTEM = "etc/systemd/system"
_STARTED = ("containerd", "kubelet", "undo-mount-hacks")
_MASKED = ("systemd-binfmt",)
_LEFT_OUT = re.compile(
    r"(usr/)?lib/systemd/system/("
    r"sysinit\.target\.wants/systemd-tmpfiles-setup\.service"
    r"|(multi-user|local-fs|basic)\.target\.wants/.+"
    r"|sockets\.target\.wants/.*(udev|initctl).*)"
    r"|etc/systemd/system/[^/]+\.wants/.+"
    r"|var/(lib/apt/lists|cache/apt)/.+|usr/share/(doc|man|locale)/.+"
)
_LINKS = {
    "usr/sbin/init": "/lib/systemd/systemd",
    "usr/local/bin/containerd": "/usr/bin/containerd",
    "usr/local/bin/containerd-shim-runc-v2": "/usr/bin/containerd-shim-runc-v2",
    "usr/local/bin/ctr": "/usr/bin/ctr",
    **{
        f"opt/cni/bin/{plugin}": f"/usr/lib/cni/{plugin}"
        for plugin in ("host-local", "loopback", "portmap", "ptp")
    },
}


def is_left_out(name: str) -> bool:
    """Tell whether a file of Debian's has no place in a node, as in kind's own image."""
    return _LEFT_OUT.fullmatch(name) is not None


def entries(kind: Path, programs: Mapping[str, Path], version: str) -> Iterator[Entry]:
    """Yield what is added. kind: source of its Go module. version: of Kubernetes."""
    yield from _of_kind(kind / "images" / "base" / "files")
    for program in ("kubeadm", "kubectl", "kubelet"):
        yield Entry(f"usr/bin/{program}", programs[program].read_bytes(), 0o755)
    for name, target in _LINKS.items():
        yield Entry(name, link=target)
    for service in _STARTED:
        link = f"/{SYSTEM}/{service}.service"
        yield Entry(f"{SYSTEM}/multi-user.target.wants/{service}.service", link=link)
    for service in _MASKED:
        yield Entry(f"{SYSTEM}/{service}.service", link="/dev/null")
    yield Entry("etc/systemd/journald.conf.d/kind.conf", b"[Journal]\nReadKMsg=no\n")
    yield Entry("etc/kubernetes/manifests", mode=0o755, is_directory=True)
    yield Entry("kind/version", version.encode())


def sandbox_image(containerd_config: str) -> str:
    """Return the image that containerd takes for a pod itself."""
    match = re.search(r'^\s*sandbox_image = "([^"]+)"', containerd_config, re.MULTILINE)
    if match is None:
        raise ValueError("kind's configuration of containerd names no sandbox image")
    return match[1]


def _of_kind(files: Path) -> Iterator[Entry]:
    for path in sorted(files.rglob("*")):
        if not stat.S_ISREG(path.lstat().st_mode):
            continue
        name, content = str(path.relative_to(files)), path.read_bytes()
        if name == "etc/containerd/config.toml":  # not every machine may lower a score
            content = content.replace(
                b"restrict_oom_score_adj = false", b"restrict_oom_score_adj = true"
            )
        is_program = "/bin/" in f"/{name}"
        yield Entry(name, content, 0o755 if is_program else 0o644)
