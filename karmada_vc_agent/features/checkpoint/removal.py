"""Removes the Secrets of a checkpoint that is not kept any more."""

import asyncio
import logging

from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.shards import cluster_of_key
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError
from karmada_vc_agent.kube.retries import retry_until_done
from karmada_vc_agent.model.domain import secret_names
from karmada_vc_agent.runner.feature import Say

_log = logging.getLogger(__name__)


async def remove_checkpoint(host: ApiClient, namespace: str, agent: str) -> list[str]:
    """Delete the Secrets of an agent's checkpoint; return the names of those that existed.

    Raises KubeError.
    """
    collection = f"/api/v1/namespaces/{namespace}/secrets"

    async def delete(name: str) -> str:
        try:
            await host.delete(f"{collection}/{name}")
        except NotFoundError:
            return ""
        return name

    # One alone first: a missing right is the same for all.
    first, *others = secret_names(agent)
    deleted = [await delete(first), *await asyncio.gather(*map(delete, others))]
    return [name for name in deleted if name]


async def remove_disabled(host: ApiClient, namespace: str, agent: str) -> None:
    """Remove what was kept before the setting was turned off, and log what a denial leaves.

    Anything else is retried, as a page in place of an answer.
    """

    async def remove() -> list[str] | None:
        try:
            return await remove_checkpoint(host, namespace, agent)
        except ForbiddenError:
            return None

    removed = await retry_until_done("remove the checkpoint on the host", remove)
    extra = {"namespace": namespace}
    if removed is None:
        _log.info(
            "Not removing what an earlier checkpoint may have left: run karmada-vc-agent join, or "
            f"delete Secrets {agent}-checkpoint-*",
            extra=extra,
        )
    elif removed:
        _log.info("Removed the checkpoint: it is turned off", extra=extra)


async def forget_saved(host: ApiClient, namespace: str, agent: str, cluster: str, say: Say) -> None:
    """Remove a virtual cluster from the Secrets of an agent's checkpoint. Raises KubeError.

    A running agent does it, too, once the Cluster is deleted. With the last virtual cluster the
    Secrets are deleted.
    """
    secrets = CheckpointSecrets(host, namespace, agent)
    try:
        await secrets.load()
        if {cluster_of_key(key) for _, key in secrets} <= {"", cluster}:
            if secrets.exist and await remove_checkpoint(host, namespace, agent):
                say(f"host: removed the checkpoint of {agent}")
        elif await secrets.remove(cluster):
            say(f"host: removed {cluster} from the checkpoint of {agent}")
    except ForbiddenError as error:
        say(f"host: the checkpoint of {agent} may still have {cluster}: {error}")


async def purge(host: ApiClient, namespace: str, agent: str, say: Say) -> None:
    """Remove the checkpoint of an agent that is removed. Raises KubeError."""
    if await remove_checkpoint(host, namespace, agent):
        say(f"host: removed the checkpoint of {agent}")
