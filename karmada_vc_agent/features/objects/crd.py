"""The CustomResourceDefinition of VirtualCluster objects: crd.yaml."""

from karmada_vc_agent.access import templates
from karmada_vc_agent.features.objects.object_names import DELETION_POLICIES, PHASES
from karmada_vc_agent.features.objects.schema import schema_of
from karmada_vc_agent.features.objects.schema_rules import NAME_RULES
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_OF_OBJECTS: Object = {
    "deletionPolicy": {
        "description": "What happens on the host when this object is deleted. Delete: the "
        "objects of its Works are deleted. Preserve: they stay, without the agent's labels. In "
        "both cases the Cluster on the hub is deleted.",
        "type": "string",
        "enum": list(DELETION_POLICIES),
        "default": DELETION_POLICIES[0],
    },
}
"""Settings of the object, and not of the virtual cluster that it describes."""


def definition() -> Object:
    """Return the CRD."""
    spec = schema_of(VirtualCluster, without=frozenset({"name"}))
    described = {"description": "The virtual cluster; its name is that of the object.", **spec}
    described["properties"] = {**spec["properties"], **_OF_OBJECTS}
    values = {"spec": described, "phases": PHASES, "rules": tuple(NAME_RULES)}
    return templates.document("objects/crd.yaml", values)
