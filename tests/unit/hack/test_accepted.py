"""What the API servers of several minors accept: asked once, reported by minor."""

from pathlib import Path

import pytest

from control_planes import tools
from control_planes.errors import ControlPlanesError
from generate import accepted

MINORS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.37")


def program(directory: Path, name: str, script: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_each_minor_has_libraries_of_its_own() -> None:
    programs = tools.program_paths(tools.ADMISSION_MODULES)
    assert list(programs) == [f"admission-{minor}" for minor in MINORS]
    assert len({path.parent for path in programs.values()}) == len(MINORS)
    for module, minor in zip(tools.ADMISSION_MODULES, MINORS, strict=True):
        assert module.go_sum.exists()
        for library in ("api", "apiextensions-apiserver", "apimachinery", "apiserver"):
            version = tools.required_version(module.go_mod.read_text(), f"k8s.io/{library}")
            assert version.startswith(f"v0.{minor.removeprefix('1.')}."), module.modfile


def test_refusals_name_the_minor(tmp_path: Path) -> None:
    programs = {
        "admission-1.30": program(tmp_path, "one", 'echo "$1: too expensive"; exit 1'),
        "admission-1.34": program(tmp_path, "other", "exit 0"),
    }
    file = tmp_path / "crd.yaml"
    assert accepted.refusals(programs, [file]) == [f"admission 1.30: {file}: too expensive"]


def test_a_program_that_fails_accepts_nothing(tmp_path: Path) -> None:
    programs = {"admission-1.30": program(tmp_path, "one", "echo no such file >&2; exit 2")}
    with pytest.raises(ControlPlanesError) as failed:
        accepted.refusals(programs, [])
    assert failed.value.detail == "no such file"


def test_what_changes_is_checked_again(tmp_path: Path) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text("a")
    before = accepted.key_of([tmp_path / "build-1" / "one"], [file])
    assert accepted.key_of([tmp_path / "build-2" / "one"], [file]) != before
    assert accepted.key_of([tmp_path / "build-1" / "one"], [file]) == before
    file.write_text("b")
    assert accepted.key_of([tmp_path / "build-1" / "one"], [file]) != before
