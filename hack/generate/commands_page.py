"""Writes docs/commands.md to standard output: what `--help` of each command says."""

import sys

import click
from click.testing import CliRunner

from karmada_vc_agent.cli import main

_HEAD = """\
# Commands

`hack/update-settings` writes this page from `--help`: change it there. [settings.md](settings.md)
has the settings that are also flags of `run`.
"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(map(_section, main.list_commands(click.Context(main))))


def _section(name: str) -> str:
    arguments = [name, "--help"]
    done = CliRunner().invoke(main, arguments, prog_name="karmada-vc-agent", terminal_width=96)
    return f"\n## {name}\n\n```text\n{done.output.strip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(page())
