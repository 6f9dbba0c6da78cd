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

from karmada_vc_agent.cluster.agent_conditions import check_apart_from_tenants
from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.lease import Lead
from karmada_vc_agent.cluster.virtual_cluster_sources import LiveSettings, VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import Reloaded
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.access_reviews import BearerReview
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.kubeconfig import CredentialsFollower
from karmada_vc_agent.kube.leader_election import (
    ElectionTimes,
    LeaderElection,
    LeadLostError,
)
from karmada_vc_agent.kube.tasks import Supervisor, retry_until_done
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.runner.clients import Clients, HubCertificate, connect, warn_of_few_files
from karmada_vc_agent.runner.collector import HOST, HUB
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.ending import until
from karmada_vc_agent.runner.hub_presence import KUBE_SYSTEM_PATH, HubStart, hub_relief
from karmada_vc_agent.runner.process_checks import (
    NEITHER,
    SERVING,
    STANDING_BY,
    STARTING,
    ProcessChecks,
)
from karmada_vc_agent.runner.service import END_S, Service
from karmada_vc_agent.runner.settings_follower import JoinedClusters, SettingsFollower, has_rights
from karmada_vc_agent.telemetry.endpoints import METRICS_PATH
from karmada_vc_agent.telemetry.metrics import ClientMeter, Metrics, Sample, build_info
from karmada_vc_agent.translation.names import NamespaceTemplate

_log = logging.getLogger(__name__)

RELEASE_S = 0.8
"""Limit for the release of the lead; a host that does not answer must not hold up the end."""


