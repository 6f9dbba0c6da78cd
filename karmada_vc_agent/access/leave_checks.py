"""Checks before `leave` begins: the Cluster is ours, and the name is known."""

from karmada_vc_agent.access.apply_objects import find
from karmada_vc_agent.access.hub_objects import HubAccess, named_clusters
from karmada_vc_agent.access.join_preflight import CLUSTER_ROLES_PATH, PreflightError
from karmada_vc_agent.access.leave_steps import HubFacts, LeaveError, Leaving, known_state
from karmada_vc_agent.cluster.claims import claim_of
from karmada_vc_agent.cluster.hub_clusters import agent_id, agent_of, cluster_id
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, dig


def check_ours(found: Object | None, leaving: Leaving, host_uid: str) -> None:
    """Reject a Cluster that this host did not register, or that another agent serves.

    host_uid: empty = the host is unreachable; then only Push Clusters are detected. Raises
    PreflightError.
    """
    if found is None:
        return
    name = leaving.cluster
    own_id = dig(found, "spec", "id")
    if dig(found, "spec", "syncMode") != "Pull" or (
        host_uid and own_id != cluster_id(host_uid, name)
    ):
        problem = (
            f'Cluster "{name}" on the hub is not a virtual cluster of this host (its spec.id is '
            f"{own_id}); nothing was changed"
        )
        raise PreflightError([problem])
    agent, given = agent_of(found), agent_id(leaving.namespace, leaving.agent)
    if agent not in ("", given):
        problem = (
            f'Cluster "{name}" on the hub is served by agent {agent} (namespace/name), not by '
            f"{given}; give --agent-namespace and --agent-name, or that agent's --config. "
            "Nothing was changed"
        )
        raise PreflightError([problem])


async def check_known(
    leaving: Leaving, facts: HubFacts, hub: ApiClient | None, host: ApiClient | None
) -> None:
    """Reject a name that is unknown, and one whose namespaces another agent claims.

    hub, host: None = unreachable. Raises LeaveError, PreflightError, KubeError.
    """
    agents = await claimants(host, leaving.cluster) if host is not None else set()
    if others := agents - {leaving.agent}:
        problem = (
            f'namespaces of virtual cluster "{leaving.cluster}" on the host are claimed by agent '
            f'"{min(others)}", not by "{leaving.agent}"; nothing was changed'
        )
        raise PreflightError([problem])
    if facts.cluster is not None or agents:
        return
    if hub is not None and leaving.cluster in await _named_by_role(hub, leaving):
        return
    known = await _remembered(host, leaving) if host is not None else []
    if leaving.cluster in known:
        return
    of_agent = f"agent {agent_id(leaving.namespace, leaving.agent)}"
    text = f'virtual cluster "{leaving.cluster}" of {of_agent} not found'
    raise LeaveError(f"{text}; known: {', '.join(sorted(known))}" if known else text)


async def claimants(host: ApiClient, cluster: str) -> set[str]:
    """Return the agents that claim host namespaces of a virtual cluster."""
    answer = await host.get("/api/v1/namespaces", {"labelSelector": f"{CLUSTER_LABEL}={cluster}"})
    claims = (claim_of(namespace) for namespace in answer.get("items") or [])
    return {claim.agent for claim in claims if claim is not None}


async def _named_by_role(hub: ApiClient, leaving: Leaving) -> list[str]:
    role = HubAccess(leaving.agent, ()).role
    return named_clusters(await find(hub, f"{CLUSTER_ROLES_PATH}/{role}") or {})


async def _remembered(host: ApiClient, leaving: Leaving) -> list[str]:
    state = await known_state(host, leaving.namespace, leaving.agent)
    return list(state.clusters()) if state is not None else []
