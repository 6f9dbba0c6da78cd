"""The VirtualCluster objects as they were seen last, and the source of the registry they feed."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from cachetools import LRUCache

from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSource
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.features.objects.reading import Definition, Reader
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

DELETED = "DELETED"
"""Type of the watch event of an object that is gone."""
REMOVED_REMEMBERED = 1024
"""Objects that may go: they are told of until the server has let them go."""

Check = Callable[[VirtualCluster], Awaitable[None]]


class Definitions:
    """What each object says; what is right in it is served.

    A mistake in an object that is served already changes nothing but its status.
    source: what the objects want to have served. check: raises ConfigError where hub or host
    forbid a virtual cluster, KubeError where they cannot be asked. due: told of each object that
    changed in more than its status. is_ours: whether an object with these metadata is for this
    agent.
    """

    def __init__(
        self,
        source: VirtualClusterSource,
        reader: Reader,
        check: Check,
        due: Callable[[str], None],
        is_ours: Callable[[Object], bool] = lambda _: True,
    ) -> None:
        self._is_ours = is_ours
        self.source = source
        self._reader = reader
        self._check = check
        self._due = due
        self._known: dict[str, Definition] = {}
        self._outdated: set[str] = set()
        self._untaken: set[str] = set()
        self._refused: dict[str, str] = {}
        self._waits_for: dict[str, str] = {}
        self._removed: LRUCache[str, None] = LRUCache(REMOVED_REMEMBERED)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects there are."""
        return iter(tuple(self._known))

    def of(self, name: str) -> Definition | None:
        """Return what an object says, or None where there is none of this name."""
        return self._known.get(name)

    def problem(self, name: str) -> str:
        """Return why what an object says is not in use, "" where it is."""
        known = self._known.get(name)
        return known.problem or self._refused.get(name, "") if known is not None else ""

    def waits_for(self, name: str) -> str:
        """Return what an object that is being deleted waits for, "" if nothing is known."""
        return self._waits_for.get(name, "")

    def note_waiting(self, name: str, text: str) -> None:
        """Note what an object that is being deleted waits for."""
        if self._waits_for.get(name, "") != text:
            self._waits_for[name] = text
            self._due(name)

    async def seen(self, kind: str | None, body: Object) -> None:
        """Take what a list or a watch says. kind: of the event, None in a list."""
        name = body["metadata"]["name"]
        known = self._known.get(name)
        if uid_of(body) in self._removed:
            if kind == DELETED:
                self._removed.pop(uid_of(body), None)
            return
        if kind == DELETED or not self._is_ours(body["metadata"]):
            if known is not None and known.uid == uid_of(body):
                self.forget(name)
            return
        found = self.observe(body)
        is_other = name in self._untaken
        if is_other:
            await self.take(name)
        if is_other or (known is not None and known.is_deleting != found.is_deleting):
            self._due(name)

    def observe(self, body: Object) -> Definition:
        """Remember an object as the server has it, without acting on it."""
        found = self._with_status(body)
        if found is None:
            found = self._reader.read(body)
            self._outdated.discard(found.name)
            self._untaken.add(found.name)
        if found.uid not in self._removed:
            self._known[found.name] = found
        return found

    def _with_status(self, body: Object) -> Definition | None:
        """Return what is known of an object with the status that it has now.

        None where it is another object, or says something else now: most events are our own
        writes of statuses, and reading what an object says takes long.
        """
        metadata = body["metadata"]
        known = self._known.get(metadata["name"])
        if known is None or (known.uid, known.generation, known.is_deleting) != (
            uid_of(body),
            int(metadata.get("generation") or 0),
            bool(metadata.get("deletionTimestamp")),
        ):
            return None
        return replace(known, status=body.get("status") or {})

    async def take(self, name: str) -> None:
        """Have what an object says served, unless something speaks against it."""
        self._untaken.discard(name)
        known = self._read_again(name)
        vc = known.virtual_cluster if known is not None else None
        if known is None or vc is None:
            if known is not None:
                self._complain(name, known.problem)
            return
        problem = await self._forbids(vc)
        if self._known.get(name) is not known and self._has_changed(known):
            return  # who saw that takes it
        if problem:
            self._complain(name, problem)
            self._refused[name] = problem
            return
        self._refused.pop(name, None)
        self.source.put(vc)

    def settings_changed(self) -> None:
        """Read what all objects say by the settings as they are now, one after another."""
        self._outdated = set(self._known)
        for name in self:
            self._due(name)

    def is_to_be_taken(self, name: str) -> bool:
        """Whether an object is not served as it says: for a reason that may be gone by now."""
        return name in self._outdated | self._untaken or bool(self.problem(name))

    def _read_again(self, name: str) -> Definition | None:
        """Return what is known of an object, by the settings as they are now."""
        known = self._known.get(name)
        if known is not None and name in self._outdated:
            known = self._known[name] = self._reader.read_again(known)
        self._outdated.discard(name)
        return known

    def end(self, name: str) -> None:
        """Forget an object that may go; what is still told of it until it is gone is old."""
        known = self._known.get(name)
        if known is not None:
            self._removed[known.uid] = None
        self.forget(name)

    def forget(self, name: str) -> None:
        """Serve an object no more; nothing of its virtual cluster is deleted."""
        self._known.pop(name, None)
        self._outdated.discard(name)
        self._untaken.discard(name)
        self._refused.pop(name, None)
        self._waits_for.pop(name, None)
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

    def _has_changed(self, known: Definition) -> bool:
        now = self._known.get(known.name)
        return now is None or (now.uid, now.generation) != (known.uid, known.generation)

    def _complain(self, name: str, problem: str) -> None:
        if self._refused.get(name) != problem:
            _log.warning(
                "Not using a VirtualCluster object",
                extra={"virtual_cluster": name, "reason": problem},
            )
