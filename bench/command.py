"""What the commands of benches share: options, control planes, and the record that they fill."""

import asyncio
import functools
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from bench.lab import Lab, control_planes
from bench.record import Goal, Record
from bench.session import Session, describe, ending, open_session, say

T = TypeVar("T")
Measure = Callable[[Session, Record], Coroutine[Any, Any, T]]
"""Adds what it measures to the record, and may return what another one needs."""
HELP = {"help_option_names": ["-h", "--help"]}
QUICK = click.option("--quick", is_flag=True, help="Small numbers, no file: does it work at all?")
KEEP = click.option("--keep", is_flag=True, help="Leave the control planes up and say where.")


@dataclass(frozen=True, slots=True)
class Runs:
    """How a bench runs: with small numbers, how often, and what records it."""

    record: Record
    is_quick: bool
    repetitions: int
    keep: bool
    karmada_qps: int

    def need_output(self, option: str, published: str) -> None:
        """Raise UsageError where an option's figures would replace those of the default."""
        if not (self.is_quick or click.get_current_context().params["output"]):
            text = f"{option} needs --output: docs/performance.md has the figures of {published}"
            raise click.UsageError(text)

    def on_control_planes(
        self, measure: Measure[T], groups: int, each: int = 1, *, hosts: int = 1
    ) -> T:
        """Measure on control planes that run for this only. groups: of nodes; each: of a group.

        hosts: 2 where karmada-agent has one of its own.
        """
        with control_planes(
            groups, keep=self.keep, hosts=hosts, each=each, audit=True, qps=self.karmada_qps
        ) as lab:
            return asyncio.run(ending(self._measure(lab, measure)))

    async def _measure(self, lab: Lab, measure: Measure[T]) -> T:
        async with open_session(lab) as session:
            qps = {"requests a second of Karmada's controllers": str(self.karmada_qps or 40)}
            self.record.machine = self.record.machine or await describe(session) | qps
            return await measure(session, self.record)


def bench_command(
    name: str, goals: dict[str, Goal] | None = None, axis: str = ""
) -> Callable[[Callable[..., None]], click.Command]:
    """Make `hack/bench NAME` of a function of Runs and the values of its own options.

    What it has recorded is finished in the end, and printed where the bench fails before. goals,
    axis: of the Record.
    """

    def decorate(measure_all: Callable[..., None]) -> click.Command:
        @functools.wraps(measure_all)
        def run(
            *,
            quick: bool,
            repetitions: int,
            keep: bool,
            karmada_qps: int,
            output: Path | None,
            **own: object,
        ) -> None:
            result = Record(name, axis, goals or {})
            runs = Runs(result, quick, 1 if quick else repetitions, keep, karmada_qps)
            try:
                measure_all(runs, **own)
            except BaseException:
                if result.figures:
                    result.finish(None, is_quick=True)  # printed, and not published
                raise
            result.finish(output, is_quick=quick)

        return click.command(name, context_settings=HELP)(_with_shared_options(run))

    return decorate


def _with_shared_options(run: Callable[..., None]) -> Callable[..., None]:
    shared = (
        QUICK,
        click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1, 20)),
        KEEP,
        click.option(
            "--karmada-qps",
            default=0,
            type=click.IntRange(0),
            help="Requests a second of each of Karmada's controllers; 0: their default, 40.",
        ),
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            help="JSON file, with curves beside it, in place of bench/results/ and docs/.",
        ),
    )
    for option in reversed(shared):
        run = option(run)
    return run


def main(command: click.Command) -> None:
    """Run a bench."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command(prog_name=f"hack/bench {command.name}")
    except asyncio.CancelledError:  # by `ending`
        say("ended by SIGTERM; nothing was written")
        raise SystemExit(128 + signal.SIGTERM) from None
