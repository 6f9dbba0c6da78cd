"""The controllers of the host: nodes, pods, quotas, policies, and what all share."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from karmada_vc_agent.controllers import (
    node_labels,
    node_taints,
    quotas,
    service_names,
)
from karmada_vc_agent.controllers.admin_role import ADMIN_ROLE, AdminRoleController
from karmada_vc_agent.controllers.escape_detector import SETTLES_S
from karmada_vc_agent.controllers.node_labels import MembershipController
from karmada_vc_agent.controllers.node_taints import NodeTaintsController
from karmada_vc_agent.controllers.orphans import INITIAL_DELAY_S, OrphansController
from karmada_vc_agent.controllers.placement_guard import EVERYTHING
from karmada_vc_agent.controllers.quotas import QuotaController
from karmada_vc_agent.controllers.service_names import SERVICE_NAMES, ServiceNamesController
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.service.common import Common, itself
from karmada_vc_agent.service.placement_parts import PlacementParts
from karmada_vc_agent.service.queues import ALL, FEW_WORKERS
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.telemetry.collector import MetricsCollector


class HostControllers:
    """Declares them; they are about what is on the host, whichever Work brought it."""

    def __init__(
        self,
        common: Common,
        works: WorkParts,
        placement: PlacementParts,
        collector: MetricsCollector,
        quotas: QuotaController,
    ) -> None:
        self._common = common
        self._works = works
        self._placement = placement
        self._collector = collector
        self._quotas = quotas

    def specs(self) -> tuple[ControllerSpec[Any], ...]:
        """Return a row for each."""
        common, queues, config = self._common, self._common.queues, self._common.config
        host, stores, vcs = common.clients.host, common.stores, common.virtual_clusters
        orphans = OrphansController(
            host,
            common.discoveries.host,
            stores.claims,
            self._works.watches.works,
            vcs,
            on_counted=self._collector.orphans_found,
        )
        names = ServiceNamesController(
            host,
            stores.claims,
            vcs,
            config.agent_name,
            config.dns_namespace,
            config.cluster_domain,
        )
        membership = MembershipController(
            host,
            stores.nodes,
            stores.membership,
            vcs,
            lambda name: stores.clusters.other_agent(name) is not None,
        )
        taints = NodeTaintsController(stores.taints, self._works.watches.works, queues.works.add)
        admin_role = AdminRoleController(
            host, common.discoveries.host, is_strict=config.tenancy == STRICT
        )
        guard, escapes = self._placement.guard, self._placement.escapes
        namespaces, clusters = stores.namespaces.add_handler, stores.clusters.store.add_handler
        registered, signals = self._works.registered, common.signals
        return (
            ControllerSpec(
                "orphans",
                queues.orphans,
                orphans.reconcile,
                by_cluster=False,
                initial_keys=lambda: (ALL,),
                initial_delay_s=INITIAL_DELAY_S,
            ),
            ControllerSpec(
                "service-names",
                queues.service_names,
                names.reconcile,
                by_cluster=False,
                initial_keys=lambda: (SERVICE_NAMES,),
                sources=(
                    Enqueues(
                        namespaces,
                        partial(service_names.keys_of_namespace, vcs),
                        service_names.SETTLES_S,
                    ),
                ),
                resync_keys=lambda: (SERVICE_NAMES,),
            ),
            ControllerSpec(
                "quotas",
                queues.quotas,
                self._quotas.reconcile,
                FEW_WORKERS,
                sources=(
                    Enqueues(
                        signals.own_object.subscribe,
                        partial(quotas.keys_of_object, vcs),
                        quotas.SETTLES_S,
                    ),
                    Enqueues(namespaces, partial(quotas.keys_of_namespace, vcs), quotas.SETTLES_S),
                ),
                resync_keys=self._names,
            ),
            ControllerSpec(
                "membership",
                queues.nodes,
                membership.reconcile,
                FEW_WORKERS,
                by_cluster=False,
                sources=(
                    Enqueues(stores.nodes.add_handler, node_labels.keys_of_node),
                    Enqueues(clusters, partial(node_labels.keys_of_cluster, vcs, stores.nodes)),
                    Enqueues(registered.disputed.subscribe, itself),
                ),
                resync_keys=lambda: (node.metadata.name for node in stores.nodes),
            ),
            ControllerSpec(
                "node-taints",
                queues.taints,
                taints.reconcile,
                sources=(Enqueues(stores.membership.add_listener, itself, node_taints.SETTLES_S),),
                resync_keys=self._names,
            ),
            ControllerSpec(
                "admin-role",
                queues.admin_role,
                admin_role.reconcile,
                by_cluster=False,
                initial_keys=lambda: (ADMIN_ROLE,),
                resync_keys=lambda: (ADMIN_ROLE,),
            ),
            ControllerSpec(
                "placement-guard",
                queues.guard,
                guard.reconcile,
                by_cluster=False,
                initial_keys=lambda: (EVERYTHING,),
                sources=(
                    Enqueues(signals.policy.subscribe, lambda *_: (EVERYTHING,)),
                    Enqueues(registered.gone.subscribe, lambda _: (EVERYTHING,)),
                    Enqueues(namespaces, guard.keys_of_namespace),
                ),
                resync_keys=lambda: (EVERYTHING,),
            ),
            ControllerSpec(
                "escape-detector",
                queues.escapes,
                escapes.reconcile,
                FEW_WORKERS,
                initial_keys=escapes.all_keys,
                initial_delay_s=SETTLES_S,
                sources=(
                    Enqueues(stores.pods.add_handler, escapes.keys_of_pod, SETTLES_S),
                    Enqueues(stores.nodes.add_handler, escapes.keys_of_node, SETTLES_S),
                    Enqueues(namespaces, escapes.keys_of_namespace, SETTLES_S),
                    Enqueues(registered.disputed.subscribe, escapes.keys_on_node, SETTLES_S),
                ),
                resync_keys=escapes.all_keys,
            ),
        )

    def _names(self) -> Iterable[str]:
        return self._common.virtual_clusters
