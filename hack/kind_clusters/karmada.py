"""Karmada, installed unmodified into a kind cluster by its own installer."""

import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from control_planes import karmada_objects, tools
from kind_clusters import archives, node_image, shell
from kind_clusters.clusters import Cluster, Kind
from kind_clusters.engine import Engine
from kind_clusters.programs import KARMADA_COMPONENTS
from kind_clusters.progress import say

SETTLED_S = 600


def version() -> str:
    """Return the version of Karmada that hack/tools requires."""
    return tools.required_version(tools.KARMADA.go_mod.read_text(), tools.KARMADA.version_of)


def image(component: str) -> str:
    return f"docker.io/karmada/{component}:{version()}"


def install(
    kind: Kind, engine: Engine, hub: Cluster, programs: Mapping[str, Path], kept: Path
) -> Path:
    """Install Karmada and return its administrator's kubeconfig. kept: directory of its files.

    Raises ControlPlanesError.
    """
    kept.mkdir(mode=0o700, exist_ok=True)
    if not engine.pulls_nodes:
        say(f"{hub.name}: loading Karmada's images")
        for component in KARMADA_COMPONENTS:
            path = archives.write(image(component), programs[component], kept)
            kind.load(hub, path)
            path.unlink()
    say(f"{hub.name}: installing Karmada {version()}")
    data = kept / "data"  # the installer empties it first
    shell.run(
        programs["kubectl-karmada"],
        "init",
        *("--kubeconfig", hub.kubeconfig, "--port", str(hub.node_port)),
        *("--cert-external-ip", "127.0.0.1"),
        *("--karmada-data", data, "--karmada-pki", data / "pki"),
        *("--crds", crds(kept), "--kube-image-tag", _kube_tag(engine)),
        *etcd(programs, engine),
        *("--wait-component-ready-timeout", str(SETTLED_S)),
    )
    say(f"{hub.name}: Karmada is installed")
    return with_server(data / "karmada-apiserver.config", f"https://127.0.0.1:{hub.node_port}")


def crds(directory: Path) -> Path:
    """Write the CRDs of Karmada's module in the form that its installer reads."""
    source = tools.source_of(tools.KARMADA)
    path = directory / "crds.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(source / karmada_objects.CRDS, "crds", recursive=False)
        for name in ("bases", "patches"):
            archive.add(source / karmada_objects.CRDS / name, f"crds/{name}")
    return path


def with_server(kubeconfig: Path, server: str) -> Path:
    """Write another address into a kubeconfig of one cluster; return its path."""
    document = yaml.safe_load(kubeconfig.read_text())
    for entry in document["clusters"]:
        entry["cluster"]["server"] = server
    kubeconfig.write_text(yaml.safe_dump(document))
    return kubeconfig


def etcd(programs: Mapping[str, Path], engine: Engine) -> tuple[str, ...]:
    """Return which etcd to run: where nothing is pulled, the one of the nodes."""
    if engine.pulls_nodes:
        return ()
    images = node_image.control_plane_images(programs["kubeadm"])
    (found,) = (each for each in images if archives.program_of(each) == "etcd")
    return ("--etcd-image", found)


def _kube_tag(engine: Engine) -> str:
    """Return the version of the hub's API server: the nodes have its image already."""
    pulled = node_image.PULLED.partition("@")[0].partition(":")[2]
    return pulled if engine.pulls_nodes else node_image.kubernetes_version()
