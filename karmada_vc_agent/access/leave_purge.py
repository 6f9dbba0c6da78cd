"""Remove an agent itself: what `join` created for it on hub and host, and what it recorded there.

Only once none of its virtual clusters is left. What others have in its namespace stays, and the
namespace with it.
"""

from dataclasses import dataclass

from karmada_vc_agent.access.apply_objects import find
from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.hub_objects import HubAccess, named_clusters
from karmada_vc_agent.access.join_preflight import CLUSTER_ROLES_PATH, PreflightError
from karmada_vc_agent.access.leave_checks import claimants
from karmada_vc_agent.access.leave_cleaning import NAMESPACES_PATH, claimed_clusters
from karmada_vc_agent.access.leave_steps import (
    SHOWN,
    LeaveError,
    Say,
    delete_found,
    known_state,
)
from karmada_vc_agent.access.policy_removal import remove_policies
from karmada_vc_agent.access.prune import BINDINGS, ROLES, labelled, prune
from karmada_vc_agent.cluster.hub_clusters import host_id
from karmada_vc_agent.cluster.labelled_objects import objects_in
from karmada_vc_agent.cluster.node_labels import unlabel_nodes
from karmada_vc_agent.features.checkpoint.shards import secret_names
from karmada_vc_agent.features.gateway.removal import remove_gateway
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import ApiError
from karmada_vc_agent.model.domain import (
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    HOST_ANNOTATION,
    MEMBERSHIP_LABEL,
)
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of, maps_at
from karmada_vc_agent.model.rbac_rule import TENANT_ROLES
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.work.rules.orphaned import is_foreign

_RBAC_PATH = f"/apis/{RBAC_API}"
_OF_KUBERNETES = frozenset(("default", "kube-system", "kube-public", "kube-node-lease"))
_MANAGED_LABEL = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class InstalledAgent:
    """An agent as `join` installed it. namespace: on the host."""

    name: str
    namespace: str

    @property
    def role(self) -> str:
        """Name of its roles and bindings; longer ones have a colon behind it."""
        return f"vc-agent:{self.name}"


async def check_last(
    agent: InstalledAgent,
    hub: ApiClient | None,
    host: ApiClient | None,
    host_uid: str,
    *,
    leaving: str = "",
) -> None:
    """Refuse to remove an agent of another host, or one with virtual clusters beside `leaving`.

    hub, host: None = it does not answer. Raises LeaveError, PreflightError, KubeError.
    """
    if hub is not None:
        await _check_host(agent, hub, host_uid)
    left = await _clusters_left(agent, hub, host)
    if others := [name for name in left if name != leaving]:
        raise LeaveError(
            f"agent {agent.name} has other virtual clusters: {listed(others, SHOWN)}; "
            "run leave for each of them first. Nothing was changed"
        )


async def purge(
    agent: InstalledAgent, hub: ApiClient | None, host: ApiClient | None, say: Say
) -> None:
    """Remove an agent. hub, host: None = it does not answer. Raises KubeError."""
    if hub is not None:
        await prune(hub, agent.name, (), say)
    if host is not None:
        await _purge_host(agent, host, say)
    if hub is None or host is None:
        away = "hub" if hub is None else "host"
        say(f"The {away} does not answer; once it does, run leave --purge again")
        return
    say(f"agent {agent.name} is removed; stop its process if it is not a Deployment of the host")


async def report_agent(
    agent: InstalledAgent, hub: ApiClient, host: ApiClient, flags: str, say: Say
) -> None:
    """Say how to remove an agent that is left without virtual clusters. Raises KubeError."""
    is_there = await find(host, f"{_RBAC_PATH}/clusterroles/{agent.role}") is not None
    if is_there and not await _clusters_left(agent, hub, host):
        say(f"agent {agent.name} has no virtual cluster left; to remove it as well, run:")
        say(f"  karmada-vc-agent leave --purge {flags}")


