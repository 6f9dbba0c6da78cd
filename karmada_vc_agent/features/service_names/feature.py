"""Names of Services that resolve to those of the own virtual cluster."""

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.service_names import controller
from karmada_vc_agent.model.virtual_cluster import SERVICE_NAMES_NONE
from karmada_vc_agent.runner.feature import Feature


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    is_used = any(vc.service_names != SERVICE_NAMES_NONE for vc in config.virtual_clusters)
    return ("features/service_names/roles.yaml",) if is_used else ()


FEATURE = Feature("service_names", controllers=(controller.setup,), host_roles=_host_roles)
