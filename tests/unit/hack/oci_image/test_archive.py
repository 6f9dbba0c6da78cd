"""Images without an engine: layers that are equal for equal input, in an archive that is whole."""

import gzip
import hashlib
import io
import json
import marshal
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from oci_image import archive, bytecode, debian, engine, sbom
from oci_image.layers import Entry, directory_entries, layer
from oci_image.platforms import PLATFORMS, ImageError, own_platform

AMD64 = PLATFORMS["linux/amd64"]
ENTRIES = (
    Entry("app/b.py", b"x = 1\n"),
    Entry("app/a", b"a", mode=0o755),
    Entry("lib", link="usr/lib"),
    Entry("tmp", mode=0o1777, is_directory=True),
)


def members(blob: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob))) as opened:
        return {member.name: member for member in opened}


def test_layer_has_parents_and_belongs_to_root() -> None:
    found = members(layer(ENTRIES, 7).blob)
    assert list(found) == ["app", "app/a", "app/b.py", "lib", "tmp"]
    assert {(m.uid, m.gid, m.mtime) for m in found.values()} == {(0, 0, 7)}
    assert found["app"].isdir()
    assert (found["app/a"].mode, found["tmp"].mode) == (0o755, 0o1777)
    assert found["lib"].linkname == "usr/lib"


def test_layer_is_the_same_for_the_same_entries_in_any_order() -> None:
    assert layer(ENTRIES, 7) == layer(reversed(ENTRIES), 7)
    assert layer(ENTRIES, 7) != layer(ENTRIES, 8)


def test_of_two_entries_of_a_name_the_last_counts() -> None:
    (found,) = members(layer((Entry("a", b"old"), Entry("a", b"newer")), 0).blob).values()
    assert found.size == len("newer")


def test_directory_is_packed_with_links_and_modes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tool").write_text("x")
    (tmp_path / "sub" / "tool").chmod(0o700)
    (tmp_path / "link").symlink_to("sub/tool")
    found = {entry.name: entry for entry in directory_entries(tmp_path, "app")}
    assert found["app/sub/tool"].mode == 0o755
    assert found["app/link"].link == "sub/tool"
    assert found["app/sub"].is_directory


def image(tmp_path: Path, name: str = "agent:1") -> tuple[Path, str]:
    path = tmp_path / "image.tar"
    layers = [(layer(ENTRIES, 0), "first"), (layer([Entry("z", b"z")], 0), "second")]
    run = {"User": "65532", "Entrypoint": ["/x"]}
    made = archive.Image(name, AMD64, layers, run, 0, {"org.opencontainers.image.title": "t"})
    return path, archive.write(made, path)


def files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]


def test_archive_holds_what_its_index_says(tmp_path: Path) -> None:
    path, told = image(tmp_path)
    found = files(path)
    blobs = {name: content for name, content in found.items() if name.startswith("blobs/")}
    for name, content in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"

    def blob(descriptor: dict[str, Any]) -> bytes:
        content = blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(content) == descriptor["size"]
        return content

    (entry,) = json.loads(found["index.json"])["manifests"]
    assert entry["digest"] == told
    assert entry["platform"] == {"os": "linux", "architecture": "amd64"}
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    assert (config["architecture"], config["config"]["User"]) == ("amd64", "65532")
    assert config["config"]["Labels"] == {"org.opencontainers.image.title": "t"}
    unpacked = [gzip.decompress(blob(each)) for each in manifest["layers"]]
    digests = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in unpacked]
    assert config["rootfs"]["diff_ids"] == digests
    (docker,) = json.loads(found["manifest.json"])
    assert docker["RepoTags"] == ["agent:1"]
    assert {docker["Config"], *docker["Layers"]} < set(blobs)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("agent:1", "docker.io/library/agent:1"),
        ("me/agent:1", "docker.io/me/agent:1"),
        ("r.example/agent:1", "r.example/agent:1"),
        ("localhost/agent:1", "localhost/agent:1"),
        ("localhost:5000/agent:1", "localhost:5000/agent:1"),
    ],
)
def test_containerd_finds_it_by_its_full_name(tmp_path: Path, name: str, full: str) -> None:
    path, _ = image(tmp_path, name)
    (entry,) = json.loads(files(path)["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == full


def test_archive_is_the_same_for_the_same_image(tmp_path: Path) -> None:
    path, first = image(tmp_path)
    content = path.read_bytes()
    _, second = image(tmp_path)
    assert (first, content) == (second, path.read_bytes())


def test_bytecode_is_where_python_looks_for_it() -> None:
    found = list(bytecode.with_bytecode((*ENTRIES, Entry("app/bad.py", b"x =")), "app"))
    (compiled,) = [entry for entry in found if entry.name.endswith(".pyc")]
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    assert compiled.name == f"app/__pycache__/b.cpython-{version}.pyc"
    scope: dict[str, int] = {}
    exec(marshal.loads(compiled.content[16:]), scope)  # noqa: S102, S302 - made just now
    assert scope["x"] == 1


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("./lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("./lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("./usr/bin/python3.11", "usr/bin/python3.11"),
        ("./lib/", "lib"),
        ("./", ""),
    ],
)
def test_root_is_merged(path: str, name: str) -> None:
    assert debian.merged(path) == name


def test_machine_without_an_image_lists_the_available_ones() -> None:
    assert own_platform("aarch64").architecture == "arm64"
    with pytest.raises(ImageError, match="linux/amd64, linux/arm64"):
        own_platform("riscv64")


def test_bill_of_materials_names_everything(tmp_path: Path) -> None:
    package = debian.Package("libstdc++6", "12.2.0-14+deb12u1", "amd64", Path("x"), "")
    components = [*sbom.of_requirements(), *sbom.of_debian([package])]
    components += sbom.of_base_image(engine.base_image())
    sbom.write(tmp_path / "a.json", "0.1.0", "agent:1@sha256:0", components, 0)
    document = json.loads((tmp_path / "a.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    urls = {component["purl"] for component in document["components"]}
    assert len(urls) == len(components) > 20
    assert any(url.startswith("pkg:pypi/aiohttp@") for url in urls)
    assert "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=bookworm" in urls
    assert any(url.startswith("pkg:oci/python@sha256%3A") for url in urls)
    (dependency,) = document["dependencies"]
    assert set(dependency["dependsOn"]) == {each["bom-ref"] for each in components}
