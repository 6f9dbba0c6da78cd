"""Build the programs from the tool modules of hack/tools, once, into a cache.

One directory per tool module, named after the hash of everything that decides what comes out.
Each program is built under another name and renamed, so a program that is there is whole.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from control_planes import golang
from control_planes.errors import ControlPlanesError
from control_planes.progress import BuildProgress

TOOL_MODULES = Path(__file__).resolve().parent.parent / "tools"
BUILD_FLAGS = ("-buildvcs=false", "-trimpath")
KARMADA_COMMANDS = "github.com/karmada-io/karmada/cmd/"
KUBERNETES_COMMANDS = "k8s.io/kubernetes/cmd/"
HEARTBEAT_S = 20.0


@dataclass(frozen=True, slots=True)
class ToolModule:
    """A go.mod of our own, and the programs that are built from it.

    packages: program -> Go package. version_of: the module whose version is linked in.
    version_packages: Go packages with gitVersion and its companions. modfile: another go.mod in
    its directory, for the same program with other versions of its libraries. tags: of the build.
    """

    name: str
    packages: dict[str, str]
    version_of: str = ""
    version_packages: tuple[str, ...] = field(default=())
    modfile: str = "go.mod"
    tags: str = ""

    @property
    def directory(self) -> Path:
        return TOOL_MODULES / self.name

    @property
    def go_mod(self) -> Path:
        return self.directory / self.modfile

    @property
    def go_sum(self) -> Path:
        return self.go_mod.with_suffix(".sum")


KUBERNETES = ToolModule(
    "kubernetes",
    {
        program: KUBERNETES_COMMANDS + program
        for program in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
        )
    },
    version_of="k8s.io/kubernetes",
    version_packages=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
)
KARMADA = ToolModule(
    "karmada",
    {
        "karmada-aggregated-apiserver": KARMADA_COMMANDS + "aggregated-apiserver",
        "karmada-controller-manager": KARMADA_COMMANDS + "controller-manager",
        "karmada-webhook": KARMADA_COMMANDS + "webhook",
        "karmada-scheduler": KARMADA_COMMANDS + "scheduler",
        "karmada-agent": KARMADA_COMMANDS + "agent",
        "kubectl-karmada": KARMADA_COMMANDS + "kubectl-karmada",
    },
    version_of="github.com/karmada-io/karmada",
    version_packages=("github.com/karmada-io/karmada/pkg/version",),
)
MODULES = (
    ToolModule("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    KUBERNETES,
    KARMADA,
    ToolModule("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    ToolModule("coredns", {"coredns": "karmada-vc-agent/hack/tools/coredns"}),
    # Those of its dependencies that Karmada has, too, are at Karmada's versions: compiled once.
    ToolModule("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}),
)
KINE = ToolModule("kine", {"kine": "github.com/k3s-io/kine"})
"""A datastore for small sites; built only where it is asked for."""
CLIENT_GO = ToolModule("client-go", {"client-go-user": "karmada-vc-agent/hack/tools/client-go"})
"""At the versions of `karmada`, too."""
ACCESS_MODULES = (
    CLIENT_GO,
    ToolModule(
        "konnectivity",
        {
            "proxy-server": "sigs.k8s.io/apiserver-network-proxy/cmd/server",
            "proxy-agent": "sigs.k8s.io/apiserver-network-proxy/cmd/agent",
        },
    ),
    # At the versions of `karmada`; apart, since few need them.
    ToolModule(
        "karmada-access",
        {
            "karmada-search": KARMADA_COMMANDS + "karmada-search",
            "karmada-metrics-adapter": KARMADA_COMMANDS + "metrics-adapter",
        },
        version_of="github.com/karmada-io/karmada",
        version_packages=("github.com/karmada-io/karmada/pkg/version",),
    ),
)
"""What reaches virtual clusters, from the hub and in tests; built only where it is asked for."""
METRICS_SERVER = ToolModule(
    "metrics-server", {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"}
)
"""What real kubelets are asked by for the use of nodes and pods; built where there are some."""
PROMETHEUS = ToolModule(
    "prometheus",
    {"promtool": "github.com/prometheus/prometheus/cmd/promtool"},
    tags="remove_all_sd",  # service discovery has most of its libraries
)
"""What checks and tests alerts; built only where that is done."""


def _admission(minor: str, modfile: str = "") -> ToolModule:
    package = "karmada-vc-agent/hack/tools/admission"
    return ToolModule(
        "admission", {f"admission-{minor}": package}, modfile=modfile or f"{minor}.mod"
    )


ADMISSION_MODULES = (
    *map(_admission, ("1.30", "1.31", "1.32", "1.33", "1.34")),
    _admission("1.37", "go.mod"),
)
"""One for each minor of Kubernetes that a host may have: what its API server refuses at once.