async def _clusters_left(
    agent: InstalledAgent, hub: ApiClient | None, host: ApiClient | None
) -> list[str]:
    """Return the virtual clusters that the agent still has, sorted."""
    names: set[str] = set()
    if host is not None:
        names |= set(await claimed_clusters(host, agent.name))
        state = await known_state(host, agent.namespace, agent.name)
        records = state.clusters() if state is not None else {}
        names |= {name for name, record in records.items() if not record.has_left}
    if hub is not None:
        names |= set(named_clusters(await _hub_role(agent, hub)))
    return sorted(names)


async def _check_host(agent: InstalledAgent, hub: ApiClient, host_uid: str) -> None:
    """Refuse roles on the hub of an agent of the same name on another host."""
    marked = annotations_of(await _hub_role(agent, hub)).get(HOST_ANNOTATION, "")
    if host_uid and marked and marked != host_id(host_uid):
        problem = f'the roles of agent "{agent.name}" on the hub are of an agent on another host'
        raise PreflightError([f"{problem}; nothing was changed"])


async def _hub_role(agent: InstalledAgent, hub: ApiClient) -> Object:
    return await find(hub, f"{CLUSTER_ROLES_PATH}/{HubAccess(agent.name, ()).role}") or {}


async def _purge_host(agent: InstalledAgent, host: ApiClient, say: Say) -> None:
    """Remove the agent, its rights and policies, and what it recorded.

    Its Pods go first, and its rights before the policies that confine them.
    """
    await delete_found(host, f"{_in_namespace(agent, 'apps/v1', 'deployments')}/{agent.name}", say)
    await remove_gateway(host, agent.name, agent.namespace, say)
    await prune(host, agent.name, (), say, BINDINGS, claimed=True)
    served = await Discovery(host).refresh()
    for policy in await remove_policies(host, served, agent.name):
        say(f"host: removed {policy}")
    await _report_accounts(host, agent, say)
    await prune(host, agent.name, (), say, ROLES, claimed=True)
    for name in TENANT_ROLES.values():
        await _delete_common_role(host, name, say)
    await _unlabel_nodes(host, agent, say)
    await _unmark_namespaces(host, agent, say)
    await _delete_objects(host, agent, say)
    await _delete_namespace(host, agent, say)


def _in_namespace(agent: InstalledAgent, api_version: str, plural: str) -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{agent.namespace}/{plural}"


async def _report_accounts(host: ApiClient, agent: InstalledAgent, say: Say) -> None:
    """Name the accounts of `applyAs` elsewhere: `join` does not mark those that it creates."""
    for role in await labelled(host, agent.name, "roles"):
        space = role["metadata"]["namespace"]
        for rule in maps_at(role, "rules"):
            if "impersonate" in rule["verbs"] and space != agent.namespace:
                for name in rule.get("resourceNames") or ():
                    say(f"host: ServiceAccount {space}/{name} stays; delete it if nobody needs it")


async def _delete_common_role(host: ApiClient, name: str, say: Say) -> None:
    """Delete a ClusterRole of tenants with the last agent, unless a binding refers to it."""
    path = f"{_RBAC_PATH}/clusterroles/{name}"
    live = await find(host, path)
    if live is None or _MANAGED_LABEL not in labels_of(live):
        return
    others = await host.get(f"{_RBAC_PATH}/clusterroles", {"labelSelector": AGENT_LABEL})
    if others.get("items"):
        return
    for plural in BINDINGS:
        for binding in (await host.get(f"{_RBAC_PATH}/{plural}")).get("items") or ():
            ref = dig(binding, "roleRef") or {}
            if (ref.get("kind"), ref.get("name")) == ("ClusterRole", name):
                metadata = binding["metadata"]
                where = f"{metadata.get('namespace') or 'the cluster'} by {metadata['name']}"
                say(f"host: ClusterRole {name} stays: it is bound in {where}")
                return
    await delete_found(host, path, say)


