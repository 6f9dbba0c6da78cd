"""`leave` and the agent's admission policies: who may release claims, and when the policies go.

While the policies exist, only the agent's account may change or delete a claimed namespace
(rewriting-rules 3.5, layer 5). An administrator impersonates that account for these requests only;
that works with and without a running agent, and the other virtual clusters stay protected. Why:
docs/adr/0017.
"""

from collections.abc import Callable
from contextlib import suppress

from karmada_vc_agent.access.apply_objects import find
from karmada_vc_agent.access.join_preflight import PreflightError
from karmada_vc_agent.access.leave_cleaning import NAMESPACES_PATH, claimed_clusters
from karmada_vc_agent.access.policy_owner import GROUP, PolicyOwner, protected_user
from karmada_vc_agent.access.policy_removal import remove_policies
from karmada_vc_agent.kube.absence import is_absent
from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError, NotServedError
from karmada_vc_agent.kube.identity import need_to_act_as, user_name
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.runner.agent_state import AgentState

_POLICIES_PATH = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
_NEEDS = (Need("patch", "", "namespaces"), Need("delete", "", "namespaces"))


async def claims_user(host: ApiClient, agent: str) -> str:
    """Return the user to impersonate when changing claimed namespaces; "" = nobody.

    Raises PreflightError if that is not possible, KubeError.
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
        raise PreflightError([problem, f"  {need}"])
    missing = [need for need in _NEEDS if not await may(host, need, user)]
    if missing:
        problem = f"{law}, and that account no longer has the rights; grant it these rules again:"
        raise PreflightError([problem, *(f"  {need}" for need in missing), *_ways_out(agent)])
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


async def give_up_policies(
    host: ApiClient, namespace: str, agent: str, cluster: str, say: Callable[[str], None]
) -> None:
    """Remove the agent's rights and policies if no virtual cluster but `cluster` needs them.

    The rights go first: without the policies they would be too strong. namespace: the agent's.
    Raises KubeError.
    """
    if await _others(host, namespace, agent, cluster):
        return
    with suppress(NotFoundError):
        await host.delete(f"/apis/{RBAC_API}/clusterrolebindings/vc-agent:{agent}")
        say(f"host: agent {agent} has no virtual cluster left: removing all its rights")
    served = await Discovery(host).refresh()
    for policy in await remove_policies(host, served, agent):
        say(f"host: removed {policy}")


async def _others(host: ApiClient, namespace: str, agent: str, cluster: str) -> bool:
    """Whether the agent has claims or registrations of other virtual clusters."""
    if any(name != cluster for name in await claimed_clusters(host, agent)):
        return True
    if await find(host, f"{NAMESPACES_PATH}/{namespace}") is None:
        return False
    state = AgentState(host, namespace, agent)
    await state.load()
    return any(name != cluster and not record.has_left for name, record in state.clusters().items())
