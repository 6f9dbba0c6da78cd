"""Fake hub and host, and a controller of what a test says is discovered."""

from dataclasses import dataclass, field

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.registration import Origins, VirtualClusterSources
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.discovered.discovery import GroupSource
from karmada_vc_agent.features.discovered.feature import DiscoveryController
from karmada_vc_agent.features.discovered.records import (
    Discovered,
    DiscoveredRecord,
    DiscoveredRecords,
    NodeGroupSettings,
)
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.removal import Removal
from tests.fakes import objects
from tests.fakes.world import World

SOURCE = "nodeGroups"
GRACE_S = 60.0


class FakeSettings(NodeGroupSettings, frozen=True):
    limit: int = 0  # type: ignore[misc] # that of values of a label


class FakeDiscovery(GroupSource[NodeGroupSettings]):
    """What a test says is discovered. following: has the settings."""

    is_synced = True

    def __init__(self, following: "Following") -> None:
        self.following = following
        self.listed: dict[str, Discovered] = {}
        self.is_absent = True

    @property
    def settings(self) -> NodeGroupSettings:  # type: ignore[override] # it changes in tests
        following = self.following
        return FakeSettings(
            enabled=following.is_on,
            grace_period=Duration(GRACE_S),
            drain=following.drains,
            limit=following.limit,
        )

    def all_subjects(self) -> list[str]:
        return [each.subject for each in self.listed.values()]

    def get(self, name: str) -> Discovered | None:
        return self.listed.get(name)

    def text_of(self, subject: str) -> str:
        return f"NodeGroup {subject}"

    def object_of(self, subject: str) -> Object | None:
        return {"apiVersion": "v1", "kind": "NodeGroup", "metadata": {"name": subject}}

    async def is_deleted(self, _name: str, _subject: str) -> bool:
        return self.is_absent

    async def exists(self, _subject: str) -> bool:
        return not self.is_absent


@dataclass
class Following:
    """A controller, on the world of fakes. problem: of `check`. warned: (name, text)."""

    world: World
    drains: bool = False
    limit: int = 0
    is_on: bool = True
    now: float = 1000.0
    problem: str = ""
    away: set[str] = field(default_factory=set)
    warned: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = self.world
        world.virtual_clusters.replace_all([])
        sources = VirtualClusterSources(world.virtual_clusters)
        self.file = sources.add("the settings file")
        self.source = sources.add("a NodeGroup")
        self.source_of_labels = sources.add("a node label")
        self.findings = FakeDiscovery(self)
        self.origins = Origins()
        self.state = AgentState(world.host_client, "agents", "karmada-vc-agent")
        self.records = DiscoveredRecords(self.state, SOURCE)
        removal = Removal(
            world.hub_client,
            world.host_client,
            world.clusters,
            world.works,
            world.claims,
            world.namespace_writer,
            world.finalizer,
            self.state,
        )
        self.follower = DiscoveryController(
            self.findings,
            self.source,
            self.records,
            lambda: AgentConfig(agent_namespace="agents"),
            removal=removal,
            origins=self.origins,
            check=self._check,
            stays_away=self.away.__contains__,
            is_in_doubt=lambda: world.host_client.history.is_in_doubt,
            warn=lambda about, text: self.warned.append((about["metadata"]["name"], text)),
            wall_clock=lambda: self.now,
        )

    async def begin(self) -> "Following":
        self.world.host.seed(objects.namespace("agents"))
        await self.state.load()
        return self

    async def _check(self, _vc: VirtualCluster) -> None:
        if self.problem:
            raise ConfigError("hub", "", self.problem)

    async def find(self, *nodes: str, name: str = "branch-a", **labels: str) -> float | None:
        """Have a group discovered; return after how long it is checked again."""
        self.findings.listed[name] = Discovered(name, f"of-{name}", labels or None, nodes)
        return await self.reconcile(name)

    async def lose(self, name: str = "branch-a") -> float | None:
        """Have a group deleted."""
        del self.findings.listed[name]
        return await self.reconcile(name)

    async def reconcile(self, name: str = "branch-a") -> float | None:
        outcome = await self.follower.reconcile(name)
        self.world.look()
        return outcome.after_s if outcome is not None else None

    def record(self, name: str = "branch-a") -> DiscoveredRecord | None:
        return self.records.of(name)

    def absence(self, name: str = "branch-a") -> str:
        """Return the message about a deleted group."""
        origin = self.origins.of(name)
        assert origin is not None
        return origin.absence

    @property
    def served(self) -> set[str]:
        return set(self.world.virtual_clusters)


@pytest.fixture
async def following(world: World) -> Following:
    return await Following(world).begin()


@pytest.fixture
async def draining(world: World) -> Following:
    """Return one that may remove what is gone."""
    return await Following(world, drains=True).begin()
