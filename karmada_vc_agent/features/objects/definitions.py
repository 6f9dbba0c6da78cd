"""VirtualCluster objects: read, cached, and served through the registry."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from cachetools import LRUCache

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
from karmada_vc_agent.model.objects import Object, dig, uid_of
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
PHASES: tuple[Phase, ...] = get_args(Phase)


def finalizer(agent: str) -> str:
    """Return the finalizer that an agent holds objects by; each has its own."""
    return f"{DOMAIN}/{agent}"


def is_for(agent: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether an object is for an agent: it names that one in a label, or none."""
    return bool((metadata.get("labels") or {}).get(AGENT_LABEL, agent) == agent)


@dataclass(frozen=True, slots=True)
class Definition:
    """A VirtualCluster object as it was read.

    virtual_cluster: None where it can be none; `problem` is why then. status: as the server has it.
    spec: of the object, to read it again when the settings of the agent change.
    """

    name: str
    uid: str
    generation: int
    virtual_cluster: VirtualCluster | None
    problem: str = ""
    deletion_policy: DeletionPolicy = DELETION_POLICIES[0]
    is_deleting: bool = False
    status: Object = field(default_factory=dict)
    spec: Object = field(default_factory=dict)

    @property
    def is_preserved(self) -> bool:
        """Return whether the objects of its Works stay once it is deleted."""
        return self.deletion_policy == PRESERVE


def read(body: Object, config: AgentConfig) -> Definition:
    """Return an object as it is read with the settings of the agent as its defaults."""
    metadata = body["metadata"]
    spec = body.get("spec") or {}
    vc, problem = _read_spec(metadata["name"], spec, config)
    policy = spec.get("deletionPolicy")
    return Definition(
        name=metadata["name"],
        uid=uid_of(body),
        generation=int(metadata.get("generation") or 0),
        virtual_cluster=vc,
        problem=problem,
        deletion_policy=policy if policy in DELETION_POLICIES else DELETION_POLICIES[0],
        is_deleting=bool(metadata.get("deletionTimestamp")),
        status=dig(body, "status") or {},
        spec=spec,
    )


async def definitions_on(host: ApiClient, config: AgentConfig) -> list[Definition] | None:
    """Return the objects for this agent; None where the host has no CRD. Raises KubeError."""
    items = await items_unless_absent(host, PATH)
    if items is None:
        return None
    return [read(each, config) for each in items if is_for(config.agent_name, each["metadata"])]


def _read_spec(name: str, spec: Object, config: AgentConfig) -> tuple[VirtualCluster | None, str]:
    """Return the virtual cluster of a spec, as one of the settings file, or None and why not."""
    given = {key: value for key, value in spec.items() if key != "deletionPolicy"}
    common = {each.key: getattr(config.bounds, each.name) for each in settings_of(Bounds)}
    bounds = common | (given.get("bounds") or {})
    raw = {"virtualClusters": [{"name": name, **given, "bounds": bounds}]}
    try:
        (vc,) = decode(raw, AgentConfig, name).virtual_clusters
        return completed(vc, config), ""
    except ConfigError as error:
        field = field_of(error)
        return None, f"spec.{field} {error.problem}" if field else error.problem


_log = logging.getLogger(__name__)

DELETED = "DELETED"
"""Type of the watch event of a deleted object."""
REMOVED_REMEMBERED = 1024
"""Objects whose removal is complete: they have events until the server deletes them."""

Check = Callable[[VirtualCluster], Awaitable[None]]


@dataclass(slots=True)
class _Cached:
    """An object as it was read by a config; is_taken: it is served, unless `refused`.

    waits_for: what its deletion waits for.
    """

    definition: Definition
    config: AgentConfig
    is_taken: bool = False
    refused: str = ""
    waits_for: str = ""

    def is_of(self, body: Object) -> bool:
        """Return whether an object has the same spec; most events are our writes of statuses."""
        ours, metadata = self.definition, body["metadata"]
        return (ours.uid, ours.generation, ours.is_deleting) == (
            uid_of(body),
            int(metadata.get("generation") or 0),
            bool(metadata.get("deletionTimestamp")),
        )


