"""Makes virtual clusters reachable through the gateway."""

from karmada_vc_agent.features.gateway import access_controller, admin_role
from karmada_vc_agent.features.gateway.cluster_access import ClusterAccess
from karmada_vc_agent.features.gateway.metrics import METRICS
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts


def _connect(parts: Parts) -> None:
    access = ClusterAccess(parts.common, parts.works)
    parts.common.provide(access)
    parts.common.hooks.fields_of_new = access.fields_of_new


FEATURE = Feature(
    "gateway",
    connect=_connect,
    controllers=(access_controller.setup, admin_role.setup),
    metrics=METRICS,
    commands={
        "gateway": "karmada_vc_agent.features.gateway.command",
        "kubeconfig": "karmada_vc_agent.features.gateway.kubeconfig",
    },
)
