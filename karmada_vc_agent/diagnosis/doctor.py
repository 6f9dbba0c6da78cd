"""`karmada-vc-agent doctor`: what is wrong with hub, host and agent, and what to do."""

import asyncio
import base64
import shlex
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import click

from karmada_vc_agent.access import admission, agent_objects
from karmada_vc_agent.access.rights import HUB_SECRET
from karmada_vc_agent.cluster.host_objects import NodeTrust
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, agent_id, agent_of
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.commands import shared
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.diagnosis import bundle, findings
from karmada_vc_agent.diagnosis.findings import Finding
from karmada_vc_agent.install import host_rights, join, join_hub, leave_steps, served
from karmada_vc_agent.install.apply_objects import Changes, apply_all
from karmada_vc_agent.kube import kubeconfig
from karmada_vc_agent.kube.client import ApiClient, Query
from karmada_vc_agent.kube.discovery import server_version
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.transport import Timeouts
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.objects import Object, dig, maps_at, text_at
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_ROLES_PATH, execution_namespace
from karmada_vc_agent.runner.hub_presence import check_apart, check_karmada
from karmada_vc_agent.work.works import work_path

_FAILURES = (KubeError, shared.CommandError, ConfigError, kubeconfig.KubeconfigError, ValueError)
_PATIENCE = Timeouts(request_s=30.0)
_REACH = "check address, network and certificate authority in that kubeconfig"
_PAGE = "see docs/compatibility.md"


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

    hub: None = no kubeconfig. join: the command that installs the agent. leave: that without a
    name. installed: the agent's kubeconfig for the hub, "" = none. read: lists of objects by name,
    for the bundle. clusters: of the agent, by name. live: its Deployment.
    """

    plan: join_hub.JoinPlan
    host: DatedClient
    hub: DatedClient | None
    join: str
    leave: str
    installed: str = ""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    findings: list[Finding] = field(default_factory=list)
    read: dict[str, list[Object]] = field(default_factory=dict)
    clusters: dict[str, Object] = field(default_factory=dict)
    live: Object | None = None
    has_joined: bool = False

    async def run(self) -> list[Finding]:
        """Make all checks; one that fails is a finding, and the others are made all the same."""
        self._pods = f"kubectl -n {self.plan.namespace} get pods; their log says why"
        # In the order of reasons: what lacks a right reports conditions, and clocks end Leases.
        if hub := self.hub:
            await self._make(hub, lambda: self._hub_itself(hub), lambda: self._hub_rights(hub))
        else:
            self.add("hub", "no kubeconfig of it", "give --karmada-kubeconfig")
        installed = (self._host_itself, self._host_rights, self._deployment, self._certificates)
        await self._make(self.host, *installed)
        if hub and hub.is_reachable:
            await self._make(hub, lambda: self._clusters(hub))
        if self.host.is_reachable:
            await self._make(self.host, self._groups, self._remains)
        clocks = [f for c in (hub, self.host) if c for f in findings.of_clock(c.name, c.ahead_s)]
        return list(dict.fromkeys(clocks + self.findings))

    async def _make(self, client: DatedClient, *checks: Callable[[], Any]) -> None:
        for check in checks:
            try:
                await check()
            except UnreachableError as error:
                self.add(client.name, f"no answer from the {error}", _REACH)
                break
            except _FAILURES as error:
                is_forbidden = isinstance(error, ForbiddenError)
                step = "use an administrator's kubeconfig" if is_forbidden else "mend that"
                text = shared.error_text(error).removeprefix(f"{client.name}: ")
                self.add(client.name, text, f"{step}, then run doctor again")

    def add(self, about: str, problem: str, step: str) -> None:
        self.findings.append(Finding(about, problem, step))

    async def _list(
        self, client: ApiClient, path: str, of: str, query: Query | None = None
    ) -> list[Object]:
        """Return listed objects with their type (`v1 Node`), and keep them for the bundle."""
        version, _, kind = of.partition(" ")
        head = {"apiVersion": version, "kind": kind}
        items = [{**head, **each} for each in (await client.get(path, query)).get("items") or ()]
        self.read.setdefault(f"{client.name}-{kind.lower()}s", []).extend(items)
        return items

    async def _hub_itself(self, hub: ApiClient) -> None:
        await check_karmada(hub, pause_s=0.2)
        for text in versions.missing_fields(await hub.find(join_hub.CRD_OF_WORKS)):
            self.add("hub", text, f"upgrade Karmada; {_PAGE}")

    async def _hub_rights(self, hub: ApiClient) -> None:
        access = self.plan.access
        if not await join_hub.hub_role(hub, access.agent):
            self.add("hub", f"agent {access.agent} has not joined", self.join)
            return
        lines: list[str] = []
        await join_hub.grant_on_hub(hub, access, Changes(lines.append, is_dry=True))
        self.findings += findings.of_changes("hub", lines, self.join)

    async def _clusters(self, hub: ApiClient) -> None:
        own = agent_id(self.plan.namespace, self.plan.access.agent)
        listed = await self._list(hub, CLUSTERS_PATH, "cluster.karmada.io/v1alpha1 Cluster")
        self.clusters = {c["metadata"]["name"]: c for c in listed if agent_of(c) == own}
        of_each = {n: dig(c, "status", "conditions") or () for n, c in self.clusters.items()}
        self.findings += findings.of_deletions("hub", self.clusters.values(), self.now())
        for name in self.clusters:
            lease = await hub.find(f"{LEASES_PATH}/{name}")
            self.findings += findings.of_lease(name, lease, self.now(), self._pods)
            path = work_path(execution_namespace(name))
            works = await self._list(hub, path, "work.karmada.io/v1alpha1 Work")
            self.findings += findings.of_deletions("hub", works, self.now())
        self.findings += findings.of_conditions(of_each)

    async def _host_itself(self) -> None:
        served, _ = await host_rights.read_host(self.host, self.plan.access.agent)
        version, can_confine = await server_version(self.host), admission.served_versions(served)
        if admission.VALIDATING not in can_confine and not self.plan.unconfined:
            self.add("host", versions.unconfined(version), f"upgrade the host; {_PAGE}")
        elif text := versions.not_measured(version):
            self.add("host", text, "test it before you rely on it")
        if self.hub is not None and self.hub.is_reachable:
            await check_apart(self.hub, await join_hub.host_uid(self.host))

    async def _host_rights(self) -> None:
        agent, lines = self.plan.access.agent, list[str]()
        role = await self.host.find(f"{CLUSTER_ROLES_PATH}/vc-agent:{agent}")
        self.has_joined = role is not None
        if not self.has_joined:
            self.add("host", f"agent {agent} has not joined", self.join)
            return
        path = f"/apis/apps/v1/namespaces/{self.plan.namespace}/deployments/{agent}"
        self.live = await self.host.find(path)
        changes = Changes(lines.append, is_dry=True)
        served, installed = await host_rights.read_host(self.host, agent)
        described = await host_rights.described_on_host(self.host, self.plan.config)
        rights = self.plan.rights(served, installed, described)
        await host_rights.grant_on_host(self.host, rights, served, changes)
        image = dig(self.live, "spec", "template", "spec", "containers", 0, "image")
        install = replace(rights.install, image=image or self.plan.image)
        await apply_all(self.host, agent_objects.workload_objects(install), changes)
        self.findings += findings.of_changes("host", lines, self.join)

    async def _deployment(self) -> None:
        namespace, agent = self.plan.namespace, self.plan.access.agent
        nodes = await self._list(self.host, "/api/v1/nodes", "v1 Node")
        if not self.plan.is_elsewhere:
            desired = agent_objects.workload_objects(self.plan.rights().install)[-1]
            pod = dig(self.live or desired, "spec", "template", "spec")
            self.findings += findings.of_nodes(nodes, pod, served.NO_NODE)
        if self.live is not None:
            self.read["host-deployments"] = [self.live]
            self.findings += findings.of_deployment(self.live, self.join)
            if problem := await served.pod_problem(self.host, namespace, agent):
                self.add("host", problem.text, problem.step)
        if self.has_joined and self.plan.config.leader_elect:
            leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
            for name in await leave_steps.leases_of(self.host, namespace, agent):
                lease = await self.host.find(f"{leases}/{name}")
                self.findings += findings.of_lease(f"agent {name}", lease, self.now(), self._pods)

    async def _certificates(self) -> None:
        namespace, agent, chains = self.plan.namespace, self.plan.access.agent, {"": b""}
        if self.installed:
            own = kubeconfig.client_certificate(self.installed.encode(), Path(HUB_SECRET))
            chains[HUB_SECRET] = own[1] if own is not None else b""
        elif self.has_joined:
            text = f"Secret {namespace}/{HUB_SECRET} with the agent's kubeconfig is missing"
            self.add("host", text, self.join)
        names = (agent_objects.metrics_certificate(agent), agent_objects.certificates_name(agent))
        for name in names:
            secret = await self.host.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
            chains[name] = base64.b64decode(dig(secret, "data", "tls.crt") or "")
        for name, chain in chains.items():
            step = self.join if name == HUB_SECRET else f"renew Secret {namespace}/{name}"
            self.findings += findings.of_certificate(name, chain, self.now(), step)

    async def _groups(self) -> None:
        """Check the groups of what has no Cluster yet; of the others the agent reports it."""
        described = await host_rights.described_on_host(self.host, self.plan.config)
        trust = NodeTrust(self.host, nodes := findings.nodes_of(self.read.get("host-nodes", ())))
        await trust.check()
        vcs = (*self.plan.config.virtual_clusters, *described.virtual_clusters)
        new = findings.of_groups(vcs, nodes, trust)
        of_each = {name: of for name, of in new.items() if name not in self.clusters}
        self.findings += findings.of_conditions(of_each)

    async def _remains(self) -> None:
        """Check what an earlier virtual cluster left, and what is not deleted."""
        claimed = await leave_steps.claimed(self.host, f"{AGENT_LABEL}={self.plan.access.agent}")
        head = {"apiVersion": "v1", "kind": "Namespace"}
        self.read["host-namespaces"] = spaces = [{**head, **live} for live, _ in claimed]
        self.findings += findings.of_deletions("host", spaces, self.now())
        if "hub-clusters" in self.read:
            described = await host_rights.described_on_host(self.host, self.plan.config)
            vcs = (*self.plan.config.virtual_clusters, *described.virtual_clusters)
            expected = {*self.clusters, *self.plan.access.clusters}
            expected |= {name for vc in vcs for name in (vc.name, *vc.former_names)}
            names = {of.cluster for _, of in claimed} - expected
            self.findings += findings.of_claims(names, self.leave)

    async def write_bundle(self, path: Path) -> None:
        """Write what was read, and the logs of the agent. Raises OSError."""
        texts = {"findings.txt": "\n".join(map(str, self.findings)), "join.txt": self.join}
        base, agent = f"/api/v1/namespaces/{self.plan.namespace}", self.plan.access.agent
        try:
            await self._list(self.host, f"{base}/events", "v1 Event")
            for app in (agent, f"{agent}-gateway"):
                own = {"labelSelector": f"app={app}"}
                await self._list(self.host, f"{base}/pods", "v1 Pod", own)
        except KubeError as error:
            texts["logs.error"] = shared.error_text(error)
        pods = self.read.get("host-pods", ())
        of_each = ((pod, each) for pod in pods for each in maps_at(pod, "spec", "containers"))
        for pod, container in of_each:
            name, query = pod["metadata"]["name"], {"container": container["name"]}
            query["tailLines"], file = "2000", f"{name}-{container['name']}"
            try:
                log = await self.host.request("GET", f"{base}/pods/{name}/log", query=query)
                texts[f"{file}.log"] = log.decode(errors="replace")
            except KubeError as error:
                texts[f"{file}.error"] = shared.error_text(error)
        bundle.write(path, self.read, texts)


async def examine(options: dict[str, Any], join_options: tuple[str, ...]) -> list[Finding]:
    """Examine hub and host; write the bundle if one is requested. Raises ConfigError, KubeError."""
    _, agent, namespace = shared.settings_and_agent(options)
    host_at = kubeconfig.find_credentials(options["kubeconfig"], in_cluster_first=True)
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(DatedClient("host", host_at, timeouts=_PATIENCE))
        file, settings, installed = options["config_path"], "", ""
        try:
            installed = await join_hub.installed_kubeconfig(host, namespace)
            if file is None:
                path = f"/api/v1/namespaces/{namespace}/configmaps/{agent}"
                settings = text_at(await host.find(path), "data", "agent.yaml")
                file = Path(f"ConfigMap {namespace}/{agent}") if settings else None
        except KubeError:
            if file is None:
                raise
        plan, hub = join.plan_of(_as_of_join(options, file, settings, join_options)), None
        if given := options["karmada_kubeconfig"]:
            at_hub = kubeconfig.read_kubeconfig(Path(given), options["karmada_context"])
        elif installed:
            at_hub = kubeconfig.parse_kubeconfig(installed.encode(), Path(HUB_SECRET))
        if given or installed:
            hub = await stack.enter_async_context(DatedClient("hub", at_hub, timeouts=_PATIENCE))
        commands = _join_command(options, join_options), _leave_command(options)
        examination = Examination(plan, host, hub, *commands, installed)
        problems = await examination.run()
        if options["bundle"] is not None:
            await examination.write_bundle(options["bundle"])
        return problems


_SHARED = ("agent_name", "agent_namespace", "karmada_kubeconfig", "karmada_context", "kubeconfig")


def _given(options: dict[str, Any], *more: str) -> list[str]:
    pairs = ((f"--{name.replace('_', '-')}", options[name]) for name in _SHARED if options[name])
    return [*(part for pair in pairs for part in pair), *more]


def _as_of_join(
    options: dict[str, Any], file: Path | None, settings: str, join_options: tuple[str, ...]
) -> dict[str, Any]:
    """Return the options that `join` would be run with. Raises click.UsageError."""
    arguments = ["-o", "yaml", *_given(options, *join_options)]
    given = join.join.make_context(
        "doctor -- OPTIONS_OF_JOIN", arguments, help_option_names=["-h", "--help"]
    ).params
    return given if given["config_path"] else {**given, "config_path": file, "settings": settings}


def _join_command(options: dict[str, Any], join_options: tuple[str, ...]) -> str:
    file = options["config_path"] or "agent.yaml"
    words = ("karmada-vc-agent", "join", "--config", str(file), *_given(options, *join_options))
    return f"{shlex.join(words)} --apply"


def _leave_command(options: dict[str, Any]) -> str:
    config = ("--config", str(options["config_path"])) if options["config_path"] else ()
    return shlex.join(("karmada-vc-agent", "leave", *config, *_given(options)))


@click.command(
    "doctor", epilog=shared.examples("doctor"), short_help="Find what is wrong with an agent."
)
@click.argument("join_options", nargs=-1, metavar="[-- OPTIONS_OF_JOIN...]")
@shared.options("doctor")
def doctor(join_options: tuple[str, ...], **options: Any) -> None:
    """Check versions, connections, rights, clocks, nodes, groups, Leases, certificates and more.

    Before join it says whether hub and host suit, afterwards what keeps the agent from serving.
    Each finding is one line that ends with the next step. It writes nothing to hub and host. The
    exit code is 0 if nothing is wrong, 1 if something is, 2 for a wrong option or file.
    """
    if options["bundle"] is not None:
        with shared.one_line_errors(shared.EXIT_SETTINGS):
            options["bundle"].touch(0o600)
    with shared.one_line_errors():
        problems = asyncio.run(examine(options, join_options))
    for each in problems or ("Nothing is wrong",):
        click.echo(str(each))
    if options["bundle"] is not None:
        click.echo(f"wrote {options['bundle']}", err=True)
    sys.exit(shared.EXIT_FAILED if problems else 0)
