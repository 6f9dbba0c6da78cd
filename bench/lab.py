"""One hub and two hosts with the same nodes, and the command lines of both agents."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.process import METRICS, AgentProcess, running
from e2e.lab.access import account_kubeconfig, installed_kubeconfig
from e2e.lab.api import Api

ROOT = Path(__file__).resolve().parent.parent
CONTROL_PLANES = ROOT / "hack" / "control-planes"
GROUP_LABEL = "bench-group"
POOL_LABEL = "bench-pool"
AGENT = "karmada-vc-agent"
"""The agent's name and namespace, if its settings have none."""


_SHARDS = f"""
count=$1; shift
trap 'kill $pids; wait' TERM
"$@" --shard 0/$count & pids=$!
for index in $(seq 1 $((count - 1))); do
  "$@" {METRICS} 0 --health-probe-bind-address 0 --shard $index/$count & pids="$pids $!"
done
wait
"""
"""Runs a command once for each shard; the first one has the metrics, and SIGTERM ends all."""


@dataclass(frozen=True, slots=True)
class Lab:
    """Control planes that run; each host has `groups` nodes, labelled 1, 2, ..."""

    directory: Path
    groups: int

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of hub, host or host2."""
        return self.directory / f"{name}.kubeconfig"

    def pid_of(self, component: str) -> int:
        """Return the process id of a part of the control planes."""
        process = json.loads((self.directory / "processes" / f"{component}.json").read_text())
        return int(process["pid"])

    def karmada_agent(
        self, cluster: str, *flags: str, hub: Path | None = None, host: Path | None = None
    ) -> AbstractContextManager[AgentProcess]:
        """Run the real karmada-agent on the first host, with its defaults but for flags.

        hub, host: the kubeconfigs by which it reaches them.
        """
        command = [
            str(self.directory / "bin" / "karmada-agent"),
            *("--karmada-kubeconfig", str(hub or self.kubeconfig("hub"))),
            *("--karmada-context", "hub"),
            *("--cluster-name", cluster),
            *(METRICS, _free_address()),
            *("--health-probe-bind-address", _free_address()),
            *flags,
        ]
        environment = _clean_environment() | {"KUBECONFIG": str(host or self.kubeconfig("host"))}
        return running(command, environment, self.directory / "karmada-agent.log")

    def our_agent(
        self, clusters: dict[str, str], host: str = "host2", *, objects: bool = False
    ) -> AbstractContextManager[AgentProcess]:
        """Run ours on a host, with its defaults; see our_command()."""
        command, environment = self.our_command(clusters, host, objects=objects)
        return running(command, environment, self.directory / f"our-agent-{host}.log")

    def lone_agent(
        self,
        clusters: dict[str, str],
        *flags: str,
        hub: Path | None = None,
        host: Path | None = None,
        shards: int = 1,
        bounds: Mapping[str, int] | None = None,
    ) -> AbstractContextManager[AgentProcess]:
        """Run ours on the first host, with its defaults but for flags; see our_command().

        shards: processes that divide the virtual clusters, measured together. bounds: of each
        virtual cluster, as in the settings.
        """
        keeps = shards == 1
        command, environment = self.our_command(
            clusters, "host", hub=hub, host_config=host, keeps=keeps, bounds=bounds
        )
        if shards > 1:
            command = ["sh", "-c", _SHARDS, "sh", str(shards), *command]
        return running([*command, *flags], environment, self.directory / "our-agent-host.log")

    def our_command(
        self,
        clusters: dict[str, str],
        host: str,
        *,
        objects: bool = False,
        hub: Path | None = None,
        host_config: Path | None = None,
        keeps: bool = True,
        bounds: Mapping[str, int] | None = None,
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command that runs ours on a host, and its environment.

        clusters: virtual cluster -> its group of nodes, empty for all nodes. objects: whether it
        serves VirtualCluster objects. hub, host_config: the kubeconfigs by which it reaches them.
        keeps: whether it keeps a checkpoint. bounds: see lone_agent().
        """
        config = self._settings(clusters, host, objects=objects, keeps=keeps, bounds=bounds)
        command = [
            *(sys.executable, "-m", "karmada_vc_agent", "run", "--config", str(config)),
            *("--karmada-kubeconfig", str(hub or self.kubeconfig("hub"))),
            *("--kubeconfig", str(host_config or self.kubeconfig(host))),
            *(METRICS, _free_address()),
            *("--health-probe-bind-address", _free_address()),
        ]
        return command, _clean_environment()

    def joined(self, clusters: dict[str, str]) -> tuple[Path, Path]:
        """Run `join` for the first host; return the agent's own kubeconfigs of hub and host."""
        hub, admin = self.kubeconfig("hub"), self.kubeconfig("host")
        config, environment = self._settings(clusters, "host"), _clean_environment()
        command = [sys.executable, "-m", "karmada_vc_agent", "join", "--config", str(config)]
        command += ["--karmada-kubeconfig", str(hub), "--kubeconfig", str(admin), "--apply"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        granted = self.directory / "joined-hub.kubeconfig"
        installed_kubeconfig(Api(admin), AGENT, granted)
        file = self.directory / "joined-host.kubeconfig"
        return granted, account_kubeconfig(admin, AGENT, AGENT, file)

    def _settings(
        self,
        clusters: dict[str, str],
        host: str,
        *,
        objects: bool = False,
        keeps: bool = True,
        bounds: Mapping[str, int] | None = None,
    ) -> Path:
        """Write the settings of ours; see our_command()."""
        entries = [
            {"name": name, "nodeSelector": {"matchLabels": _selector(group)}}
            for name, group in clusters.items()
        ]
        settings = {
            "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
            "kind": "AgentConfig",
            "virtualClusters": entries,
            "objects": {"enabled": objects},
            "bounds": dict(bounds or {}),
            "checkpoint": {"enabled": keeps},
            "deletionBrake": {"share": 1},  # each run removes what it made
        }
        config = self.directory / f"agent-{host}.yaml"
        config.write_text(yaml.safe_dump(settings))
        return config


def node_groups(prefix: str, count: int) -> dict[str, str]:
    """Return virtual clusters PREFIX-1, PREFIX-2, ..., each with the group of its number."""
    return {f"{prefix}-{number}": str(number) for number in range(1, count + 1)}


@contextmanager
def control_planes(
    groups: int, *, keep: bool, hosts: int = 2, each: int = 1, audit: bool = False, qps: int = 0
) -> Iterator[Lab]:
    """Run a hub and hosts for the time of a block; keep leaves them up.

    each: nodes of a group. audit: whether API servers log what is written. qps: of Karmada's
    controllers, 0 = their default.
    """
    directory = Path(tempfile.mkdtemp(prefix="karmada-vc-agent-bench-"))
    labels = [f"{POOL_LABEL}=all", f"{GROUP_LABEL}={','.join(map(str, range(1, groups + 1)))}"]
    nodes = [part for label in labels for part in ("--label", label)]
    count, flags = str(groups * each), ["--karmada-qps", str(qps), *(["--audit"] if audit else ())]
    try:
        _run("up", str(directory), "--hosts", str(hosts), "--nodes", count, *nodes, *flags)
        for number in range(2, hosts + 1):
            _run("nodes", str(directory), "--host", str(number), "--count", count, *nodes)
        lab = Lab(directory, groups)
        _make_lease_namespace(lab)
        yield lab
    except BaseException:
        if not keep:
            _run("down", str(directory))
            print(f"hack/bench: failed; logs are in {directory}", file=sys.stderr)
        raise
    else:
        if not keep:
            _run("down", str(directory), "--purge")
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        if keep:
            print(f"kept: hack/control-planes down {directory} --purge", file=sys.stderr)


def _run(*arguments: str) -> None:
    command: Sequence[str] = (str(CONTROL_PLANES), *arguments)
    # The names of new nodes are nothing to read here, and an interrupt must not cut `down`.
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, start_new_session=True)


def _make_lease_namespace(lab: Lab) -> None:
    """Make what `join` or Karmada's first agent makes on a hub; ours runs as an administrator."""
    kubectl = str(lab.directory / "bin" / "kubectl")
    hub = ("--kubeconfig", str(lab.kubeconfig("hub")))
    command = [kubectl, *hub, "create", "namespace", "karmada-cluster"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _selector(group: str) -> dict[str, str]:
    return {GROUP_LABEL: group} if group else {POOL_LABEL: "all"}


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _clean_environment() -> dict[str, str]:
    foreign = ("KARMADA_VC_AGENT_", "KUBECONFIG", "KUBERNETES_SERVICE_")
    return {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
