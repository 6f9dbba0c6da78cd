"""The steps of `join`: rights and credential on the hub, the agent on the host.

Every step can be repeated: it reports and applies only the difference. Virtual clusters are only
added, and `leave` removes them; other rights that are not desired any more are removed here.
"""

import base64
from dataclasses import replace

from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects, named_clusters
from karmada_vc_agent.install.apply_objects import apply_all, find
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.install.join_preflight import CLUSTER_ROLES_PATH, hub_role
from karmada_vc_agent.install.removals import prune, remove
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.domain import AGENT_LABEL, HOST_ANNOTATION
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE
from karmada_vc_agent.model.objects import Object, annotations_of, dig


async def host_uid(host: ApiClient) -> str:
    """Return the UID of the host's kube-system, from which ids are derived. Raises KubeError."""
    return str((await host.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])


async def grant(hub: ApiClient, access: HubAccess, changes: Changes) -> None:
    """Grant an agent its rights on the hub. Raises KubeError.

    Virtual clusters that its roles already name keep their rights.
    """
    role = await hub_role(hub, access.agent)
    names = dict.fromkeys((*named_clusters(role), *access.clusters))
    desired = hub_objects(replace(_with_host_of(role, access), clusters=tuple(names)))
    await apply_all(hub, desired, changes)
    if not access.gateway:
        await _remove_tokens(hub, access, changes)
    await prune(hub, access.agent, desired, changes)


async def with_recorded_host(hub: ApiClient, access: HubAccess) -> HubAccess:
    """Return it with the host that its roles on the hub name, if it has none. Raises KubeError."""
    return _with_host_of(await hub_role(hub, access.agent), access)


def _with_host_of(role: Object, access: HubAccess) -> HubAccess:
    """Keep the mark of the host on the roles, which `join` and `leave` compare."""
    recorded = annotations_of(role).get(HOST_ANNOTATION, "")
    return replace(access, host_id=access.host_id or recorded)


async def _remove_tokens(hub: ApiClient, access: HubAccess, changes: Changes) -> None:
    """Delete the tokens that the gateway published; the agent has no right to them any more."""
    if await find(hub, f"{CLUSTER_ROLES_PATH}/{access.auth_role}") is None:
        return
    path = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets"
    answer = await hub.get(path, {"labelSelector": f"{AGENT_LABEL}={access.agent}"})
    for secret in answer.get("items") or ():
        name = secret["metadata"]["name"]
        await remove(hub, f"{path}/{name}", f"Secret {LEASE_NAMESPACE}/{name}", changes)


async def installed_kubeconfig(host: ApiClient, namespace: str) -> str:
    """Return the installed agent's kubeconfig for the hub, or ""."""
    secret = await find(host, f"/api/v1/namespaces/{namespace}/secrets/{HUB_SECRET}")
    return base64.b64decode(dig(secret, "data", HUB_SECRET) or "").decode(errors="replace")
