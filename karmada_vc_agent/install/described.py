"""Collect what features read about virtual clusters on the host."""

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.runner.feature import Described


async def described_on_host(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects, NodeGroups and nodes describe now. Raises KubeError."""
    all_described = [
        await each.describe(host, config) for each in FEATURES if each.describe is not None
    ]
    discovered = [vc for each in all_described for vc in each.virtual_clusters]
    listed = {vc.name for vc in config.virtual_clusters}
    first = {vc.name: vc for vc in reversed(discovered) if vc.name not in listed}
    return Described(
        frozenset(key for each in all_described for key in each.group_labels),
        tuple(first.values()),
        tuple(vc for each in all_described for vc in each.objects),
    )
