"""Ask Karmada's own interpreter code what an object means: `kubectl-karmada interpret`.

The program answers by the customization it is given and by nothing else: native rules and
those shipped with Karmada are not asked. The shipped ones are files in the Karmada module, of
the same form (`customization_files`), so handing it one of these makes it answer by that.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import yaml

from control_planes import tools
from control_planes.karmada_objects import MODULE

Operation = Literal["Retain", "InterpretStatus", "InterpretHealth"]

TIMEOUT_S = 30.0
_SHIPPED = "pkg/resourceinterpreter/default/thirdparty/resourcecustomizations"
_CUSTOMIZATION = "customizations.yaml"
_NOT_ENABLED = "rule is not enabled"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script made of the object: the retained object, the status, or the health."""

    value: Any


@dataclass(frozen=True, slots=True)
class ScriptError:
    """The script, or making JSON of what it returned, failed."""

    text: str


@dataclass(frozen=True, slots=True)
class NoScript:
    """The customization has nothing for this kind and operation."""


Outcome = Answer | ScriptError | NoScript


class Interpreter:
    """A `kubectl-karmada` program. About 0.1 s for each question."""

    def __init__(self, program: Path) -> None:
        if not os.access(program, os.X_OK):
            raise FileNotFoundError(
                f"{program} is no program; run hack/control-planes build, or give another one "
                "with --kubectl-karmada"
            )
        self._program = program

    def ask(
        self,
        operation: Operation,
        customization: Path | dict[str, Any],
        observed: dict[str, Any],
        desired: dict[str, Any] | None = None,
    ) -> Outcome:
        """Return what Karmada answers for one object.

        customization: a file of ResourceInterpreterCustomizations, or one as an object.
        desired: the manifest, for Retain. Raises RuntimeError where the program cannot read
        what it was given.
        """
        with TemporaryDirectory(prefix="interpret-") as name:
            directory = Path(name)
            if not isinstance(customization, Path):
                customization = _write(directory / "customization.json", customization)
            command = [str(self._program), "interpret", "--operation", operation]
            command += ["-f", str(customization)]
            command += ["--observed-file", str(_write(directory / "observed.json", observed))]
            if desired is not None:
                command += ["--desired-file", str(_write(directory / "desired.json", desired))]
            result = subprocess.run(
                command,
                env={"HOME": name, "PATH": os.defpath, "KUBECONFIG": os.devnull},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        return _outcome(operation, result)


def cached_program() -> Path:
    """Return where hack/control-planes keeps, or will build, kubectl-karmada."""
    return tools.program_paths()["kubectl-karmada"]


def shipped_directory() -> Path:
    """Return where the Karmada module has its customizations; fetched when not there."""
    return tools.module_directory("karmada", MODULE) / _SHIPPED


def customization_files(directory: Path) -> dict[tuple[str, str], Path]:
    """Return the customization files below a directory by (apiVersion, kind) of their target."""
    files = {}
    for path in sorted(directory.rglob(_CUSTOMIZATION)):
        for customization in yaml.safe_load_all(path.read_text()):
            target = customization["spec"]["target"]
            files[target["apiVersion"], target["kind"]] = path
    return files


def _write(path: Path, obj: dict[str, Any]) -> Path:
    path.write_text(json.dumps(obj))
    return path


def _outcome(operation: Operation, result: subprocess.CompletedProcess[str]) -> Outcome:
    error = result.stderr.removeprefix(f"Execute {operation} error: ")
    if result.returncode != 0 or (result.stderr and error == result.stderr):
        raise RuntimeError(
            f"kubectl-karmada interpret ended with {result.returncode}: {result.stderr.strip()}"
        )
    if error.strip() == _NOT_ENABLED:
        return NoScript()
    if error:
        return ScriptError(error.strip())
    return Answer(yaml.load(result.stdout, _JsonValues))  # noqa: S506 - a SafeLoader


class _JsonValues(yaml.SafeLoader):
    """Reads plain scalars as JSON has them: `yes`, a date or `10:30` is a text."""


_JsonValues.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"null", "n"),
    ("bool", r"true|false", "tf"),
    ("int", r"-?[0-9]+", "-0123456789"),
    ("float", r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", "-0123456789"),
):
    _JsonValues.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )
