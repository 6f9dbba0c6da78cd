"""`karmada-vc-agent doctor`: what is wrong with hub, host and agent, and what to do."""

import asyncio
import base64
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import click

from karmada_vc_agent.access import agent_objects
from karmada_vc_agent.access.admission import VALIDATING, served_versions
from karmada_vc_agent.access.rights import HUB_SECRET
from karmada_vc_agent.cluster.host_objects import NodeTrust
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, agent_id, agent_of
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, error_text, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.diagnosis import bundle, findings
from karmada_vc_agent.diagnosis.findings import Finding
from karmada_vc_agent.install import join, join_hub, leave_steps
from karmada_vc_agent.install.apply_objects import Changes, apply_all
from karmada_vc_agent.install.host_rights import described_on_host, grant_on_host, read_host
from karmada_vc_agent.install.join_hub import HOST, HUB, JoinPlan
from karmada_vc_agent.kube import kubeconfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import server_version
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.transport import Timeouts
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_ROLES_PATH, execution_namespace
from karmada_vc_agent.runner.hub_presence import check_apart, check_karmada
from karmada_vc_agent.work.works import work_path

_PATIENCE = Timeouts(request_s=30.0)
_LOG_LINES = "2000"
_REACH = "check address, network and certificate authority in that kubeconfig"
_AGAIN = "mend that, then run karmada-vc-agent doctor again"
_NO_NODE = (
    "add a node that is no edge node and in no group, or run the agent elsewhere (--elsewhere)"
)
_PODS = "kubectl -n {} get pods; their log says why"


