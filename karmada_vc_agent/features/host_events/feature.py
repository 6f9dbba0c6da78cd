"""Events of the host, reported on the templates of the hub (ADR 36)."""

from karmada_vc_agent.features.host_events import controller
from karmada_vc_agent.runner.parts import Feature

FEATURE = Feature("host_events", controllers=(controller.setup,))
