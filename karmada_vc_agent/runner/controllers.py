"""All controllers, a row for each; a new one is its file and a row here."""

from collections.abc import Callable
from typing import Any

from karmada_vc_agent.cluster import lease as cluster_lease
from karmada_vc_agent.cluster import node_labels_controller as node_labels
from karmada_vc_agent.cluster import registration
from karmada_vc_agent.cluster import status as cluster_status
from karmada_vc_agent.features.escapes import escape_detector, evictions
from karmada_vc_agent.features.found.setup import setup_node_groups, setup_node_labels
from karmada_vc_agent.features.gateway import access_controller as cluster_access
from karmada_vc_agent.features.gateway import admin_role
from karmada_vc_agent.features.host_events import controller as host_events
from karmada_vc_agent.features.policies import policy_status
from karmada_vc_agent.features.quota import controller as quotas
from karmada_vc_agent.features.service_export import endpoint_slices
from karmada_vc_agent.features.service_names import controller as service_names
from karmada_vc_agent.kube.controller import Controller, ControllerSpec
from karmada_vc_agent.model.switches import CERT_ROTATION
from karmada_vc_agent.runner.collector import controller_label
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.telemetry.meters import ControllerMeter
from karmada_vc_agent.work import departures, execution, node_taints
from karmada_vc_agent.work import orphans_controller as orphans
from karmada_vc_agent.work import status_controller as work_status
from karmada_vc_agent.work.namespaces import controller as namespaces

Setup = Callable[[Parts], ControllerSpec[Any] | None]


def _certificate(parts: Parts) -> ControllerSpec[Any] | None:
    if CERT_ROTATION not in parts.common.switches:
        return None
    # Key generation costs 8 MB of memory, and few agents need it.
    from karmada_vc_agent.features.certificate import controller as certificate  # noqa: PLC0415

    return certificate.setup(parts)


def _objects(parts: Parts) -> ControllerSpec[Any] | None:
    if parts.common.objects is None:
        return None
    # kopf costs 20 MB of memory.
    from karmada_vc_agent.features.objects.setup import setup  # noqa: PLC0415

    return setup(parts, parts.common.objects)


SETUPS: tuple[Setup, ...] = (
    cluster_lease.setup,
    departures.setup,
    registration.setup,
    cluster_access.setup,
    cluster_status.setup,
    orphans.setup,
    service_names.setup,
    quotas.setup,
    node_labels.setup,
    node_taints.setup,
    admin_role.setup,
    policy_status.setup,
    escape_detector.setup,
    evictions.setup,
    host_events.setup,
    endpoint_slices.setup,
    namespaces.setup,
    execution.setup,
    work_status.setup,
    _certificate,
    _objects,
    setup_node_groups,
    setup_node_labels,
)


def all_controllers(parts: Parts) -> list[Controller[Any]]:
    """Return the controllers that are switched on; changes enqueue their keys from now on."""
    common = parts.common
    specs = [spec for setup in SETUPS if (spec := setup(parts)) is not None]
    made = [Controller(spec) for spec in specs if spec.switch in common.switches | {None}]
    for controller in made:
        meter = ControllerMeter(common.metrics, controller_label(controller))
        controller.instrument = controller.queue.instrument = meter
        controller.supervisor = common.supervisor
        controller.connect()
    return made
