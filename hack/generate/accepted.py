"""Ask the libraries of each Kubernetes minor whether its API server accepts the manifests.

Each minor has a program (hack/tools/admission), kept in the cache as those of the control planes
are. What all of them accepted is recorded there by its hash, so that the next check is free.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from control_planes import tools
from control_planes.errors import ControlPlanesError

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests" / "base"
FILES = (MANIFESTS / "crd.yaml", MANIFESTS / "policies.yaml")
OPTIONAL = "--optional"


def key_of(programs: Iterable[Path], files: Iterable[Path]) -> str:
    """Hash what decides the answers: the builds of the programs, and what the files contain."""
    builds = [f"{program.parent.name}/{program.name}" for program in programs]
    texts = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\0".join([*builds, *texts]).encode()).hexdigest()[:16]


def refusals(programs: Mapping[str, Path], files: Iterable[Path]) -> list[str]:
    """Return a line for each problem that a program reports. Raises ControlPlanesError."""
    lines = []
    for name, program in programs.items():
        result = subprocess.run([program, *files], capture_output=True, text=True, check=False)
        if result.returncode not in (0, 1):
            raise ControlPlanesError(f"{name} failed", result.stderr.strip())
        lines += [f"{name.replace('-', ' ')}: {line}" for line in result.stdout.splitlines()]
    return lines


def check(modules: Iterable[tools.ToolModule] = tools.ADMISSION_MODULES) -> list[str]:
    """Return what any minor refuses; builds the programs first. Raises ControlPlanesError."""
    modules = tuple(modules)
    record = tools.cache_root() / "accepted" / key_of(tools.program_paths(modules).values(), FILES)
    if record.exists():
        return []
    problems = refusals(tools.build_missing(modules), FILES)
    if not problems:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    return problems


def are_built(modules: Iterable[tools.ToolModule] = tools.ADMISSION_MODULES) -> bool:
    """Return whether the programs of all minors are in the cache."""
    return all(program.exists() for program in tools.program_paths(tuple(modules)).values())


def main(arguments: list[str]) -> int:
    """Print what is refused; with --optional, build nothing and pass without the programs."""
    if OPTIONAL in arguments and not are_built():
        print("manifests not checked against other minors: hack/verify-admission builds what does")
        return 0
    try:
        problems = check()
    except ControlPlanesError as error:
        print(f"cannot check the manifests against other minors: {error}", file=sys.stderr)
        return 1
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
