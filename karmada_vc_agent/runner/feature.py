"""What a feature declares: all that core knows of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.condition_spec import ConditionSpec
from karmada_vc_agent.runner.parts import Parts

Setup = Callable[[Parts], ControllerSpec[Any] | None]
"""Returns a controller; None = it is switched off."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One folder of `features/`, as its feature.py declares it.

    name: of the folder. prepare: provides what controllers share (`Common.provide`) and sets hooks,
    before the path of Works is built. connect: the same once all parts exist. controllers: their
    setups. conditions: of Clusters and VirtualCluster objects. commands: name -> module,
    imported when it is called.
    """

    name: str
    prepare: Callable[[Common], None] = lambda _: None
    connect: Callable[[Parts], None] = lambda _: None
    controllers: tuple[Setup, ...] = ()
    conditions: tuple[ConditionSpec, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