class Definitions:
    """Caches the objects, and serves the valid ones.

    A mistake in an object that is served already changes nothing but its status.
    source: gets the valid ones. live: settings of the agent, the defaults of the objects. check:
    raises ConfigError where hub or host forbid a virtual cluster, KubeError where they cannot be
    queried. due: called with each object to take, or to report on. is_ours: whether an object with
    these metadata is for this agent.
    """

    def __init__(
        self,
        source: VirtualClusterSource,
        live: LiveSettings,
        check: Check,
        due: Callable[[str], None],
        is_ours: Callable[[Object], bool] = lambda _: True,
    ) -> None:
        self._is_ours = is_ours
        self.source = source
        self._live = live
        self._check = check
        self._due = due
        self._cached: dict[str, _Cached] = {}
        self._once = LogOnce(_log)
        self._removed: LRUCache[str, None] = LRUCache(REMOVED_REMEMBERED)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects."""
        return iter(tuple(self._cached))

    def of(self, name: str) -> Definition | None:
        """Return an object, None if there is none of this name."""
        cached = self._cached.get(name)
        return cached.definition if cached is not None else None

    def problem(self, name: str) -> str:
        """Return why an object is not served as it is, "" where it is."""
        cached = self._cached.get(name)
        return cached.definition.problem or cached.refused if cached is not None else ""

    def waits_for(self, name: str) -> str:
        """Return what an object that is being deleted waits for, "" for nothing."""
        cached = self._cached.get(name)
        return cached.waits_for if cached is not None else ""

    def note_waiting(self, name: str, text: str) -> None:
        """Note what an object that is being deleted waits for."""
        cached = self._cached.get(name)
        if cached is not None and cached.waits_for != text:
            cached.waits_for = text
            self._due(name)

    def seen(self, kind: str | None, body: Object) -> None:
        """Handle an item of a list, or an event of a watch. kind: of the event, None in a list."""
        name = body["metadata"]["name"]
        if uid_of(body) in self._removed:
            if kind == DELETED:
                self._removed.pop(uid_of(body), None)
            return
        if kind == DELETED or not self._is_ours(body["metadata"]):
            cached = self.of(name)
            if cached is not None and cached.uid == uid_of(body):
                self.forget(name)
        else:
            self.observe(body)

    def observe(self, body: Object) -> Definition:
        """Cache an object as the server has it; one that differs is due."""
        name = body["metadata"]["name"]
        cached = self._cached.get(name)
        if cached is not None and cached.is_of(body):
            cached.definition = replace(cached.definition, status=body.get("status") or {})
            return cached.definition
        config = self._live.config
        definition = read(body, config)
        if definition.uid not in self._removed:
            if cached is None:
                cached = self._cached[name] = _Cached(definition, config)
            cached.definition, cached.config, cached.is_taken = definition, config, False
            self._due(name)
        return definition

    async def take(self, name: str) -> None:
        """Serve an object by the current settings, unless hub or host forbid it."""
        cached = self._cached.get(name)
        if cached is None:
            return
        if cached.config is not self._live.config:
            cached.config = self._live.config
            vc, problem = _read_spec(name, cached.definition.spec, cached.config)
            cached.definition = replace(cached.definition, virtual_cluster=vc, problem=problem)
        definition, cached.is_taken = cached.definition, True
        problem, vc = definition.problem, definition.virtual_cluster
        if vc is not None:
            problem = await self._forbids(vc)
            if self._cached.get(name) is not cached or not cached.is_taken:
                return  # it changed meanwhile, and is due again
            cached.refused = problem
        if problem or vc is None:
            text = "Not using a VirtualCluster object"
            self._once.warning(text, about=name, virtual_cluster=name, reason=problem)
        else:
            self._once.ended(name)
            self.source.put(vc)

    def settings_changed(self) -> None:
        """Have all objects read by the current settings, one after another."""
        for name in self:
            self._due(name)

    def is_to_be_taken(self, name: str) -> bool:
        """Return whether an object is not served as it is, for a reason that may have ended."""
        cached = self._cached.get(name)
        if cached is None:
            return False
        is_current = cached.is_taken and cached.config is self._live.config
        return not is_current or bool(self.problem(name))

    def end(self, name: str) -> None:
        """Forget an object whose removal is complete; later events of it are ignored."""
        definition = self.of(name)
        if definition is not None:
            self._removed[definition.uid] = None
        self.forget(name)

    def forget(self, name: str) -> None:
        """Stop serving an object; nothing of its virtual cluster is deleted."""
        self._cached.pop(name, None)
        self._once.ended(name)
        self.source.remove(name)
        self._due(name)

    async def _forbids(self, vc: VirtualCluster) -> str:
        if self.source.defines_nodes_of(vc):
            return ""
        try:
            await self._check(vc)
        except ConfigError as error:
            return error.problem
        except KubeError as error:
            return f"cannot be checked: {error}"
        return ""


class ObjectsStart:
    """The source of what objects describe, filled before they are watched.

    preserved: those whose removal an earlier process may have begun, while the objects of their
    Works stay.
    """

    reads = "list VirtualCluster objects on the host"

    def __init__(self, source: VirtualClusterSource) -> None:
        self.source = source
        self.preserved: frozenset[str] = frozenset()

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the source with what was in use when the last process ended. Raises KubeError.

        So that nothing counts as deleted before it is watched, and a removal continues as it began.
        """
        definitions = await definitions_on(host, live.config)
        if definitions is None:
            _log.warning(
                "Waiting for the CRD of VirtualCluster objects; apply manifests/base/crd.yaml"
            )
        used = [each for each in definitions or () if _was_in_use(each, state)]
        self.source.replace_all([vc for each in used if (vc := each.virtual_cluster) is not None])
        self.preserved = frozenset(
            each.name for each in used if each.is_deleting and each.is_preserved
        )


def _was_in_use(definition: Definition, state: AgentState) -> bool:
    """Return whether it was served; the phase of a new one may not be written yet."""
    phase = definition.status.get("phase")
    was_served = phase != "Refused" if phase else state.cluster(definition.name) is not None
    return was_served and definition.virtual_cluster is not None


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