async def _unlabel_nodes(host: ApiClient, agent: InstalledAgent, say: Say) -> None:
    """Remove the label by which the agent marked the nodes of its virtual clusters."""
    state = await known_state(host, agent.namespace, agent.name)
    cleaned = 0
    names = dict.fromkeys((*state.clusters(), *state.labels())) if state is not None else {}
    for name in names:
        if await claimants(host, name):
            continue  # another agent's by now
        cleaned += await unlabel_nodes(host, name)
    if cleaned:
        nodes = "1 node" if cleaned == 1 else f"{cleaned} nodes"
        say(f"host: removed label {MEMBERSHIP_LABEL} from {nodes}")


async def _unmark_namespaces(host: ApiClient, agent: InstalledAgent, say: Say) -> None:
    """Remove the marks that let virtual clusters of the agent adopt namespaces."""
    state = await known_state(host, agent.namespace, agent.name)
    names = {*state.clusters(), *state.labels()} if state is not None else set()
    for namespace in (await host.get(NAMESPACES_PATH)).get("items") or ():
        marked = annotations_of(namespace).get(ALLOW_ADOPTION_ANNOTATION, "")
        if marked not in names or await claimants(host, marked):
            continue
        name = namespace["metadata"]["name"]
        patch = {"metadata": {"annotations": {ALLOW_ADOPTION_ANNOTATION: None}}}
        await host.merge_patch(f"{NAMESPACES_PATH}/{name}", patch)
        say(f"host: removed annotation {ALLOW_ADOPTION_ANNOTATION} from namespace {name}")


async def _delete_objects(host: ApiClient, agent: InstalledAgent, say: Say) -> None:
    """Delete what `join` and the agent created in its namespace, beside roles."""
    accounts = _in_namespace(agent, "v1", "serviceaccounts")
    if await find(host, f"{NAMESPACES_PATH}/{agent.namespace}") is None:
        return
    found = (await host.get(accounts)).get("items") or ()
    own = [item["metadata"]["name"] for item in found]
    for path in (
        f"{_in_namespace(agent, 'networking.k8s.io/v1', 'networkpolicies')}/{agent.name}",
        f"{_in_namespace(agent, 'policy/v1', 'poddisruptionbudgets')}/{agent.name}",
        f"{_in_namespace(agent, 'v1', 'services')}/{agent.name}",
        f"{_in_namespace(agent, 'v1', 'configmaps')}/{agent.name}",
        f"{_in_namespace(agent, 'v1', 'configmaps')}/{agent.name}-state",
        f"{_in_namespace(agent, 'v1', 'secrets')}/{HUB_SECRET}",
        *(f"{_in_namespace(agent, 'v1', 'secrets')}/{name}" for name in secret_names(agent.name)),
        f"{_in_namespace(agent, 'coordination.k8s.io/v1', 'leases')}/{agent.name}",
        *(
            f"{accounts}/{name}"
            for name in own
            if name == agent.name or name.endswith(f".{agent.name}")
        ),
    ):
        await delete_found(host, path, say)


async def _delete_namespace(host: ApiClient, agent: InstalledAgent, say: Say) -> None:
    """Delete the agent's namespace if nothing of others is in it."""
    path = f"{NAMESPACES_PATH}/{agent.namespace}"
    if agent.namespace in _OF_KUBERNETES or await find(host, path) is None:
        return
    stays = f"host: namespace {agent.namespace} stays"
    served = await Discovery(host).refresh()
    if not served.is_complete:
        say(f"{stays}: the host does not list all kinds now")
        return
    try:
        async for resource, live in objects_in(host, served, agent.namespace):
            if is_foreign(resource.gvk, live, ""):
                kind, name = resource.gvk.kind, live["metadata"]["name"]
                say(f"{stays}: {kind} {name} in it does not belong to the agent")
                return
    except ApiError as error:
        say(f"{stays}: its objects cannot all be listed: {error}")
        return
    await delete_found(host, path, say)
