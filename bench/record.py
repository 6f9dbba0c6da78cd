"""What a bench recorded: repetitions, medians and spread as JSON, table and curves."""

import importlib
import os
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from bench import report
from bench.lab import ROOT
from bench.results import median, percentile
from bench.session import say

OURS, THEIRS, BARE = "ours", "karmada-agent", "bare client"
WHO = (OURS, THEIRS, BARE)
PAGE = ROOT / "docs" / "performance.md"
PAGE_WIDTH = 150
CURVES = ROOT / "docs" / "performance"


@dataclass(frozen=True, slots=True)
class Goal:
    """At most so much, or so many times what another one takes; at: of this size only."""

    limit: float
    of: str = ""
    at: int | None = None

    def __str__(self) -> str:
        return f"<= {self.limit:g}" + (f" of {self.of}" if self.of else "")


@dataclass(slots=True)
class Figure:
    """A line of the table. at: the size. values: who -> one for each repetition."""

    what: str
    at: int | None
    values: dict[str, list[float]] = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """All that a bench recorded. axis: what sizes count. samples: behind the percentiles."""

    bench: str
    axis: str = ""
    goals: dict[str, Goal] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    samples: dict[str, list[list[float]]] = field(default_factory=dict)

    def add(self, what: str, value: float, who: str = OURS, at: int | None = None) -> None:
        """Add the value of one repetition."""
        for figure in self.figures:
            if (figure.what, figure.at) == (what, at):
                break
        else:
            figure = Figure(what, at)
            self.figures.append(figure)
        figure.values.setdefault(who, []).append(round(value, 3))

    def add_samples(
        self, what: str, values: list[float], who: str = OURS, at: int | None = None
    ) -> None:
        """Add the percentiles of one repetition."""
        name = what if at is None else f"{what}, {at} {self.axis}"
        self.samples.setdefault(f"{name}, {who}", []).append([round(each, 3) for each in values])
        for share in (50, 95, 99):
            self.add(f"{what}, p{share}", percentile(values, share), who, at)

    def table(self) -> str:
        """Return the Markdown table: median (smallest to largest) of the repetitions."""
        whose = [who for who in WHO if any(who in each.values for each in self.figures)]
        others = [who for who in whose if who != OURS]
        head = ["what", *whose, *(f"ratio to {who}" for who in others), "goal", "met"]
        lines = [head, ["---", *("---:" for _ in (*whose, *others)), "---", "---"]]
        for each in self.figures:
            name = each.what if each.at is None else f"{each.what}, {each.at:,} {self.axis}"
            goal = self._goal(each)
            lines.append(
                [
                    name,
                    *(_spread(each.values.get(who)) for who in whose),
                    *(_ratio(each, who) for who in others),
                    str(goal or ""),
                    _met(each, goal),
                ]
            )
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _goal(self, figure: Figure) -> Goal | None:
        goal = self.goals.get(figure.what)
        return goal if goal is not None and goal.at in (None, figure.at) else None

    def draw(self, path: Path) -> bool:
        """Draw each figure over its sizes as SVG; False where there is nothing to draw with."""
        curves: dict[str, list[Figure]] = {}
        for each in self.figures:
            if each.at is not None:
                curves.setdefault(each.what, []).append(each)
        curves = {what: points for what, points in curves.items() if len(points) > 1}
        if not curves:
            return False
        try:
            figure = importlib.import_module("matplotlib.figure")
        except ImportError:
            say("no curves without matplotlib: pip install -r bench/requirements.txt")
            return False
        drawing = figure.Figure(figsize=(7, 3 * len(curves)), layout="constrained")
        all_axes = drawing.subplots(len(curves), squeeze=False)[:, 0]
        for axes, (what, points) in zip(all_axes, curves.items(), strict=True):
            for who in WHO:
                line = [(each.at, each.values[who]) for each in points if who in each.values]
                axes.plot([x for x, _ in line], [median(y) for _, y in line], "o-", label=who)
                axes.vlines(
                    [x for x, _ in line], [min(y) for _, y in line], [max(y) for _, y in line]
                )
            axes.set(title=what, xlabel=self.axis, xscale="log", ylim=(0, None))
            axes.legend()
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, metadata={"Date": None})
        say(f"wrote {os.path.relpath(path)}")
        return True

    def finish(self, output: Path | None, *, is_quick: bool) -> None:
        """Print the table; a whole run is written and replaces the one in docs/performance.md."""
        print(self.table(), report.notes(self.machine), sep="\n\n")
        if output is not None:
            report.write(self, output)
            self.draw(output.with_suffix(".svg"))
        elif not is_quick:
            path = report.default_path(self.machine, f"-{self.bench}")
            report.write(self, path)
            drawn = self.draw(CURVES / f"{self.bench}.svg")
            PAGE.write_text(publish(PAGE.read_text(), self, path.name, is_drawn=drawn))


def publish(page: str, record: Record, results: str, *, is_drawn: bool) -> str:
    """Return the page with the table of a record between its marks, which may be new."""
    begin, end = f"<!-- hack/bench {record.bench} -->", f"<!-- end of {record.bench} -->"
    of_machine = ", ".join(f"{key} {value}" for key, value in record.machine.items())
    parts = [
        begin,
        textwrap.fill(
            f"`hack/bench {record.bench}`, [{results}](../bench/results/{results}), {of_machine}.",
            PAGE_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        ),
        "Median (smallest to largest) of the repetitions.",
        record.table(),
        *((f"![curves](performance/{record.bench}.svg)",) if is_drawn else ()),
        end,
    ]
    block = "\n\n".join(parts)
    marked = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if marked.search(page):
        return marked.sub(lambda _: block, page, count=1)
    return f"{page.rstrip()}\n\n## hack/bench {record.bench}\n\n{block}\n"


def _spread(values: list[float] | None) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:,.2f}"
    return f"{median(values):,.2f} ({min(values):,.2f} to {max(values):,.2f})"


def _ratio(figure: Figure, who: str) -> str:
    ratio = _times(figure, who)
    return "" if ratio is None else f"{ratio:.2f}"


def _times(figure: Figure, who: str) -> float | None:
    if OURS not in figure.values or who not in figure.values:
        return None
    other = median(figure.values[who])
    return median(figure.values[OURS]) / other if other else None


def _met(figure: Figure, goal: Goal | None) -> str:
    if goal is None or OURS not in figure.values:
        return ""
    value = _times(figure, goal.of) if goal.of else median(figure.values[OURS])
    return "" if value is None else ("yes" if value <= goal.limit else "no")
