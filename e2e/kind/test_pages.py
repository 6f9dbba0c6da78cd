"""What pages for users say is typed as it is written; each page leaves nothing behind.

First, on new clusters: the story installs its own agent afterwards.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.kind.installed import AGENT, ROOT, Installed
from e2e.kind.pages import Reader, Step, blocks, steps
from e2e.lab.wait import wait_until_deleted

PREPARED = ("hack/kind-up", "hack/kind-down", "hack/image", "pip install")
"""What hack/kind-story does itself before and after these pages."""
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
TAINT = f"{CONTROL_PLANE}:NoSchedule"
IMAGE = "karmada-vc-agent:0.1.0"


def commands_of(page: str) -> list[Step]:
    """Return the commands of a page but for those of PREPARED."""
    every = steps((ROOT / "docs" / page).read_text())
    return [step for step in every if not step.command.startswith(PREPARED)]


def type_all(kind: Installed, reader: Reader, page: str) -> None:
    """Type the commands of a page that removes the agent in the end."""
    for step in commands_of(page):
        reader.type(step)
    wait_until_deleted(kind.host, f"/api/v1/namespaces/{AGENT}")


@pytest.fixture
def clone(kind: Installed, tmp_path: Path) -> Iterator[Path]:
    """Return a clone as hack/kind-up and hack/image leave it; put the nodes back afterwards."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".kind", "dist"):
            (folder / path.name).symlink_to(path)
    (folder / ".kind").symlink_to(kind.directory)
    (folder / "dist").symlink_to(os.environ["KIND_RELEASE"])
    yield folder
    selector = ("--selector", CONTROL_PLANE)
    kind.kubectl("taint", "--overwrite", "nodes", *selector, f"{CONTROL_PLANE}=:NoSchedule")
    for node, group in kind.groups.items():
        labels = ("node-role.kubernetes.io/edge-", f"node-restriction.kubernetes.io/branch={group}")
        kind.kubectl("label", "--overwrite", "node", node, *labels)


def reader_in(folder: Path, *programs: Path, **environment: str) -> Reader:
    """Return a reader who has these folders of programs in the path."""
    path = os.pathsep.join([*map(str, programs), os.defpath, "/usr/sbin"])
    home = folder / "home"
    home.mkdir()
    return Reader(folder, {"HOME": str(home), "PATH": path, **environment})


def test_install(kind: Installed, clone: Path) -> None:
    """The release's commands, on clusters with a node for the agent, and the page's settings."""
    (image,) = Path(os.environ["KIND_RELEASE"]).glob("*.tar")
    kind.load(image)
    nodes = [node["metadata"]["name"] for node in kind.host.list("/api/v1/nodes")]
    for node in nodes:
        tag = f"docker.io/library/{IMAGE} registry.example/{IMAGE}"
        kind.on_node(node, f"ctr --namespace k8s.io images tag --force {tag}")
    kind.kubectl("taint", "nodes", "--selector", CONTROL_PLANE, f"{TAINT}-")
    first, second, third = kind.groups
    (settings,) = [
        text
        for language, text in blocks((ROOT / "docs" / "install.md").read_text())
        if language == "yaml" and "kind: AgentConfig" in text
    ]
    folder = clone.parent / "install"
    sample = "manifests/samples/virtual-cluster.yaml"
    (folder / sample).parent.mkdir(parents=True)
    for name, text, listed, names in (
        ("agent.yaml", settings, "[edge-1, edge-2]", [first]),
        (sample, (ROOT / sample).read_text(), "[node-7, node-8]", [second, third]),
    ):
        assert text.count(listed) == 1
        (folder / name).write_text(text.replace(listed, f"[{', '.join(names)}]"))
    hub = yaml.safe_load(kind.hub.kubeconfig.read_text())
    for each in hub["clusters"]:
        each["cluster"]["server"] = kind.karmada_server
    (folder / "admin.kubeconfig").write_text(yaml.safe_dump(hub))
    (folder / "host.kubeconfig").write_bytes(kind.host.kubeconfig.read_bytes())
    programs = (Path(os.environ["KIND_AGENT"]).parent, kind.directory / "bin")
    reader = reader_in(folder, *programs, KUBECONFIG="host.kubeconfig")
    type_all(kind, reader, "install.md")


def test_tutorial(kind: Installed, clone: Path) -> None:
    type_all(kind, reader_in(clone), "tutorial.md")
