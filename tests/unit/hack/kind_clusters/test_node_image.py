"""A node image of our own: what is in it, and under which names."""

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from control_planes import tools
from kind_clusters import archives, containers_conf, node_files, node_image, programs
from oci_image.layers import Entry

CONFIG = 'sandbox_image = "registry.k8s.io/pause:3.10"\nrestrict_oom_score_adj = false\n'


@pytest.fixture
def kind_source(tmp_path: Path) -> Path:
    files = tmp_path / "images" / "base" / "files"
    for name, content in (
        ("etc/containerd/config.toml", CONFIG),
        ("usr/local/bin/entrypoint", "#!/bin/bash\n"),
        ("kind/bin/mount-product-files.sh", "#!/bin/bash\n"),
        ("etc/systemd/system/kubelet.service", "[Unit]\n"),
    ):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(content)
    return tmp_path


@pytest.fixture
def built(tmp_path: Path) -> dict[str, Path]:
    names = ("kubeadm", "kubectl", "kubelet", "coredns", "kube-proxy", "karmada-webhook")
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    return {name: tmp_path / name for name in names}


def test_node_has_the_files_of_kind_and_kubernetes(
    kind_source: Path, built: dict[str, Path]
) -> None:
    found = {entry.name: entry for entry in node_files.entries(kind_source, built, "v1.34.4")}
    assert found["usr/bin/kubelet"].content == b"kubelet"
    assert found["usr/local/bin/entrypoint"].mode == 0o755
    assert found["kind/bin/mount-product-files.sh"].mode == 0o755
    assert found["etc/systemd/system/kubelet.service"].mode == 0o644
    assert b"restrict_oom_score_adj = true" in found["etc/containerd/config.toml"].content
    assert found["kind/version"].content == b"v1.34.4"
    started = "etc/systemd/system/multi-user.target.wants/containerd.service"
    assert found[started].link == "/etc/systemd/system/containerd.service"
    assert found["opt/cni/bin/ptp"].link == "/usr/lib/cni/ptp"


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("usr/lib/systemd/system/multi-user.target.wants/getty.target", True),
        ("lib/systemd/system/sockets.target.wants/systemd-udevd-control.socket", True),
        ("usr/lib/systemd/system/sockets.target.wants/dbus.socket", False),
        ("etc/systemd/system/timers.target.wants/apt-daily.timer", True),
        ("usr/lib/systemd/system/containerd.service", False),
        ("usr/bin/containerd", False),
    ],
)
def test_services_that_a_node_does_not_start_are_left_out(name: str, left_out: bool) -> None:
    assert node_files.is_left_out(name) is left_out


def test_merged_archive_has_each_file_once(tmp_path: Path) -> None:
    base = tmp_path / "base.tar"
    with tarfile.open(base, "w") as archive:
        for name, content in (("./etc/a", b"old"), ("./usr/share/doc/x/copyright", b"x")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    added = (Entry("etc/a", b"new"), Entry("usr/sbin/init", link="/lib/systemd/systemd"))
    node_image.merge(base, added, tmp_path / "root.tar")
    with tarfile.open(tmp_path / "root.tar") as archive:
        assert archive.getnames() == ["etc/a", "usr/sbin/init"]
        merged = archive.extractfile("etc/a")
        assert merged is not None
        assert merged.read() == b"new"


@pytest.mark.parametrize(
    ("image", "program", "place"),
    [
        ("registry.k8s.io/coredns/coredns:v1.12.1", "coredns", "/coredns"),
        ("registry.k8s.io/kube-proxy:v1.34.4", "kube-proxy", "/usr/local/bin/kube-proxy"),
        ("docker.io/karmada/karmada-webhook:v1", "karmada-webhook", "/bin/karmada-webhook"),
    ],
)
def test_image_of_a_program(
    tmp_path: Path, built: dict[str, Path], image: str, program: str, place: str
) -> None:
    assert archives.program_of(image) == program
    path = archives.write(image, built[program], tmp_path)
    with tarfile.open(path) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        (described,) = json.load(manifest)
        assert described["RepoTags"] == [image]
        config = archive.extractfile(described["Config"])
        assert config is not None
        assert json.load(config)["config"]["Entrypoint"] == [place]


def test_sandbox_image_is_that_of_containerd() -> None:
    assert node_files.sandbox_image(CONFIG) == "registry.k8s.io/pause:3.10"


def test_node_and_control_plane_are_of_one_version() -> None:
    (kubernetes,) = (each for each in tools.MODULES if each.name == "kubernetes")
    texts = [(module.directory / "go.mod").read_text() for module in (kubernetes, programs.NODE)]
    versions = {tools.required_version(text, "k8s.io/kubernetes") for text in texts}
    assert versions == {node_image.kubernetes_version()}
    replaced = [set(re.findall(r"^\t(k8s\.io/\S+ => .*)$", text, re.MULTILINE)) for text in texts]
    assert replaced[0] == replaced[1] != set()


def test_pulled_image_is_pinned_by_digest() -> None:
    assert re.fullmatch(r"kindest/node:v[\d.]+@sha256:[0-9a-f]{64}", node_image.PULLED)


def test_podman_runs_nodes_on_hybrid_cgroups_by_runc() -> None:
    assert 'runtime = "runc"' in containers_conf.text(unified=False)
    assert "runtime" not in containers_conf.text(unified=True)
    assert '["nofile=20000:20000", "nproc=32768:32768"]' in containers_conf.text(unified=True)
