"""Reports EndpointSlices of exported Services to the hub."""

from karmada_vc_agent.features.service_export import endpoint_slices
from karmada_vc_agent.runner.parts import Feature

FEATURE = Feature("service_export", controllers=(endpoint_slices.setup,))
