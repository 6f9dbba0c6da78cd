"""Writes docs/metrics.md to standard output, with its table from the declared families."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)

from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.runner.parts import Feature
from karmada_vc_agent.telemetry.metrics import OF_CORE, Family, declared_families

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
_TABLE = re.compile(r"^\| name \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)
_HEAD = "| name | type | labels | meaning |\n|---|---|---|---|\n"
_TITLES = (
    "as Karmada",
    "as controller-runtime and client-go",
    "of each virtual cluster",
    "of the gateway",
    "of the agent",
)
_NOTES = {"of the gateway": " (`karmada-vc-agent gateway`)"}


def page(text: str, features: Iterable[Feature] = FEATURES) -> str:
    """Return the page. text: the page as it is; all but the table stays."""
    table = _TABLE.search(text)
    if table is None:
        raise ValueError("docs/metrics.md has no table whose first column is `name`")
    rows = "".join(_rows(tuple(features)))
    return f"{text[: table.start()]}{_HEAD}{rows}{text[table.end() :]}"


def _rows(features: tuple[Feature, ...]) -> Iterator[str]:
    paths = (OF_CORE, *(each.metrics for each in features if each.metrics))
    files = [declared_families(path) for path in paths]
    for title in _TITLES:
        tables = [file[title] for file in files if title in file]
        if tables:
            yield f"| **{title}**{_NOTES.get(title, '')} | | | |\n"
        for table in tables:
            yield from _declared(table)
    yield "| **of the process, as every exporter** | | | |\n"
    yield from _of_process()


def _declared(table: Mapping[str, Family]) -> Iterator[str]:
    for name, family in table.items():
        yield _row(name, family.type, family.labels, family.help)


def _of_process() -> Iterator[str]:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, GCCollector, PlatformCollector):
        for metric in collector(registry=registry).collect():
            end = "_total" if metric.type == "counter" else ""
            yield _row(metric.name + end, metric.type, metric.samples[0].labels, "")


def _row(name: str, kind: str, labels: Iterable[str], text: str) -> str:
    linked = re.sub(r"\bADR (\d+)\b", _link, text)
    cells = (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), linked)
    return f"| {' | '.join(cells)} |\n".replace("  ", " ")


def _link(adr: re.Match[str]) -> str:
    (file,) = (DOCUMENT.parent / "adr").glob(f"{int(adr[1]):04}-*.md")
    return f"[{adr[0]}](adr/{file.name})"


if __name__ == "__main__":
    sys.stdout.write(page(DOCUMENT.read_text()))
