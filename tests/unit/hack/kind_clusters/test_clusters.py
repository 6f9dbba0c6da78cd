"""The clusters, their directory, and what the machine is told."""

import json
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from control_planes.errors import ControlPlanesError
from kind_clusters import engine, karmada, kwok, lifecycle, machine, packages
from kind_clusters.clusters import NETWORK_IS_THERE, Cluster, Kind, kind_config
from kind_clusters.directory import Directory, State


def test_workers_are_named_as_kind_does() -> None:
    cluster = Cluster("host", Path("k"), ("a", "a", "b"))
    assert cluster.workers == ["host-worker", "host-worker2", "host-worker3"]
    assert cluster.control_plane == "host-control-plane"


@pytest.mark.parametrize(
    ("says", "times"), [(f"network name kind already used: {NETWORK_IS_THERE}", 2), ("oh no", 1)]
)
def test_network_that_another_cluster_made_meanwhile_is_used(
    tmp_path: Path, says: str, times: int
) -> None:
    asked = tmp_path / "asked"
    script = f"echo >> {asked}; [ $(wc -l < {asked}) = 2 ] || {{ echo {says}; exit 1; }}"
    kind = _program(tmp_path / "kind", script)
    programs = {"kind": kind, "kubectl": _program(tmp_path / "kubectl", "")}
    create = Kind(engine.Engine("docker"), programs).create
    cluster = Cluster("hub", tmp_path / "kubeconfig")
    if times == 2:
        create(cluster)
    else:
        with pytest.raises(ControlPlanesError, match="kind create cluster"):
            create(cluster)
    assert len(asked.read_text().splitlines()) == times


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_configuration_of_kind() -> None:
    hub = yaml.safe_load(kind_config(Cluster("hub", Path("k"), node_port=32443), own_network=True))
    (node,) = hub["nodes"]
    assert node["extraPortMappings"] == [
        {"containerPort": 32443, "hostPort": 32443, "listenAddress": "127.0.0.1"}
    ]
    assert hub["networking"]["disableDefaultCNI"] is True
    host = yaml.safe_load(kind_config(Cluster("host", Path("k"), ("a", "b")), own_network=False))
    assert [node["role"] for node in host["nodes"]] == ["control-plane", "worker", "worker"]
    assert host["networking"]["disableDefaultCNI"] is False


def test_directory_takes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(ControlPlanesError, match="not empty"):
        Directory(tmp_path).create()


def test_directory_says_what_is_up_and_is_removed_whole(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "kind")
    directory.create()
    assert directory.read_state() is None
    clusters = {"hub": "karmada-vc-1-hub", "host": "karmada-vc-1-host"}
    state = State("podman", {"A": "b"}, clusters, "https://10.0.0.1:30001", {"w": "a"})
    directory.write_state(state)
    directory.link_programs({"kubectl": tmp_path / "kubectl"})
    directory.create()
    assert directory.read_state() == state
    directory.host.write_text("")
    assert json.loads((directory.root / "kind.json").read_text())["engine"] == "podman"
    shell = [
        "sh",
        "-c",
        '. "$0"; echo "$A $ENGINE $KIND_HOST $KUBECONFIG"',
        str(directory.variables),
    ]
    told = subprocess.run(  # noqa: S603 - a file of ours
        shell, capture_output=True, text=True, check=True
    ).stdout
    assert told == f"b podman karmada-vc-1-host {directory.host}\n"
    directory.remove()
    assert not directory.root.exists()


class Kernel:
    """Settings of a machine, and sets that need them."""

    def __init__(self, folder: Path) -> None:
        self.root, self.record, self.folder = folder / "sys", folder / "record.json", folder
        (self.root / "fs" / "inotify").mkdir(parents=True)
        self.instances, self.watches = (self.root / name for name in machine.WANTED)
        self.instances.write_text("128\n")
        self.watches.write_text("999999\n")

    def prepare(self, name: str) -> None:
        (self.folder / name).touch()
        machine.prepare(self.folder / name, self.record, self.root)

    def restore(self, name: str) -> None:
        machine.restore(self.folder / name, self.record, self.root)


