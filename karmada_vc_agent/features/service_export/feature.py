"""Reports EndpointSlices of exported Services to the hub."""

from karmada_vc_agent.features.service_export import endpoint_slices
from karmada_vc_agent.model.virtual_cluster import ENDPOINT_SLICE_COLLECT
from karmada_vc_agent.model.virtual_cluster import SERVICE_EXPORT as SERVICE_EXPORT_SWITCH
from karmada_vc_agent.runner.parts import Feature

FEATURE = Feature(
    "service_export",
    controllers=(endpoint_slices.setup,),
    hub_roles=dict.fromkeys(
        (SERVICE_EXPORT_SWITCH, ENDPOINT_SLICE_COLLECT), "features/service_export/hub-roles.yaml"
    ),
)