class Agent:
    """One agent: serves the virtual clusters of its settings until it is stopped."""

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
        try:
            # Before it is stored: after that no other template is accepted.
            NamespaceTemplate.parse(config.namespace_template)
        except ValueError as error:
            raise ConfigError("settings", "namespaceTemplate", str(error)) from error
        self._virtual_clusters = VirtualClusters()
        sources = VirtualClusterSources(self._virtual_clusters)
        self._joined = JoinedClusters(sources.add("the settings file").replace_all)
        self._joined.take(config.virtual_clusters)
        starts = (each.start(sources, config) for each in FEATURES)
        self._starts = [each for each in starts if each is not None]
        self._live = LiveSettings(config)
        self._config = self._live.config
        self._hub_credentials = hub
        self._hub_certificate = HubCertificate(self._current_hub_credentials)
        self._host_credentials = host
        self._reregister = reregister
        self._node = node
        self._settings = settings
        self._election: LeaderElection | None = None
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._has_handed_over = False
        self.metrics = metrics or Metrics(each.metrics for each in FEATURES)
        self.checks = ProcessChecks(self._virtual_clusters, self._joined, self.metrics, settings)
        self._supervisor = Supervisor(self.metrics.part_restarted)
        self.metrics.add_source(self._samples)
        self.metrics_readers = BearerReview(self._ask_host_about, METRICS_PATH)

    def reload_settings(self) -> None:
        """Read the settings file again now, as SIGHUP asks for."""
        if self._settings is not None:
            self._settings.reload()

    def _current_hub_credentials(self) -> Credentials:
        return self.checks.clients.hub.credentials if self.checks.clients else self._hub_credentials

    async def _ask_host_about(self, path: str, review: Any) -> Object:
        if self.checks.clients is None:
            raise UnreachableError("the agent is starting")
        return await self.checks.clients.host_reviews.create(path, review)

    def _samples(self) -> Iterator[Sample]:
        yield from build_info()
        for server, reachability in self.checks.reachability.items():
            yield Sample("api_server_reachable", (server,), reachability.is_reachable)
        if (expires := self._hub_certificate.expires()) is not None:
            yield Sample("hub_certificate_expiration_timestamp_seconds", (), expires)
        if self._settings is not None:
            yield Sample("settings_reload_successful", (), self._settings.problem is None)
        for server, client in self.checks.lanes():
            yield Sample("api_server_went_back_total", (server,), client.history.time_resets)
        if self._election is not None:
            leads = self._election.is_leading()
            yield Sample("leader_election_master_status", (self._config.agent_name,), leads)

    async def run(self, stop: asyncio.Event) -> None:
        """Lead and serve until `stop`.

        Raises ConfigError, LeadLostError (both end the process) and bugs.
        """
        config, hub, host = self._config, self._hub_credentials, self._host_credentials
        _log.info("Starting", extra={"hub": hub.server, "host": host.server})
        warn_of_few_files(len(self._virtual_clusters))
        is_shared = self._virtual_clusters.are_several
        clients = connect(config, hub, host, self._is_leading, self._hub_fence, is_shared)
        self.checks.clients = clients
        made = next((each.hub_start for each in FEATURES if each.hub_start), HubStart)
        self.checks.hub_start = made(config, clients.hub_urgent, clients.host_urgent)
        followers = self._follow(clients)
        followers.append(self._keep("hub certificate", self._hub_certificate.watch))
        if self._settings is not None:
            check = partial(self._check_file, clients)
            followers.append(self._keep("settings", partial(self._settings.run, check, self._use)))
        try:
            work = self._lead_and_serve(clients, stop)
            await until(stop, work, lambda: self.checks.phase == SERVING, END_S)
            if self._has_handed_over:
                raise LeadLostError("handed over to a standby that reaches the hub")
        finally:
            for task in followers:
                task.cancel()
            if self._election is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(RELEASE_S):
                        await self._election.release()
            await clients.close()

    def _follow(self, clients: Clients) -> list[asyncio.Task[None]]:
        """Count the requests of all clients, note which API server answers, follow credentials."""
        tasks = []
        for server, lanes, credentials, use in (
            (HUB, clients.of_hub(), self._hub_credentials, clients.use_for_hub),
            (HOST, clients.of_host(), self._host_credentials, clients.use_for_host),
        ):
            meter = ClientMeter(self.metrics, server, urlsplit(credentials.server).netloc)
            follower = CredentialsFollower(server, credentials, use)
            for client in lanes:
                client.instrument = meter
                client.on_unknown(follower.suspect)
            self.checks.reachability[server] = lanes[0].outage
            tasks.append(self._keep("credentials", follower.run))
        return tasks

    def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(self._supervisor.keep(name, run), name=name)

    def _is_leading(self) -> bool:
        return self._election is None or self._election.is_leading()

    def _hub_fence(self) -> str:
        """Return why no lane may write to the hub now, "" if each of them may."""
        if self.checks.service is not None and self.checks.service.is_offline():
            return "the hub has not listed its Clusters yet"
        if self._election is not None and not self._election.is_in_touch():
            return "not the leader"
        return ""

    async def _lead_and_serve(self, clients: Clients, stop: asyncio.Event) -> None:
        config = self._config
        host_uid = await self._check_host(clients)
        async with asyncio.TaskGroup() as group:
            start = self.checks.hub_start
            checking = group.create_task(start.check(host_uid), name="check the hub")
            await start.wait(checking)
            vcs = self._virtual_clusters.values()
            look = partial(self._check_node, clients, vcs)
            await retry_until_done("read the agent's own node", look)
            state = AgentState(clients.host, config.agent_namespace, config.agent_name)
            election = self._new_election(clients.host_urgent) if config.leader_elect else None
            if election is not None:
                self.checks.waits_for = NEITHER
                await start.wait_for_either(checking, clients.host, election)
            await retry_until_done(
                "prepare the agent's namespace on the host", state.ensure_namespace
            )
            leading: list[asyncio.Task[None]] = []
            if election is not None:
                leading = await self._take_lead(election, group, stop)
            else:
                await start.look()
            await self._read_state(clients, state)
            if not checking.done() and start.is_needed:
                self.checks.waits_for = NEITHER
                await asyncio.wait((checking,))
            looking = [*leading, self._supervisor.start(group, "rights", self._joined.run)]
            service = Service(self._common(clients, state, host_uid), FEATURES)
            self.checks.service = service
            start.on_hub_answer = service.hub_identified
            if self._election is not None:
                self._election.on_regained(service.lead_regained)
            self.checks.phase = SERVING
            await service.run(stop)
            for task in looking:
                task.cancel()
            checking.cancel()

    async def _hand_over(self, election: LeaderElection, stop: asyncio.Event) -> None:
        """End in good order once a standby has what this leader lacks."""
        await election.wait_handed_over()
        _log.warning("Handing over the lead: the hub is away from here, a standby reaches it")
        self._has_handed_over = True
        stop.set()

    async def _check_host(self, clients: Clients) -> str:
        """Return the uid of the host."""
        host = clients.host_urgent
        kube_system = await retry_until_done(
            "read namespace kube-system on the host", lambda: host.get(KUBE_SYSTEM_PATH)
        )
        return str(kube_system["metadata"]["uid"])

    async def _take_lead(
        self, election: LeaderElection, group: asyncio.TaskGroup, stop: asyncio.Event
    ) -> list[asyncio.Task[None]]:
        """Stand by until this process leads; return what keeps the lead, and hands it over."""
        self._election = election
        self.checks.phase = STANDING_BY
        start = self.checks.hub_start
        asking = self._supervisor.start(group, "ask the hub", start.presence.keep_checking)
        await election.acquire()
        await start.look()
        asking.cancel()
        self.checks.phase = STARTING
        self.checks.waits_for = "reads the agent's state on the host"
        return [
            group.create_task(election.lead(), name="lead"),
            group.create_task(self._hand_over(election, stop), name="hand over"),
        ]

    async def _read_state(self, clients: Clients, state: AgentState) -> None:
        """Read what the leader before left on the host, and what features need of it.

        Raises ConfigError.
        """
        template = self._config.namespace_template
        await retry_until_done("read the agent's state on the host", state.load)
        await retry_until_done(
            "write the agent's state on the host", lambda: state.check_template(template)
        )

        async def ask(name: str) -> bool:
            if not self.checks.hub_start.presence.is_checked:
                raise UnreachableError("the hub has not answered yet")
            return await has_rights(clients.hub, name)

        await self._joined.start(ask, lambda name: state.cluster(name) is not None)
        for start in self._starts:
            read = partial(start.read, clients.host, self._live, state)
            await retry_until_done(start.reads, read)
        await self.checks.hub_start.read(clients.host, state, self._election)

    def _common(self, clients: Clients, state: AgentState, host_uid: str) -> Common:
        return Common(
            config=self._config,
            live=self._live,
            clients=clients,
            state=state,
            host_uid=host_uid,
            virtual_clusters=self._virtual_clusters,
            lead=Lead(self._identity, self._is_leading),
            metrics=self.metrics,
            reregister=self._reregister,
            node=self._node,
            provided=(*self._starts, *self.checks.hub_start.provided),
            hub=self.checks.hub_start.identity,
        )

    async def _check_file(self, clients: Clients, vcs: tuple[VirtualCluster, ...]) -> None:
        """Determine which of a changed file may be served. Raises ConfigError, KubeError."""
        await self._check_node(clients, vcs)
        await self._joined.look(vcs)

    def _use(self, reloaded: Reloaded) -> None:
        """Take the settings of a changed file that a running agent takes."""
        self._joined.take(reloaded.virtual_clusters)
        self._live.use(reloaded.config)

    async def _check_node(self, clients: Clients, vcs: Iterable[VirtualCluster]) -> None:
        """Refuse virtual clusters that may have the agent's node. Raises ConfigError, KubeError."""
        if self._config.tenancy == STRICT:
            await check_apart_from_tenants(clients.host_urgent, self._node, vcs)

    def _new_election(self, host: ApiClient) -> LeaderElection:
        config = self._config
        times = ElectionTimes(
            config.leader_elect_lease_duration,
            config.leader_elect_renew_deadline,
            config.leader_elect_retry_period,
        )
        return LeaderElection(
            host,
            config.agent_namespace,
            config.agent_name,
            self._identity,
            times,
            lineage=self.checks.hub_start.line,
            hand_over=hub_relief(self.checks.is_hub_away, self.checks.hub_start.presence),
        )
