"""Builds the clients, takes the lead and runs the service until it is stopped.

Clients: for each side one for the bulk of the work, fenced by the lead, and lanes of their own
for Leases, and for Cluster status and probes, which must never queue behind a burst; and one for
events, which must never delay the others.
"""

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.lease import Lead, check_apart_from_tenants
from karmada_vc_agent.cluster.registration import LiveSettings, VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import BearerReview, is_allowed, server_version
from karmada_vc_agent.kube.errors import KubeError, Need, UnreachableError
from karmada_vc_agent.kube.flows import Supervisor, retry_until_done
from karmada_vc_agent.kube.kubeconfig import CredentialsFollower
from karmada_vc_agent.kube.leader_election import LeaderElection, LeadLostError
from karmada_vc_agent.kube.store import History
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.model.vocabulary import RBAC_GROUP
from karmada_vc_agent.runner.clients import Clients, HubCertificate, connect, use, warn_of_few_files
from karmada_vc_agent.runner.collector import HOST, HUB
from karmada_vc_agent.runner.common import Common, Fence
from karmada_vc_agent.runner.hub_presence import KUBE_SYSTEM_PATH, HubStart
from karmada_vc_agent.runner.parts import Serving
from karmada_vc_agent.runner.process import JoinedClusters, SettingsFollower, has_rights, until
from karmada_vc_agent.runner.service import END_S, Service
from karmada_vc_agent.telemetry.endpoints import METRICS_PATH, Note
from karmada_vc_agent.telemetry.metrics import ClientMeter, Metrics, Sample, build_info

_log = logging.getLogger(__name__)

RELEASE_S = 0.8
"""Limit for the release of the lead; a host that does not answer must not hold up the end."""
OF_SERVICE = ("lists", "agents", "found", "rights", "checkpoint", "writes")
"""Checks of what runs while this process leads; they pass before."""
NEITHER = "waits for the API server of the hub, without a checkpoint"
STARTING, STANDING_BY, SERVING = "starting", "standing by", "serving"


async def check_host_version(host: ApiClient, *, installs_policies: bool) -> None:
    """Warn of a host that was not measured. Raises ConfigError for one that `join` refuses.

    With --unconfined `join` grants no right to write ClusterRoles.
    """
    version, need = await server_version(host), Need("escalate", RBAC_GROUP, "clusterroles")
    with suppress(KubeError):
        if installs_policies and versions.is_too_old(version) and await is_allowed(host, need):
            raise ConfigError("host", "", versions.unconfined(version))
    if text := versions.not_measured(version):
        _log.warning("The version of the host was not measured", extra={"reason": text})


