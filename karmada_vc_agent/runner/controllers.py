"""The controllers of core, a row for each; those of features are in their feature.py."""

from typing import Any

from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.runner import cluster_controllers, work_controllers
from karmada_vc_agent.runner.collector import controller_label
from karmada_vc_agent.runner.feature import Setup
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.telemetry.meters import ControllerMeter

OF_CORE: tuple[Setup, ...] = (
    cluster_controllers.cluster_lease,
    work_controllers.departures,
    cluster_controllers.registration,
    cluster_controllers.cluster_status,
    work_controllers.orphans,
    cluster_controllers.node_labels,
    work_controllers.node_taints,
    work_controllers.namespaces,
    work_controllers.execution,
    work_controllers.work_status,
)


def all_controllers(parts: Parts) -> list[Controller[Any]]:
    """Return the controllers that are switched on; changes enqueue their keys from now on."""
    common = parts.common
    setups = (*OF_CORE, *(setup for each in parts.features for setup in each.controllers))
    specs = [spec for setup in setups if (spec := setup(parts)) is not None]
    made = [Controller(spec) for spec in specs if spec.switch in common.switches | {None}]
    for controller in made:
        meter = ControllerMeter(common.metrics, controller_label(controller))
        controller.instrument = controller.queue.instrument = meter
        controller.supervisor = common.supervisor
        controller.connect()
    return made
