"""Maintenance windows: what is new in Works waits for them (ADR 43)."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.features.windows.window_state import Windows, WindowStates
from karmada_vc_agent.kube.controller import first_of, itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.windows import WindowState
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts

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
_NAMED = 10


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
    text = f"the agent writes nothing in {listed(held, _NAMED, len(held))}"
    return NAMESPACES_HELD.true("Held", text)


CONDITIONS = (
    ConditionSpec(
        TAKES_CHANGES,
        lambda parts, vc: takes_changes(vc, parts.common.part(WindowStates).of(vc)),
        lambda parts: ((parts.common.part(WindowStates).changed.subscribe, itself),),
    ),
    ConditionSpec(
        NAMESPACES_HELD,
        lambda parts, vc: namespaces_held(parts.common.stores.claims.held_in(vc.name)),
        lambda parts: ((parts.common.stores.claims.hold_changed.subscribe, first_of),),
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
