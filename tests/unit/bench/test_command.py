"""The commands of benches have the same options, and finish their record."""

import asyncio
import importlib
import json
import signal
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bench.command import Runs, bench_command, main

NAMES = ("drain", "fair", "fleet", "idle", "leases", "nodes", "policy", "restart", "summary")


@bench_command("example", axis="Works")
@click.option("--works", "count", default=100)
def example(runs: Runs, *, count: int) -> None:
    """Measure nothing."""
    if runs.is_quick:
        count = 1
    runs.record.machine = {"date": "2026-11-26", "commit": "abc"}
    for number in range(runs.repetitions):
        runs.record.add("what", float(number), at=count)
    if count < 0:
        raise ValueError


def test_output_has_each_repetition(tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    options = ["--repetitions", "2", "--works", "7", "--output", str(path)]
    done = CliRunner().invoke(example, options)
    assert done.exit_code == 0, done.output
    (figure,) = json.loads(path.read_text())["figures"]
    assert figure == {"what": "what", "at": 7, "values": {"ours": [0.0, 1.0]}}


def test_quick_run_is_one_and_writes_nothing() -> None:
    done = CliRunner().invoke(example, ["--quick", "--repetitions", "5"])
    assert done.exit_code == 0, done.output
    assert "| what, 1 Works | 0.00 |" in done.output
    assert "wrote" not in done.output


def test_bench_that_fails_prints_what_it_measured_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    options = ["--works", "-1", "--repetitions", "1", "--output", str(path)]
    done = CliRunner().invoke(example, options)
    assert isinstance(done.exception, ValueError)
    assert "| what, -1 Works | 0.00 |" in done.output
    assert not path.exists()


def test_bench_that_is_ended_says_so_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command("example")
    def ended() -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["example"])
    with pytest.raises(SystemExit) as end:
        main(ended)
    assert end.value.code == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_each_bench_has_the_shared_options_and_its_name(name: str) -> None:
    command: click.Command = importlib.import_module(f"bench.{name}").command
    assert command.name == name
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0, done.output
    for option in ("--quick", "--repetitions", "--keep", "--output"):
        assert option in done.output
