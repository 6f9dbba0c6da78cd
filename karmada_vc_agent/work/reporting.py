"""How manifests were applied, and what is reported of it, in Karmada's words.

What fails for anything but its own content is retried when its virtual cluster changes, or a kind,
host namespace or NodeGroup that it names. Of a bug the tenant gets a message that names nothing of
the host. A Work of the checkpoint has no events: the hub's list has every Work synced again.
"""

import logging
import re
from collections.abc import Awaitable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotServedError
from karmada_vc_agent.kube.events import EventRecorder, Series
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    key_of,
    maps_at,
    namespaced_name,
    size_of,
)
from karmada_vc_agent.model.quantity import WindowState
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION, cluster_of_execution_namespace
from karmada_vc_agent.translation import restore
from karmada_vc_agent.translation.context import Notice, TranslationContext
from karmada_vc_agent.translation.kind_policy import CONTENT_REFUSALS, Code, Refusal, RefusedError
from karmada_vc_agent.translation.translate import MAX_LEVELS, Converted, HostObject, Skipped
from karmada_vc_agent.work import works
from karmada_vc_agent.work.host_objects import Applied, Check, is_stand_in
from karmada_vc_agent.work.works import ManifestStatus, WorkKey

Dependency = str | tuple[Hashable, ...]
"""What may change: a virtual cluster, by its name; `(name,)` of a host namespace, NodeGroup, shared
host or kind (group/version/Kind, or group/Kind for its objects). No change reports these two:
`(virtual cluster, hook)`, a script or webhook that does not answer; `(kind, virtual namespace)`, in
which it may not be written.
"""


def kind_dependency(gvk: GroupVersionKind) -> Dependency:
    """Return the dependency on a kind that is served."""
    return ("/".join(gvk),)


def hook_dependency(cluster: str, error: InterpretationError) -> Dependency | None:
    """Return what an interpreter's error depends on; None if it is specific to the object."""
    return (cluster, error.hook) if error.hook is not None else None


_RBAC_DENIAL = re.compile(r' cannot \w+ resource "')


def dependency_of(
    cluster: str, kind: GroupVersionKind, namespace: str, error: Exception
) -> Dependency | None:
    """Return what an error depends on; None if it is specific to the object."""
    if isinstance(error, InterpretationError):
        return hook_dependency(cluster, error)
    if isinstance(error, NotServedError):
        return kind_dependency(kind)
    # Quotas and policies also answer 403, but for one object and not another.
    if isinstance(error, ForbiddenError) and _RBAC_DENIAL.search(str(error)):
        return kind, namespace
    return None


@dataclass(frozen=True, slots=True)
class Failure:
    """A manifest that was not applied; waits_for: what ends it, is_final: no other retry does."""

    text: str
    code: Code | None = None
    is_recreation: bool = False
    waits_for: tuple[Dependency, ...] = ()
    is_final: bool = False
    is_unserved: bool = False
    path: str = ""


def refused(vc: VirtualCluster, manifest: Object, refusal: Refusal) -> Failure:
    """Return the failure of a refused manifest, in virtual names."""
    key, code = key_of(manifest), refusal.code
    text = refusal.text(vc.name, key.gvk.kind, key.namespace, key.name)
    named = ((refusal.about,),) if refusal.about else ()
    if code is Code.SHARED_OBJECT_CONFLICT:
        # Not all objects of a kind are watched; malformed ones have no certain identity.
        return Failure(text, code, waits_for=named, is_final=not named, path=refusal.path)
    waits_for = named if code in CONTENT_REFUSALS else (vc.name, *named)
    return Failure(text, code, waits_for=waits_for, is_final=True, path=refusal.path)


def not_served(gvk: GroupVersionKind, text: str = "") -> Failure:
    """Return the failure of a kind that the host does not serve."""
    text = text or f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
    return Failure(text, waits_for=(kind_dependency(gvk),), is_unserved=True)


