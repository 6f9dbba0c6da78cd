"""requirements/ holds what the image needs of constraints.txt; the Containerfile takes no more."""

import re
from pathlib import Path

import pytest

from generate.requirements import closure, files, pins

ROOT = Path(__file__).parents[3]
FILES = files()
CONTAINERFILE = (ROOT / "Containerfile").read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == FILES[path], "run hack/update-constraints --keep"


def test_what_is_needed_indirectly_is_there_and_tools_are_not() -> None:
    needed = closure(["aiohttp>=3"])
    assert {"aiohttp", "multidict", "yarl", "idna"} <= needed
    assert "brotli" not in needed, "an extra"
    names = set(
        re.findall(r"^([\w.-]+)==", FILES[ROOT / "requirements" / "agent.txt"], re.MULTILINE)
    )
    assert {"aiohttp", "kopf", "typing-extensions"} <= names
    assert names.isdisjoint({"pytest", "mypy", "ruff", "kubernetes", "setuptools"})


def test_pins_keep_their_hashes() -> None:
    assert all("--hash=sha256:" in lines for lines in pins().values())


def test_image_takes_what_has_a_hash_and_is_pinned() -> None:
    (base,) = re.findall(r"^ARG PYTHON=(\S+)$", CONTAINERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)) == {"${PYTHON}"}
    installs = re.findall(r"\bpip [^&\n]*(?:install|wheel)[^&\n]*", CONTAINERFILE)
    assert len(installs) == 4
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    assert re.search(r"^USER 65532:65532$", CONTAINERFILE, re.MULTILINE)


def test_context_has_what_is_copied() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINERFILE, re.MULTILINE)
    assert {name for names in copied for name in names.split()} == allowed
