"""Measure the source, and hold it to bounds that may only be lowered.

Usage: python -m lib.house [--lower]
"""

import ast
import json
import logging
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "karmada_vc_agent"
BOUNDS = Path(__file__).with_name("house.json")
TRIP = "files that the trip of a Deployment Work runs"
WORDS = (
    *("told/tell/tells", "found", "wanted/want/wants", "known", "asked"),
    *("whoever/somebody/nobody", "anew", "goes/went/gone", "comes/came", "stands/lies"),
    *("look again/looks again", "sieve/sieves", "room", "turn/turns", "remark/remarks"),
    *("picture's age/picture_age", "ground/grounds", "cause/causes", "opening/openings", "scouts"),
)
"""Words that the field does not use, with their forms; one row of the table each."""
ADDED = ("diagnosis/", "install/served.py", "features/shards/")
"""What was added since the source was cut: each has its own bound of lines (ADR 82)."""


def measure(files: Mapping[str, str], trip: Callable[[], Iterable[str]]) -> dict[str, int]:
    """Return what is measured by name, less is better in all of it.

    files: name -> text of each source file. trip: returns the files that one Work runs.
    """
    added = {folder: _below(folder, files) for folder in ADDED}
    lines = {f"lines of {folder}": _lines(texts.values()) for folder, texts in added.items()}
    new = {name for texts in added.values() for name in texts}
    old = {name: text for name, text in files.items() if name not in new}
    nodes_of = {name: list(ast.walk(ast.parse(text))) for name, text in files.items()}
    classes_of = {name: _classes(nodes) for name, nodes in nodes_of.items()}
    classes = Counter(name for names in classes_of.values() for name in names)
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for nodes in nodes_of.values()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        "source lines": _lines(old.values()),
        **lines,
        "source files": len(old),
        "public classes": sum(
            not name.startswith("_") for file in old for name in classes_of[file]
        ),
        "class names defined more than once": sum(n > 1 for n in classes.values()),
        "lines of the longest function": max(lengths, default=0),
        "lines of the median function": int(statistics.median(lengths or [0])),
        TRIP: len(set(trip())),
    } | {f'words "{word}"': _count(word, files.values()) for word in WORDS}


def _below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files in a folder of the package, or one file."""
    return {name: text for name, text in files.items() if f"{PACKAGE}/{folder}" in name}


def _classes(nodes: Iterable[ast.AST]) -> list[str]:
    return [node.name for node in nodes if isinstance(node, ast.ClassDef)]


def _lines(texts: Iterable[str]) -> int:
    return sum(text.count("\n") for text in texts)


def exceeded(measured: Mapping[str, int], bounds: Mapping[str, int]) -> list[str]:
    """Return what is above its bound, or has none, as sentences."""
    return [
        f"{name}: {number} is above the bound of {bounds[name]}"
        if name in bounds
        else f"{name}: {number} has no bound"
        for name, number in measured.items()
        if number > bounds.get(name, -1)
    ]


def lowered(measured: Mapping[str, int], bounds: Mapping[str, int]) -> dict[str, int]:
    """Return the bounds of what is measured, each as low as what was reached; none is raised."""
    return {name: min(number, bounds.get(name, number)) for name, number in measured.items()}


def _count(word: str, texts: Iterable[str]) -> int:
    """Count the forms of a word, also where they are a part of a name in snake case."""
    forms = word.replace("/", "|")
    pattern = re.compile(rf"(?<![A-Za-z])(?:{forms})(?![a-z])", re.IGNORECASE)
    return sum(len(pattern.findall(text)) for text in texts)


def source() -> dict[str, str]:
    """Return the source files by name, new ones that git does not ignore among them."""
    kinds = ("--cached", "--others", "--exclude-standard")
    command = ["git", "ls-files", *kinds, f"{PACKAGE}/*.py"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [ROOT / name for name in names.stdout.splitlines()]
    return {str(path): path.read_text(encoding="utf-8") for path in paths if path.exists()}


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a bound is exceeded."""
    from tests.fakes.trip import files_of_a_trip  # noqa: PLC0415 - loads the whole agent

    logging.disable()  # what the agent of the trip logs
    measured = measure(source(), files_of_a_trip)
    bounds: dict[str, int] = json.loads(BOUNDS.read_text(encoding="utf-8"))
    if "--lower" in arguments:
        bounds = lowered(measured, bounds)
        BOUNDS.write_text(json.dumps(bounds, indent=2) + "\n", encoding="utf-8")
    width = max(map(len, measured))
    for name, number in measured.items():
        print(f"{name:<{width}} {number:>6} of {bounds.get(name, 0):>6}")
    problems = exceeded(measured, bounds)
    for problem in problems:
        print(f"hack/house: {problem}", file=sys.stderr)
    if problems:
        print("hack/house: remove as much elsewhere; no bound is raised (ADR 74)", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
