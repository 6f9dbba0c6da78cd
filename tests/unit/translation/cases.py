"""The YAML cases under tests/cases/translation, for all tests that go through them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "cases" / "translation"


@dataclass(frozen=True)
class Case:
    """One manifest and what is expected of it; name: file, and kind where a file has several."""

    name: str
    given: dict[str, Any]
    expect: dict[str, Any]


def _cases(file: Path) -> list[Case]:
    documents = list(yaml.load_all(file.read_text(), yaml.CSafeLoader))
    cases = []
    for document in documents:
        metadata = document["given"]["manifest"].get("metadata") or {}
        part = f"-{document['given']['manifest']['kind']}-{metadata.get('name')}"
        name = file.stem + (part if len(documents) > 1 else "")
        cases.append(Case(name, document["given"], document["expect"]))
    return cases


FILES = sorted(FOLDER.rglob("*.yaml"))
_OF_FILES = {file: _cases(file) for file in FILES}
CASES = [case for cases in _OF_FILES.values() for case in cases]
STACKS = {file.stem: cases for file, cases in _OF_FILES.items() if file.parent.name == "stacks"}
"""Whole applications: file -> a case for each of its manifests."""

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
