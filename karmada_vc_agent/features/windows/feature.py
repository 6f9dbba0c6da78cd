"""Maintenance windows: what is new in Works waits for them (ADR 43).

What was applied is recorded by a digest on its object, which outlives this process, and by its
manifest as long as this process runs. Drift is corrected by the manifest that was applied; an
object without a recorded manifest is left alone until the window opens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from karmada_vc_agent.cluster.hub_clusters import digest
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.controller import Signal, itself
from karmada_vc_agent.model.objects import (
    Object,
    ObjectKey,
    annotations_of,
    gvk_of,
    key_of,
    put,
)
from karmada_vc_agent.model.quantity import WindowState, parse_windows, window_state
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import APPLIED_ANNOTATION, cluster_of_work, matches_any
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts
from karmada_vc_agent.work.host_objects import HostObjects
from karmada_vc_agent.work.reporting import Target, WindowGate, WorkManifest

CHECK_S = 15.0
"""The clock may be set, and settings may change."""
_OPEN = WindowState(is_open=True)


@dataclass(eq=False)
class WindowStates:
    """The states of all windows; changed: emits a virtual cluster whose window opened or closed.

    now: an aware time. Without a window a virtual cluster is always open.
    """

    virtual_clusters: Mapping[str, VirtualCluster]
    now: Callable[[], datetime]
    changed: Signal[[str]] = field(default_factory=Signal)
    _was_open: dict[str, bool] = field(default_factory=dict)

    def of(self, vc: VirtualCluster) -> WindowState:
        """Return whether a virtual cluster takes changes, and until when that is so."""
        return window_state(parse_windows(vc.window), self.now()) if vc.window else _OPEN

    def check(self) -> float:
        """Emit the windows that opened or closed; return the seconds until the next one does."""
        now, next_s = self.now(), CHECK_S
        before, self._was_open = self._was_open, {}
        for name, vc in self.virtual_clusters.items():
            state = self.of(vc)
            self._was_open[name] = state.is_open
            if state.until is not None:
                next_s = min(next_s, (state.until - now).total_seconds())
            if before.get(name, state.is_open) != state.is_open:
                self.changed.emit(name)
        return max(next_s, 0.0)

    async def run(self) -> None:
        """Emit windows when they open and close, until cancelled."""
        while True:  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(self.check() + 0.01)


@dataclass(eq=False)
class Windows(WindowGate):
    """Decides what waits; remembers the manifests that were applied.

    may_hold: whether a host namespace may hold an object; in others the agent may not even read.
    """

    states: WindowStates
    host_objects: HostObjects
    may_hold: Callable[[str], Awaitable[bool]]
    scopes: Scopes

    def __post_init__(self) -> None:
        self._applied: dict[str, dict[ObjectKey, Object]] = self.scopes.keep_by(cluster_of_work)

    def marked(self, target: Target) -> Target:
        """Return a target whose object says which manifest it is from, if that may ever wait."""
        if not may_wait(target):
            return target
        path, mark = ("metadata", "annotations", APPLIED_ANNOTATION), digest(target.manifest)
        marked = tuple(replace(each, obj=put(each.obj, mark, *path)) for each in target.objects)
        return replace(target, objects=marked)

    def closed(self, vc: VirtualCluster) -> WindowState | None:
        """Return the window that what is new waits for; None if it is open."""
        state = self.states.of(vc)
        return None if state.is_open else state

    def note(self, item: WorkManifest) -> None:
        """Remember that a manifest was applied."""
        self._applied.setdefault(item.work, {})[key_of(item.manifest)] = item.manifest

    def former(self, item: WorkManifest) -> WorkManifest | None:
        """Return the manifest that was applied for the same object; None if none is recorded."""
        manifest = self._applied.get(item.work, {}).get(key_of(item.manifest))
        return None if manifest is None else WorkManifest(item.vc, manifest, item.work)

    def forget_work(self, work: str) -> None:
        """Forget a deleted Work, `<execution namespace>/<name>`."""
        self._applied.pop(work, None)

    async def was_applied(self, target: Target, *, is_dispatched: bool) -> bool:
        """Return whether the object is from this very manifest, or was until it drifted."""
        if not may_wait(target):
            return True
        key, desired, live = target.object.host_key, target.object.obj, None
        if not key.namespace or await self.may_hold(key.namespace):
            live = await self.host_objects.live(target.resource, key.namespace, key.name)
        mark = annotations_of(live or {}).get(APPLIED_ANNOTATION)
        if mark is not None:
            return mark == annotations_of(desired).get(APPLIED_ANNOTATION)
        noted = self._applied.get(target.work, {}).get(key_of(target.manifest))
        is_noted = noted is not None and digest(noted) == digest(target.manifest)
        if is_dispatched or is_noted or self.host_objects.wrote(desired):
            return True
        # Written before there was a window, by another process.
        check = target.check_of(target.object)
        return live is not None and not await self.host_objects.differs(desired, live, check)


def may_wait(target: Target) -> bool:
    """Return whether a manifest waits for a window whenever that is closed."""
    if not target.vc.window or not target.strategy.waits_for_window:
        return False
    gvk = gvk_of(target.manifest)
    return not matches_any(target.vc.window_passes, gvk.group, gvk.kind)


TAKES_CHANGES = ConditionType(
    "TakesChanges",
    "What is new in Works is applied now: neither a pause nor a window holds it back.",
    idle="NoWindow",
    on_object=Shown.UNLESS_IDLE,
)
NAMESPACES_HELD = ConditionType(
    "NamespacesHeld",
    "An administrator of the host holds namespaces, in which the agent writes nothing.",
    normal="False",
    idle="NoneHeld",
    on_object=Shown.UNLESS_IDLE,
)


def takes_changes(vc: VirtualCluster, window: WindowState) -> Condition:
    """Return the condition."""
    if vc.paused:
        return TAKES_CHANGES.false("Paused", "the virtual cluster is paused")
    if not vc.window:
        return TAKES_CHANGES.true("NoWindow", "changes are applied at once")
    end = f" until {window.text}" if window.text else ""
    if window.is_open:
        return TAKES_CHANGES.true("InsideWindow", f"the window {vc.window} is open{end}")
    text = f"new generations wait{end}, for the window {vc.window}"
    return TAKES_CHANGES.false("OutsideWindow", text)


def namespaces_held(held: Sequence[str]) -> Condition:
    """Return the condition; held: virtual namespaces, each with its reason."""
    if not held:
        return NAMESPACES_HELD.false("NoneHeld", "the agent writes to all namespaces")
    return NAMESPACES_HELD.true("Held", f"the agent writes nothing in {listed(held)}")


CONDITIONS = (
    ConditionSpec(
        TAKES_CHANGES,
        lambda parts, vc: takes_changes(vc, parts.common.part(WindowStates).of(vc)),
        lambda parts: ((parts.common.part(WindowStates).changed.subscribe, itself),),
    ),
    ConditionSpec(
        NAMESPACES_HELD,
        lambda parts, vc: namespaces_held(parts.common.stores.claims.held_in(vc.name)),
        lambda parts: ((parts.common.stores.claims.hold_changed.subscribe, itself),),
    ),
)


def _prepare(common: Common) -> None:
    states = WindowStates(
        common.virtual_clusters, lambda: datetime.fromisoformat(common.clock.now())
    )
    common.provide(states)
    common.hooks.window_gate = partial(Windows, states, scopes=common.scopes)
    states.changed.subscribe(common.signals.window.emit)


def _connect(parts: Parts) -> None:
    parts.runs["windows"] = parts.common.part(WindowStates).run


FEATURE = Feature("windows", prepare=_prepare, connect=_connect, conditions=CONDITIONS)
