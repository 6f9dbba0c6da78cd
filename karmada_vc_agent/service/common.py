"""What all parts of the service are made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from karmada_vc_agent.apply.held_changes import HeldChanges
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.supervisor import Supervisor
from karmada_vc_agent.lifecycle.agent_state import AgentState
from karmada_vc_agent.lifecycle.lead import Lead
from karmada_vc_agent.model.objects import GroupVersionKind
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.service.clients import Clients
from karmada_vc_agent.service.queues import Queues
from karmada_vc_agent.service.signals import Signals
from karmada_vc_agent.service.stores import Stores
from karmada_vc_agent.telemetry.metrics import Metrics
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.views.agent_node import AgentNode
from karmada_vc_agent.views.divisions import Divisions
from karmada_vc_agent.views.judgements import HubContact, Judgements


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What both API servers serve."""

    hub: Discovery
    host: Discovery

    def known(self, gvk: GroupVersionKind) -> Resource | None:
        """Return where the host serves a kind, as far as is known; costs no request."""
        return self.host.served.by_kind.get(gvk)

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        """Return where a kind lives: as the host serves it, else as the hub does (trap 34)."""
        return await self.host.find(gvk) or await self.hub.find(gvk)


@dataclass(frozen=True, slots=True)
class Common:
    """Settings, servers and state; switches: names of the enabled controllers of Karmada's.

    contact: what the hub accepts of what judgements say, and of Leases.
    """

    config: AgentConfig
    clients: Clients
    state: AgentState
    lead: Lead
    metrics: Metrics
    virtual_clusters: Mapping[str, VirtualCluster]
    settings: TranslationSettings
    switches: frozenset[str]
    gates: Mapping[str, bool]
    stores: Stores
    queues: Queues
    signals: Signals
    held_changes: HeldChanges
    discoveries: Discoveries
    judgements: Judgements
    contact: HubContact
    divisions: Divisions
    agent_node: AgentNode
    supervisor: Supervisor


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def itself(key: Any) -> tuple[Any]:
    """Return the keys of a change that is told as a key."""
    return (key,)
