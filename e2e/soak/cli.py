"""The command line of hack/soak."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from e2e.lab.api import Api
from e2e.lab.audit import LOGS
from e2e.lab.cleanup import clean_up, wait_until_deleted
from e2e.lab.lab import Lab
from e2e.lab.scene import new_scene
from e2e.soak.report import HEADER, line, summary
from e2e.soak.rounds import Round, rounds

CONTROL_PLANES = Path(__file__).resolve().parents[2] / "hack" / "control-planes"
HELP = """Break the connections of one agent at random, for a long time, and check the invariants.

Two virtual clusters are served while both sides change: the hub creates, changes and deletes,
hands on the host edit and delete. Each round has one fault (cut, refuse, black hole, delay,
bandwidth, resets) on the way to the hub, the host or both; in some the agent is killed. After each
round hub, host and status must agree, with no orphan, no object written without a cause and no
pod restarted whose template did not change. At the end it prints what memory, open files and
threads came to. Exit code 1 where an invariant did not hold; the logs stay then.

Starts control planes of its own; with HUB_KUBECONFIG, HOST_KUBECONFIG and AUDIT_LOGS it uses
these.

\b
Examples:
  hack/soak
  hack/soak --minutes 10
  hack/soak --minutes 5 --seed 4711 --kills 0
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", default=30.0, show_default=True, type=click.FloatRange(min=0.1))
@click.option("--seed", type=int, help="Play the faults and changes of an earlier run again.")
@click.option(
    "--kills",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0.0, 1.0),
    help="In how many of the rounds the agent is killed.",
)
def command(*, minutes: float, seed: int | None, kills: float) -> None:
    seed = random.randrange(2**32) if seed is None else seed  # noqa: S311 - no secret
    print(f"seed {seed}, {minutes:g} minutes", flush=True)
    chosen = random.Random(seed)  # noqa: S311
    with _work_directory() as directory, _control_planes(directory) as (hub, host):
        found = _soak(Lab(Api(hub), Api(host), directory), chosen, minutes, kills)
        for text in summary(found):
            print(text)
        problems = [one.problem for one in found if one.problem]
        if problems or not found:
            sys.exit(f"hack/soak: {problems[0] if problems else 'no round was run'}")


def _soak(lab: Lab, chosen: random.Random, minutes: float, kills: float) -> list[Round]:
    found: list[Round] = []
    try:
        with new_scene(lab, lab.directory) as scene:
            scene.start()
            print(HEADER, flush=True)
            for one in rounds(scene, chosen, minutes, kills):
                found.append(one)
                print(line(one), flush=True)
    finally:
        clean_up(lab)
        wait_until_deleted(lab)
    return found


@contextmanager
def _work_directory() -> Iterator[Path]:
    """Make a directory that goes again if all was well."""
    directory = Path(tempfile.mkdtemp(prefix="karmada-vc-agent-soak-"))
    try:
        yield directory
    except BaseException:
        print(f"hack/soak: logs are in {directory}", file=sys.stderr)
        raise
    shutil.rmtree(directory)


@contextmanager
def _control_planes(directory: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the kubeconfigs of hub and host."""
    given = [os.environ.get(name) for name in ("HUB_KUBECONFIG", "HOST_KUBECONFIG")]
    if all(given):
        yield Path(str(given[0])), Path(str(given[1]))
        return
    planes = directory / "control-planes"
    _run("up", str(planes), "--audit")
    os.environ[LOGS] = str(planes / "logs")
    try:
        yield planes / "hub.kubeconfig", planes / "host.kubeconfig"
    finally:
        _run("down", str(planes))


def _run(*arguments: str) -> None:
    # An interrupt must not cut `down`.
    subprocess.run((str(CONTROL_PLANES), *arguments), check=True, start_new_session=True)