class Agent:
    """One agent: serves the virtual clusters of its settings until it is stopped.

    phase: STARTING, STANDING_BY or SERVING. waits_for: what a start waits for. clients,
    reachability, hub_start: from when it runs. service: from when it leads.
    """

    hub_start: HubStart

    def __init__(
        self,
        config: AgentConfig,
        hub: Credentials,
        host: Credentials,
        reregister: frozenset[str] = frozenset(),
        metrics: Metrics | None = None,
        node: str = "",
        settings: SettingsFollower | None = None,
    ) -> None:
        serving = next((each.serving(config) for each in FEATURES if each.serving), None)
        whole: Serving = (VirtualClusters(), LeaderElection, AgentState)
        self._virtual_clusters, self._elect, self._record = serving or whole
        sources = VirtualClusterSources(self._virtual_clusters.everywhere)
        self._joined = JoinedClusters(sources.add("the settings file").replace_all)
        self._joined.take(config.virtual_clusters)
        starts = (each.start(sources, config) for each in FEATURES)
        self._starts = [each for each in starts if each is not None]
        self._live = LiveSettings(config)
        self._config = self._live.config
        self._hub_credentials = hub
        self._hub_certificate = HubCertificate(
            lambda: self.clients.hub.credentials if self.clients else self._hub_credentials
        )
        self._host_credentials = host
        self._reregister = reregister
        self._node = node
        self._settings = settings
        self._fence = Fence()
        self.phase, self.waits_for = STARTING, "waits for the API servers"
        self.clients: Clients | None = None
        self.reachability: dict[str, History] = {}
        self.service: Service | None = None
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._handed_over = ""
        self.metrics = metrics or Metrics(each.metrics for each in FEATURES)
        self._supervisor = Supervisor(self.metrics.part_restarted)
        self.metrics.add_source(self._samples)
        self.metrics_readers = BearerReview(self._ask_host_about, METRICS_PATH)

    def reload_settings(self) -> None:
        """Read the settings file again now, as SIGHUP asks for."""
        if self._settings is not None:
            self._settings.reload()

    async def _ask_host_about(self, path: str, review: Any) -> Object:
        if self.clients is None:
            raise UnreachableError("the agent is starting")
        return await self.clients.host_reviews.create(path, review)

    def _samples(self) -> Iterator[Sample]:
        yield from build_info()
        for server, reachability in self.reachability.items():
            yield Sample("api_server_reachable", (server,), reachability.is_reachable)
        if (expires := self._hub_certificate.expires()) is not None:
            yield Sample("hub_certificate_expiration_timestamp_seconds", (), expires)
        if self._settings is not None:
            yield Sample("settings_reload_successful", (), self._settings.problem is None)
        for server, client in self.lanes():
            yield Sample("api_server_went_back_total", (server,), client.history.time_resets)
        if (election := self._fence.election) is not None:
            for lease in election.leases:
                leads = lease == election.name and election.is_leading()
                yield Sample("leader_election_master_status", (lease,), leads)

    async def run(self, stop: asyncio.Event) -> None:
        """Lead and serve until `stop`. Raises ConfigError, LeadLostError (both end it) and bugs."""
        config, hub, host = self._config, self._hub_credentials, self._host_credentials
        _log.info("Starting", extra={"hub": hub.server, "host": host.server})
        warn_of_few_files(len(self._virtual_clusters))
        is_shared = self._virtual_clusters.are_several
        clients = connect(config, hub, host, self._fence.is_leading, self._fence.of_hub, is_shared)
        self.clients = clients
        made = next((each.hub_start for each in FEATURES if each.hub_start), HubStart)
        self.hub_start = made(config, clients.hub_urgent, clients.host_urgent)
        followers = self._follow(clients)
        followers.append(self._keep("hub certificate", self._hub_certificate.watch))
        if self._settings is not None:
            check = partial(self._check_file, clients)
            followers.append(self._keep("settings", partial(self._settings.run, check, self._use)))
        try:
            work = self._lead_and_serve(clients, stop)
            await until(stop, work, lambda: self.phase == SERVING, END_S)
            if self._handed_over:
                raise LeadLostError(f"handed over: {self._handed_over}")
        finally:
            for task in followers:
                task.cancel()
            if self._fence.election is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(RELEASE_S):
                        await self._fence.election.release()
            await clients.close()

    def _follow(self, clients: Clients) -> list[asyncio.Task[None]]:
        """Count the requests of all clients, note which API server answers, follow credentials."""
        tasks = []
        for server, lanes, credentials in (
            (HUB, clients.of_hub(), self._hub_credentials),
            (HOST, clients.of_host(), self._host_credentials),
        ):
            meter = ClientMeter(self.metrics, server, urlsplit(credentials.server).netloc)
            follower = CredentialsFollower(server, credentials, partial(use, lanes))
            for client in lanes:
                client.instrument = meter
                client.unauthorized.subscribe(follower.suspect)
            self.reachability[server] = lanes[0].history
            tasks.append(self._keep("credentials", follower.run))
        return tasks

    def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(self._supervisor.keep(name, run), name=name)

    async def _lead_and_serve(self, clients: Clients, stop: asyncio.Event) -> None:
        config = self._config
        kube_system = await retry_until_done(
            "read namespace kube-system on the host",
            lambda: clients.host_urgent.get(KUBE_SYSTEM_PATH),
        )
        host_uid = str(kube_system["metadata"]["uid"])
        await check_host_version(clients.host_urgent, installs_policies=config.install_policies)
        async with asyncio.TaskGroup() as group:
            start = self.hub_start
            checking = group.create_task(start.check(host_uid), name="check the hub")
            await asyncio.wait((checking,), timeout=start.patience_s)
            look = partial(self._check_node, clients, self._virtual_clusters.everywhere.values())
            await retry_until_done("read the agent's own node", look)
            state = self._record(clients.host, config.agent_namespace, config.agent_name)
            election = self._new_election(clients.host_urgent) if config.leader_elect else None
            if election is not None:
                self.waits_for = NEITHER
                await start.wait_for_either(checking, clients.host, election)
            await retry_until_done(
                "prepare the agent's namespace on the host", state.ensure_namespace
            )
            leading: list[asyncio.Task[None]] = []
            if election is not None:
                leading = await self._take_lead(election, group, stop)
            await self._read_state(clients, state)
            if not checking.done() and start.is_needed:
                self.waits_for = NEITHER
                await asyncio.wait((checking,))
            looking = [*leading, self._supervisor.start(group, "rights", self._joined.run)]
            service = Service(self._common(clients, state, host_uid), FEATURES)
            self.service = service
            start.on_hub_answer = self._fence.offline.hub_identified
            if self._fence.election is not None:
                self._fence.election.regained.subscribe(service.lead_regained)
            self.phase = SERVING
            await service.run(stop)
            for task in looking:
                task.cancel()
            checking.cancel()

    async def _hand_over(self, election: LeaderElection, stop: asyncio.Event) -> None:
        self._handed_over = await election.wait_handed_over()
        _log.warning("Handing over the lead", extra={"reason": self._handed_over})
        stop.set()

    async def _take_lead(
        self, election: LeaderElection, group: asyncio.TaskGroup, stop: asyncio.Event
    ) -> list[asyncio.Task[None]]:
        """Stand by until this process leads; return what keeps the lead, and hands it over."""
        self._fence.election = election
        self.phase = STANDING_BY
        asking = self._supervisor.start(group, "ask the hub", self.hub_start.keep_checking)
        await election.acquire()
        asking.cancel()
        self.phase = STARTING
        self.waits_for = "reads the agent's state on the host"
        return [
            group.create_task(election.lead(), name="lead"),
            group.create_task(self._hand_over(election, stop), name="hand over"),
        ]

    async def _read_state(self, clients: Clients, state: AgentState) -> None:
        """Read what the leader before left on the host. Raises ConfigError."""
        check = partial(state.check_template, self._config.namespace_template)
        await retry_until_done("read the agent's state on the host", state.load)
        await retry_until_done("write the agent's state on the host", check)

        async def ask(name: str) -> bool:
            if not self.hub_start.is_checked:
                raise UnreachableError("the hub has not answered yet")
            return await has_rights(clients.hub, name)

        await self._joined.start(ask, lambda name: state.cluster(name) is not None)
        for start in self._starts:
            read = partial(start.read, clients.host, self._live, state)
            await retry_until_done(start.reads, read)
        await self.hub_start.read(clients.host, state, self._fence.election)

    def _common(self, clients: Clients, state: AgentState, host_uid: str) -> Common:
        return Common(
            config=self._config,
            live=self._live,
            clients=clients,
            state=state,
            host_uid=host_uid,
            virtual_clusters=self._virtual_clusters,
            lead=Lead(self._identity, self._fence.is_leading),
            metrics=self.metrics,
            reregister=self._reregister,
            node=self._node,
            provided=(*self._starts, *self.hub_start.provided),
            fence=self._fence,
            hub_uid=partial(getattr, self.hub_start, "uid"),
        )

    async def _check_file(self, clients: Clients, vcs: tuple[VirtualCluster, ...]) -> None:
        """Determine which of a changed file may be served. Raises ConfigError, KubeError."""
        await self._check_node(clients, vcs)
        await self._joined.look(vcs)

    def _use(self, config: AgentConfig) -> None:
        self._joined.take(config.virtual_clusters)
        self._live.use(config)

    async def _check_node(self, clients: Clients, vcs: Iterable[VirtualCluster]) -> None:
        """Refuse virtual clusters that may have the agent's node. Raises ConfigError, KubeError."""
        if self._config.tenancy == STRICT:
            await check_apart_from_tenants(clients.host_urgent, self._node, vcs)

    def _new_election(self, host: ApiClient) -> LeaderElection:
        config = self._config
        return self._elect(
            host,
            config.agent_namespace,
            config.agent_name,
            self._identity,
            lease_duration_s=config.leader_elect_lease_duration,
            renew_deadline_s=config.leader_elect_renew_deadline,
            retry_period_s=config.leader_elect_retry_period,
            lineage=self.hub_start.line,
            hand_over=self.hub_start.hand_over(self.is_hub_away),
        )

    def readiness(self) -> dict[str, str | None]:
        """Return what keeps this agent from its work; a standby is ready to take over.

        A hub that is away does not: a drain in a cut needs ready replicas.
        """
        served = self.service.checks() if self.service is not None else {}
        unreadable = self.metrics.unreadable()
        problem = self._settings.problem if self._settings is not None else None
        lack = self.hub_start.lack if self.waits_for == NEITHER else ""
        lack = f": {lack}" if lack else ""
        return {
            **{server: self._check_server(server, client) for server, client in self.lanes()},
            "phase": f"{STARTING}: {self.waits_for}{lack}" if self.phase == STARTING else None,
            "objects": Note(f"cannot read {'; '.join(unreadable)}") if unreadable else None,
            "settings": Note(f"keeping those in use: {problem}") if problem else None,
            **dict.fromkeys(OF_SERVICE),
            **served,
            "rights": self._check_rights(served.get("rights")),
        }

    def liveness(self) -> dict[str, str | None]:
        """Return what is stuck in this process; an API server that is away is not."""
        if self.service is None:
            return {}
        return self.service.stuck(self.reachability[HUB].since)

    def lanes(self) -> tuple[tuple[str, ApiClient], ...]:
        """Return hub and host, each with one of its clients."""
        clients = self.clients
        return ((HUB, clients.hub), (HOST, clients.host)) if clients is not None else ()

    def is_hub_away(self) -> bool:
        """Return whether the hub does not answer, or accepts nothing that is reported."""
        refusal = self._check_hub_accepts()
        accepts_none = bool(refusal) and not isinstance(refusal, Note)
        return accepts_none or self._check_away(HUB) is not None

    def _check_rights(self, lacks: str | None) -> str | None:
        """Return which right is missing; a virtual cluster that waits for `join` fails no other."""
        if (lacks and not isinstance(lacks, Note)) or not self._joined.waiting:
            return lacks
        names = ", ".join(self._joined.waiting)
        text = f"waiting for rights on the hub: {names}; run karmada-vc-agent join"
        if not len(self._virtual_clusters.everywhere):
            return text
        return Note(f"{text}; {lacks}" if lacks else text)

    def _check_server(self, server: str, client: ApiClient) -> str | None:
        if away := self._check_away(server):
            return Note(away) if server == HUB and self.phase != STARTING else away
        if server == HUB and (refusal := self._check_hub_accepts()) is not None:
            return Note(refusal) if self.phase == SERVING else refusal
        if client.history.is_in_doubt:
            return Note(f"the API server of the {server} went back in time; resyncing everything")
        return None

    def _check_away(self, server: str) -> str | None:
        """Return why hub or host is away: no response, or none that an API server gives."""
        if not self.reachability[server].is_reachable:
            return f"the API server of the {server} does not answer"
        if self.service is not None:
            return self.service.not_followed(server)
        is_standby = server == HUB and self.phase == STANDING_BY
        return self.hub_start.away if is_standby else None

    def _check_hub_accepts(self) -> str | None:
        """Return why a hub that answers accepts nothing, as with a certificate that expired."""
        if self.service is not None:
            return self.service.not_accepted()
        return self.hub_start.refuses if self.phase == STANDING_BY else None
