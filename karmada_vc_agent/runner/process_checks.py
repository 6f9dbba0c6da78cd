"""The checks of /readyz and /livez for this process."""

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.history import Outage
from karmada_vc_agent.runner.clients import Clients
from karmada_vc_agent.runner.collector import HOST, HUB
from karmada_vc_agent.runner.hub_presence import HubStart
from karmada_vc_agent.runner.service import Service
from karmada_vc_agent.runner.settings_follower import JoinedClusters, SettingsFollower
from karmada_vc_agent.telemetry.endpoints import Note
from karmada_vc_agent.telemetry.metrics import Metrics

NEITHER = "waits for the API server of the hub, without a checkpoint"
STARTING, STANDING_BY, SERVING = "starting", "standing by", "serving"


class ProcessChecks:
    """The checks of one agent, which notes here how far it is.

    phase: STARTING, STANDING_BY or SERVING. waits_for: what a start waits for. clients,
    reachability, hub_start: from when it runs. service: from when it leads.
    """

    hub_start: HubStart

    def __init__(
        self,
        virtual_clusters: VirtualClusters,
        joined: JoinedClusters,
        metrics: Metrics,
        settings: SettingsFollower | None,
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._joined = joined
        self._metrics = metrics
        self._settings = settings
        self.phase, self.waits_for = STARTING, "waits for the API servers"
        self.clients: Clients | None = None
        self.reachability: dict[str, Outage] = {}
        self.service: Service | None = None

    def readiness(self) -> dict[str, str | None]:
        """Return what keeps this agent from its work, by part; a standby is ready to take over.

        A hub that is away does not, where there is a checkpoint: a drain of a node in a cut needs
        the replicas to be ready.
        """
        served = self.service.checks() if self.service is not None else {}
        unreadable = self._metrics.unreadable()
        problem = self._settings.problem if self._settings is not None else None
        return {
            **{server: self._check_server(server, client) for server, client in self.lanes()},
            "phase": self._check_phase(),
            "lists": served.get("lists"),
            "objects": Note(f"cannot read {'; '.join(unreadable)}") if unreadable else None,
            "agents": served.get("agents"),
            "settings": Note(f"keeping those in use: {problem}") if problem else None,
            "found": served.get("found"),
            "rights": self._check_rights(served.get("rights")),
            "checkpoint": served.get("checkpoint"),
            "writes": served.get("writes"),
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

    def _check_phase(self) -> str | None:
        """Return what a start waits for, and why no checkpoint does instead."""
        if self.phase != STARTING:
            return None
        lack = self.hub_start.lack if self.waits_for == NEITHER else ""
        return f"{self.phase}: {self.waits_for}" + (f": {lack}" if lack else "")

    def _check_rights(self, lacks: str | None) -> str | None:
        """Return which right is missing; a virtual cluster that waits for `join` fails no other."""
        if (lacks and not isinstance(lacks, Note)) or not self._joined.waiting:
            return lacks
        names = ", ".join(self._joined.waiting)
        text = f"waiting for rights on the hub: {names}; run karmada-vc-agent join"
        if not len(self._virtual_clusters):
            return text
        return Note(f"{text}; {lacks}" if lacks else text)

    def _check_server(self, server: str, client: ApiClient) -> str | None:
        """Return what is wrong with hub or host, by one of its clients."""
        if away := self._check_away(server):
            has_checkpoint = self.phase != STARTING and bool(self.hub_start.line)
            return Note(away) if server == HUB and has_checkpoint else away
        if server == HUB and (refusal := self._check_hub_accepts()) is not None:
            is_served = self.service is not None and self.service.serves_from_checkpoint()
            return Note(refusal) if is_served else refusal
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
