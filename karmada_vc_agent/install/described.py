"""What all features describe on the host of virtual clusters, as it is served."""

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.runner.feature import Described


async def described_on_host(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects, NodeGroups and nodes describe now. Raises KubeError."""
    found = [await each.describe(host, config) for each in FEATURES if each.describe is not None]
    made = [vc for each in found for vc in each.virtual_clusters]
    listed = {vc.name for vc in config.virtual_clusters}
    first = {vc.name: vc for vc in reversed(made) if vc.name not in listed}
    return Described(
        frozenset(key for each in found for key in each.group_labels),
        tuple(first.values()),
        tuple(vc for each in found for vc in each.objects),
    )
