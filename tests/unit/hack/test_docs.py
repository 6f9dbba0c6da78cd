"""The site: its navigation has every page, and it builds strictly where mkdocs is installed."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
MKDOCS = ROOT / ".site-venv" / "bin" / "mkdocs"
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def pages(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        yield from pages(inner)


def test_the_navigation_has_each_page_once() -> None:
    listed = list(pages(CONFIG["nav"]))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_what_builds_the_site_is_pinned_with_hashes() -> None:
    lines = (ROOT / "requirements" / "docs.txt").read_text().replace("\\\n", " ").splitlines()
    loose = [line for line in lines[1:] if not re.search(r"==\S+.*--hash=sha256:", line)]
    assert loose == []


@pytest.mark.skipif(not MKDOCS.exists(), reason="hack/docs installs mkdocs")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    # Not quietly: then warnings are not counted, and end nothing.
    command = [str(MKDOCS), "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(  # noqa: S603 - our own pages
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").exists()
