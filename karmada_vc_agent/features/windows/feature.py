"""Maintenance windows: what is new in Works waits for them (ADR 43)."""

from datetime import datetime
from functools import partial

from karmada_vc_agent.features.windows.conditions import CONDITIONS
from karmada_vc_agent.features.windows.openings import Openings
from karmada_vc_agent.features.windows.windows import Windows
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts


def _prepare(common: Common) -> None:
    states = Openings(common.virtual_clusters, lambda: datetime.fromisoformat(common.clock.now()))
    common.provide(states)
    common.hooks.window_gate = partial(Windows, states, scopes=common.scopes)
    states.changed.subscribe(common.signals.window.emit)


def _connect(parts: Parts) -> None:
    parts.runs["windows"] = parts.common.part(Openings).run


FEATURE = Feature("windows", prepare=_prepare, connect=_connect, conditions=CONDITIONS)
