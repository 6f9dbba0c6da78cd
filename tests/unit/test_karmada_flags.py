"""Flags of karmada-agent: the table of the docs is true, replaced ones are told."""

import re
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from karmada_vc_agent.cli import main
from karmada_vc_agent.commands.shared import REPLACED, translated
from karmada_vc_agent.config.decoding import flags_of
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.quantity import Duration, format_duration, parse_duration_s

DOCUMENT = Path(__file__).parents[2] / "docs" / "flags.md"
ROW = re.compile(r"^\| `(--[\w-]+)` \| ([\w ]+) \|([^|]*)\|", re.MULTILINE)
SWITCHES = {"--leader-elect": "--no-leader-elect"}


class Row(NamedTuple):
    relation: str
    default: str


def documented() -> dict[str, Row]:
    rows = (match.groups() for match in ROW.finditer(DOCUMENT.read_text()))
    return {flag: Row(relation, cell.strip(" `")) for flag, relation, cell in rows}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


def test_every_setting_is_in_the_table_as_one_that_is_here() -> None:
    here = {flag for flag, row in documented().items() if row.relation not in ("none", "replaced")}
    flags = {setting.flag for setting in flags_of(CONFIG)}
    assert flags - here == set(), "add rows to docs/flags.md"
    assert here - flags == set(), "remove these rows of docs/flags.md"


def test_defaults_of_the_table_are_those_of_the_settings() -> None:
    table = documented()
    for setting in flags_of(CONFIG):
        assert setting.flag in table, "add a row to docs/flags.md"
        told = table[setting.flag].default
        if setting.kind is Duration:
            assert parse_duration_s(told) == setting.default, setting.name
        elif isinstance(setting.default, float):
            assert float(told) == setting.default, setting.name
        else:
            text = str(setting.default)
            assert told == (text.lower() if isinstance(setting.default, bool) else text)


def test_every_unsupported_flag_is_listed() -> None:
    gone = {flag for flag, row in documented().items() if row.relation in ("none", "replaced")}
    assert gone == set(REPLACED) - {"-v"}


@pytest.mark.parametrize("flag", sorted(REPLACED))
@pytest.mark.parametrize("form", ["{}=x", "{}"])
def test_removed_flag_ends_with_its_replacement(flag: str, form: str) -> None:
    result = run(form.format(flag), "x")
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last == f"Error: {flag} is a flag of karmada-agent only: {REPLACED[flag]}"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("--leader-elect=false", "--no-leader-elect"),
        ("--leader-elect=true", "--leader-elect"),
        ("--leader-elect=0", "--no-leader-elect"),
        ("--leader-elect", "--leader-elect"),
        ("--log-level=false", "--log-level=false"),
        ("false", "false"),
    ],
)
def test_switch_is_read_as_karmada_writes_it(given: str, read: str) -> None:
    assert translated([given], SWITCHES) == [read]


def test_switch_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(click.UsageError, match='--leader-elect is "maybe", must be true or false'):
        translated(["--leader-elect=maybe"], SWITCHES)


def test_switch_in_karmadas_form_reaches_the_command(tmp_path: Path) -> None:
    result = run("--leader-elect=false", "--config", str(tmp_path / "absent.yaml"))
    assert "absent.yaml: No such file" in result.stderr


def test_zero_duration_is_written_in_seconds() -> None:
    assert format_duration(0.0) == "0s"
