"""Makes virtual clusters reachable through the gateway."""

from karmada_vc_agent.access.rights import GATEWAY
from karmada_vc_agent.features.gateway import gateway_controllers
from karmada_vc_agent.features.gateway.gateway_controllers import ClusterAccess
from karmada_vc_agent.features.gateway.request_metrics import METRICS
from karmada_vc_agent.runner.parts import Feature, Parts


def _connect(parts: Parts) -> None:
    access = ClusterAccess(parts.common, parts.works)
    parts.common.provide(access)
    parts.common.hooks.fields_of_new = access.fields_of_new


FEATURE = Feature(
    "gateway",
    connect=_connect,
    controllers=(gateway_controllers.setup_cluster_access, gateway_controllers.setup_admin_role),
    metrics=METRICS,
    hub_roles={GATEWAY: "features/gateway/hub-roles.yaml"},
    commands={
        "gateway": "karmada_vc_agent.features.gateway.command",
        "kubeconfig": "karmada_vc_agent.features.gateway.kubeconfig",
    },
)
