"""A real karmada-agent, as a process that joins a whole host."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
import yaml

from e2e.lab.agent import EXIT_S, LOG_TAIL, clean_environment
from e2e.lab.api import Api
from e2e.lab.lab import CLUSTERS, Lab
from e2e.lab.wait import GONE_S, turn, within
from e2e.lab.works import execution_namespace
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL


class RealAgent:
    """One karmada-agent; its log is in `directory`. It runs inside `with`."""

    def __init__(
        self,
        program: str,
        hub: Api,
        host: Api,
        cluster: str,
        namespace: str,
        directory: Path,
        *flags: str,
    ) -> None:
        self.name = cluster
        self._log = directory / f"{cluster}.log"
        self._host = host
        context = yaml.safe_load(hub.kubeconfig.read_text())["current-context"]
        self._command = [
            *(program, "--karmada-kubeconfig", str(hub.kubeconfig), "--karmada-context", context),
            *("--cluster-name", cluster, "--cluster-namespace", namespace),
            *("--report-secrets", "None", "--leader-elect=false"),
            *("--health-probe-bind-address", "0", "--metrics-bind-address", "0"),
            *("--cluster-status-update-frequency", "2s", *flags),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = clean_environment() | {"KUBECONFIG": str(self._host.kubeconfig)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it; what it made stays."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_exit(self) -> int:
        """Wait until it ends by itself; return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout=EXIT_S)

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL:])


@contextmanager
def joined_whole(lab: Lab, program: str, cluster: str, *flags: str) -> Iterator[RealAgent]:
    """Run one that joins the whole host of a test; remove what it made there.

    A hub takes a host whole only once at a time: other tests wait for their turn.
    """
    lab.clusters.add(cluster)
    own = f"{lab.id}-real"
    with turn(lab.host, "whole") as uid:
        within(GONE_S, _is_not_joined, lab, uid)  # the story before removes it as it ends
        try:
            with RealAgent(
                program, lab.hub, lab.host, cluster, own, lab.directory, *flags
            ) as agent:
                yield agent
        finally:
            _remove_traces(lab, cluster, own)


def _is_not_joined(lab: Lab, uid: str) -> None:
    joined = [c["metadata"]["name"] for c in lab.hub.list(CLUSTERS) if c["spec"]["id"] == uid]
    assert not joined, joined


def _remove_traces(lab: Lab, cluster: str, own: str) -> None:
    """Remove what a real agent made on hub and host, except for its Cluster.

    Namespaces of every test: all get a Work for theirs.
    """
    for namespace in lab.host.list("/api/v1/namespaces", "karmada.io/managed=true"):
        metadata = namespace["metadata"]
        origin = metadata.get("annotations", {}).get("work.karmada.io/namespace")
        # An adopted one is another story's, whose agent takes the mark off.
        is_claimed = CLUSTER_LABEL in metadata.get("labels", {})
        if origin == execution_namespace(cluster) and not is_claimed:
            lab.host.delete(f"/api/v1/namespaces/{metadata['name']}")
    for api in (lab.hub, lab.host):
        api.delete(f"/api/v1/namespaces/{own}")


def program_of(config: pytest.Config) -> str:
    """Return the program that --karmada-agent names; skip the test where none is given."""
    path = config.getoption("--karmada-agent")
    if not path:
        pytest.skip("no real karmada-agent: give its program with --karmada-agent")
    if not os.access(path, os.X_OK):
        pytest.fail(f"--karmada-agent {path} is no program")
    return str(path)
