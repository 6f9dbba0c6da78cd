"""Labels of nodes that select groups which are not in the settings: the host's objects say them."""

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.found.node_groups import groups_of_host
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.objects.object_names import PATH, is_for
from karmada_vc_agent.objects.reading import Reader
from karmada_vc_agent.translation.admission_guards import group_labels
from karmada_vc_agent.views.live_settings import LiveSettings


async def group_keys(host: ApiClient, config: AgentConfig) -> frozenset[str]:
    """Return the keys that NodeGroups and VirtualCluster objects use now. Raises KubeError."""
    keys: set[str] = set()
    if config.node_groups.enabled:
        for found in await groups_of_host(host, config.node_groups):
            keys |= (found.labels or {}).keys()
    if config.objects.enabled:
        keys |= await _keys_of_objects(host, config)
    return frozenset(keys)


async def _keys_of_objects(host: ApiClient, config: AgentConfig) -> set[str]:
    try:
        items = (await host.get(PATH)).get("items") or ()
    except NotFoundError:
        return set()
    ours = (item for item in items if is_for(config.agent_name, item["metadata"]))
    reader = Reader(LiveSettings(config))
    read = (reader.read(item).virtual_cluster for item in ours)
    return {key for vc in read if vc is not None for key in group_labels(vc)}
