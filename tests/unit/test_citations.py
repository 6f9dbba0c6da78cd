"""Every citation of a page of docs/, in code, tests and docs, names a section that is there."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("contract", "rewriting-rules", "kubeedge", "cluster-access")
SEARCHED = ("karmada_vc_agent", "tests", "e2e", "hack", "bench", "docs", "manifests")
LONE = ("README.md", "CHANGELOG.md", "pyproject.toml", "Containerfile")
OTHER_PAGES = re.compile(r"(?:shared/docs|karmada-contract|kubeedge-facts)\b")

_GAP = r"(?:[ \t]|\n[ \t]*#?)+"
_NUMBER = r"(?:\d+(?:\.\d+)*(?: [ab]\b)?|[AB]\b)"
_WORD = r"(?:appendix|traps?|steps?|points?|layers?)"
_ITEM = rf"(?:{_WORD}{_GAP})?{_NUMBER}"
_LIST = rf"{_ITEM}(?:(?:,|{_GAP}(?:and|to)\b)?{_GAP}{_ITEM})*"
_CITATION = re.compile(
    rf"(?<![\w-])(?P<page>[Cc]ontract|rewriting-rules|kubeedge|cluster-access)(?:\.md)?,?{_GAP}(?P<items>{_LIST})"
    rf"|\b(?P<trap>[Tt]raps?){_GAP}(?P<traps>\d+(?:(?:,|{_GAP}and){_GAP}\d+)*)"
    rf"|\bADR{_GAP}(?P<adr>\d+)|(?<=docs/adr/)(?P<path>\d{{4}})"
    r"|(?<![\w\"-])(?P<need>G-\d+a?)\b",
)
_PART = re.compile(rf"(?P<word>{_WORD})|(?P<number>{_NUMBER})")
_SECTIONS = r"\d{1,2}\.\d{1,2}(?: [ab]\b)?(?:, \d{1,2}\.\d{1,2})*"
_ALONE = re.compile(
    rf"(?<!\w)\((?P<items>{_SECTIONS})(?=[),;])|(?:Source: |# )(?P<bare>{_SECTIONS})\.?$",
    re.MULTILINE,
)
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_LINK = re.compile(r"\]\((?P<path>[\w./-]*)(?:#(?P<anchor>[\w.-]+))?\)")


class Citation(NamedTuple):
    """What a text names: a section or trap of a page, a step of its list, or a decision."""

    page: str
    anchor: str
    step: str = ""


def citations(text: str, page_of_numbers: str = "") -> Iterator[tuple[int, Citation]]:
    """Yield (line, what is cited); page_of_numbers: whose section a bare `(1.2)` is."""
    for match in _CITATION.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["page"]:
            for cited in _listed(match["page"].lower(), match["items"]):
                yield line, cited
        elif match["need"]:
            yield line, Citation("cluster-access", match["need"].lower())
        elif match["trap"]:
            for number in re.findall(r"\d+", match["traps"]):
                yield line, Citation("contract", f"trap-{number}")
        else:
            yield line, Citation("adr", f"{int(match['adr'] or match['path']):04}")
    for match in _ALONE.finditer(text) if page_of_numbers else ():
        line = text.count("\n", 0, match.start()) + 1
        for cited in _listed(page_of_numbers, match["items"] or match["bare"]):
            yield line, cited


def _listed(page: str, items: str) -> Iterator[Citation]:
    """Yield what a list cites: a plain number after `step` is one of the section before."""
    section, word = "", ""
    for part in _PART.finditer(items):
        if part["word"]:
            word = part["word"].rstrip("s")
            continue
        number = part["number"].replace(" ", "-")
        if word == "trap" and number.isdigit():
            yield Citation(page, f"trap-{number}")
        elif word in ("step", "point", "layer") and number.isdigit():
            yield Citation(page, section, number)
        else:
            section, word = number, ""
            yield Citation(page, section)


@cache
def _sections(page: str) -> dict[str, str]:
    """Return anchor -> text up to the next anchor."""
    parts = _ANCHOR.split((ROOT / "docs" / f"{page}.md").read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@cache
def is_there(cited: Citation) -> bool:
    """Whether a citation can be looked up."""
    if cited.page == "adr":
        return any((ROOT / "docs" / "adr").glob(f"{cited.anchor}-*.md"))
    text = _sections(cited.page).get(cited.anchor)
    if text is None:
        return False
    return not cited.step or re.search(rf"^{cited.step}\. ", text, re.MULTILINE) is not None


@cache
def _texts() -> dict[Path, str]:
    files = [ROOT / name for name in LONE]
    for folder in SEARCHED:
        files += (ROOT / folder).rglob("*")
    found = {}
    for file in files:
        if file.is_file() and file.suffix not in (".pyc", ".so") and file != Path(__file__):
            found[file] = file.read_text(errors="replace")
    return found


def _page_of_numbers(file: Path) -> str:
    """Return whose sections bare numbers are: a page's own, and the rules' in translation/."""
    if file.parent == ROOT / "docs":
        return file.stem if file.stem in PAGES else ""
    for folder, page in (
        ("translation", "rewriting-rules"),
        ("features/gateway", "cluster-access"),
    ):
        if file.is_relative_to(ROOT / "karmada_vc_agent" / folder):
            return page
    return ""


def unresolved(
    file: str, text: str, page_of_numbers: str = "", found: Counter[str] | None = None
) -> list[str]:
    """Return `file:line: page anchor` for each citation that names nothing; count all in found."""
    missing = []
    for line, cited in citations(text, page_of_numbers):
        if found is not None:
            found[cited.page] += 1
        if not is_there(cited):
            missing.append(f"{file}:{line}: {' '.join(part for part in cited if part)}")
    return missing


def test_each_citation_names_a_section() -> None:
    missing, found = [], Counter[str]()
    for file, text in _texts().items():
        name = str(file.relative_to(ROOT))
        missing += unresolved(name, text, _page_of_numbers(file), found)
    assert missing == []
    # So that a search that finds nothing does not pass.
    assert found["contract"] > 150
    assert found["rewriting-rules"] > 250
    assert found["kubeedge"] >= 2
    assert found["cluster-access"] > 60
    assert found["adr"] > 60


def test_each_adr_has_a_number_of_its_own_and_says_it() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert len(set(numbers)) == len(numbers) > 30
    titles = [re.match(r"# (\d+)", page.read_text()) for page in pages]
    assert [int(title[1]) for title in titles if title] == numbers


def test_each_adr_has_a_status_and_a_date() -> None:
    status = re.compile(r"# \d+\. .+\n\n\*\*Status:\*\* accepted, \d{4}-\d\d-\d\d\.")
    pages = (ROOT / "docs" / "adr").glob("*.md")
    assert [page.name for page in pages if not status.match(page.read_text())] == []


def test_lines_of_pages_are_wrapped_and_the_readme_is_one_page() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 160 and not line.lstrip().startswith("|")  # tables may be wide
    ]
    assert long == []
    assert len(pages[0].read_text().splitlines()) <= 130


def test_no_page_is_cited_that_is_not_in_the_repository() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for file, text in _texts().items()
        for name in OTHER_PAGES.findall(text)
    ]
    assert found == []


def test_anchors_are_unique_and_stand_with_their_numbers() -> None:
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        anchors = _ANCHOR.findall(text)
        assert len(anchors) == len(set(anchors)), page
        for heading in re.findall(r"^#{2,3} (.*)$", text, re.MULTILINE):
            numbered = re.match(r'<a id="([\dAB.]+)"></a>([\dAB.]+)', heading)
            assert numbered, f"{page}: {heading}"
            assert numbered[1] == numbered[2].rstrip("."), heading
    traps = [anchor for anchor in _sections("contract") if anchor.startswith("trap-")]
    assert traps == [f"trap-{number}" for number in range(1, len(traps) + 1)]


def test_links_between_docs_lead_somewhere() -> None:
    for file, text in _texts().items():
        for link in _LINK.finditer(text) if file.suffix == ".md" else ():
            target = (file.parent / link["path"]).resolve() if link["path"] else file
            assert target.exists(), f"{file.relative_to(ROOT)}: {link[0]}"
            if target.stem in PAGES and link["anchor"]:
                assert link["anchor"] in _sections(target.stem), f"{file.name}: {link[0]}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(contract 5.5 steps 2, 3).", [("5.5",), ("5.5", "2"), ("5.5", "3")]),
        ("contract 1.7 points 4 to 6", [("1.7",), ("1.7", "4"), ("1.7", "6")]),
        ("contract 1.6, 1.9 b)", [("1.6",), ("1.9-b",)]),
        ("contract 2, 5.2, B).", [("2",), ("5.2",), ("B",)]),
        ("contract appendix B;", [("B",)]),
        ("(contract\n# 7.1. Levels 1 and 2", [("7.1",)]),
        ("contract 5.5 step 1, trap 23.", [("5.5",), ("5.5", "1"), ("trap-23",)]),
        ("contract trap 23, 5.5", [("trap-23",), ("5.5",)]),
        ("traps 3, 4 and 5", [("trap-3",), ("trap-4",), ("trap-5",)]),
        ("contract 7.3 and 7.4, what is retained of 7.2", [("7.3",), ("7.4",)]),
        ("docs/contract.md 4.4", [("4.4",)]),
        ("(G-40, G-40a) and cluster-access 5.3", [("g-40",), ("g-40a",), ("5.3",)]),
        ("importlinter.contracts 1, the contract", []),
    ],
)
def test_citations_are_read(text: str, found: list[tuple[str, ...]]) -> None:
    assert [cited[1:] for _, cited in citations(text)] == [
        (anchor, *(step or ("",))) for anchor, *step in found
    ]


@pytest.mark.parametrize(
    "text",
    [
        "contract 5.99",
        "contract 5.5 step 99",
        "contract 99",
        "contract 1.9 b, 1.6 a",
        "contract, trap 99",
        "rewriting-rules 4.1, 4.9",
        "one line\n# (rewriting-rules\n# 9.9)",
        "kubeedge 99",
        "ADR 9999",
        "as G-99 says",
        "cluster-access 9.9",
        "see docs/adr/9999",
    ],
)
def test_citation_of_nothing_is_detected(text: str) -> None:
    assert len(unresolved("file", text)) == 1


def test_a_bare_number_is_one_of_the_page_that_is_meant() -> None:
    assert unresolved("file", "as told (9.9)", "rewriting-rules") == ["file:1: rewriting-rules 9.9"]
    assert unresolved("file", "as told (4.1, 4.3) and (0.5)") == []
    assert unresolved("file", "PERIOD = Requeue(60.0)", "rewriting-rules") == []
