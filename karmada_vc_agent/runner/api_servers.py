"""Checks that the hub is a Karmada and that the host is another API server."""

import logging

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError, NotServedError
from karmada_vc_agent.kube.listing import check_listed
from karmada_vc_agent.kube.retries import retry_on

_log = logging.getLogger(__name__)

KUBE_SYSTEM_PATH = "/api/v1/namespaces/kube-system"
TRIES = 5
PAUSE_S = 1.0
"""A starting Karmada serves its own kinds shortly after all others."""


async def check_karmada(hub: ApiClient, *, pause_s: float = PAUSE_S) -> None:
    """Check that the hub serves Clusters. Raises ConfigError if it does not, KubeError.

    A hub that was seen to serve them before does not serve them for the moment.
    """
    try:
        await retry_on(NotServedError, TRIES, lambda: check_listed(hub, CLUSTERS_PATH), pause_s)
    except NotServedError as error:
        problem = (
            f"{hub.credentials.server} is not a Karmada control plane: it does not serve "
            "cluster.karmada.io; use a kubeconfig of Karmada's API server, or try again later"
        )
        raise ConfigError("settings", "karmadaKubeconfig", problem) from error


async def check_apart(hub: ApiClient, host_uid: str) -> str:
    """Reject one API server as both hub and host. Raises ConfigError, KubeError.

    host_uid: UID of the host's kube-system. Returns that of the hub, "" where it is not readable.
    """
    try:
        kube_system = await hub.get(KUBE_SYSTEM_PATH)
    except NotFoundError:
        return ""
    except ForbiddenError as error:
        _log.warning(
            "Cannot determine whether hub and host are different API servers",
            extra={"reason": str(error)},
        )
        return ""
    uid = str(kube_system["metadata"]["uid"])
    if uid == host_uid:
        problem = (
            f"{hub.credentials.server} is also the API server of the host (its kube-system has "
            "the same uid); the hub must be another one"
        )
        raise ConfigError("settings", "karmadaKubeconfig", problem)
    return uid
