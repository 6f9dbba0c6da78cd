"""All controllers that run here: the rows stand in the modules beside, by what they look at."""

from typing import Any

from karmada_vc_agent.controllers.quotas import QuotaController
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.model.switches import (
    CERT_ROTATION,
)
from karmada_vc_agent.service.cluster_controllers import ClusterControllers
from karmada_vc_agent.service.common import Common
from karmada_vc_agent.service.host_controllers import HostControllers
from karmada_vc_agent.service.leases import Leases
from karmada_vc_agent.service.placement_parts import PlacementParts
from karmada_vc_agent.service.work_controllers import WorkControllers
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.telemetry.collector import MetricsCollector


def all_controllers(
    common: Common,
    works: WorkParts,
    placement: PlacementParts,
    leases: Leases,
    collector: MetricsCollector,
    registration: RegistrationController,
) -> list[Controller[Any]]:
    """Return the controllers that are switched on."""
    quotas = QuotaController(
        common.clients.host,
        works.store_of,
        common.stores.claims,
        common.stores.membership,
        common.virtual_clusters,
        common.divisions,
        on_change=common.queues.status.add,
    )
    clusters = ClusterControllers(common, works, placement, leases, collector, registration, quotas)
    specs = [
        *clusters.specs(),
        *HostControllers(common, works, placement, collector, quotas).specs(),
        *WorkControllers(common, works).specs(),
    ]
    if CERT_ROTATION in common.switches:
        # What it needs to make keys costs 8 MB of memory, which few agents have use for.
        from karmada_vc_agent.service.rotation import rotation  # noqa: PLC0415

        credential = rotation(common)
        specs += [credential] if credential is not None else []
    return [Controller(spec) for spec in specs if spec.switch in common.switches | {None}]