Those before 1.34 have what they share with it at the versions of 1.34: compiled once.
"""


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions by minor, as `1.32`; "" = the one of go.mod, which a plain `up` runs.

    kubernetes: of the hosts. hub: of the hub's API server. karmada: of Karmada and its agent.
    """

    kubernetes: str = ""
    hub: str = ""
    karmada: str = ""

    def __str__(self) -> str:
        """Return the options that ask for them."""
        options = {
            "kubernetes": self.kubernetes,
            "hub-kubernetes": self.hub,
            "karmada": self.karmada,
        }
        return "".join(f" --{name} {minor}" for name, minor in options.items() if minor)

    @property
    def modules(self) -> tuple[ToolModule, ...]:
        """Return what is built for a hub and hosts, but for the hub's own Kubernetes."""
        chosen = {"kubernetes": self.kubernetes, "karmada": self.karmada}
        return tuple(pinned(each, chosen.get(each.name, "")) for each in MODULES)

    @property
    def of_hub(self) -> tuple[ToolModule, ...]:
        """Return the Kubernetes of the hub, where that is another one."""
        return () if self.hub == self.kubernetes else (pinned(KUBERNETES, self.hub),)

    @property
    def karmada_module(self) -> ToolModule:
        return pinned(KARMADA, self.karmada)


def pinned(module: ToolModule, minor: str) -> ToolModule:
    """Return a tool module for a minor version; "" is that of its go.mod."""
    if not minor or minor == default_minor(module):
        return module
    chosen = replace(module, modfile=f"{minor}.mod")
    if not chosen.go_mod.exists():
        there = ", ".join(minors(module))
        raise ControlPlanesError(f"{module.name} {minor} is not pinned; there are {there}")
    return chosen


def default_minor(module: ToolModule) -> str:
    """Return the minor version that the go.mod of a tool module has."""
    version = required_version(module.go_mod.read_text(), module.version_of)
    return ".".join(version.removeprefix("v").split(".")[:2])


def minors(module: ToolModule) -> list[str]:
    """Return the minor versions of a tool module that are pinned, oldest first."""
    there = {path.stem for path in module.directory.glob("[0-9]*.mod")} | {default_minor(module)}
    return sorted(there, key=lambda minor: [int(part) for part in minor.split(".")])


def cache_root() -> Path:
    """Return where everything built or fetched is kept, outside of the work tree."""
    if own := os.environ.get("KARMADA_VC_AGENT_CACHE"):
        return Path(own).absolute()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "karmada-vc-agent"
    try:
        return Path.home() / ".cache" / "karmada-vc-agent"
    except RuntimeError as error:
        raise ControlPlanesError(
            "no home directory to keep the built programs in; set KARMADA_VC_AGENT_CACHE"
        ) from error


