"""The manifestStatuses of a Work, from its live objects (contract 6).

`follow` maps a change on the host to the key of the Work that owns the object; execution then
reconciles that Work: it repairs drift, and calls `reflect` for the entries it writes.
"""

from collections.abc import Callable

from karmada_vc_agent.interpretation.hook_errors import InterpretationError
from karmada_vc_agent.interpretation.interpreter import BUILT_IN, Interpreter
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model.depth import size_of
from karmada_vc_agent.model.domain import WORK_ANNOTATION
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace
from karmada_vc_agent.model.objects import Object, annotations_of, dig, gvk_of, maps_at
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.restore import (
    names_of,
    restore,
    restore_text,
    restore_texts,
)
from karmada_vc_agent.translation.shape import MAX_LEVELS
from karmada_vc_agent.work import dependencies
from karmada_vc_agent.work.bound_roles import is_stand_in
from karmada_vc_agent.work.rules.manifest_status import Reflection, manifest_status
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.works import WorkKey, is_listed

UNKNOWN = "Unknown"
_TOO_DEEP = f"it is nested deeper than {MAX_LEVELS} levels"


def owning_work(obj: Object) -> WorkKey | None:
    """Return the Work that a host object belongs to, by our annotation."""
    namespace, _, name = annotations_of(obj).get(WORK_ANNOTATION, "").partition("/")
    cluster = cluster_of_execution_namespace(namespace)
    return (cluster, name) if cluster and name else None


class WorkStatus:
    """Enqueues Works for changes on the host, and reflects live objects."""

    def __init__(
        self,
        changed: Callable[[WorkKey, Object | None], None],
        events: WorkEvents,
        interpreter: Interpreter = BUILT_IN,
    ) -> None:
        self._changed = changed
        self._events = events
        self._interpreter = interpreter

    def follow(self, old: Object | None, new: Object | None) -> None:
        """Enqueue the Work of a host object that was added, changed or deleted.

        The old object counts too, so removing the annotation does not hide a change. Our own writes
        were reflected by the reconcile that made them.
        """
        if is_echo(old, new):
            return
        changed = [obj for obj in (old, new) if obj is not None and not is_stand_in(obj)]
        for owner in {owning_work(obj) for obj in changed} - {None}:
            assert owner is not None  # noqa: S101 - for the type checker
            self._changed(owner, new)

    async def reflect(
        self,
        work: Object,
        ordinal: int,
        manifest: Object,
        live: Object,
        context: TranslationContext,
    ) -> Reflection:
        """Return the entry for one manifest.

        manifest: the original of the Work. live: the host object. If its health cannot be
        interpreted, the entry has `Unknown` and the problem to retry.
        """
        cluster = context.vc.name
        virtual, names = restore(live, context), names_of(live, context)
        before = _entry(work, ordinal)
        try:
            status = await self._interpreter.reflect_status(cluster, virtual)
        except InterpretationError as error:
            problem = restore_text(str(error), names)
            self._events.reflected(work, manifest, problem)
            return Reflection(None, problem, dependencies.of_interpretation(cluster, error))
        problem, dependency = "", None
        try:
            health: str = await self._interpreter.interpret_health(cluster, virtual)
        except InterpretationError as error:
            health, problem = UNKNOWN, restore_text(str(error), names)
            dependency = dependencies.of_interpretation(cluster, error)
        too_deep = size_of(status, MAX_LEVELS) is None
        status = None if too_deep else restore_texts(status, names)
        entry = manifest_status(ordinal, manifest, status, health)
        if entry != before and is_listed(work):
            self._events.reflected(work, manifest, _TOO_DEEP if too_deep else None)
            if self._interpreter.interprets_health(gvk_of(virtual)):
                self._events.interpreted(work, manifest, health, problem or None)
        return Reflection(entry, problem, dependency)


def _entry(work: Object, ordinal: int) -> Object | None:
    for entry in maps_at(work, "status", "manifestStatuses"):
        if dig(entry, "identifier", "ordinal") == ordinal:
            return entry
    return None
