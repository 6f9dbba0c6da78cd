"""Whether the group of a virtual cluster can be trusted, by all that is known."""

from karmada_vc_agent.cluster.node_trust import NodeTrust
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.rules.group_trusted import group_trusted
from karmada_vc_agent.features.found.origins import Origins
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


def group_trust(vc: VirtualCluster, trust: NodeTrust, origins: Origins) -> Condition:
    """Return the condition GroupTrusted."""
    origin = origins.of(vc.name)
    return group_trusted(
        vc,
        has_kubeedge=trust.has_kubeedge,
        node_restriction=trust.node_restriction,
        found_by=origin.text if origin is not None else "",
        by_label=origin is not None and origin.is_label,
    )
