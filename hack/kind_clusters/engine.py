"""The container engine: found by really running a container with it."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from control_planes.errors import ControlPlanesError
from kind_clusters import containers_conf, shell

PROVIDER = "KIND_EXPERIMENTAL_PROVIDER"
PROBE = f"localhost/karmada-vc-probe:{os.getpid()}"
"""Of this process: several may look for an engine at once."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Docker or podman. settings: environment variables for it and for kind."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the whole environment that it and kind are run with."""
        return {**os.environ, **self.settings}

    @property
    def pulls_nodes(self) -> bool:
        """Tell whether kind's own node image is pulled, rather than built here."""
        return self.name == "docker"

    def run(self, *arguments: shell.Argument, content: bytes | None = None) -> str:
        """Run the engine. Raises ControlPlanesError."""
        return shell.run(self.name, *arguments, environment=self.environment, content=content)

    def inside(self, container: str, *command: str, content: bytes | None = None) -> str:
        """Run a program in a container. Raises ControlPlanesError."""
        flags = [] if content is None else ["--interactive"]
        return self.run("exec", *flags, container, *command, content=content)

    def has_image(self, image: str) -> bool:
        return shell.succeeds(self.name, "image", "inspect", image, environment=self.environment)


def candidates() -> list[Engine]:
    """Return the engines to try, the best one first."""
    conf = str(containers_conf.written())
    return [
        Engine("docker", {PROVIDER: "docker"}),
        Engine("podman", {PROVIDER: "podman", "CONTAINERS_CONF": conf}),
    ]


def find(program: Path, check: Callable[[Engine], None]) -> Engine:
    """Return the first engine that runs a container and passes the check.

    program: a static kubectl to run in it. check: raises ControlPlanesError if the engine has no
    image of nodes and cannot get one. Raises ControlPlanesError with what is the matter with each.
    """
    problems = []
    for engine in candidates():
        problem = _problem(engine, program, check)
        if not problem:
            return engine
        problems.append(f"{engine.name}: {problem}")
    raise ControlPlanesError("no container engine that works here: " + "; ".join(problems))


def _problem(engine: Engine, program: Path, check: Callable[[Engine], None]) -> str:
    """Return why an engine cannot be used; empty if it runs a container."""
    if shutil.which(engine.name) is None:
        return "not installed"
    if engine.name == "podman" and os.geteuid() != 0:
        return "needs root"
    try:
        engine.run("info")
        engine.run("import", "-", PROBE, content=_probe(program))
        try:
            engine.run("run", "--rm", "--privileged", PROBE, "/kubectl", "version", "--client")
        finally:
            engine.run("rmi", "--force", PROBE)
        check(engine)
    except ControlPlanesError as error:
        last = error.detail.strip().splitlines()[-1:] or [""]
        return f"{error}: {last[0]}" if last[0] else str(error)
    return ""


def _probe(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(program.resolve(), "kubectl")
        for name in ("dev", "etc", "proc", "sys", "tmp"):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
    return buffer.getvalue()
