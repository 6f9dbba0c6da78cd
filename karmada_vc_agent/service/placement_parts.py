"""What keeps pods on the nodes of their virtual cluster, and what looks whether they are."""

from karmada_vc_agent.apply.work_events import WorkEvents
from karmada_vc_agent.controllers.cluster_status import PODS_BY_NODE
from karmada_vc_agent.controllers.escape_detector import EscapeDetector, HostPods
from karmada_vc_agent.controllers.placement_guard import GuardSettings, PlacementGuard
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.service.common import Common
from karmada_vc_agent.status.placement_enforced import PolicyProblem
from karmada_vc_agent.views.works import Works


class PlacementParts:
    """The guard that reads admission policies, and the escape detector."""

    def __init__(
        self,
        common: Common,
        works: Works,
        events: WorkEvents,
        registration: RegistrationController,
    ) -> None:
        config, stores = common.config, common.stores
        self._common, self._events = common, events
        host, discovery = common.clients.host, common.discoveries.host
        self.policies = InformerSet(
            host,
            {"labelSelector": f"{AGENT_LABEL}={config.agent_name}"},
            common.signals.policy.emit,
            supervisor=common.supervisor,
        )
        self.guard = PlacementGuard(
            host,
            discovery,
            stores.claims,
            common.virtual_clusters,
            GuardSettings(
                config.agent_name, config.agent_namespace, config.install_policies, config.tenancy
            ),
            is_needed=lambda: (
                not stores.claims.is_empty()
                or not all(map(registration.stays_away, common.virtual_clusters))
            ),
            watch=self.policies.store,
            on_change=common.signals.placement.emit,
            on_problem=self._tell,
        )
        self.escapes = EscapeDetector(
            host,
            discovery,
            HostPods(
                stores.pods,
                PODS_BY_NODE,
                stores.nodes,
                stores.membership,
                stores.claims,
                common.virtual_clusters,
            ),
            works,
            stores.clusters,
            events,
        )

    def _tell(self, trouble: PolicyProblem) -> None:
        for name in self._common.virtual_clusters:
            cluster = self._common.stores.clusters.ours(name)
            if cluster is not None:
                self._events.policy_wrong(cluster, trouble.reason, trouble.text)
