"""Takes what was kept of the hub for a start without it away."""

from collections import defaultdict
from collections.abc import Callable

from karmada_vc_agent.features.checkpoint.removal import remove_checkpoint
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.shards import cluster_of_key
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError


async def forget_saved(
    host: ApiClient, namespace: str, agent: str, cluster: str, say: Callable[[str], None]
) -> None:
    """Remove a virtual cluster from the Secrets of an agent's checkpoint. Raises KubeError.

    The agent does it, too, where it runs; it has `leave` to decide that the Cluster is gone. With
    the last virtual cluster the Secrets go.
    """
    secrets = CheckpointSecrets(host, namespace, agent)
    try:
        await secrets.load()
        found: defaultdict[int, dict[str, bytes | None]] = defaultdict(dict)
        for number, key in secrets:
            if cluster_of_key(key) == cluster:
                found[number][key] = None
        if all(cluster_of_key(key) in ("", cluster) for _, key in secrets):
            if secrets.are_there and await remove_checkpoint(host, namespace, agent):
                say(f"host: removed the checkpoint of {agent}")
            return
        for number, changes in found.items():
            await secrets.write(number, changes)
    except ForbiddenError as error:
        say(f"host: the checkpoint of {agent} may still have {cluster}: {error}")
        return
    if found:
        say(f"host: removed {cluster} from the checkpoint of {agent}")
