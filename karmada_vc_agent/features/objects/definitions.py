"""VirtualCluster objects: read, cached, and served through the registry."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from karmada_vc_agent.access.admission import group_labels
from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.registration import (
    LiveSettings,
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.config.decoding import ConfigError, decode, settings_of
from karmada_vc_agent.config.loading import completed, field_of
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import items_unless_absent
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.virtual_cluster import Bounds, VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, DOMAIN
from karmada_vc_agent.runner.parts import Described

KIND: Final = "VirtualCluster"
OBJECTS: Final = "virtualclusters"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{DOMAIN}/{VERSION}"
PATH: Final = f"/apis/{API_VERSION}/{OBJECTS}"

DeletionPolicy = Literal["Delete", "Preserve"]
"""What becomes of the objects of Works when the VirtualCluster object is deleted."""

Phase = Literal["Pending", "Active", "Paused", "Refused", "Deleting"]
"""Not served yet; served; served as it was; not to be served as it is; being deleted."""

PRESERVE: Final[DeletionPolicy] = "Preserve"
DELETION_POLICIES: tuple[DeletionPolicy, ...] = get_args(DeletionPolicy)


def finalizer(agent: str) -> str:
    """Return the finalizer that an agent holds objects by; each has its own."""
    return f"{DOMAIN}/{agent}"


def is_for(agent: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether an object is for an agent: it names that one in a label, or none."""
    return bool((metadata.get("labels") or {}).get(AGENT_LABEL, agent) == agent)


async def purge(host: ApiClient, _: str, agent: str, say: Callable[[str], object]) -> None:
    """Release the objects of an agent that is removed: no other one would. Raises KubeError."""
    for obj in await items_unless_absent(host, PATH) or ():
        metadata, own = obj["metadata"], finalizer(agent)
        if own in (finalizers := metadata.get("finalizers") or ()):
            rest = [each for each in finalizers if each != own]
            patch = {"finalizers": rest, "resourceVersion": metadata["resourceVersion"]}
            await host.merge_patch(f"{PATH}/{metadata['name']}", {"metadata": patch})
            say(f"host: released {KIND} {metadata['name']}, which stays; kubectl delete removes it")


@dataclass(slots=True)
class Definition:
    """A VirtualCluster object as it was read.

    virtual_cluster: None where it can be none; `problem` is why then. status: as the server has it.
    taken_by: the settings that it is served by, unless it is `refused`; None = not taken yet.
    waits_for: what its deletion waits for.
    """

    name: str
    uid: str
    generation: int
    is_deleting: bool
    spec: Object
    status: Object
    virtual_cluster: VirtualCluster | None = None
    problem: str = ""
    taken_by: AgentConfig | None = None
    refused: str = ""
    waits_for: str = ""

    @property
    def is_preserved(self) -> bool:
        """Return whether the objects of its Works stay once it is deleted."""
        return bool(self.spec.get("deletionPolicy") == PRESERVE)

    @property
    def refusal(self) -> str:
        """Return why it is not served as it is, "" where it is."""
        return self.problem or self.refused

    def use(self, config: AgentConfig) -> None:
        """Read the spec with the settings of the agent as its defaults, as of the settings file."""
        self.virtual_cluster, self.problem = None, ""
        given = {key: value for key, value in self.spec.items() if key != "deletionPolicy"}
        common = {each.key: getattr(config.bounds, each.name) for each in settings_of(Bounds)}
        bounds = common | (given.get("bounds") or {})
        raw = {"virtualClusters": [{"name": self.name, **given, "bounds": bounds}]}
        try:
            (vc,) = decode(raw, AgentConfig, self.name).virtual_clusters
            self.virtual_cluster = completed(vc, config)
        except ConfigError as error:
            place = field_of(error)
            self.problem = f"spec.{place} {error.problem}" if place else error.problem


def of_another(definition: Definition) -> VirtualCluster:
    """Return what another process of the agent has, as far as it matters here: names and nodes.

    One that cannot be read may be served as it was before: its nodes are those that are labelled.
    """
    if definition.virtual_cluster is not None:
        return definition.virtual_cluster
    former, name = tuple(definition.spec.get("formerNames", ())), definition.name
    labelled = virtual_cluster.labelled((*former, name)[0])
    return VirtualCluster(name, node_selector=labelled, former_names=former)


def read(body: Object, config: AgentConfig) -> Definition:
    """Return an object as it is read with the settings of the agent as its defaults."""
    name, spec, status = body["metadata"]["name"], body.get("spec"), body.get("status")
    definition = Definition(name, *_version(body), spec or {}, status or {})
    definition.use(config)
    return definition


def _version(body: Object) -> tuple[str, int, bool]:
    """Return uid, generation and whether it is being deleted: most events change none of them."""
    metadata = body["metadata"]
    generation = int(metadata.get("generation") or 0)
    return uid_of(body), generation, bool(metadata.get("deletionTimestamp"))


async def definitions_on(host: ApiClient, config: AgentConfig) -> list[Definition] | None:
    """Return the objects for this agent; None where the host has no CRD. Raises KubeError."""
    items = await items_unless_absent(host, PATH)
    if items is None:
        return None
    return [read(each, config) for each in items if is_for(config.agent_name, each["metadata"])]


_log = logging.getLogger(__name__)

DELETED = "DELETED"
"""Type of the watch event of a deleted object."""