class Strategy(Enum):
    """How manifests of one sort are applied and removed (work/manifests.py)."""

    OBJECT = "Writes an object of a single Work"
    SERVICE = "Writes a Service; lets the host choose in place of fixed node ports that are taken"
    NAMESPACE = "Passes manifests to the only writer of namespaces, which claims them"
    SHARED = "Joins and leaves the one host object, which several virtual clusters own"
    BINDINGS = "Writes the RoleBindings that represent a ClusterRoleBinding"

    @property
    def waits_for_window(self) -> bool:
        """New generations wait for the window of their virtual cluster."""
        return self in (Strategy.OBJECT, Strategy.SERVICE)


OF_KIND: Mapping[GroupKind, Strategy] = {
    vocabulary.NAMESPACE: Strategy.NAMESPACE,
    vocabulary.SERVICE: Strategy.SERVICE,
}
"""Kinds with a strategy of their own."""


def strategy_of(translated: HostObject | Converted) -> Strategy:
    """Return the strategy for the result of a translation."""
    if isinstance(translated, Converted):
        return Strategy.BINDINGS
    if translated.is_shared:
        return Strategy.SHARED
    return OF_KIND.get(translated.host_key.gvk.group_kind, Strategy.OBJECT)


@dataclass(frozen=True, slots=True)
class Target:
    """A translated manifest, with all that is needed to apply it; objects: of `resource`."""

    strategy: Strategy
    vc: VirtualCluster
    manifest: Object
    context: TranslationContext
    resource: Resource
    objects: tuple[HostObject, ...]
    depends_on_claims: bool = False
    notices: tuple[Notice, ...] = ()

    @property
    def object(self) -> HostObject:
        """The object of a manifest that was not converted."""
        return self.objects[0]

    @property
    def work(self) -> str:
        """`<execution namespace>/<work>` of the manifest."""
        return self.context.work

    def as_user(self, translated: HostObject) -> str:
        """Return the user whose rights an object is written with; "" = the agent itself."""
        account = self.vc.apply_as
        if account is None or translated.is_system:
            return ""
        if account.is_default and not translated.host_key.namespace:
            return ""
        return account.user

    def check_of(self, translated: HostObject) -> Check:
        """Return the function that asserts the rules on an object again after Retain."""

        def check(retained: Object, live: Object | None) -> Object:
            asserted = restore.assert_placement(retained, translated, live, self.context)
            if isinstance(asserted, Refusal):
                raise RefusedError(asserted.code, asserted.path, asserted.detail)
            return asserted.obj

        return check


@dataclass(slots=True)
class WorkManifest:
    """One manifest of a Work in one reconcile; work: `<execution namespace>/<work>`.

    ordinal: of the first manifest in it for the same object. is_dispatched: whether the hub has
    that it is not new in this generation. translation: None before the only translation.
    """

    vc: VirtualCluster
    manifest: Object
    work: str
    ordinal: int = 0
    is_dispatched: bool = False
    translation: Target | Failure | Skipped | None = None


Done = Applied | Failure | None
"""How a manifest was applied; None if it counts as applied without an object."""


class WindowGate:
    """Decides which manifests wait for a window; without the feature none does."""

    def marked(self, target: Target) -> Target:
        """Return a target whose object says which manifest it is from, if that may ever wait."""
        return target

    def closed(self, vc: VirtualCluster) -> WindowState | None:  # noqa: ARG002
        """Return the window that what is new waits for, None = none now."""
        return None

    async def was_applied(self, target: Target, *, is_dispatched: bool) -> bool:  # noqa: ARG002
        """Return whether a manifest waits for no window: it is not new. Raises KubeError."""
        return True

    def note(self, item: WorkManifest) -> None:
        """Record that a manifest was applied."""

    def former(self, item: WorkManifest) -> WorkManifest | None:  # noqa: ARG002
        """Return the manifest that was applied for the same object, None if it is not recorded."""
        return None

    def forget_work(self, work: str) -> None:
        """Drop a deleted Work, as `<execution namespace>/<name>`."""


_log = logging.getLogger(__name__)
_once = LogOnce(_log, 1000)
R = TypeVar("R")


def note_bug(where: str, error: Exception) -> str:
    """Log a bug once, and where; return the message for the tenant."""
    _once.bug("Failed to handle a manifest", error, about=where, where=where)
    return f"internal error ({type(error).__name__}): see the log of the agent"


