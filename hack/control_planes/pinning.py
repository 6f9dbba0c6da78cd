"""Pin one version of Kubernetes or Karmada as a tool module: its go.mod and go.sum.

Kubernetes publishes its staging modules apart, and not each of them is to be had in each version:
the nearest earlier one of the same minor takes its place, and where there is none an empty module,
since what is built here needs nothing of it.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from control_planes import golang, tools
from control_planes.errors import ControlPlanesError

PINS = {
    "kubernetes": (
        *("v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13"),
        *("v1.35.8", "v1.36.4", "v1.37.2"),
    ),
    "karmada": ("v1.16.0", "v1.17.1"),
}
"""What `--kubernetes` and `--karmada` can run beside the versions of go.mod."""
STUB = "../stub"
_STAGED = re.compile(r"^\s+(k8s\.io/\S+) => \./staging/", re.MULTILINE)


def main(arguments: list[str]) -> None:
    """Pin what is named by module and minor, as `kubernetes 1.32`; without arguments everything."""
    chosen = set(zip(arguments[::2], arguments[1::2], strict=True))
    for module in (tools.KUBERNETES, tools.KARMADA):
        for version in PINS[module.name]:
            minor = ".".join(version.removeprefix("v").split(".")[:2])
            if chosen and (module.name, minor) not in chosen:
                continue
            print(f"pinning {module.name} {version}", file=sys.stderr, flush=True)
            pin(replace(module, modfile=f"{minor}.mod"), version)


def pin(module: tools.ToolModule, version: str) -> None:
    """Write the go.mod and go.sum of a tool module for a version such as `v1.32.13`."""
    replaced = staged(version) if module.version_of == "k8s.io/kubernetes" else {}
    text = frame(module, version, replaced)
    with tempfile.TemporaryDirectory(dir=tools.TOOL_MODULES) as beside:
        directory = Path(beside)
        (directory / "go.mod").write_text(text)
        _go("mod", "tidy", where=directory)
        module.go_mod.write_text((directory / "go.mod").read_text())
        module.go_sum.write_text((directory / "go.sum").read_text())


def frame(module: tools.ToolModule, version: str, replaced: dict[str, str]) -> str:
    """Return a go.mod that names what is built and the version, before `go mod tidy`.

    replaced: module -> its version, or a directory.
    """
    packages = "".join(f"\t{package}\n" for package in module.packages.values())
    lines = "".join(
        f"\t{name} => {where if where.startswith('.') else f'{name} {where}'}\n"
        for name, where in sorted(replaced.items())
    )
    replace = f"\nreplace (\n{lines})\n" if lines else ""
    return (
        f"module karmada-vc-agent/hack/tools/{module.name}\n\ngo 1.26\n\n"
        f"tool (\n{packages})\n\nrequire {module.version_of} {version}\n{replace}"
    )


def staged(version: str) -> dict[str, str]:
    """Return the staging modules of a Kubernetes version, each with the version to be had of it."""
    source = Path(tools.fetch(f"k8s.io/kubernetes@{version}")["Dir"])
    names = _STAGED.findall((source / "go.mod").read_text())
    if not names:
        raise ControlPlanesError(f"k8s.io/kubernetes {version} names no staging modules")
    return {name: _nearest(name, version) for name in names}


def _nearest(name: str, version: str) -> str:
    minor, patch = version.removeprefix("v1.").split(".")
    for number in range(int(patch), max(int(patch) - 10, -1), -1):
        candidate = f"v0.{minor}.{number}"
        if _is_served(f"{name}@{candidate}"):
            return candidate
    return STUB


def _is_served(module: str) -> bool:
    try:
        tools.fetch(module)
    except ControlPlanesError:
        return False
    return True


def _go(*arguments: str, where: Path) -> None:
    result = subprocess.run(
        [golang.find_go(tools.cache_root()), *arguments],
        cwd=where,
        env=golang.go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        tail = "\n".join(result.stderr.splitlines()[-golang.LAST_LINES :])
        raise ControlPlanesError(f"go {' '.join(arguments)} failed", tail)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ControlPlanesError as error:
        sys.exit(f"hack/update-tools: {error}")