class DatedClient(ApiClient):
    """Notes how far the clock of the server is ahead of ours, by the header Date."""

    ahead_s = 0.0

    async def _exchange(self, *arguments: Any) -> Any:
        answer = await super()._exchange(*arguments)
        if date := answer[0].headers.get("Date"):
            self.ahead_s = (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
        return answer


@dataclass
class Examination:
    """Reads hub and host as an administrator, writes nothing, and collects what is wrong.

    hub: None = no kubeconfig. join: the command that installs the agent. read: lists of objects by
    name, for the bundle. installed: the agent's kubeconfig for the hub, "" = none.
    """

    plan: JoinPlan
    host: DatedClient
    hub: DatedClient | None
    join: str
    installed: str = ""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    found: list[Finding] = field(default_factory=list)
    read: dict[str, list[Object]] = field(default_factory=dict)

    async def run(self) -> list[Finding]:
        """Make all checks; one that fails is a finding, and the others are made all the same."""
        if self.hub is None:
            self.found.append(Finding(HUB, "no kubeconfig of the hub", "give --karmada-kubeconfig"))
        of_hub = (self._hub_itself, self._hub_rights, self._clusters)
        of_host = (
            *(self._host_itself, self._host_rights, self._agent, self._groups),
            self._remains,
        )
        for client, checks in ((self.hub, of_hub), (self.host, of_host)):
            if client is None:
                continue
            for check in checks:
                try:
                    await check()
                except UnreachableError as error:
                    self.found.append(Finding(client.name, f"no answer from the {error}", _REACH))
                    break
                except (KubeError, CommandError, ConfigError, ValueError) as error:
                    self._failed(client, error)
            self.found += findings.of_clock(client.name, client.ahead_s)
        return list(dict.fromkeys(self.found))

    def _failed(self, client: ApiClient, error: Exception) -> None:
        step = "use an administrator's kubeconfig" if isinstance(error, ForbiddenError) else _AGAIN
        text = error_text(error).removeprefix(f"{client.name}: ")
        self.found.append(Finding(client.name, text, step))

    async def _list(
        self, client: ApiClient, path: str, of: str, query: dict[str, str] | None = None
    ) -> list[Object]:
        """Return listed objects with their type (`v1 Node`), and keep them for the bundle."""
        version, _, kind = of.partition(" ")
        head = {"apiVersion": version, "kind": kind}
        items = [{**head, **each} for each in (await client.get(path, query)).get("items") or ()]
        self.read.setdefault(f"{client.name}-{kind.lower()}s", []).extend(items)
        return items

    # --- the hub ------------------------------------------------------------------------

    async def _hub_itself(self) -> None:
        assert self.hub is not None  # noqa: S101 - run() leaves these checks out
        await check_karmada(self.hub, pause_s=0.2)
        definition = await self.hub.find(join_hub.CRD_OF_WORKS)
        for text in versions.missing_fields(definition):
            self.found.append(Finding(HUB, text, "upgrade Karmada (docs/compatibility.md)"))

    async def _hub_rights(self) -> None:
        assert self.hub is not None  # noqa: S101
        access = self.plan.access
        if not await join_hub.hub_role(self.hub, access.agent):
            text = f"agent {access.agent} has not joined"
            self.found.append(Finding(HUB, text, self.join))
            return
        lines: list[str] = []
        await join_hub.grant_on_hub(self.hub, access, Changes(lines.append, is_dry=True))
        self.found += findings.of_changes(HUB, lines, self.join)

    async def _own_clusters(self) -> list[Object]:
        if self.hub is None or not self.hub.is_reachable:
            return []
        if "hub-clusters" not in self.read:
            of = "cluster.karmada.io/v1alpha1 Cluster"
            await self._list(self.hub, CLUSTERS_PATH, of)
        own = agent_id(self.plan.namespace, self.plan.access.agent)
        return [each for each in self.read["hub-clusters"] if agent_of(each) == own]

    async def _clusters(self) -> None:
        assert self.hub is not None  # noqa: S101
        clusters, now = await self._own_clusters(), self.now()
        self.found += findings.of_conditions(
            {each["metadata"]["name"]: dig(each, "status", "conditions") or () for each in clusters}
        )
        self.found += findings.of_deletions(HUB, clusters, now)
        for name in (each["metadata"]["name"] for each in clusters):
            lease = await self.hub.find(f"{LEASES_PATH}/{name}")
            self.read.setdefault("hub-leases", []).extend([lease] if lease else [])
            step = _PODS.format(self.plan.namespace)
            self.found += findings.of_lease(name, lease, now, step)
            path = work_path(execution_namespace(name))
            works = await self._list(self.hub, path, "work.karmada.io/v1alpha1 Work")
            self.found += findings.of_deletions(HUB, works, now)

    # --- the host -----------------------------------------------------------------------

    async def _host_itself(self) -> None:
        served, _ = await read_host(self.host, self.plan.access.agent)
        version = await server_version(self.host)
        if VALIDATING not in served_versions(served) and not self.plan.unconfined:
            text, step = versions.unconfined(version), "upgrade the host (docs/compatibility.md)"
            self.found.append(Finding(HOST, text, step))
        elif text := versions.not_measured(version):
            self.found.append(Finding(HOST, text, "test it before you rely on it"))
        if self.hub is not None and self.hub.is_reachable:
            await check_apart(self.hub, await join_hub.host_uid(self.host))

    async def _has_joined(self) -> bool:
        role = f"{CLUSTER_ROLES_PATH}/vc-agent:{self.plan.access.agent}"
        return await self.host.find(role) is not None

    async def _host_rights(self) -> None:
        agent = self.plan.access.agent
        if not await self._has_joined():
            self.found.append(Finding(HOST, f"agent {agent} has not joined", self.join))
            return
        lines: list[str] = []
        changes = Changes(lines.append, is_dry=True)
        served, installed = await read_host(self.host, agent)
        described = await described_on_host(self.host, self.plan.config)
        rights = self.plan.rights(served, installed, described)
        await grant_on_host(self.host, rights, served, changes)
        containers = ("spec", "template", "spec", "containers")
        image = dig(await self._deployment(), *containers, 0, "image") or self.plan.image
        await apply_all(
            self.host, agent_objects.workload_objects(replace(rights.install, image=image)), changes
        )
        self.found += findings.of_changes(HOST, lines, self.join)

    async def _deployment(self) -> Object | None:
        path = f"/apis/apps/v1/namespaces/{self.plan.namespace}/deployments"
        return await self.host.find(f"{path}/{self.plan.access.agent}")

    async def _agent(self) -> None:
        """Check the Deployment, its Pods, whether a node suits, its lead and certificates."""
        namespace, agent = self.plan.namespace, self.plan.access.agent
        has_joined, live = await self._has_joined(), await self._deployment()
        nodes = await self._list(self.host, "/api/v1/nodes", "v1 Node")
        if not self.plan.is_elsewhere:
            desired = agent_objects.workload_objects(self.plan.rights().install)[-1]
            pod = dig(live or desired, "spec", "template", "spec")
            self.found += findings.of_nodes(nodes, pod, _NO_NODE)
        if not has_joined:
            return
        if live is not None:
            self.read["host-deployments"] = [live]
            self.found += findings.of_deployment(live, self.join)
            if problem := await join.pod_problem(self.host, namespace, agent):
                self.found.append(Finding(HOST, problem.text, problem.step))
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{agent}"
        found = findings.of_lease(
            f"agent {agent}", await self.host.find(lease), self.now(), _PODS.format(namespace)
        )
        self.found += found if self.plan.config.leader_elect else ()
        secrets = f"/api/v1/namespaces/{namespace}/secrets"
        chains = {"": b""}
        if not self.installed:
            text = f"Secret {namespace}/{HUB_SECRET} with the agent's kubeconfig is missing"
            self.found.append(Finding(HOST, text, self.join))
        elif of := kubeconfig.client_certificate(self.installed.encode(), Path(HUB_SECRET)):
            chains[HUB_SECRET] = of[1]
        for name in (f"{agent}-metrics-tls", agent_objects.certificates_name(agent)):
            secret = await self.host.find(f"{secrets}/{name}")
            chains[name] = base64.b64decode(dig(secret, "data", "tls.crt") or "")
        for name, chain in chains.items():
            step = self.join if name == HUB_SECRET else f"renew Secret {namespace}/{name}"
            self.found += findings.of_certificate(name, chain, self.now(), step)

    async def _groups(self) -> None:
        """Check the groups of what has no Cluster yet; of the others the agent reports it."""
        clusters = {each["metadata"]["name"] for each in await self._own_clusters()}
        config = self.plan.config
        described = (await described_on_host(self.host, config)).virtual_clusters
        nodes = findings.nodes_of(self.read.get("host-nodes", ()))
        trust = NodeTrust(self.host, nodes)
        await trust.check()
        conditions = findings.of_groups(
            (*config.virtual_clusters, *described),
            nodes,
            node_restriction=trust.node_restriction,
            edges=trust.has_kubeedge,
        )
        new = {name: of for name, of in conditions.items() if name not in clusters}
        self.found += findings.of_conditions(new)

    async def _remains(self) -> None:
        """Check what an earlier virtual cluster left, and what is not deleted."""
        claimed = await leave_steps.claimed(self.host, f"{AGENT_LABEL}={self.plan.access.agent}")
        self.read["host-namespaces"] = [live for live, _ in claimed]
        head = {"apiVersion": "v1", "kind": "Namespace"}
        ended = [{**head, **live} for live, _ in claimed]
        self.found += findings.of_deletions(HOST, ended, self.now())
        if self.hub is not None and self.hub.is_reachable:
            clusters = [each["metadata"]["name"] for each in await self._own_clusters()]
            names = {claim.cluster for _, claim in claimed}
            self.found += findings.of_claims(names, clusters, self.plan.access.clusters)

    async def write_bundle(self, path: Path) -> None:
        """Write what was read, and the logs of the agent. Raises OSError."""
        texts = {"findings.txt": "\n".join(map(str, self.found)), "join.txt": self.join}
        base = f"/api/v1/namespaces/{self.plan.namespace}"
        for plural, of in (("pods", "v1 Pod"), ("events", "v1 Event")):
            try:
                items = await self._list(self.host, f"{base}/{plural}", of)
                for pod in items if plural == "pods" else ():
                    name = pod["metadata"]["name"]
                    query = {"tailLines": _LOG_LINES}
                    log = await self.host.request("GET", f"{base}/pods/{name}/log", query=query)
                    texts[f"{name}.log"] = log.decode(errors="replace")
            except KubeError as error:
                texts[f"{plural}.error"] = error_text(error)
        bundle.write(path, self.read, texts)


async def examine(options: dict[str, Any], join_options: tuple[str, ...]) -> list[Finding]:
    """Examine hub and host; write the bundle if one is requested. Raises ConfigError, KubeError."""
    _, agent, namespace = shared.settings_and_agent(options)
    host_at = kubeconfig.find_credentials(options["kubeconfig"], in_cluster_first=True)
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(DatedClient(HOST, host_at, timeouts=_PATIENCE))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file, installed = options["config_path"], ""
        try:
            installed = await join_hub.installed_kubeconfig(host, namespace)
            file = file or await _installed_settings(host, namespace, agent, folder)
        except KubeError:
            if file is None:
                raise
        plan = join.plan_of(_as_of_join(options, file, join_options))
        hub = None
        if options["karmada_kubeconfig"] or installed:
            given, own = options["karmada_kubeconfig"], Path(HUB_SECRET)
            if given:
                at_hub = kubeconfig.read_kubeconfig(Path(given), options["karmada_context"])
            else:
                at_hub = kubeconfig.parse_kubeconfig(installed.encode(), own)
            hub = await stack.enter_async_context(DatedClient(HUB, at_hub, timeouts=_PATIENCE))
        command = _join_command(options, join_options)
        examination = Examination(plan, host, hub, command, installed)
        found = await examination.run()
        if options["bundle"] is not None:
            await examination.write_bundle(options["bundle"])
        return found


async def _installed_settings(
    host: ApiClient, namespace: str, agent: str, folder: Path
) -> Path | None:
    """Return a file with the settings that were installed, None if there are none."""
    settings = await host.find(f"/api/v1/namespaces/{namespace}/configmaps/{agent}")
    text = dig(settings, "data", "agent.yaml")
    if not isinstance(text, str):
        return None
    file = folder / "agent.yaml"
    file.write_text(text)
    return file


_SHARED = ("agent_name", "agent_namespace", "karmada_kubeconfig", "karmada_context", "kubeconfig")


def _given(options: dict[str, Any]) -> list[str]:
    return [
        part
        for name in _SHARED
        if options[name]
        for part in (f"--{name.replace('_', '-')}", options[name])
    ]


def _as_of_join(
    options: dict[str, Any], file: Path | None, join_options: tuple[str, ...]
) -> dict[str, Any]:
    """Return the options that `join` would be run with. Raises click.UsageError."""
    config = ["--config", str(file)] if file is not None else []
    arguments = ["-o", "yaml", *config, *_given(options), *join_options]
    return join.join.make_context("doctor -- JOIN_OPTIONS", arguments).params


def _join_command(options: dict[str, Any], join_options: tuple[str, ...]) -> str:
    file = options["config_path"] or "agent.yaml"
    words = ["karmada-vc-agent", "join", "--config", str(file), *_given(options), *join_options]
    return f"{shlex.join(words)} --apply"


@click.command(
    "doctor",
    epilog=shared.examples("doctor"),
    short_help="Find what is wrong with hub, host and agent.",
)
@click.argument(
    "join_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- FURTHER_OPTIONS_OF_JOIN...]"
)
@shared.options("doctor")
def doctor(join_options: tuple[str, ...], **options: Any) -> None:
    """Check versions, connections, rights, clocks, nodes, groups, Leases, certificates and more.

    Before join it says whether hub and host suit, afterwards what keeps the agent from serving.
    Each finding is one line that ends with the next step. It writes nothing to hub and host. The
    exit code is 0 if nothing was found, 1 if something was, 2 for a wrong option or file.
    """
    with one_line_errors():
        found = asyncio.run(examine(options, join_options))
    for each in found:
        click.echo(str(each))
    if options["bundle"] is not None:
        click.echo(f"wrote {options['bundle']}", err=True)
    if found:
        sys.exit(shared.EXIT_FAILED)
    click.echo("Nothing is wrong")
