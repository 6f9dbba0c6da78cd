"""The image of a node: kind's own where it can be pulled, else one made of Debian and Go."""

import hashlib
import io
import platform
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from control_planes import tools
from kind_clusters import archives, node_files, programs, root_files, shell
from kind_clusters.engine import Engine
from kind_clusters.progress import say
from oci_image.layers import Entry

PULLED = (
    "kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"
)
"""The image that our release of kind is tested with."""
REPOSITORY = "localhost/karmada-vc-node"
_KIND_MODULE = "sigs.k8s.io/kind"
_MAKER = "karmada-vc-node-maker"
_PREPARE = """
mkdir -p /lib/modules
ctr oci spec |
  jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}]' |
  jq 'del(.process.rlimits)' >/etc/containerd/cri-base.json
containerd >/tmp/containerd.log 2>&1 &
pid=$!
for _ in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done
for archive in /archives/*.tar; do
  ctr --namespace k8s.io images import --all-platforms --no-unpack --digests "$archive"
done
kill "$pid"
wait "$pid" || true
rm -rf /run/containerd /tmp/containerd.log
"""
_CHANGES = (
    'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]',
    "CMD []",
    "STOPSIGNAL SIGRTMIN+3",
)


def kubernetes_version() -> str:
    """Return the version of Kubernetes that is built here."""
    go_mod = (programs.NODE.directory / "go.mod").read_text()
    return tools.required_version(go_mod, programs.NODE.version_of)


def control_plane_images(kubeadm: Path) -> list[str]:
    """Return the images that kubeadm starts a control plane from."""
    version = ("--kubernetes-version", kubernetes_version())
    return shell.run(kubeadm, "config", "images", "list", *version).split()


def ensure(engine: Engine, built: Mapping[str, Path]) -> str:
    """Return the name of a node image that the engine has. built: programs by name."""
    if engine.pulls_nodes:
        pull(engine)
        return PULLED
    image = f"{REPOSITORY}:{_key()}"
    if not engine.has_image(image):
        _build(engine, built, image)
    return image


def pull(engine: Engine) -> None:
    """Pull kind's own image unless it is there. Raises ControlPlanesError."""
    if not engine.has_image(PULLED):
        say(f"pulling {PULLED.partition('@')[0]}")
        engine.run("pull", PULLED)


def _key() -> str:
    """Hash what decides what is built, our own code included."""
    here = Path(__file__).parent
    recipe = [here / name for name in ("archives.py", "node_files.py", "node_image.py")]
    parts = [path.read_text() for path in (*recipe, here / "root_files.py")]
    parts += [tools.cache_directory(module).name for module in programs.BUILDING]
    return hashlib.sha256("\0".join((*parts, platform.machine())).encode()).hexdigest()[:16]


def _build(engine: Engine, built: Mapping[str, Path], image: str) -> None:
    say("building the image of nodes (some minutes, once)")
    source = tools.module_directory(programs.KIND.name, _KIND_MODULE)
    config = (source / "images/base/files/etc/containerd/config.toml").read_text()
    with tempfile.TemporaryDirectory(dir=tools.cache_root()) as folder:
        directory = Path(folder)
        say("  Debian's part")
        added = node_files.entries(source, built, kubernetes_version())
        root = directory / "root.tar"
        merge(root_files.of_node(), added, root)
        base = f"{REPOSITORY}-base:latest"
        engine.run("import", root, base)
        root.unlink()
        say("  images of the control plane")
        kept = directory / "archives"
        kept.mkdir()
        _write_archives(built, node_files.sandbox_image(config), kept)
        say("  putting them into the image of nodes")
        _commit(engine, base, kept, image)


def _write_archives(built: Mapping[str, Path], sandbox: str, directory: Path) -> None:
    for image in {*control_plane_images(built["kubeadm"]), sandbox}:
        program = archives.program_of(image)
        is_proxy = program == "kube-proxy"
        below = archives.below_proxy(root_files.of_proxy()) if is_proxy else ()
        archives.write(image, built[program], directory, below)


def _commit(engine: Engine, base: str, kept: Path, image: str) -> None:
    engine.run("rm", "--force", _MAKER)
    engine.run(
        *("run", "--detach", "--privileged", "--name", _MAKER, "--volume", f"{kept}:/archives:ro"),
        *(base, "/bin/sleep", "infinity"),
    )
    try:
        engine.inside(_MAKER, "/bin/bash", "-euc", _PREPARE)
        changes = (part for change in _CHANGES for part in ("--change", change))
        engine.run("commit", *changes, _MAKER, image)
    finally:
        engine.run("rm", "--force", "--time", "0", _MAKER)
        engine.run("rmi", "--force", base)


def merge(base: Path, added: Iterable[Entry], path: Path) -> None:
    """Write an archive of what `base` has and a node may have, and of what is added."""
    entries = list(added)
    replaced = {entry.name for entry in entries if not entry.is_directory}
    with tarfile.open(base) as old, tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as new:
        for member in old:
            name = member.name.removeprefix("./").strip("/")
            if name in replaced or node_files.is_left_out(name):
                continue
            content = old.extractfile(member) if member.isreg() else None
            new.addfile(member, content)
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.mode, member.size = entry.mode, len(entry.content)
            if entry.is_directory:
                member.type = tarfile.DIRTYPE
            elif entry.link:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
            new.addfile(member, io.BytesIO(entry.content))
