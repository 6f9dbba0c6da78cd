"""Builds the clients, takes the lead and runs the service until told to stop.

Clients: for each side one for the bulk of the work, fenced by the lead, and lanes of their own
for Leases, and for Cluster status and probes, which must never queue behind a burst; and one for
events, which must never be in anybody's way.
"""

import asyncio
import logging
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from karmada_vc_agent.cluster.agent_node import check_apart_from_tenants
from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.lead import Lead
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.reloading import Reloaded
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.bearer_review import BearerReview
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.credentials_follower import CredentialsFollower
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.leader_election import (
    ElectionTimes,
    LeaderElection,
    LeadLostError,
)
from karmada_vc_agent.kube.outage import Outage
from karmada_vc_agent.kube.retries import retry_until_done
from karmada_vc_agent.kube.supervisor import Supervisor
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.api_servers import KUBE_SYSTEM_PATH
from karmada_vc_agent.runner.clients import Clients, connect, warn_of_few_files
from karmada_vc_agent.runner.collector import HOST, HUB
from karmada_vc_agent.runner.common import Process
from karmada_vc_agent.runner.ending import until
from karmada_vc_agent.runner.hub_certificate import HubCertificate
from karmada_vc_agent.runner.hub_relief import hub_relief
from karmada_vc_agent.runner.hub_start import HubStart
from karmada_vc_agent.runner.joined import JoinedClusters, has_rights
from karmada_vc_agent.runner.service import END_S, Service
from karmada_vc_agent.runner.settings_follower import SettingsFollower
from karmada_vc_agent.telemetry.build_info import build_info
from karmada_vc_agent.telemetry.endpoints import METRICS_PATH
from karmada_vc_agent.telemetry.health import Remark
from karmada_vc_agent.telemetry.meters import ClientMeter
from karmada_vc_agent.telemetry.metrics import Metrics, Sample
from karmada_vc_agent.translation.names import NamespaceTemplate

_log = logging.getLogger(__name__)

RELEASE_S = 0.8
"""What giving back the lead may take; a host that does not answer must not hold up the end."""

NEITHER = "waits for the API server of the hub, without a checkpoint"
STARTING, STANDING_BY, SERVING = "starting", "standing by", "serving"


