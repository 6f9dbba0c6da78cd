"""VirtualCluster objects: read, cached, and served through the registry."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from cachetools import LRUCache

from karmada_vc_agent.access.policy_owner import group_labels
from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.virtual_cluster_sources import (
    LiveSettings,
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.config.declared import settings_of
from karmada_vc_agent.config.decoding import ConfigError, decode
from karmada_vc_agent.config.loading import completed, field_of
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import items_unless_absent
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model.domain import AGENT_LABEL, DOMAIN
from karmada_vc_agent.model.objects import Object, dig, uid_of
from karmada_vc_agent.model.virtual_cluster import Bounds, VirtualCluster
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


_OWN_KEYS = frozenset({"deletionPolicy"})
"""Keys of the spec that are not of the virtual cluster."""


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


def read_again(definition: Definition, config: AgentConfig) -> Definition:
    """Return a definition as it is read with other settings of the agent."""
    vc, problem = _read_spec(definition.name, definition.spec, config)
    return replace(definition, virtual_cluster=vc, problem=problem)


async def definitions_on(host: ApiClient, config: AgentConfig) -> list[Definition] | None:
    """Return the objects for this agent; None where the host has no CRD. Raises KubeError."""
    items = await items_unless_absent(host, PATH)
    if items is None:
        return None
    return [read(each, config) for each in items if is_for(config.agent_name, each["metadata"])]


def _read_spec(name: str, spec: Object, config: AgentConfig) -> tuple[VirtualCluster | None, str]:
    """Return the virtual cluster of a spec, or None and why it can be none."""
    try:
        return _virtual_cluster(name, spec, config), ""
    except ConfigError as error:
        field = field_of(error)
        return None, f"spec.{field} {error.problem}" if field else error.problem


def _virtual_cluster(name: str, spec: Object, config: AgentConfig) -> VirtualCluster:
    """Return the virtual cluster of a spec, as one of the settings file. Raises ConfigError."""
    given = {key: value for key, value in spec.items() if key not in _OWN_KEYS}
    common = {each.key: getattr(config.bounds, each.name) for each in settings_of(Bounds)}
    bounds = common | (given.get("bounds") or {})
    raw = {"virtualClusters": [{"name": name, **given, "bounds": bounds}]}
    (vc,) = decode(raw, AgentConfig, name).virtual_clusters
    return completed(vc, config)


_log = logging.getLogger(__name__)

DELETED = "DELETED"
"""Type of the watch event of a deleted object."""
REMOVED_REMEMBERED = 1024
"""Objects whose removal is complete: they have events until the server deletes them."""

Check = Callable[[VirtualCluster], Awaitable[None]]


class Definitions:
    """Caches the objects, and serves the valid ones.

    A mistake in an object that is served already changes nothing but its status.
    source: gets the valid ones. live: settings of the agent, the defaults of the objects. check:
    raises ConfigError where hub or host forbid a virtual cluster, KubeError where they cannot be
    queried. due: called with each object that changed in more than its status. is_ours: whether an
    object with these metadata is for this agent.
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
        self._cached: dict[str, Definition] = {}
        self._outdated: set[str] = set()
        self._pending: set[str] = set()
        self._refused: dict[str, str] = {}
        self._once = LogOnce(_log)
        self._waits_for: dict[str, str] = {}
        self._removed: LRUCache[str, None] = LRUCache(REMOVED_REMEMBERED)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects."""
        return iter(tuple(self._cached))

    def of(self, name: str) -> Definition | None:
        """Return an object, None if there is none of this name."""
        return self._cached.get(name)

    def problem(self, name: str) -> str:
        """Return why an object is not served as it is, "" where it is."""
        cached = self._cached.get(name)
        return cached.problem or self._refused.get(name, "") if cached is not None else ""

    def waits_for(self, name: str) -> str:
        """Return what an object that is being deleted waits for, "" for nothing."""
        return self._waits_for.get(name, "")

    def note_waiting(self, name: str, text: str) -> None:
        """Note what an object that is being deleted waits for."""
        if self._waits_for.get(name, "") != text:
            self._waits_for[name] = text
            self._due(name)

    async def seen(self, kind: str | None, body: Object) -> None:
        """Handle an item of a list, or an event of a watch. kind: of the event, None in a list."""
        name = body["metadata"]["name"]
        cached = self._cached.get(name)
        if uid_of(body) in self._removed:
            if kind == DELETED:
                self._removed.pop(uid_of(body), None)
            return
        if kind == DELETED or not self._is_ours(body["metadata"]):
            if cached is not None and cached.uid == uid_of(body):
                self.forget(name)
            return
        new = self.observe(body)
        is_other = name in self._pending
        if is_other:
            await self.take(name)
        if is_other or (cached is not None and cached.is_deleting != new.is_deleting):
            self._due(name)

    def observe(self, body: Object) -> Definition:
        """Cache an object as the server has it, without acting on it."""
        definition = self._with_status(body)
        if definition is None:
            definition = read(body, self._live.config)
            self._outdated.discard(definition.name)
            self._pending.add(definition.name)
        if definition.uid not in self._removed:
            self._cached[definition.name] = definition
        return definition

    def _with_status(self, body: Object) -> Definition | None:
        """Return the cached object with the status that it has now; None where more changed.

        Most events are our own writes of statuses, and reading a spec is slow.
        """
        metadata = body["metadata"]
        cached = self._cached.get(metadata["name"])
        if cached is None or (cached.uid, cached.generation, cached.is_deleting) != (
            uid_of(body),
            int(metadata.get("generation") or 0),
            bool(metadata.get("deletionTimestamp")),
        ):
            return None
        return replace(cached, status=body.get("status") or {})

    async def take(self, name: str) -> None:
        """Serve an object, unless hub or host forbid it."""
        self._pending.discard(name)
        cached = self._read_again(name)
        vc = cached.virtual_cluster if cached is not None else None
        if cached is None or vc is None:
            if cached is not None:
                self._warn(name, cached.problem)
            return
        problem = await self._forbids(vc)
        if self._cached.get(name) is not cached and self._has_changed(cached):
            return  # a later call takes it
        if problem:
            self._warn(name, problem)
            self._refused[name] = problem
            return
        self._refused.pop(name, None)
        self._once.ended(name)
        self.source.put(vc)

    def settings_changed(self) -> None:
        """Read all objects with the current settings, one after another."""
        self._outdated = set(self._cached)
        for name in self:
            self._due(name)

    def is_to_be_taken(self, name: str) -> bool:
        """Return whether an object is not served as it is, for a reason that may have ended."""
        return name in self._outdated | self._pending or bool(self.problem(name))

    def _read_again(self, name: str) -> Definition | None:
        """Return a cached object, read with the current settings."""
        cached = self._cached.get(name)
        if cached is not None and name in self._outdated:
            cached = self._cached[name] = read_again(cached, self._live.config)
        self._outdated.discard(name)
        return cached

    def end(self, name: str) -> None:
        """Forget an object whose removal is complete; later events of it are ignored."""
        cached = self._cached.get(name)
        if cached is not None:
            self._removed[cached.uid] = None
        self.forget(name)

    def forget(self, name: str) -> None:
        """Stop serving an object; nothing of its virtual cluster is deleted."""
        self._cached.pop(name, None)
        self._outdated.discard(name)
        self._pending.discard(name)
        self._refused.pop(name, None)
        self._waits_for.pop(name, None)
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

    def _has_changed(self, cached: Definition) -> bool:
        now = self._cached.get(cached.name)
        return now is None or (now.uid, now.generation) != (cached.uid, cached.generation)

    def _warn(self, name: str, problem: str) -> None:
        text = "Not using a VirtualCluster object"
        self._once.warning(text, about=name, virtual_cluster=name, reason=problem)


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