def required_version(go_mod: str, module: str) -> str:
    """Read from a go.mod which version of a module it requires."""
    match = re.search(rf"^(?:require|\s)\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if match is None:
        raise ControlPlanesError(f"hack/tools: no go.mod line requires {module}")
    return match[1]


def linker_flags(module: ToolModule, go_mod: str) -> str:
    """Return the -ldflags that make the programs report the version they were built from."""
    flags = ["-s", "-w"]
    if module.version_of:
        version = required_version(go_mod, module.version_of)
        major, minor = version.removeprefix("v").split(".")[:2]
        for package in module.version_packages:
            flags += [f"-X {package}.gitVersion={version}", f"-X {package}.gitTreeState=clean"]
            if module.version_of.startswith("k8s.io/"):
                flags += [f"-X {package}.gitMajor={major}", f"-X {package}.gitMinor={minor}"]
    return " ".join(flags)


def cache_key(go_mod: str, go_sum: str, flags: str) -> str:
    """Hash everything that decides what a build gives."""
    parts = [go_mod, go_sum, flags, *BUILD_FLAGS, platform.system(), platform.machine()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def cache_directory(module: ToolModule) -> Path:
    """Return the directory of the cache that holds the programs of a tool module."""
    go_mod = module.go_mod.read_text()
    sources = [module.go_sum, *sorted(module.directory.glob("*.go"))]
    sums = "".join(source.read_text() for source in sources) + module.tags
    key = cache_key(go_mod, sums, linker_flags(module, go_mod))
    return cache_root() / "tools" / f"{module.name}-{key}"


def program_paths(modules: Iterable[ToolModule] = MODULES) -> dict[str, Path]:
    """Return where each program is, or will be once it is built."""
    return {
        program: directory / program
        for module in modules
        for directory in [cache_directory(module)]
        for program in module.packages
    }


def build_missing(modules: Iterable[ToolModule] = MODULES) -> dict[str, Path]:
    """Build the programs that the cache lacks and return where all of them are."""
    modules = tuple(modules)
    paths = program_paths(modules)
    missing = [program for program, path in paths.items() if not path.exists()]
    if missing:
        go = golang.find_go(cache_root())
        progress = BuildProgress(missing)
        for module in modules:
            _build_module(module, go, progress)
        progress.finish()
    return paths


def module_directory(tool_module: str, module: str) -> Path:
    """Return where the source of a required Go module lies, fetching it when it is not there."""
    return Path(_download(module, TOOL_MODULES / tool_module)["Dir"])


def source_of(module: ToolModule) -> Path:
    """Return where the source of the version is that a tool module builds, as its go.sum has it."""
    return Path(_download(module.version_of, module.directory, module.modfile)["Dir"])


def fetch(module: str) -> dict[str, str]:
    """Fetch a Go module with its version, `example.com/x@v1.2.3`, that no go.sum names yet.

    Returns what `go mod download` reports: `Dir`, `Sum` and others.
    """
    with tempfile.TemporaryDirectory() as nowhere:
        return _download(module, Path(nowhere))


def pinned_directory(module: str, checksum: str) -> Path:
    """Return where the source of a Go module lies that no program is built from.

    module: with its version, `example.com/x@v1.2.3`. checksum: as in a go.sum.
    """
    answer = fetch(module)
    if answer["Sum"] != checksum:
        raise ControlPlanesError(f"{module} is another than it was: {answer['Sum']}")
    return Path(answer["Dir"])


def _download(module: str, where: Path, modfile: str = "go.mod") -> dict[str, str]:
    command = ["mod", "download", "-json"] + (
        [f"-modfile={modfile}"] if modfile != "go.mod" else []
    )
    result = subprocess.run(
        [golang.find_go(cache_root()), *command, module],
        cwd=where,
        env=golang.go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    answer: dict[str, str] = json.loads(result.stdout or "{}")
    if result.returncode != 0 or "Dir" not in answer:
        raise ControlPlanesError(
            f"the source of Go module {module} is not there and cannot be fetched; "
            "give go access to a module proxy",
            answer.get("Error", "") or result.stderr.strip(),
        )
    return answer


def _build_module(module: ToolModule, go: Path, progress: BuildProgress) -> None:
    directory = cache_directory(module)
    if all((directory / program).exists() for program in module.packages):
        return
    directory.mkdir(parents=True, exist_ok=True)
    with _lock(directory.with_name(directory.name + ".lock"), progress):
        for program, package in module.packages.items():
            if not (directory / program).exists():
                _build_program(go, module, package, directory / program, progress)


@contextmanager
def _lock(path: Path, progress: BuildProgress) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"another command builds {path.stem}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_program(
    go: Path, module: ToolModule, package: str, target: Path, progress: BuildProgress
) -> None:
    progress.building(target.name)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    log = target.with_name(f"{target.name}.build.log")
    flags = linker_flags(module, module.go_mod.read_text())
    command: list[str | Path] = [
        go,
        "build",
        *BUILD_FLAGS,
        f"-modfile={module.modfile}",
        f"-tags={module.tags}",
        "-ldflags",
        flags,
        "-o",
        unfinished,
        package,
    ]
    with log.open("w") as output:
        build = subprocess.Popen(
            command,
            cwd=module.directory,
            env=golang.go_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,  # to end its compilers with it
        )
        try:
            while True:
                try:
                    build.wait(HEARTBEAT_S)
                    break
                except subprocess.TimeoutExpired:
                    progress.still_building(target.name)
        finally:
            if build.poll() is None:
                os.killpg(build.pid, signal.SIGKILL)
                build.wait()
                unfinished.unlink(missing_ok=True)
    if build.returncode != 0:
        raise ControlPlanesError(
            f"building {target.name} failed (go exit code {build.returncode}), log {log}",
            "\n".join(log.read_text(errors="replace").splitlines()[-golang.LAST_LINES :]),
        )
    unfinished.rename(target)
    progress.built(target.name)