class Agent:
    """One agent: serves the virtual clusters of its settings until told to stop."""

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
        self._file = sources.add("the settings file")
        self._joined = JoinedClusters(self._file.replace_all)
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
        self._hub_start: HubStart
        self._election: LeaderElection | None = None
        self._clients: Clients | None = None
        self._waits_for = "waits for the API servers"
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._phase = STARTING
        self._has_handed_over = False
        self._service: Service | None = None
        self.metrics = metrics or Metrics(each.metrics for each in FEATURES)
        self._reachability: dict[str, Outage] = {}
        self._supervisor = Supervisor(self.metrics.part_restarted)
        self.metrics.add_source(self._samples)
        self.metrics_readers = BearerReview(self._ask_host_about, METRICS_PATH)

    def readiness(self) -> dict[str, str | None]:
        """Return what keeps this agent from its work, by part; a standby is ready to take over.

        A hub that is away does not, where there is a checkpoint: whoever drains a node in a cut
        needs the replicas to be ready.
        """
        checks = {server: self._check_server(server, client) for server, client in self._lanes()}
        checks["phase"] = self._check_phase()
        unlisted = self._service.unlisted() if self._service is not None else []
        checks["lists"] = (
            f"waiting for the first list of {', '.join(unlisted)}" if unlisted else None
        )
        unreadable = self.metrics.unreadable()
        checks["objects"] = Remark(f"cannot read {'; '.join(unreadable)}") if unreadable else None
        checks["agents"] = self._check_other_agents()
        problem = self._settings.problem if self._settings is not None else None
        checks["settings"] = Remark(f"keeping those in use: {problem}") if problem else None
        refused = self._service.not_served() if self._service is not None else []
        checks["found"] = Remark("; ".join(refused)) if refused else None
        checks["rights"] = self._check_rights()
        checks["checkpoint"] = self._service.checkpoint_remark() if self._service else None
        checks["writes"] = self._service.writes_nothing() if self._service else None
        return checks

    def _check_phase(self) -> str | None:
        """Return what a start waits for, and why no checkpoint does instead."""
        if self._phase != STARTING:
            return None
        lack = self._hub_start.lack if self._waits_for == NEITHER else ""
        return f"{self._phase}: {self._waits_for}" + (f": {lack}" if lack else "")

    def _check_rights(self) -> str | None:
        """Return which right is missing; one that waits for `join` fails nobody else."""
        lacks = self._service.missing_rights() if self._service is not None else None
        if (lacks and not isinstance(lacks, Remark)) or not self._joined.waiting:
            return lacks
        names = ", ".join(self._joined.waiting)
        text = f"waiting for rights on the hub: {names}; run karmada-vc-agent join"
        if not len(self._virtual_clusters):
            return text
        return Remark(f"{text}; {lacks}" if lacks else text)

    def _check_server(self, server: str, client: ApiClient) -> str | None:
        """Return what is wrong with hub or host, by one of its clients."""
        if away := self._check_away(server):
            return Remark(away) if server == HUB and self._has_checkpoint() else away
        if server == HUB and (refusal := self._check_hub_accepts()) is not None:
            is_served = self._service is not None and self._service.serves_from_checkpoint()
            return Remark(refusal) if is_served else refusal
        if client.history.is_in_doubt:
            return Remark(f"the API server of the {server} went back in time; resyncing everything")
        return None

    def _check_away(self, server: str) -> str | None:
        """Return why hub or host is away: no response, or none that an API server gives."""
        if not self._reachability[server].is_reachable:
            return f"the API server of the {server} does not answer"
        if self._service is not None:
            return self._service.not_followed(server)
        is_standby = server == HUB and self._phase == STANDING_BY
        return self._hub_start.presence.away if is_standby else None

    def _has_checkpoint(self) -> bool:
        """Whether this process serves, or stands by, with a checkpoint in place of the hub."""
        return self._phase != STARTING and bool(self._hub_start.line)

    def _is_hub_away(self) -> bool:
        """Whether the hub does not answer, or accepts nothing that is reported."""
        refusal = self._check_hub_accepts()
        accepts_none = bool(refusal) and not isinstance(refusal, Remark)
        return accepts_none or self._check_away(HUB) is not None

    def _check_hub_accepts(self) -> str | None:
        """Return why a hub that answers accepts nothing, as with a certificate that expired."""
        if self._service is not None:
            return self._service.not_accepted()
        return self._hub_start.presence.refuses if self._phase == STANDING_BY else None

    def _check_other_agents(self) -> str | None:
        """Return whom other agents serve; an agent that has others to serve is ready."""
        stepped_back = self._service.stepped_back() if self._service is not None else []
        text = "; ".join(stepped_back)
        serves_others = len(stepped_back) < len(self._virtual_clusters)
        return (Remark(text) if serves_others else text) or None

    def _lanes(self) -> tuple[tuple[str, ApiClient], ...]:
        """Return hub and host, each with one of its clients."""
        clients = self._clients
        return ((HUB, clients.hub), (HOST, clients.host)) if clients is not None else ()

    def reload_settings(self) -> None:
        """Read the settings file again now, as SIGHUP asks for."""
        if self._settings is not None:
            self._settings.reload()

    def liveness(self) -> dict[str, str | None]:
        """Return what is stuck in this process; an API server that is away is not."""
        if self._service is None:
            return {}
        return self._service.stuck(self._reachability[HUB].since)

    def _current_hub_credentials(self) -> Credentials:
        return self._clients.hub.credentials if self._clients else self._hub_credentials

    async def _ask_host_about(self, path: str, review: Any) -> Object:
        if self._clients is None:
            raise UnreachableError("the agent is starting")
        return await self._clients.host_reviews.create(path, review)

    def _samples(self) -> Iterator[Sample]:
        yield from build_info()
        for server, reachability in self._reachability.items():
            yield Sample("api_server_reachable", (server,), reachability.is_reachable)
        if (expires := self._hub_certificate.expires()) is not None:
            yield Sample("hub_certificate_expiration_timestamp_seconds", (), expires)
        if self._settings is not None:
            yield Sample("settings_reload_successful", (), self._settings.problem is None)
        for server, client in self._lanes():
            yield Sample("api_server_went_back_total", (server,), client.history.went_back)
        if self._election is not None:
            leads = self._election.is_leading()
            yield Sample("leader_election_master_status", (self._config.agent_name,), leads)

    async def run(self, stop: asyncio.Event) -> None:
        """Lead and serve until `stop`.

        Raises ConfigError, LeadLostError, StateError (all end the process) and bugs.
        """
        hub, host = self._hub_credentials, self._host_credentials
        _log.info("Starting", extra={"hub": hub.server, "host": host.server})
        warn_of_few_files(len(self._virtual_clusters))
        clients = self._clients = connect(
            self._config,
            hub,
            host,
            self._is_leading,
            self._hub_fence,
            self._virtual_clusters.are_several,
        )
        made = next((each.hub_start for each in FEATURES if each.hub_start), HubStart)
        self._hub_start = made(self._config, clients.hub_urgent, clients.host_urgent)
        self._measure(clients)
        followers = self._follow_credentials(clients, self._supervisor)
        watch = self._supervisor.keep("hub certificate", self._hub_certificate.watch)
        followers.append(asyncio.create_task(watch, name="hub certificate"))
        if self._settings is not None:
            check = partial(self._check_file, clients)
            follow = partial(self._settings.run, check, self._use)
            follower = self._supervisor.keep("settings", follow)
            followers.append(asyncio.create_task(follower, name="settings"))
        try:
            work = self._lead_and_serve(clients, stop)
            await until(stop, work, lambda: self._phase == SERVING, END_S)
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

    def _follow_credentials(
        self, clients: Clients, supervisor: Supervisor
    ) -> list[asyncio.Task[None]]:
        hub = CredentialsFollower("hub", self._hub_credentials, clients.use_for_hub)
        host = CredentialsFollower("host", self._host_credentials, clients.use_for_host)
        for follower, lanes in ((hub, clients.of_hub()), (host, clients.of_host())):
            for client in lanes:
                client.on_unknown(follower.suspect)
        return [
            asyncio.create_task(supervisor.keep("credentials", each.run), name="credentials")
            for each in (hub, host)
        ]

    def _measure(self, clients: Clients) -> None:
        """Count the requests of all clients; note which API server answers."""
        for server, lanes in (
            (HUB, clients.of_hub()),
            (HOST, clients.of_host()),
        ):
            address = urlsplit(lanes[0].credentials.server).netloc
            meter = ClientMeter(self.metrics, server, address)
            for client in lanes:
                client.instrument = meter
            self._reachability[server] = lanes[0].outage

    def _is_leading(self) -> bool:
        return self._election is None or self._election.is_leading()

    def _hub_fence(self) -> str:
        """Return why no lane may write to the hub now, "" if each of them may."""
        if self._service is not None and self._service.is_offline():
            return "the hub has not told its Clusters yet"
        if self._election is not None and not self._election.is_in_touch():
            return "not the leader"
        return ""

    async def _lead_and_serve(self, clients: Clients, stop: asyncio.Event) -> None:
        config = self._config
        host_uid = await self._check_host(clients)
        async with asyncio.TaskGroup() as group:
            start = self._hub_start
            checking = group.create_task(start.check(host_uid), name="check the hub")
            await start.wait(checking)
            vcs = self._virtual_clusters.values()
            look = partial(self._check_node, clients, vcs)
            await retry_until_done("read the agent's own node", look)
            state = AgentState(clients.host, config.agent_namespace, config.agent_name)
            election = self._new_election(clients.host_urgent) if config.leader_elect else None
            if election is not None:
                self._waits_for = NEITHER
                await start.wait_for_either(checking, clients.host, election)
            prepare = state.ensure_namespace
            await retry_until_done("prepare the agent's namespace on the host", prepare)
            leading: list[asyncio.Task[None]] = []
            if election is not None:
                leading = await self._take_lead(election, group, stop)
            else:
                await start.look()
            await self._read_state(clients, state)
            if not checking.done() and start.is_needed:
                self._waits_for = NEITHER
                await asyncio.wait((checking,))
            looking = [*leading, self._supervisor.start(group, "rights", self._joined.run)]
            service = Service(self._process(clients, state, host_uid), FEATURES)
            self._service = service
            start.on_known = service.hub_known
            if self._election is not None:
                self._election.on_regained(service.lead_regained)
            self._phase = SERVING
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
        self._phase = STANDING_BY
        asking = self._supervisor.start(group, "ask the hub", self._hub_start.presence.keep_asking)
        await election.acquire()
        await self._hub_start.look()
        asking.cancel()
        self._phase = STARTING
        self._waits_for = "reads the agent's state on the host"
        return [
            group.create_task(election.lead(), name="lead"),
            group.create_task(self._hand_over(election, stop), name="hand over"),
        ]

    async def _read_state(self, clients: Clients, state: AgentState) -> None:
        """Read what the leader before left on the host, and what features need of it.

        Raises ConfigError, StateError.
        """
        template = self._config.namespace_template
        await retry_until_done("read the agent's state on the host", state.load)
        await retry_until_done(
            "write the agent's state on the host", lambda: state.check_template(template)
        )

        async def ask(name: str) -> bool:
            if not self._hub_start.presence.is_checked:
                raise UnreachableError("the hub has not answered yet")
            return await has_rights(clients.hub, name)

        await self._joined.start(ask, lambda name: state.cluster(name) is not None)
        for start in self._starts:
            read = partial(start.read, clients.host, self._live, state)
            await retry_until_done(start.reads, read)
        await self._hub_start.read(clients.host, state, self._election)

    def _process(self, clients: Clients, state: AgentState, host_uid: str) -> Process:
        return Process(
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
            provided=(*self._starts, *self._hub_start.provided),
            hub=self._hub_start.identity,
        )

    async def _check_file(self, clients: Clients, vcs: tuple[VirtualCluster, ...]) -> None:
        """Find out which of a changed file may be served. Raises ConfigError, KubeError."""
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
            lineage=self._hub_start.line,
            hand_over=hub_relief(self._is_hub_away, self._hub_start.presence),
        )
