"""Checks before `leave` begins: the Cluster is ours, the name exists, claims may be released.

While the policies exist, only the agent's account may change or delete a claimed namespace
(rewriting-rules 3.5, layer 5). An administrator impersonates that account for these requests only;
that works with and without a running agent, and the other virtual clusters stay protected. Why:
docs/adr/0017.
"""

from karmada_vc_agent.access.hub_objects import named_clusters
from karmada_vc_agent.access.policy_owner import GROUP, PolicyOwner, protected_user
from karmada_vc_agent.cluster.hub_clusters import agent_id, agent_of, cluster_id
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.install.apply_objects import find
from karmada_vc_agent.install.join_preflight import hub_role
from karmada_vc_agent.install.leave_cleaning import claimed
from karmada_vc_agent.install.leave_steps import Leaving, recorded_state
from karmada_vc_agent.kube.absence import is_absent
from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotServedError
from karmada_vc_agent.kube.identity import need_to_act_as, user_name
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, dig

_POLICIES_PATH = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
_NEEDS = (Need("patch", "", "namespaces"), Need("delete", "", "namespaces"))


def check_ours(cluster: Object | None, leaving: Leaving, host_uid: str) -> None:
    """Reject a Cluster that this host did not register, or that another agent serves.

    host_uid: empty = the host is unreachable; then only Push Clusters are detected. Raises
    CommandError.
    """
    if cluster is None:
        return
    name = leaving.cluster
    own_id = dig(cluster, "spec", "id")
    if dig(cluster, "spec", "syncMode") != "Pull" or (
        host_uid and own_id != cluster_id(host_uid, name)
    ):
        problem = (
            f'Cluster "{name}" on the hub is not a virtual cluster of this host (its spec.id is '
            f"{own_id}); nothing was changed"
        )
        raise CommandError(problem)
    agent, given = agent_of(cluster), agent_id(leaving.namespace, leaving.agent)
    if agent not in ("", given):
        problem = (
            f'Cluster "{name}" on the hub is served by agent {agent} (namespace/name), not by '
            f"{given}; give --agent-namespace and --agent-name, or that agent's --config. "
            "Nothing was changed"
        )
        raise CommandError(problem)


async def check_exists(
    leaving: Leaving, cluster: Object | None, hub: ApiClient | None, host: ApiClient | None
) -> None:
    """Reject a name that does not exist, and one whose namespaces another agent claims.

    cluster: on the hub. hub, host: None = unreachable. Raises CommandError, KubeError.
    """
    agents = await claimants(host, leaving.cluster) if host is not None else set()
    if others := agents - {leaving.agent}:
        problem = (
            f'namespaces of virtual cluster "{leaving.cluster}" on the host are claimed by agent '
            f'"{min(others)}", not by "{leaving.agent}"; nothing was changed'
        )
        raise CommandError(problem)
    if cluster is not None or agents:
        return
    if hub is not None and leaving.cluster in named_clusters(await hub_role(hub, leaving.agent)):
        return
    recorded: list[str] = []
    if host is not None:
        recorded = list((await recorded_state(host, leaving.namespace, leaving.agent)).clusters())
    if leaving.cluster in recorded:
        return
    of_agent = f"agent {agent_id(leaving.namespace, leaving.agent)}"
    text = f'virtual cluster "{leaving.cluster}" of {of_agent} not found'
    raise CommandError(f"{text}; recorded: {', '.join(sorted(recorded))}" if recorded else text)


async def claimants(host: ApiClient, cluster: str) -> set[str]:
    """Return the agents that claim host namespaces of a virtual cluster."""
    return {claim.agent for _, claim in await claimed(host, f"{CLUSTER_LABEL}={cluster}")}


async def claims_user(host: ApiClient, agent: str) -> str:
    """Return the user to impersonate when changing claimed namespaces; "" = none.

    Raises CommandError if that is not possible, KubeError.
    """
    policy = PolicyOwner(agent, "", "").claims_policy
    user = protected_user(await _policy(host, f"{_POLICIES_PATH}/{policy}") or {})
    if not user or user == await user_name(host):
        return ""
    law = f"host: ValidatingAdmissionPolicy {policy} lets only {user} release namespaces"
    need = need_to_act_as(user)
    if not await may(host, need):
        source = host.credentials.source
        problem = (
            f"{law}, and {source} may not impersonate it; add this rule, or use another account:"
        )
        raise CommandError(problem, f"  {need}")
    missing = [need for need in _NEEDS if not await may(host, need, user)]
    if missing:
        problem = f"{law}, and that account no longer has the rights; grant it these rules again:"
        raise CommandError(problem, *(f"  {need}" for need in missing), *_ways_out(agent))
    return user


async def _policy(host: ApiClient, path: str) -> Object | None:
    """Return a policy; None where there is none, as on a host without policies."""
    try:
        return await find(host, path)
    except NotServedError:
        if await is_absent(host, path):
            return None
        raise


def _ways_out(agent: str) -> tuple[str, ...]:
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    return (
        "(karmada-vc-agent join --only host does), or remove the agent's policies first:",
        f"  kubectl delete {kinds} -l {AGENT_LABEL}={agent}",
    )
