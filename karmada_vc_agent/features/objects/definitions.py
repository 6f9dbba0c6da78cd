"""The cached VirtualCluster objects, and the source of the registry that they feed."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from cachetools import LRUCache

from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSource
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.features.objects.reading import Definition, read, read_again
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

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
        if self.source.wants_nodes_of(vc):
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
