"""The files of hack/release: the same each time, and installed as users install them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from control_planes import tools
from e2e.lab.agent import ROOT
from e2e.lab.api import path_of
from e2e.lab.lone_server import lone_api_server
from release_files.signing import sign

AGENT = "karmada-vc-agent"
CHART = ROOT / "manifests" / "chart"
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
IMAGE = "r.example/agent"


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def release(output: Path, *flags: str, umask: int = 0o022, **environment: str) -> Path:
    """Make a release of the last commit, without images."""
    command = f"umask {umask:o}; exec hack/release {VERSION} --snapshot --platform none"
    run("sh", "-c", f'cd "{ROOT}"; {command} "$@"', "sh", "--output", output, *flags, **environment)
    return output


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(tmp_path_factory.mktemp("released") / "files", "--image", IMAGE)


def test_release_is_the_same_on_another_machine(released: Path, tmp_path: Path) -> None:
    place = tmp_path / "deeper" / "place"
    again = release(place, "--image", IMAGE, umask=0o077, TZ="Asia/Tokyo", LC_ALL="C")
    assert files(again) == files(released)


def files(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }


def test_checksums_cover_every_file(released: Path) -> None:
    run("sh", "-c", f'cd "{released}"; exec sha256sum --check --strict SHA256SUMS')
    lines = (released / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in lines} == files(released).keys() - {"SHA256SUMS"}


@pytest.mark.skipif(
    shutil.which("cosign") is None,
    reason="cosign is not in PATH: go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3",
)
def test_signature_of_the_checksums_holds_for_them_alone(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", "of-this-test")
    key, checksums = tmp_path / "release", tmp_path / "SHA256SUMS"
    run("cosign", "generate-key-pair", "--output-key-prefix", key)
    shutil.copy(released / "SHA256SUMS", checksums)
    bundle = sign(checksums, key.with_suffix(".key"))
    verify = ("cosign", "verify-blob", "--key", f"{key}.pub", "--bundle", bundle)
    run(*verify, "--insecure-ignore-tlog", checksums)  # a key's signature is in no public log
    checksums.write_text(checksums.read_text().replace("a", "b", 1))
    with pytest.raises(AssertionError, match="signature"):
        run(*verify, "--insecure-ignore-tlog", checksums)


def test_wheel_and_source_distribution_have_the_same_agent(released: Path) -> None:
    (wheel,) = released.glob("*.whl")
    (source,) = released.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if name.startswith("karmada_vc_agent/")}
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        owners = {(member.uid, member.uname) for member in archive.getmembers()}
    in_source = {name for name in names if name.startswith("karmada_vc_agent/") and "." in name}
    assert in_wheel == in_source
    assert owners == {(0, "")}


def test_wheel_is_installed_by_pip(released: Path, tmp_path: Path) -> None:
    (wheel,) = released.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path)
    run(tmp_path / "bin" / "pip", "install", "--no-index", "--no-deps", wheel)
    needed = {"PYTHONPATH": sysconfig.get_path("purelib")}  # the kind story installs that, too
    where = "import karmada_vc_agent; print(karmada_vc_agent.__path__[0])"
    imported = run(tmp_path / "bin" / "python", "-P", "-c", where, **needed)
    assert imported.startswith(f"{tmp_path}/")
    assert run(tmp_path / "bin" / AGENT, "--version", **needed) == f"{AGENT} {VERSION}\n"


def test_what_the_wheel_needs_is_in_its_bill_of_materials(released: Path) -> None:
    document = json.loads((released / f"{AGENT}-{VERSION}.cdx.json").read_text())
    (wheel,) = released.glob("*.whl")
    subject = document["metadata"]["component"]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert subject["description"] == f"{wheel.name}@sha256:{digest}"
    assert subject["type"] == "application"
    assert {"aiohttp", "kopf", "cryptography"} <= {each["name"] for each in document["components"]}


def test_chart_installs_the_image_of_the_release(released: Path, tmp_path: Path) -> None:
    chart = released / f"{AGENT}-chart-{VERSION}.tgz"
    program = tools.program_paths()["helm"]
    cache = {"HELM_CACHE_HOME": str(tmp_path / "cache"), "HELM_CONFIG_HOME": str(tmp_path)}
    image = ("--set", f"image={IMAGE}:{VERSION}")
    flags = ("template", AGENT, "-n", AGENT, "--include-crds", "--kube-version", "1.34.0")
    expected = run(program, *flags, CHART, *image, **cache)
    assert run(program, *flags, chart, **cache) == expected
    with lone_api_server(tmp_path / "host") as host:
        installs = ("install", AGENT, chart, "-n", "edge", "--create-namespace")
        run(program, *installs, "--kubeconfig", host.kubeconfig, **cache)
        deployment = host.get(f"/apis/apps/v1/namespaces/edge/deployments/{AGENT}")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"{IMAGE}:{VERSION}"


def test_one_file_installs_all_but_the_secret(released: Path, tmp_path: Path) -> None:
    manifest = released / "install.yaml"
    objects = [obj for obj in yaml.safe_load_all(manifest.read_text()) if obj]
    kubectl = tools.program_paths()["kubectl"]
    with lone_api_server(tmp_path / "host") as host:
        apply = ("--kubeconfig", host.kubeconfig, "apply", "--server-side", "-f", manifest)
        run(kubectl, *apply)
        assert all(host.find(path_of(obj)) is not None for obj in objects)
        changed = run(kubectl, *apply)
        assert len(changed.splitlines()) == len(objects)
    kinds = {obj["kind"] for obj in objects}
    assert {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ClusterRole"} <= kinds
    assert "Secret" not in kinds


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["9.9.9", "--snapshot"], "pyproject.toml has version"),
        (["v1"], "'v1' is no version such as 0.2.0"),
        ([VERSION, "--snapshot", "--output", "."], "exists; remove it"),
    ],
)
def test_release_that_cannot_be_made_says_why(
    arguments: list[str], problem: str, tmp_path: Path
) -> None:
    if "--output" not in arguments:
        arguments = [*arguments, "--output", str(tmp_path / "out")]
    done = subprocess.run(
        [ROOT / "hack" / "release", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_image_for_arm64_starts(tmp_path: Path) -> None:
    """Of qemu-user one static program is enough; chroot needs root."""
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-aarch64-static is missing: it is in Debian's qemu-user-static")
    command = f"hack/release {VERSION} --snapshot --platform linux/arm64"
    run("sh", "-c", f'cd "{ROOT}"; exec {command} --output "$1"', "sh", tmp_path / "files")
    (image,) = (tmp_path / "files").glob("*-arm64.tar")
    root = tmp_path / "root"
    with tarfile.open(image) as archive:
        archive.extractall(tmp_path / "image", filter="data")
    for blob in _layers(tmp_path / "image"):
        with tarfile.open(blob) as layer:
            layer.extractall(root, filter="fully_trusted")  # noqa: S202 - made just now
    shutil.copy(emulator, root / "emulator")
    started = ("chroot", root, "/emulator", "-E", "PYTHONPATH=/app", "/usr/bin/python3")
    libraries = "import cryptography.x509, lupa, msgspec, orjson, platform; "
    assert run(*started, "-c", f"{libraries}print(platform.machine())") == "aarch64\n"
    version = run(*started, "-m", "karmada_vc_agent", "--version")
    assert version == f"{AGENT} {VERSION}\n"
    assert "--karmada-kubeconfig" in run(*started, "-m", "karmada_vc_agent", "run", "--help")


def _layers(image: Path) -> list[Path]:
    """Return the layers of an OCI layout, the lowest first."""

    def blob(descriptor: dict[str, str]) -> Path:
        return image / "blobs" / descriptor["digest"].replace(":", "/")

    (manifest,) = json.loads((image / "index.json").read_text())["manifests"]
    return [blob(each) for each in json.loads(blob(manifest).read_text())["layers"]]