async def unless_bug(item: WorkManifest, call: Awaitable[R]) -> R | Failure:
    """Return the result of a call, for a bug a Failure. Raises KubeError, RetryError."""
    try:
        return await call
    except (KubeError, RetryError):
        raise
    except Exception as error:  # noqa: BLE001 - a bug at one manifest is a failure of that alone
        return Failure(note_bug(f"{item.work} {key_of(item.manifest)}", error))


EXECUTION = "execution-controller"
WORK_STATUS = "work-status-controller"
STATUS = "cluster-status"
"""Component of the events that Karmada's agent does not have."""

NORMAL = "Normal"
WARNING = "Warning"


class WorkEvents:
    """Writes the events of one Work; texts and names are those of the hub."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._logged = LogOnce(_log)

    def dispatching(self, work: Object, condition: Condition) -> None:
        """Report the condition Dispatching if it changed."""
        before = works.dispatching_of(work.get("status"))
        if works.is_listed(work) and (before is None or before["status"] != condition["status"]):
            self._recorder.record(EXECUTION, work, NORMAL, "WorkDispatching", condition["message"])

    def synced(self, work: Object, cluster: str) -> None:
        """Report that all manifests of a Work are applied."""
        self._logged.ended(works.id_of_work(work))
        text = f"Sync work({_name(work)}) to cluster({cluster}) successful."
        self._recorder.record(EXECUTION, work, NORMAL, "SyncSucceed", text)

    def sync_failed(self, work: Object, cluster: str, error: str) -> None:
        """Report that a Work could not be applied."""
        text = f"Failed to sync work({_name(work)}) to cluster({cluster}), err: {error}"
        if self._recorder.record(EXECUTION, work, WARNING, "SyncFailed", text):  # limits the rate
            name = works.id_of_work(work)
            extra = {"virtual_cluster": cluster, "work": name, "reason": error}
            self._logged.warning("Not applying all of a Work", about=name, **extra)

    def warned(self, work: Object, code: str, text: str) -> None:
        """Report a refused manifest (rewriting-rules 7), or a notice on an applied one."""
        self._recorder.record(EXECUTION, work, WARNING, code, text)

    def bound_met(self, cluster: Object, text: str, *, of_works: bool = True) -> None:
        """Report on a Cluster that it, or its objects on the host, exceeds a bound."""
        text = f"{text}; the agent does not apply what exceeds the bound" if of_works else text
        self.warned(cluster, Code.BOUND_EXCEEDED, text)
        name = cluster["metadata"]["name"]
        self._logged.warning(text, about=f"{name} {text}", virtual_cluster=name)

    def warn(
        self,
        source: str,
        work: Object,
        manifest: Object | None,
        cluster: str,
        reason: str,
        text: str,
        series: Series | None = None,
    ) -> bool:
        """Report on a Work, or its Cluster, and a template if any; return if it is written."""
        on_work = self._recorder.record(source, work, WARNING, reason, text, series=series)
        return on_work and (
            manifest is None
            or self._on_template(manifest, cluster, WARNING, reason, text, source, series)
        )

    def condition_changed(
        self, cluster: Object, type_: ConditionType, condition: Condition
    ) -> None:
        """Report on a Cluster that a condition becomes this one."""
        kind = NORMAL if type_.is_normal(condition) else WARNING
        self._recorder.record(STATUS, cluster, kind, condition["reason"], condition["message"])

    def namespace_held(self, cluster: Object, namespace: str, reason: str | None) -> None:
        """Report on a Cluster that an administrator holds a namespace; None = no more."""
        if reason is None:
            text = f"namespace {namespace} is not held any more"
            self._recorder.record(STATUS, cluster, NORMAL, "NamespaceReleased", text)
        else:
            text = f"the agent writes nothing in namespace {namespace}: {reason}"
            self._recorder.record(STATUS, cluster, WARNING, "NamespaceHeld", text)

    def applied(self, manifest: Object, cluster: str, source: str = EXECUTION) -> None:
        """Report on the template that its object is on the host."""
        text = f"Successfully applied resource({_slashed(manifest)}) to cluster {cluster}"
        self._on_template(manifest, cluster, NORMAL, "SyncSucceed", text, source)

    def not_applied(
        self, manifest: Object, cluster: str, error: str, source: str = EXECUTION
    ) -> None:
        """Report on the template that its object could not be written."""
        name = _name(manifest) if source == EXECUTION else _slashed(manifest)
        text = f"Failed to create or update resource({name}) in member cluster({cluster}): {error}"
        self._on_template(manifest, cluster, WARNING, "SyncFailed", text, source)

    def reflected(self, work: Object, manifest: Object, error: str | None) -> None:
        """Report the result of reflecting the status of an object."""
        self._status(work, manifest, error, "ReflectStatus", "Reflect status for", "succeed")

    def interpreted(self, work: Object, manifest: Object, health: str, error: str | None) -> None:
        """Report the health of an object; health is Healthy or Unhealthy."""
        result = f"as {health.lower()}"
        self._status(work, manifest, error, "InterpretHealth", "Interpret health of", result)

    def _status(
        self, work: Object, manifest: Object, error: str | None, reason: str, what: str, result: str
    ) -> None:
        kind, end = (WARNING, "Failed") if error is not None else (NORMAL, "Succeed")
        result = result if error is None else f"failed, err: {error}"
        text = f"{what} object({manifest['kind']}/{_slashed(manifest)}) {result}."
        self._recorder.record(WORK_STATUS, work, kind, f"{reason}{end}", text)

    def _on_template(
        self,
        manifest: Object,
        cluster: str,
        kind: str,
        reason: str,
        text: str,
        source: str = EXECUTION,
        series: Series | None = None,
    ) -> bool:
        uid = annotations_of(manifest).get(vocabulary.TEMPLATE_UID_ANNOTATION)
        key = key_of(manifest)
        if not isinstance(uid, str) or not uid or not key.name or not all(key.gvk[1:]):
            return True  # a manifest that is refused for its shape may not name a template
        template: Object = {
            "apiVersion": key.gvk.api_version,
            "kind": key.gvk.kind,
            "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid},
        }
        flow = vocabulary.execution_namespace(cluster)  # as for the events on its Works
        return self._recorder.record(source, template, kind, reason, text, flow, series)


def _slashed(obj: Object) -> str:
    return "/".join(key_of(obj)[1:])


def _name(obj: Object) -> str:
    return namespaced_name(*key_of(obj)[1:])


UNKNOWN = "Unknown"
_TOO_DEEP = f"it is nested deeper than {MAX_LEVELS} levels"


def owning_work(obj: Object) -> WorkKey | None:
    """Return the Work that a host object belongs to, by our annotation."""
    namespace, _, name = annotations_of(obj).get(WORK_ANNOTATION, "").partition("/")
    cluster = cluster_of_execution_namespace(namespace)
    return (cluster, name) if cluster and name else None


def works_of_change(old: Object | None, new: Object | None) -> set[WorkKey]:
    """Return the Works of a host object, old and new, that changed but for our own writes."""
    if is_echo(old, new):
        return set()
    changed = [obj for obj in (old, new) if obj is not None and not is_stand_in(obj)]
    return {owner for obj in changed if (owner := owning_work(obj)) is not None}


Reflection = tuple[ManifestStatus | None, str, Dependency | None]
"""The entry for one manifest, None if its status could not be read; the problem to retry, or "";
what others that have this problem depend on as well."""


async def reflect(
    interpreter: Interpreter,
    events: WorkEvents,
    work: Object,
    item: WorkManifest,
    live: Object,
    context: TranslationContext,
) -> Reflection:
    """Read the status of the object of one manifest; live: the host object."""
    cluster = context.vc.name
    virtual, names = restore.restore(live, context), restore.names_of(live, context)
    manifest, ordinal = item.manifest, item.ordinal
    entries = maps_at(work, "status", "manifestStatuses")
    before = [each for each in entries if dig(each, "identifier", "ordinal") == ordinal][:1]
    try:
        status = await interpreter.reflect_status(cluster, virtual)
    except InterpretationError as error:
        problem = restore.restore_text(str(error), names)
        events.reflected(work, manifest, problem)
        return None, problem, hook_dependency(cluster, error)
    problem, dependency = "", None
    try:
        health: str = await interpreter.interpret_health(cluster, virtual)
    except InterpretationError as error:
        health, problem = UNKNOWN, restore.restore_text(str(error), names)
        dependency = hook_dependency(cluster, error)
    too_deep = size_of(status, MAX_LEVELS) is None
    status = None if too_deep else restore.restore_texts(status, names)
    entry = works.manifest_status(ordinal, manifest, status, health)
    if [entry] != before and works.is_listed(work):
        events.reflected(work, manifest, _TOO_DEEP if too_deep else None)
        if interpreter.interprets_health(gvk_of(virtual)):
            events.interpreted(work, manifest, health, problem or None)
    return entry, problem, dependency


@dataclass(slots=True)
class WorkOutcome:
    """What a sync did with each manifest (how, and which window it waits for), and read of it."""

    results: list[tuple[Object, Done, WindowState | None]] = field(default_factory=list)
    entries: list[ManifestStatus] = field(default_factory=list)
    unreadable: str = ""
    unreadable_for: set[Dependency | None] = field(default_factory=set)

    def reflected(self, reflection: Reflection | None) -> None:
        """Add the reflection of one manifest, None if it has none."""
        entry, problem, dependency = reflection or (None, "", None)
        if problem:
            self.unreadable = problem
            self.unreadable_for.add(dependency)
        if entry is not None:
            self.entries.append(entry)

    @property
    def failures(self) -> list[Failure]:
        """What could not be applied, or not kept as it was."""
        return [done for _, done, _ in self.results if isinstance(done, Failure)]

    @property
    def waiting(self) -> WindowState | None:
        """The first window that something waits for."""
        return next((window for *_, window in self.results if window is not None), None)

    @property
    def errors(self) -> list[str]:
        return [failure.text for failure in self.failures]

    def retry(self, text: str) -> RetryError:
        """Return the error with which the Work backs off."""
        waits = [failure.waits_for for failure in self.failures if not failure.is_final]
        waits += [(each,) if each is not None else () for each in self.unreadable_for]
        shared = dict.fromkeys(each for waits_for in waits for each in waits_for)
        return RetryError(text, shared, is_own=() in waits)

    @property
    def is_as_it_was(self) -> bool:
        """Return whether all was on the host before: nothing was written, failed or waits."""
        return all(
            isinstance(done, Applied) and not done.was_written and window is None
            for _, done, window in self.results
        )

    @property
    def was_recreated(self) -> bool:
        """Return whether a deleted object was recreated, or an attempt failed."""
        return any(
            done.is_recreation if isinstance(done, Failure) else done and done.was_recreated
            for _, done, _ in self.results
        )


def report_sync(
    events: WorkEvents, cluster: str, work: Object, outcome: WorkOutcome, *, is_new: bool
) -> None:
    """Write the events of a sync; is_new: the Work changed since its last one."""
    before = works.applied_of(work.get("status"))
    if not works.is_listed(work):
        return
    if outcome.was_recreated and not is_new:
        # On the templates only, as Karmada does: the Work did not change.
        for manifest, done, _ in outcome.results:
            if isinstance(done, Failure) and done.is_recreation:
                events.not_applied(manifest, cluster, done.text, WORK_STATUS)
            elif isinstance(done, Applied) and done.was_recreated:
                events.applied(manifest, cluster, WORK_STATUS)
    elif is_new or outcome.errors or before is None or before["status"] != "True":
        _report_manifests(events, cluster, outcome, work)


def _report_manifests(events: WorkEvents, cluster: str, outcome: WorkOutcome, work: Object) -> None:
    for manifest, done, _ in outcome.results:
        if isinstance(done, Applied):
            for notice in done.notices:
                events.warned(work, notice.code, notice.detail)
            events.applied(manifest, cluster)
        elif done is not None:
            if done.code is not None:
                events.warned(work, done.code, done.text)
            events.not_applied(manifest, cluster, done.text)
    if outcome.errors:
        events.sync_failed(work, cluster, works.aggregate(outcome.errors))
    elif not outcome.waiting:
        events.synced(work, cluster)
