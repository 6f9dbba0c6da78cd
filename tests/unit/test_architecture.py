"""Every file and folder that docs/architecture.md names is there, and each package is named."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PATHS = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*/?(?:\.(?:py|md|toml))?)`", PAGE)))
PLACES = (ROOT, ROOT / "karmada_vc_agent")


def named() -> list[str]:
    return [path for path in PATHS if "/" in path or path.endswith(".py")]


def test_files_that_are_named_are_there() -> None:
    assert len(named()) > 30
    assert [p for p in named() if not any((place / p).exists() for place in PLACES)] == []


def test_each_package_is_a_layer() -> None:
    packages = {path.parent.name for path in (ROOT / "karmada_vc_agent").glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}/`" not in PAGE} == set()
