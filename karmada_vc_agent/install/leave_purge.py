"""Remove an agent itself: what `join` created for it, and what it recorded."""

from contextlib import suppress

from karmada_vc_agent.access.hub_objects import named_clusters
from karmada_vc_agent.cluster.host_nodes import unlabel_nodes
from karmada_vc_agent.cluster.hub_clusters import host_id
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import Changes, find, path_of
from karmada_vc_agent.install.grants import (
    BINDINGS,
    ROLES,
    bindings_of,
    labelled_roles,
    prune,
    rbac_objects,
    remove_gateway,
    remove_policies,
    workload,
)
from karmada_vc_agent.install.join_hub import hub_role
from karmada_vc_agent.install.leave_host import NAMESPACES_PATH, claimants, claimed, obstacle_in
from karmada_vc_agent.install.leave_steps import (
    SHOWN,
    Leaving,
    Say,
    delete_present,
    recorded_state,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.domain import (
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    HOST_ANNOTATION,
    MEMBERSHIP_LABEL,
)
from karmada_vc_agent.model.kinds import RBAC_API, TENANT_ROLES
from karmada_vc_agent.model.objects import annotations_of, labels_of, maps_at
from karmada_vc_agent.model.texts import listed

_RBAC_PATH = f"/apis/{RBAC_API}"
_OF_KUBERNETES = frozenset(("default", "kube-system", "kube-public", "kube-node-lease"))
_MANAGED_LABEL = "app.kubernetes.io/managed-by"


async def check_last(
    leaving: Leaving,
    hub: ApiClient | None,
    host: ApiClient | None,
    host_uid: str,
) -> None:
    """Refuse to remove an agent of another host, or one with other virtual clusters.

    hub, host: None = it does not answer. Raises CommandError, KubeError.
    """
    if hub is not None:
        await _check_host(leaving, hub, host_uid)
    left = await clusters_left(leaving, hub, host)
    if others := [name for name in left if name != leaving.cluster]:
        raise CommandError(
            f"agent {leaving.agent} has other virtual clusters: {listed(others, SHOWN)}; "
            "run leave for each of them first. Nothing was changed"
        )


async def purge(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None, say: Say) -> None:
    """Remove an agent. What others have in its namespace stays, and the namespace with it.

    hub, host: None = it does not answer. Raises KubeError.
    """
    if hub is not None:
        await prune(hub, leaving.agent, (), Changes(say))
    if host is not None:
        await _purge_host(leaving, host, say)
    if hub is None or host is None:
        away = "hub" if hub is None else "host"
        say(f"The {away} does not answer; once it does, run leave --purge again")
        return
    say(f"agent {leaving.agent} is removed; stop its process if it is not a Deployment of the host")


async def give_up_policies(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Remove the agent's rights and policies if no virtual cluster but the leaving one needs them.

    The rights go first: without the policies they would be too strong. Raises KubeError.
    """
    if set(await clusters_left(leaving, None, host)) - {leaving.cluster}:
        return
    with suppress(NotFoundError):
        await host.delete(f"{_RBAC_PATH}/clusterrolebindings/vc-agent:{leaving.agent}")
        say(f"host: agent {leaving.agent} has no virtual cluster left: removing all its rights")
    served = await Discovery(host).refresh()
    await remove_policies(host, served, leaving.agent, Changes(say))


async def report_agent(leaving: Leaving, hub: ApiClient, host: ApiClient, say: Say) -> None:
    """Say how to remove an agent that is left without virtual clusters. Raises KubeError."""
    is_there = await find(host, f"{_RBAC_PATH}/clusterroles/vc-agent:{leaving.agent}") is not None
    if is_there and not await clusters_left(leaving, hub, host):
        text = "to remove it as well, run karmada-vc-agent leave --purge with the same options"
        say(f"agent {leaving.agent} has no virtual cluster left; {text}")


async def clusters_left(
    leaving: Leaving, hub: ApiClient | None, host: ApiClient | None
) -> list[str]:
    """Return the virtual clusters that the agent still has, sorted."""
    names: set[str] = set()
    if host is not None:
        names = {
            claim.cluster for _, claim in await claimed(host, f"{AGENT_LABEL}={leaving.agent}")
        }
        records = (await recorded_state(host, leaving.namespace, leaving.agent)).clusters()
        names |= {name for name, record in records.items() if not record.has_left}
    if hub is not None:
        names |= set(named_clusters(await hub_role(hub, leaving.agent)))
    return sorted(names)


async def _check_host(leaving: Leaving, hub: ApiClient, host_uid: str) -> None:
    """Refuse roles on the hub of an agent of the same name on another host."""
    marked = annotations_of(await hub_role(hub, leaving.agent)).get(HOST_ANNOTATION, "")
    if host_uid and marked and marked != host_id(host_uid):
        problem = f'the roles of agent "{leaving.agent}" on the hub are of an agent on another host'
        raise CommandError(f"{problem}; nothing was changed")


async def _purge_host(leaving: Leaving, host: ApiClient, say: Say) -> None:
    """Remove the agent, its rights and policies, and what it recorded.

    Its Pods go first, and its rights before the policies that confine them.
    """
    for obj in workload(leaving.agent, leaving.namespace):
        await delete_present(host, path_of(obj), say)
    changes = Changes(say)
    await remove_gateway(host, leaving.agent, leaving.namespace, changes)
    await prune(host, leaving.agent, (), changes, BINDINGS, claimed=True)
    await remove_policies(host, await Discovery(host).refresh(), leaving.agent, changes)
    await _report_accounts(host, leaving, say)
    await prune(host, leaving.agent, (), changes, ROLES, claimed=True)
    for name in TENANT_ROLES.values():
        await _delete_common_role(host, name, say)
    await _unmark(host, leaving, say)
    await _delete_records(host, leaving, say)
    await _delete_namespace(host, leaving, say)


async def _report_accounts(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Name the accounts of `applyAs` elsewhere: `join` does not mark those that it creates."""
    for role in await labelled_roles(host, leaving.agent, "Role"):
        space = role["metadata"]["namespace"]
        for rule in maps_at(role, "rules"):
            if "impersonate" in rule["verbs"] and space != leaving.namespace:
                for name in rule.get("resourceNames") or ():
                    say(f"host: ServiceAccount {space}/{name} stays; delete it if it is not used")


async def _delete_common_role(host: ApiClient, name: str, say: Say) -> None:
    """Delete a ClusterRole of tenants with the last agent, unless a binding refers to it."""
    path = f"{_RBAC_PATH}/clusterroles/{name}"
    live = await find(host, path)
    if live is None or _MANAGED_LABEL not in labels_of(live):
        return
    if await rbac_objects(host, "ClusterRole", AGENT_LABEL):
        return
    for binding in await bindings_of(host, name):
        metadata = binding["metadata"]
        where = f"{metadata.get('namespace') or 'the cluster'} by {metadata['name']}"
        say(f"host: ClusterRole {name} stays: it is bound in {where}")
        return
    await delete_present(host, path, say)


async def _unmark(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Remove the labels of nodes by virtual cluster, and what lets these adopt namespaces."""
    state = await recorded_state(host, leaving.namespace, leaving.agent)
    names = [
        name
        for name in {**state.clusters(), **state.labels()}
        if not await claimants(host, name)  # else another agent's by now
    ]
    if cleaned := sum([await unlabel_nodes(host, name) for name in names]):
        nodes = "1 node" if cleaned == 1 else f"{cleaned} nodes"
        say(f"host: removed label {MEMBERSHIP_LABEL} from {nodes}")
    for namespace in (await host.get(NAMESPACES_PATH)).get("items") or ():
        if annotations_of(namespace).get(ALLOW_ADOPTION_ANNOTATION) in names:
            name = namespace["metadata"]["name"]
            patch = {"metadata": {"annotations": {ALLOW_ADOPTION_ANNOTATION: None}}}
            await host.merge_patch(f"{NAMESPACES_PATH}/{name}", patch)
            say(f"host: removed annotation {ALLOW_ADOPTION_ANNOTATION} from namespace {name}")


async def _delete_records(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Delete what the agent recorded in its namespace, and its accounts there."""
    space, name = f"namespaces/{leaving.namespace}", leaving.agent
    if await find(host, f"/api/v1/{space}") is None:
        return
    accounts = f"/api/v1/{space}/serviceaccounts"
    names = [each["metadata"]["name"] for each in (await host.get(accounts)).get("items") or ()]
    await delete_present(host, f"/api/v1/{space}/configmaps/{name}-state", say)
    for feature in FEATURES:
        await feature.purge(host, leaving.namespace, name, say)
    await delete_present(host, f"/apis/coordination.k8s.io/v1/{space}/leases/{name}", say)
    for own in names:
        if own == name or own.endswith(f".{name}"):
            await delete_present(host, f"{accounts}/{own}", say)


async def _delete_namespace(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Delete the agent's namespace if nothing of others is in it."""
    path = f"{NAMESPACES_PATH}/{leaving.namespace}"
    if leaving.namespace in _OF_KUBERNETES or await find(host, path) is None:
        return
    text = "{} {} in it does not belong to the agent"
    if obstacle := await obstacle_in(host, leaving.namespace, "", text):
        say(f"host: namespace {leaving.namespace} stays: {obstacle}")
    else:
        await delete_present(host, path, say)