def test_kernel_settings_are_raised_and_put_back(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.prepare("one")
    assert int(kernel.instances.read_text()) == machine.WANTED["fs/inotify/max_user_instances"]
    kernel.prepare("one")
    kernel.restore("one")
    assert (kernel.instances.read_text(), kernel.watches.read_text()) == ("128", "999999\n")


def test_kernel_settings_stay_until_the_last_set_is_down(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    for name in ("one", "gone", "two"):
        kernel.prepare(name)
    (tmp_path / "gone").unlink()  # its directory was removed by hand
    kernel.restore("one")
    assert int(kernel.instances.read_text()) == machine.WANTED["fs/inotify/max_user_instances"]
    kernel.restore("two")
    assert kernel.instances.read_text() == "128"


def test_value_set_meanwhile_by_another_process_stays(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.prepare("one")
    kernel.instances.write_text("5000")
    kernel.restore("one")
    assert kernel.instances.read_text() == "5000"


def test_sets_in_two_directories_share_neither_names_nor_ports(tmp_path: Path) -> None:
    one, two = (Directory(tmp_path / name) for name in ("one", "two"))
    assert not set(one.clusters.values()) & set(two.clusters.values())
    assert all(len(f"{name}-control-plane") < 63 for name in one.clusters.values())
    port = lifecycle.free_port(one)
    with socket.create_server(("127.0.0.1", port)):
        assert lifecycle.free_port(one) != port


def test_kubeconfig_gets_another_address(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump({"clusters": [{"name": "k", "cluster": {"server": "https://x"}}]})
    )
    karmada.with_server(path, "https://127.0.0.1:1")
    (entry,) = yaml.safe_load(path.read_text())["clusters"]
    assert entry["cluster"]["server"] == "https://127.0.0.1:1"


def test_kwok_plays_only_what_is_marked(tmp_path: Path) -> None:
    command = kwok.command(tmp_path, "host2", Path("module"))
    assert f"--kubeconfig={tmp_path / 'host2.kubeconfig'}" in command
    assert "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake" in command


def program(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that is the only one where programs are found."""
    found = tmp_path / "bin"
    found.mkdir()
    monkeypatch.setenv("PATH", str(found))
    monkeypatch.setenv("KARMADA_VC_AGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "kubectl").write_bytes(b"program")
    return found


def any_engine(_: engine.Engine) -> None:
    """Find no fault."""


def test_engine_is_the_first_that_runs_a_container(path: Path) -> None:
    program(path, "docker", "echo no daemon >&2; exit 1")
    program(path, "podman", "exit 0")
    assert engine.find(path.parent / "kubectl", any_engine).name == "podman"


def test_docker_is_preferred(path: Path) -> None:
    program(path, "docker", "exit 0")
    program(path, "podman", "exit 0")
    found = engine.find(path.parent / "kubectl", any_engine)
    assert (found.name, found.pulls_nodes) == ("docker", True)


def test_missing_engine_is_reported_with_the_reason_of_each(path: Path) -> None:
    program(path, "podman", '[ "$1" = run ] && { echo no cgroups >&2; exit 126; }; exit 0')
    with pytest.raises(ControlPlanesError) as told:
        engine.find(path.parent / "kubectl", any_engine)
    assert "docker: not installed" in str(told.value)
    assert "podman: `podman run --rm ...` failed (exit code 126): no cgroups" in str(told.value)


def test_engine_without_an_image_of_nodes_is_passed_over(path: Path) -> None:
    def check(found: engine.Engine) -> None:
        if found.pulls_nodes:
            raise ControlPlanesError("no registry")

    program(path, "docker", "exit 0")
    with pytest.raises(ControlPlanesError, match="docker: no registry; podman: not installed"):
        engine.find(path.parent / "kubectl", check)
    program(path, "podman", "exit 0")
    assert engine.find(path.parent / "kubectl", check).name == "podman"


@pytest.mark.parametrize("install", [True, False])
def test_podman_is_installed_where_requested(
    path: Path, monkeypatch: pytest.MonkeyPatch, install: bool
) -> None:
    monkeypatch.setattr(lifecycle, "_probe", lambda: path.parent / "kubectl")
    monkeypatch.setattr(lifecycle, "_HELPERS", (str(path),))
    monkeypatch.setattr(packages, "missing", lambda: ["podman"])

    def apt() -> None:
        for name in ("podman", "mmdebstrap", "aardvark-dns"):
            program(path, name, "exit 0")

    monkeypatch.setattr(packages, "install", apt)
    if install:
        assert lifecycle.find_engine(install=True).name == "podman"
    else:
        with pytest.raises(ControlPlanesError, match="--can-run --install"):
            lifecycle.find_engine(install=False)


def test_only_its_own_clusters_are_removed(tmp_path: Path) -> None:
    lifecycle.down(Directory(tmp_path))
