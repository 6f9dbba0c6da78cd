"""Whether hub and host are what they are taken for: a Karmada, and another API server."""

import asyncio
import logging

from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH

_log = logging.getLogger(__name__)

KUBE_SYSTEM_PATH = "/api/v1/namespaces/kube-system"
TRIES = 5
PAUSE_S = 1.0
"""A Karmada that just starts serves its own kinds a moment after all others."""


async def check_karmada(hub: ApiClient, *, pause_s: float = PAUSE_S) -> None:
    """Look whether the hub serves Clusters. Raises ConfigError where it does not, KubeError."""
    for attempt in range(TRIES):
        try:
            await hub.get(CLUSTERS_PATH, {"limit": "1"})
        except NotFoundError:
            if attempt + 1 < TRIES:
                await asyncio.sleep(pause_s)
        else:
            return
    problem = (
        f"{hub.credentials.server} is no Karmada: it does not serve cluster.karmada.io; "
        "give a kubeconfig of Karmada's API server"
    )
    raise ConfigError("settings", "karmadaKubeconfig", problem)


async def check_apart(hub: ApiClient, host_uid: str) -> None:
    """Refuse one API server as hub and host. Raises ConfigError, KubeError.

    host_uid: UID of the host's kube-system.
    """
    try:
        kube_system = await hub.get(KUBE_SYSTEM_PATH)
    except NotFoundError:
        return
    except ForbiddenError as error:
        _log.warning(
            "Cannot tell whether hub and host are two API servers", extra={"reason": str(error)}
        )
        return
    if kube_system["metadata"]["uid"] == host_uid:
        problem = (
            f"{hub.credentials.server} is the API server of the host, too (its kube-system has "
            "the same uid); the hub must be another one"
        )
        raise ConfigError("settings", "karmadaKubeconfig", problem)
