"""The rows of faults.yaml."""

import re
from pathlib import Path
from typing import Literal

import msgspec


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault that stories make.

    line, next: with {name} for values. code: the exit code. also: a text that is printed, too.
    """

    symptom: str
    command: Literal["explain", "doctor"]
    line: str
    code: int
    next: str
    also: str = ""

    @property
    def mends(self) -> bool:
        """Return whether the next step is a command that does more than show something."""
        words = self.next.partition(" # ")[0].split()
        is_command = words[0] in ("kubectl", "karmada-vc-agent")
        return is_command and not {"get", "describe", "logs"} & {*words}


ROWS = msgspec.yaml.decode(
    Path(__file__).with_name("faults.yaml").read_bytes(), type=dict[str, Row]
)


def expression(text: str, values: dict[str, str]) -> str:
    """Return a text of a row as a regular expression: {name} is its value, else any text."""
    parts = re.split(r"\{(\w+)\}", text)
    names, fixed = parts[1::2], map(re.escape, parts[::2])
    matched = [re.escape(values[name]) if name in values else ".*" for name in names]
    return "".join(part for pair in zip(fixed, [*matched, ""], strict=True) for part in pair)


def page() -> list[str]:
    """Return the rows of the table in docs/troubleshooting.md."""
    return [
        f"| {row.symptom} | `{row.command}` | {row.line} | {row.next} |" for row in ROWS.values()
    ]
