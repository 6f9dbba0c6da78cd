"""The steps of `join`: rights and credential on the hub, the agent on the host.

Every step can be repeated: it tells and applies only the difference. Rights are only added;
`leave` removes them.
"""

import base64
from dataclasses import replace

from karmada_vc_agent.access.agent_objects import HostInstall, workload_objects
from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects, named_clusters
from karmada_vc_agent.commands.agent_certificate import (
    is_still_good,
    kubeconfig_text,
    request_certificate,
)
from karmada_vc_agent.commands.apply_objects import IMAGE_FIELD, apply_all, find
from karmada_vc_agent.commands.changes import Changes
from karmada_vc_agent.commands.join_preflight import CLUSTER_ROLES_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object, dig


async def host_uid(host: ApiClient) -> str:
    """Return the UID of the host's kube-system, from which ids are derived. Raises KubeError."""
    return str((await host.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])


async def grant(hub: ApiClient, access: HubAccess, changes: Changes | None = None) -> None:
    """Grant an agent its rights on the hub. Raises KubeError.

    Virtual clusters that its roles already name keep their rights.
    """
    role = await find(hub, f"{CLUSTER_ROLES_PATH}/{access.role}")
    names = dict.fromkeys((*named_clusters(role or {}), *access.clusters))
    await apply_all(hub, hub_objects(replace(access, clusters=tuple(names))), changes)


async def credential(
    hub: ApiClient,
    access: HubAccess,
    cluster: Object,
    known: str,
    *,
    lifetime_s: int,
    approves: bool,
) -> str:
    """Return the agent's kubeconfig for the hub.

    cluster: the cluster entry of the hub. known: the agent's present kubeconfig; kept while it is
    good. Raises KubeError, CertificateError.
    """
    if known and is_still_good(known, cluster, access.user):
        return known
    certificate = await request_certificate(
        hub, access.user, access.agent, lifetime_s, approves=approves
    )
    return kubeconfig_text(cluster, access.agent, certificate)


async def installed_kubeconfig(host: ApiClient, namespace: str) -> str:
    """Return the installed agent's kubeconfig for the hub, or ""."""
    secret = await find(host, f"/api/v1/namespaces/{namespace}/secrets/{HUB_SECRET}")
    return base64.b64decode(dig(secret, "data", HUB_SECRET) or "").decode(errors="replace")


async def install(
    host: ApiClient, wanted: HostInstall, changes: Changes | None = None, *, sets_image: bool = True
) -> None:
    """Create or update the agent's workload and what it mounts.

    sets_image: whether an image that somebody else set is replaced. Its rights come first: see
    host_rights.py. Raises KubeError.
    """
    forced = (IMAGE_FIELD,) if sets_image else ()
    await apply_all(host, workload_objects(wanted), changes, forced)
