"""The steps of joining: rights and credential on the hub, the agent on the host.

Every step can be done again: it changes what differs and says so. Rights are only ever added;
`leave` takes them away.
"""

import base64
import uuid
from dataclasses import replace

from karmada_vc_agent.access.agent_objects import HostInstall, workload_objects
from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects, named_clusters
from karmada_vc_agent.commands.agent_certificate import (
    is_still_good,
    kubeconfig_text,
    request_certificate,
)
from karmada_vc_agent.commands.apply_objects import apply_all, find
from karmada_vc_agent.commands.join_preflight import CLUSTER_ROLES_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object, dig


async def host_uid(host: ApiClient) -> str:
    """Return the UID of the host's kube-system, on which all ids rest. Raises KubeError."""
    return str((await host.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])


def host_id(uid: str) -> str:
    """Return what names a host on the hub; never the raw UID."""
    return str(uuid.uuid5(uuid.UUID(uid), "host"))


async def grant(hub: ApiClient, access: HubAccess) -> list[str]:
    """Give an agent its rights on the hub; return what changed. Raises KubeError.

    Virtual clusters that its roles name already keep their rights.
    """
    role = await find(hub, f"{CLUSTER_ROLES_PATH}/{access.role}")
    names = dict.fromkeys((*named_clusters(role or {}), *access.clusters))
    return await apply_all(hub, hub_objects(replace(access, clusters=tuple(names))))


async def credential(
    hub: ApiClient,
    access: HubAccess,
    cluster: Object,
    known: str,
    *,
    lifetime_s: int,
    approves: bool,
) -> tuple[str, list[str]]:
    """Return the agent's kubeconfig of the hub, and what was done for it.

    cluster: the entry of the hub. known: the kubeconfig it has; kept while it is good.
    Raises KubeError, CertificateError.
    """
    if known and is_still_good(known, cluster, access.user):
        return known, []
    certificate = await request_certificate(
        hub, access.user, access.agent, lifetime_s, approves=approves
    )
    done = f"hub: signed a client certificate for {access.user} ({certificate.request})"
    return kubeconfig_text(cluster, access.agent, certificate), [done]


async def installed_kubeconfig(host: ApiClient, namespace: str) -> str:
    """Return the kubeconfig of the hub that an installed agent has, or ""."""
    secret = await find(host, f"/api/v1/namespaces/{namespace}/secrets/{HUB_SECRET}")
    return base64.b64decode(dig(secret, "data", HUB_SECRET) or "").decode(errors="replace")


async def install(host: ApiClient, wanted: HostInstall) -> list[str]:
    """Install or change what the agent's Pods need, and them; return what changed.

    Its rights come before: see host_rights.py. Raises KubeError.
    """
    return await apply_all(host, workload_objects(wanted))
