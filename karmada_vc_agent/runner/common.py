"""Settings, stores and signals, of which all parts of the service are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.clock import Clock
from karmada_vc_agent.cluster.held_namespaces import HeldNamespaces
from karmada_vc_agent.cluster.judgements import HubContact, Judgements
from karmada_vc_agent.cluster.lead import Lead
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.origins import Origins
from karmada_vc_agent.cluster.registrations import Registrations
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.supervisor import Supervisor
from karmada_vc_agent.model.objects import GroupVersionKind
from karmada_vc_agent.model.switches import (
    CERT_ROTATION,
    CLUSTER_STATUS,
    enabled_controllers,
    feature_gates,
)
from karmada_vc_agent.runner.clients import Clients
from karmada_vc_agent.runner.hooks import Hooks
from karmada_vc_agent.runner.hub_certificate import is_agents_own
from karmada_vc_agent.runner.hub_identity import HubIdentity
from karmada_vc_agent.runner.queues import Queues
from karmada_vc_agent.runner.signals import Signals
from karmada_vc_agent.runner.stores import Stores
from karmada_vc_agent.runner.translation_contexts import translation_settings
from karmada_vc_agent.telemetry.metrics import Metrics
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.work.held_changes import HeldChanges

T = TypeVar("T")

UNKNOWN_ON_HUB_FOR_S = 30.0
"""It only says more of kinds that the host does not serve, and it is far away."""


@dataclass(frozen=True, slots=True)
class Discoveries:
    """Discovery of both API servers."""

    hub: Discovery
    host: Discovery

    def cached(self, gvk: GroupVersionKind) -> Resource | None:
        """Return where the host serves a kind, as far as is cached; costs no request."""
        return self.host.served.by_kind.get(gvk)

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        """Return where a kind lives: as the host serves it, else as the hub does (trap 34)."""
        return await self.host.find(gvk) or await self.hub.find(gvk)


@dataclass(eq=False)
class Common:
    """Settings, stores and signals of one process, made of what it is given to serve with.

    live: those of the settings that change. host_uid: of the host's namespace kube-system.
    reregister: virtual clusters to register again although their Clusters were deleted. node: name
    of the agent's own node, "" = none is recorded. provided: what features read at the start. hub:
    which one it is.

    switches: names of the enabled controllers of Karmada's. contact: what the hub accepts of what
    judgements say, and of Leases. An emitter of changes of a store or of the registry is made
    before its readers, so its handlers run first.
    """

    config: AgentConfig
    live: LiveSettings
    clients: Clients
    state: AgentState
    host_uid: str
    virtual_clusters: VirtualClusters
    lead: Lead
    metrics: Metrics
    reregister: frozenset[str] = frozenset()
    node: str = ""
    provided: tuple[object, ...] = ()
    hub: HubIdentity = field(default_factory=HubIdentity)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        config, clients, vcs = self.config, self.clients, self.virtual_clusters
        self.origins = Origins()
        self.hooks = Hooks()
        self._provided: dict[type, Any] = {type(part): part for part in self.provided}
        self.settings: TranslationSettings = translation_settings(config)
        self.switches: frozenset[str] = enabled_controllers(
            config.controllers, _also_enabled(config, clients)
        )
        self.gates: Mapping[str, bool] = feature_gates(config.feature_gates)
        self.signals = Signals()
        self.scopes = Scopes()
        self.scopes.ended.subscribe(self.metrics.forget)
        self.judgements = Judgements(self.scopes)
        self.stores = Stores(
            config,
            vcs,
            clients,
            self.host_uid,
            self.judgements if CLUSTER_STATUS in self.switches else None,
            self.state.clusters,
        )
        self.queues = Queues(vcs, config.rate_limiter_base_delay)
        self.registrations = Registrations(self.state, self.stores.clusters, vcs, self.reregister)
        self.held_changes = HeldChanges(self.signals.work_due.emit)
        self.discoveries = Discoveries(
            hub=Discovery(clients.hub, self.clock.monotonic, UNKNOWN_ON_HUB_FOR_S),
            host=Discovery(clients.host_urgent, self.clock.monotonic),
        )
        self.contact = HubContact(config.cluster_lease_duration, self.scopes)
        self.held = HeldNamespaces(self.stores.claims)
        for client in clients.of_host():
            client.refusal = self.held.refusal
        self.supervisor = Supervisor(self.metrics.part_restarted)

    def provide(self, part: object) -> None:
        """Share what a feature made with its controllers, by its type."""
        self._provided[type(part)] = part

    def part(self, kind: type[T]) -> T:
        """Return what a feature provides. Raises KeyError: that feature is not in this agent."""
        return cast("T", self._provided[kind])

    def find(self, kind: type[T]) -> T | None:
        """Return what a feature or the start provides, None = nothing of this type."""
        return self._provided.get(kind)


def _also_enabled(config: AgentConfig, clients: Clients) -> tuple[str, ...]:
    """Return the controllers that are on by default for this agent only."""
    owns_certificate = is_agents_own(clients.hub.credentials.certificate, config.agent_name)
    return (CERT_ROTATION,) if owns_certificate else ()
