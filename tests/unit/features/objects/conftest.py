"""Fake hub and host, and what serves VirtualCluster objects there."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState, HubContact
from karmada_vc_agent.cluster.registration import LiveSettings, VirtualClusterSources
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.definitions import (
    API_VERSION,
    KIND,
    PATH,
    Definitions,
    finalizer,
)
from karmada_vc_agent.features.objects.operator import drain_step
from karmada_vc_agent.features.objects.status import StatusWriter
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import node_overlap
from karmada_vc_agent.work.removal import Removal
from tests.fakes.virtual_time import Clock
from tests.fakes.world import World

BRANCH_A = {"nodeSelector": {"matchLabels": {"branch": "a"}}}
START = "2026-01-01T00:00:00Z"


def virtual_cluster(name: str = "branch-a", spec: Any = None, **metadata: Any) -> Object:
    """Return an object that selects as the virtual cluster of the fakes does."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "generation": 1,
            "finalizers": [finalizer("karmada-vc-agent")],
            **metadata,
        },
        "spec": BRANCH_A if spec is None else spec,
    }


@dataclass
class Served:
    """All parts, on the world of fakes; problem: what `check` finds."""

    world: World
    clock: Clock = field(default_factory=Clock)
    due: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    problem: str = ""
    events: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = self.world
        world.virtual_clusters.replace_all([])
        self.sources = VirtualClusterSources(world.virtual_clusters)
        self.file = self.sources.add("the settings file")
        self.live = LiveSettings(AgentConfig(agent_namespace="agents"))
        self.definitions = Definitions(
            self.sources.add("objects"),
            self.live,
            self._check,
            self.due.append,
            "karmada-vc-agent",
        )
        self.live.changed.subscribe(self.definitions.settings_changed)
        common = world.parts.common
        common.clock = replace(common.clock, monotonic=self.clock, now=lambda: START)
        common.contact = HubContact(40.0, common.scopes, self.clock)
        self.scopes, self.registrations = common.scopes, common.registrations
        self.contact, self.judgements = common.contact, common.judgements
        self.writer = StatusWriter(
            world.parts,
            self.definitions,
            lambda vc, _: [node_overlap(world.membership.overlaps(vc.name))],
            cast("EventRecorder", self),
        )
        state = AgentState(world.host_client, "agents", "karmada-vc-agent")
        removal = Removal(
            world.hub_client,
            world.host_client,
            world.clusters,
            world.works,
            world.claims,
            world.namespace_writer,
            world.finalizer,
            state,
        )
        self.state = state
        self.step = partial(drain_step, world.host_client, self.definitions, removal)

    def record(self, source: str, obj: Object, kind: str, reason: str, message: str) -> bool:
        """Note an event, as the recorder."""
        assert obj["kind"] == KIND
        assert source == "karmada-vc-agent"
        self.events.append((kind, reason, message))
        return True

    async def _check(self, vc: VirtualCluster) -> None:
        self.checked.append(vc.name)
        if self.problem:
            raise ConfigError("host", "", self.problem)

    async def apply(self, body: Object) -> Object:
        """Have an object on the host, and have it seen."""
        path = f"{PATH}/{body['metadata']['name']}"
        if self.world.host.find(path) is None:
            self.world.host.seed(body)
        else:
            self.world.host.change(path, spec=body["spec"])
        live = self.world.host.live(path)
        await self.see("MODIFIED", live)
        return live

    async def see(self, kind: str | None, body: Object) -> None:
        """Have an event seen, and what is new taken as the status does."""
        self.definitions.seen(kind, body)
        await self.definitions.take(body["metadata"]["name"])

    def refusal(self, name: str = "branch-a") -> str:
        """Return why an object is not served as it is."""
        definition = self.definitions.of(name)
        assert definition is not None
        return definition.refusal

    async def status(self, name: str = "branch-a") -> Object:
        """Have the status written; return it."""
        await self.writer.reconcile(name)
        return dict(self.world.host.live(f"{PATH}/{name}").get("status") or {})

    async def conditions(self, name: str = "branch-a") -> dict[str, tuple[str, str]]:
        """Return type -> (status, reason) of what the status says now."""
        definition = self.definitions.of(name)
        assert definition is not None
        found = self.writer.status(definition)["conditions"]
        return {each["type"]: (each["status"], each["reason"]) for each in found}


@pytest.fixture
def served(world: World) -> Served:
    return Served(world)
