"""Files and folders that docs and code name are there, and each package has its layer."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PATH = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/?(?:\.(?:py|md|toml|yaml))?)`")
PATHS = sorted(set(PATH.findall(PAGE)))
PLACES = (ROOT, ROOT / "karmada_vc_agent")
MODULE = re.compile(r"(?<![\w./-])((?:[a-z_0-9]+/)*[a-z_0-9]+\.py)\b")
HACK = re.compile(r"`(hack/[a-z_/-]+)[` ]")


def named() -> list[str]:
    return [path for path in PATHS if "/" in path or path.endswith(".py")]


def test_files_that_are_named_are_there() -> None:
    assert len(named()) > 30
    assert [p for p in named() if not any((place / p).exists() for place in PLACES)] == []


def test_each_package_is_a_layer() -> None:
    packages = {path.parent.name for path in (ROOT / "karmada_vc_agent").glob("*/__init__.py")}
    missing = {name for name in packages if f"`{name}/`" not in PAGE}
    assert missing == set(), "add a row to the layers of docs/architecture.md"


def test_modules_that_docs_and_code_name_are_there() -> None:
    """A name may leave out the folders above; a number of a decision's file is no module."""
    modules = {
        str(path.relative_to(ROOT))
        for top in ("bench", "e2e", "hack", "karmada_vc_agent", "tests")
        for path in (ROOT / top).rglob("*.py")
    }
    ends = {"/".join(parts[i:]) for parts in map(_parts, modules) for i in range(len(parts))}
    texts = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    texts += [
        *(ROOT / "karmada_vc_agent").rglob("*.py"),
        *(ROOT / "karmada_vc_agent").rglob("*.yaml"),
    ]
    absent = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        for name in MODULE.findall(path.read_text())
        if name not in ends
    }
    assert absent == set()


def _parts(path: str) -> list[str]:
    return path.split("/")


def test_commands_that_docs_name_are_there() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = {name for page in pages for name in HACK.findall(page.read_text())}
    assert len(named) > 15
    assert {name for name in named if not (ROOT / name.rstrip("/")).exists()} == set()


def test_each_feature_has_a_row() -> None:
    folders = {path.parent.name for path in (ROOT / "karmada_vc_agent").glob("features/*/*.py")}
    missing = {name for name in folders if f"| `features/{name}/` |" not in PAGE}
    assert missing == set(), "add a row to the features of docs/architecture.md"


def test_a_cell_names_a_file_once() -> None:
    cells = [cell for line in PAGE.splitlines() if line.startswith("|") for cell in line.split("|")]
    twice = [cell for cell in cells if len(names := PATH.findall(cell)) != len(set(names))]
    assert twice == []


def test_each_command_that_writes_files_has_a_row() -> None:
    rows = (ROOT / "CONTRIBUTING.md").read_text()
    commands = {f"hack/{path.name}" for path in (ROOT / "hack").glob("update-*")}
    missing = {name for name in commands if f"| `{name}`" not in rows}
    assert missing == set(), "add a row to the first table of CONTRIBUTING.md"
