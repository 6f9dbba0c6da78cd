"""The steps of `join`: rights and credential on the hub, the agent on the host.

Every step can be repeated: it tells and applies only the difference. Rights are only added;
`leave` removes them.
"""

import base64
from contextlib import suppress
from dataclasses import replace

from karmada_vc_agent.access.agent_objects import HostInstall, workload_objects
from karmada_vc_agent.access.gateway_secret import KINDS, hub_secret_name
from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects, named_clusters
from karmada_vc_agent.commands.agent_certificate import (
    is_still_good,
    kubeconfig_text,
    request_certificate,
)
from karmada_vc_agent.commands.apply_objects import IMAGE_FIELDS, apply_all, find
from karmada_vc_agent.commands.changes import Changes
from karmada_vc_agent.commands.join_preflight import CLUSTER_ROLES_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.domain import AGENT_LABEL, HOST_ANNOTATION
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of


async def host_uid(host: ApiClient) -> str:
    """Return the UID of the host's kube-system, from which ids are derived. Raises KubeError."""
    return str((await host.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])


async def grant(hub: ApiClient, access: HubAccess, changes: Changes | None = None) -> None:
    """Grant an agent its rights on the hub. Raises KubeError.

    Virtual clusters that its roles already name keep their rights.
    """
    role = await find(hub, f"{CLUSTER_ROLES_PATH}/{access.role}") or {}
    names = dict.fromkeys((*named_clusters(role), *access.clusters))
    wanted = replace(_with_host_of(role, access), clusters=tuple(names))
    await apply_all(hub, hub_objects(wanted), changes)
    if not access.gateway:
        await _withdraw_access(hub, access, tuple(names), changes or Changes())


async def with_known_host(hub: ApiClient, access: HubAccess) -> HubAccess:
    """Return it with the host that its roles on the hub name, if it has none. Raises KubeError."""
    role = await find(hub, f"{CLUSTER_ROLES_PATH}/{access.role}")
    return _with_host_of(role or {}, access)


def _with_host_of(role: Object, access: HubAccess) -> HubAccess:
    """Without the host at hand, its mark on the roles stays: `join` and `leave` go by it."""
    known = annotations_of(role).get(HOST_ANNOTATION, "")
    return replace(access, host_id=access.host_id or known)


async def _withdraw_access(
    hub: ApiClient, access: HubAccess, clusters: tuple[str, ...], changes: Changes
) -> None:
    """Delete what the gateway needs on the hub, which the agent has no right to any more."""
    auth_role = f"{CLUSTER_ROLES_PATH}/{access.auth_role}"
    if await find(hub, auth_role) is None:
        return
    secrets = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets"
    paths = [f"{secrets}/{hub_secret_name(name, kind)}" for name in clusters for kind in KINDS]
    for path in paths:
        live = await find(hub, path)
        if labels_of(live or {}).get(AGENT_LABEL) == access.agent:
            await _delete(hub, path, changes)
    await _delete(hub, auth_role, changes)


async def _delete(hub: ApiClient, path: str, changes: Changes) -> None:
    changes.tell(f"hub: remove {'/'.join(path.split('/')[-2:])}")
    if not changes.is_dry:
        with suppress(NotFoundError):
            await hub.delete(path)


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
    forced = IMAGE_FIELDS if sets_image else ()
    await apply_all(host, workload_objects(wanted), changes, forced)
