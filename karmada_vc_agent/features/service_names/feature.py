"""Names of Services that resolve to those of the own virtual cluster."""

from karmada_vc_agent.features.service_names import controller
from karmada_vc_agent.runner.feature import Feature

FEATURE = Feature("service_names", controllers=(controller.setup,))