@dataclass(eq=False)
class Definitions:
    """Caches the objects, and serves the valid ones.

    A mistake in an object that is served already changes nothing but its status.
    source: gets the valid ones. live: settings of the agent, the defaults of the objects. check:
    raises ConfigError where hub or host forbid a virtual cluster, KubeError where they cannot be
    queried. due: called with each object to take, or to report on. agent: name of this agent.
    """

    source: VirtualClusterSource
    live: LiveSettings
    check: Callable[[VirtualCluster], Awaitable[None]]
    due: Callable[[str], None]
    agent: str
    _cached: dict[str, Definition] = field(default_factory=dict)
    _once: LogOnce = field(default_factory=lambda: LogOnce(_log))
    _removed: set[str] = field(default_factory=set)
    """Uids of those whose removal is complete: they have events until they are deleted."""

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects."""
        return iter(tuple(self._cached))

    def of(self, name: str) -> Definition | None:
        """Return an object, None if there is none of this name."""
        return self._cached.get(name)

    def note_waiting(self, name: str, text: str) -> None:
        """Note what an object that is being deleted waits for."""
        cached = self.of(name)
        if cached is not None and cached.waits_for != text:
            cached.waits_for = text
            self.due(name)

    def seen(self, kind: str | None, body: Object) -> None:
        """Handle an item of a list, or an event of a watch. kind: of the event, None in a list."""
        name, uid = body["metadata"]["name"], uid_of(body)
        cached = self.of(name)
        if kind == DELETED:
            self._removed.discard(uid)
        if kind != DELETED and is_for(self.agent, body["metadata"]):
            self.observe(body)
        elif cached is not None and cached.uid == uid:
            self.forget(name)

    def observe(self, body: Object) -> Definition:
        """Cache an object as the server has it; one that differs is due."""
        name, version = body["metadata"]["name"], _version(body)
        cached = self.of(name)
        if cached and (cached.uid, cached.generation, cached.is_deleting) == version:
            cached.status = body.get("status") or {}
            return cached
        definition = read(body, self.live.config)
        if uid_of(body) not in self._removed:
            if cached is not None:
                definition.refused = cached.refused
                definition.waits_for = cached.waits_for if definition.is_deleting else ""
            self._cached[name] = definition
            self.due(name)
        return definition

    async def take(self, name: str) -> Definition | None:
        """Serve an object by the current settings, unless hub or host forbid it; return it.

        One that is not served as it is is checked again: the reason may have ended. That of another
        process is not checked, and stays what it was while it is invalid.
        """
        definition, config = self.of(name), self.live.config
        if definition is None:
            return None
        if definition.taken_by is config and not definition.refusal:
            return definition
        definition.use(config)
        vc, definition.taken_by = definition.virtual_cluster, config
        if not self.source.serves(name):
            if vc is not None or name not in self.source:
                self.source.put(of_another(definition))
            return definition
        refused = await self._forbids(vc) if vc is not None else ""
        if self.of(name) is not definition:
            return self.of(name)  # it changed meanwhile, and is due again
        definition.refused = refused
        if vc is not None and not refused:
            self._once.ended(name)
            self.source.put(vc)
        else:
            text = "Not using a VirtualCluster object"
            self._once.warning(text, about=name, virtual_cluster=name, reason=definition.refusal)
        return definition

    def settings_changed(self) -> None:
        """Have all objects read by the current settings, one after another."""
        for name in self:
            self.due(name)

    def end(self, name: str) -> None:
        """Forget an object whose removal is complete; later events of it are ignored."""
        if (definition := self.of(name)) is not None:
            self._removed.add(definition.uid)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Stop serving an object; nothing of its virtual cluster is deleted."""
        self._cached.pop(name, None)
        self._once.ended(name)
        self.source.remove(name)
        self.due(name)

    async def _forbids(self, vc: VirtualCluster) -> str:
        if self.source.defines_nodes_of(vc):
            return ""
        try:
            await self.check(vc)
        except ConfigError as error:
            return error.problem
        except KubeError as error:
            return f"cannot be checked: {error}"
        return ""


@dataclass
class ObjectsStart:
    """The source of what objects describe, filled before they are watched.

    So nothing counts as deleted before it is watched, and a removal continues as it began.
    preserved: those whose removal an earlier process may have begun, while the objects of their
    Works stay.
    """

    source: VirtualClusterSource
    preserved: Collection[str] = ()
    reads = "list VirtualCluster objects on the host"

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the source with what was in use when the last process ended. Raises KubeError."""
        definitions = await definitions_on(host, live.config)
        if definitions is None:
            text = "Waiting for the CRD of VirtualCluster objects; apply manifests/base/crd.yaml"
            _log.warning(text)
        used: dict[str, VirtualCluster] = {}
        # What is served has its names before what is refused.
        for each in sorted(definitions or (), key=lambda one: one.status.get("phase") == "Refused"):
            phase = each.status.get("phase")
            # The phase of a new one may not be written yet.
            was_served = phase != "Refused" if phase else state.cluster(each.name) is not None
            if not self.source.serves(each.name):
                used[each.name] = of_another(each)
            elif was_served and each.virtual_cluster is not None:
                used[each.name] = each.virtual_cluster
        self.source.replace_all(list(used.values()))
        ending = (each for each in definitions or () if each.is_deleting and each.is_preserved)
        self.preserved = used.keys() & {each.name for each in ending}


def start(sources: VirtualClusterSources, config: AgentConfig) -> ObjectsStart | None:
    """Add the source of what objects describe, None where they are off."""
    return ObjectsStart(sources.add("another object")) if config.objects.enabled else None


async def describe(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects describe now. Raises KubeError."""
    if not config.objects.enabled:
        return Described()
    definitions = await definitions_on(host, config) or ()
    vcs = tuple(vc for each in definitions if (vc := each.virtual_cluster) is not None)
    return Described(frozenset(key for vc in vcs for key in group_labels(vc)), vcs, vcs)
