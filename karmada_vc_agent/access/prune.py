"""Remove the roles and bindings of an agent that are not desired any more, found by label.

What `join` ever granted has its name and label, on the hub as on the host. What the agent itself
made in claimed namespaces also has the label of a virtual cluster.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, key_of, labels_of
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

BINDINGS = ("clusterrolebindings", "rolebindings")
ROLES = ("clusterroles", "roles")
_KINDS = {
    "clusterrolebindings": "ClusterRoleBinding",
    "rolebindings": "RoleBinding",
    "clusterroles": "ClusterRole",
    "roles": "Role",
}
NEEDS = tuple(Need(verb, RBAC_GROUP, plural) for plural in _KINDS for verb in ("list", "delete"))
"""The rights of an administrator that pruning takes."""


async def labelled(client: ApiClient, agent: str, plural: str) -> list[Object]:
    """Return roles or bindings of an agent, in all namespaces. Raises KubeError."""
    answer = await client.get(
        f"/apis/{RBAC_API}/{plural}", {"labelSelector": f"{AGENT_LABEL}={agent}"}
    )
    head = {"apiVersion": RBAC_API, "kind": _KINDS[plural]}
    return [{**item, **head} for item in answer.get("items") or () if _is_named(item, agent)]


async def prune(
    client: ApiClient,
    agent: str,
    desired: Iterable[Object],
    tell: Callable[[str], None],
    plurals: Iterable[str] = (*BINDINGS, *ROLES),
    *,
    is_dry: bool = False,
    claimed: bool = False,
) -> None:
    """Remove what is not desired: bindings before roles. Raises KubeError.

    claimed: also what the agent made in claimed namespaces.
    """
    keep = {key_of(obj) for obj in desired}
    for plural in plurals:
        for live in await labelled(client, agent, plural):
            if key_of(live) in keep or (CLUSTER_LABEL in labels_of(live) and not claimed):
                continue
            tell(f"{client.name}: remove {key_of(live)}")
            if not is_dry:
                with suppress(NotFoundError):
                    await client.delete(_path(plural, live))


def _is_named(item: Object, agent: str) -> bool:
    name, role = str(item["metadata"]["name"]), f"vc-agent:{agent}"
    return name == role or name.startswith(f"{role}:")


def _path(plural: str, live: Object) -> str:
    metadata = live["metadata"]
    space = metadata.get("namespace")
    place = f"/namespaces/{space}" if space else ""
    return f"/apis/{RBAC_API}{place}/{plural}/{metadata['name']}"
