"""Control planes of a test's own: an API server with the admission it wants, or a fresh Karmada."""

import asyncio
import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from control_planes import component, hub, installers, processes, tools
from control_planes.cluster import Cluster, create_cluster
from control_planes.directory import Directory, Shape
from control_planes.launch import Launcher
from control_planes.nodes import NodeBatch, NodeSize
from control_planes.progress import StartProgress
from e2e.lab.api import Api
from e2e.lab.audit import AuditLog

NAME = "host"
HOST_KUBERNETES = "HOST_KUBERNETES"
"""Environment variable: the minor version of lone API servers, as `1.32`. Default: of go.mod."""
_PROGRAMS = ("etcd", "kube-apiserver")
_CONTROLLERS = "kube-controller-manager"
_NO_CONTROLLERS = "--disable-admission-plugins=ServiceAccount"
"""Nobody makes the account `default` of a namespace here, which pods would have to wait for."""


@contextmanager
def lone_api_server(
    root: Path, *flags: str, controllers: str = "", is_audited: bool = False
) -> Iterator[Api]:
    """Run etcd and an API server with these flags; skip the test where they are not built.

    controllers: those of kube-controller-manager that run beside it, none = it does not.
    is_audited: whether it keeps an `audit_log`.
    """
    names = (*_PROGRAMS, _CONTROLLERS) if controllers else _PROGRAMS
    built = tools.program_paths(tools.Versions(os.environ.get(HOST_KUBERNETES, "")).modules)
    programs = {name: built[name] for name in names}
    missing = [name for name, path in programs.items() if not path.exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not built; run hack/control-planes build")
    directory = Directory(root)
    directory.create()
    directory.prepare(Shape(1, NodeBatch(0, (), NodeSize("4", "8Gi", 110))))
    try:
        with warnings.catch_warnings():
            # They are ended by their records, not by what started them here.
            warnings.simplefilter("ignore", ResourceWarning)
            cluster = create_cluster(NAME, directory, audited=is_audited)
            asyncio.run(_start(cluster, programs, flags, controllers))
            gc.collect()
        yield Api(directory.kubeconfig(NAME))
    finally:
        processes.stop(processes.read_records(directory.processes))


@contextmanager
def lone_karmada(
    root: Path, *, is_audited: bool = False, installer: str = installers.INIT
) -> Iterator[Api]:
    """Run a fresh hub with an etcd of its own; skip the test where it is not built.

    is_audited: whether its API server keeps an `audit_log`. installer: whose objects it has.
    """
    programs = tools.program_paths()
    missing = [name for name in ("etcd", *hub.KARMADA) if not programs[name].exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not built; run hack/control-planes build")
    directory = Directory(root)
    directory.create()
    directory.prepare(Shape(0, NodeBatch(0, (), NodeSize("4", "8Gi", 110))))

    async def start() -> None:
        launcher = Launcher(directory, programs, StartProgress(1 + 6))
        etcd_port = await launcher.launch(component.etcd(directory.data))
        cluster = create_cluster(hub.NAME, directory, audited=is_audited)
        await hub.start(cluster, launcher, etcd_port, tools.KARMADA, installer=installer)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            asyncio.run(start())
        yield Api(directory.kubeconfig(hub.NAME))
    finally:
        processes.stop(processes.read_records(directory.processes))


def audit_log(root: Path) -> AuditLog:
    """Return the audit log, from now on, of the audited server whose directory this is."""
    (path,) = (root / "logs").glob("*-audit.log")
    return AuditLog(path)


async def _start(
    cluster: Cluster, programs: dict[str, Path], flags: tuple[str, ...], controllers: str
) -> None:
    launcher = Launcher(cluster.directory, programs, StartProgress(len(programs)))
    etcd_port = await launcher.launch(component.etcd(cluster.directory.data))
    server = component.api_server(NAME, cluster.pki, etcd_port, _NO_CONTROLLERS, *flags)
    await cluster.start_api_server(launcher, {server.name: server}, ())
    if controllers:
        await launcher.launch(component.controller_manager(NAME, cluster.pki, controllers))
