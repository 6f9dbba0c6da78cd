"""Remove what `join` and the agent created for a gateway on the host."""

from collections.abc import Callable, Iterator

from karmada_vc_agent.access.agent_objects import (
    HostInstall,
    gateway_base_objects,
    gateway_workload,
)
from karmada_vc_agent.access.apply_objects import find, path_of
from karmada_vc_agent.features.gateway.secret import definition_key, keys_of, secret_name
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.domain import CLUSTER_LABEL, GATEWAY_LABEL
from karmada_vc_agent.model.objects import Object, dig, key_of, labels_of
from karmada_vc_agent.model.rbac_rule import CLUSTER_READER, gateway_role
from karmada_vc_agent.model.well_known import RBAC_API

Tell = Callable[[str], None]
_ROLES_PATH = f"/apis/{RBAC_API}/clusterroles"
_BINDINGS_PATH = f"/apis/{RBAC_API}/clusterrolebindings"


async def remove_gateway(
    host: ApiClient, agent: str, namespace: str, tell: Tell, *, is_dry: bool = False
) -> None:
    """Remove an agent's gateway, with its account and its callers' rights. Raises KubeError.

    Its Pods first. Its own rights are pruned with those of the agent, and the agent removes what it
    created in claimed namespaces.
    """
    if await find(host, f"{_BINDINGS_PATH}/{gateway_role(agent)}") is None:
        return
    for obj in _objects(agent, namespace):
        live = await find(host, path_of(obj))
        if live is not None and labels_of(obj).items() <= labels_of(live).items():
            await _remove(host, path_of(obj), live, tell, is_dry=is_dry)
    for role in await _identities(host, f"{GATEWAY_LABEL}={agent}"):
        await _remove(host, path_of(role), role, tell, is_dry=is_dry)
    if not await _has_readers(host, agent):
        live = await find(host, f"{_ROLES_PATH}/{CLUSTER_READER}")
        if live is not None:
            await _remove(host, path_of(live), live, tell, is_dry=is_dry)


async def revoke(host: ApiClient, agent: str, namespace: str, cluster: str, tell: Tell) -> None:
    """Make the tokens of a virtual cluster invalid, and let nobody be its callers.

    Raises KubeError.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets/{secret_name(agent)}"
    secret = await find(host, path)
    keys = [*keys_of(secret, cluster), definition_key(cluster)]
    known = dig(secret, "data") or {}
    if gone := [key for key in keys if key in known]:
        await host.merge_patch(path, {"data": dict.fromkeys(gone)})
        tell(f"host: revoked the tokens of {cluster}")
    selector = f"{GATEWAY_LABEL}={agent},{CLUSTER_LABEL}={cluster}"
    for role in await _identities(host, selector):
        await _remove(host, path_of(role), role, tell, is_dry=False)


def _objects(agent: str, namespace: str) -> Iterator[Object]:
    yield from reversed(gateway_workload(HostInstall(agent, namespace, image="")))
    yield from reversed(gateway_base_objects(agent, namespace))


async def _identities(host: ApiClient, selector: str) -> list[Object]:
    answer = await host.get(_ROLES_PATH, {"labelSelector": selector})
    head = {"apiVersion": RBAC_API, "kind": "ClusterRole"}
    return [{**item, **head} for item in answer.get("items") or ()]


async def _has_readers(host: ApiClient, agent: str) -> bool:
    """Whether another agent's callers have the role that all agents share."""
    found = await host.get(_BINDINGS_PATH)
    return any(
        dig(binding, "roleRef", "name") == CLUSTER_READER
        and binding["metadata"]["name"] != f"{gateway_role(agent)}:readers"
        for binding in found.get("items") or ()
    )


async def _remove(host: ApiClient, path: str, obj: Object, tell: Tell, *, is_dry: bool) -> None:
    tell(f"host: remove {key_of(obj)}")
    if is_dry:
        return
    try:
        await host.delete(path)
    except NotFoundError:
        return
