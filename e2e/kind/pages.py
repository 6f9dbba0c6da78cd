"""Commands of a page, typed as a reader would, and what the page shows of their output.

A `console` block has a command behind each `$`, and below it what is shown of its output: lines
that the command prints, in any order; it is repeated until it does. A line may end with `...`.
`bash` blocks are run whole. A block behind an HTML comment `run by FILE` is left to that story.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.lab.wait import within

_BLOCK = re.compile(
    r"^(<!-- run by [\w./]+ -->\n)?```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL
)
_CHANGES_SHELL = re.compile(r"(alias|\.) ")
"""Commands behind which each later one is run."""
_ASSIGNS = re.compile(r"(?:export )?(\w+)=")
"""Commands whose variable each later one has, with the value that it has now."""
_VARIES = (
    (re.compile(r"\b(\d+[smhd])+\b"), "AGE"),
    (re.compile(r"-[0-9a-z]{6,10}-[0-9a-z]{5}\b"), "-POD"),
    (re.compile(r"karmada-vc-[0-9a-f]{6}-"), "NODE-"),
    (re.compile(r"\b(\d+\.){3}\d+\b"), "ADDRESS"),
    (re.compile(r"v?\d+\.\d+\.\d+"), "VERSION"),
)
_MORE = "..."
_WITHIN_S = 180
_ENDS_WITHIN_S = 300


@dataclass(frozen=True)
class Step:
    """A command. shown: lines that the page has of its output."""

    command: str
    shown: tuple[str, ...] = ()


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield language and text of each block that is not left to another story."""
    for elsewhere, language, text in _BLOCK.findall(page):
        if not elsewhere:
            yield language, text


def steps(page: str) -> Iterator[Step]:
    """Yield the commands of a page in their order."""
    for language, text in blocks(page):
        if language == "bash":
            yield Step(text)
        elif language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.replace("\\\n", " ").partition("\n")
                lines = (line for line in shown.splitlines() if line.strip(" ."))
                yield Step(command, tuple(lines))


def comparable(line: str) -> str:
    """Return a line without what differs from run to run: ages, addresses, names of pods."""
    for pattern, name in _VARIES:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def is_printed(shown: str, printed: str) -> bool:
    """Return whether a line of an output is as the page shows it."""
    line, lines = comparable(shown), map(comparable, printed.splitlines())
    if line.endswith(_MORE):
        return any(each.startswith(line.removesuffix(_MORE)) for each in lines)
    return line in lines


@dataclass
class Reader:
    """Someone who follows a page in a folder. environment: of the shell."""

    folder: Path
    environment: Mapping[str, str]
    _remembered: list[str] = field(default_factory=list)

    def type(self, step: Step) -> None:
        """Run a command; AssertionError if it fails, or does not print what the page shows."""
        if not step.shown:
            assigns = _ASSIGNS.match(step.command)
            declared = f"\ndeclare -p {assigns[1]}" if assigns else ""
            printed = self._run(step.command + declared)
            if assigns or _CHANGES_SHELL.match(step.command):
                self._remembered.append(printed if assigns else step.command)
            return
        within(_WITHIN_S, self._run_and_compare, step)

    def _run_and_compare(self, step: Step) -> None:
        printed = self._run(step.command)
        missing = [line for line in step.shown if not is_printed(line, printed)]
        assert not missing, f"{step.command} prints no {missing}, but\n{printed}"

    def _run(self, command: str) -> str:
        script = "\n".join(("shopt -s expand_aliases", *self._remembered, command))
        done = subprocess.run(
            ("bash", "-eo", "pipefail", "-c", script),
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_ENDS_WITHIN_S,
        )
        assert done.returncode == 0, f"$ {command}\nexit code {done.returncode}\n{done.stdout}"
        return done.stdout
