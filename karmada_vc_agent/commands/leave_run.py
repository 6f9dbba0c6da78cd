"""Carry a `leave` out: by the agent that serves, by ourselves, or with one side away."""

import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import click

from karmada_vc_agent.commands import join_steps, leave_claims, leave_steps
from karmada_vc_agent.commands.apply_objects import find
from karmada_vc_agent.commands.leave_checks import check_known, check_ours
from karmada_vc_agent.commands.leave_cleaning import HostCleaner, claimed_clusters, describe
from karmada_vc_agent.commands.leave_steps import SHOWN, HubFacts, LeaveError, Leaving
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.errors import NotFoundError, UnreachableError
from karmada_vc_agent.lifecycle.api_servers import check_apart, check_karmada
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.planning.orphaned import is_orphan, namespaces_needed
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH

PROBE_S = 10.0
_HAD_LEFT = "had left before; nothing of it is left"


@dataclass(frozen=True, slots=True)
class LeavePlan:
    """Everything a `leave` needs to know."""

    what: Leaving
    hub: Credentials
    host: Credentials
    is_sure: bool
    is_forced: bool


async def run_leave(plan: LeavePlan) -> None:
    """Do it. Raises ConfigError, LeaveError, PreflightError, KubeError."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(_client("hub", plan.hub))
        host = await stack.enter_async_context(_client("host", plan.host))
        has_hub, has_host = await _answers(plan, hub), await _answers(plan, host)
        if not has_hub and not has_host:
            raise LeaveError("neither hub nor host answers, so nothing can be done")
        uid = await join_steps.host_uid(host) if has_host else ""
        if has_host:
            plan = await _as_agent(plan, host)
        if not has_hub:
            await check_known(plan.what, leave_steps.NOTHING, None, host)
            _confirm(plan, f"Remove virtual cluster {plan.what.cluster} from the host only?")
            await _leave_host(plan, host)
            return
        await check_karmada(hub)
        if has_host:
            await check_apart(hub, uid)
        facts = await leave_steps.look_at_hub(hub, plan.what.cluster)
        check_ours(facts.cluster, plan.what, uid)
        await check_known(plan.what, facts, hub, host if has_host else None)
        was_noted = has_host and await leave_steps.has_left(host, plan.what)
        warn(plan, facts)
        _confirm(plan, f"Remove virtual cluster {plan.what.cluster}?")
        if has_host:
            await _leave_both(plan, hub, host)
        else:
            await _leave_hub(plan, hub)
    had_left = facts.cluster is None and was_noted
    _say(f"{plan.what.cluster} {_HAD_LEFT if had_left else 'has left'}")


async def _as_agent(plan: LeavePlan, host: ApiClient) -> LeavePlan:
    """Find out as whom claimed namespaces are given up, before anything is done."""
    what = plan.what
    if not await HostCleaner(host, what.agent, what.cluster, _say).namespaces():
        return plan
    user = await leave_claims.claims_user(host, what.agent)
    return replace(plan, what=replace(what, claims_user=user))


async def _give_up_policies(plan: LeavePlan, host: ApiClient) -> None:
    """Remove the agent's rights and policies with its last virtual cluster."""
    what = plan.what
    await leave_claims.give_up_policies(host, what.namespace, what.agent, what.cluster, _say)


async def _leave_both(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> None:
    await leave_steps.remember_left(host, plan.what, _say)
    if await _is_served(plan, hub, host):
        await _leave_by_agent(plan, hub, host)
        return
    try:
        async with leave_steps.take_lead(host, plan.what):
            _say("no agent runs: cleaning up here")
            await _leave_by_ourselves(plan, hub, host)
            await _give_up_policies(plan, host)
    except leave_steps.AgentLeadsError:
        # It has had the time to renew the Lease of the Cluster, if it serves it.
        if await _is_served(plan, hub, host):
            await _leave_by_agent(plan, hub, host)
            return
        _say(f"the agent that runs does not serve {plan.what.cluster}: cleaning up here")
        await _leave_by_ourselves(plan, hub, host)


async def _is_served(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> bool:
    """Whether the agent that leads renews the Lease of the Cluster."""
    if await find(hub, f"{CLUSTERS_PATH}/{plan.what.cluster}") is None:
        return False
    leader = await leave_steps.live_leader_of(host, plan.what)
    facts = await leave_steps.look_at_hub(hub, plan.what.cluster)
    return facts.cluster is not None and leader != "" and leader == facts.served_by


async def _leave_by_agent(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> None:
    what = plan.what
    _say(f"{what.cluster} is served by a running agent, which cleans the host")
    if what.preserve:
        await leave_steps.preserve_works(hub, what.cluster, _say)
    await leave_steps.delete_cluster(hub, what.cluster, _say)
    await leave_steps.wait_gone(hub, what, _say, releases=False)
    # Nobody writes there any more: the agent left what no Work made, as `default`.
    await leave_steps.clean_host(host, what, _say)
    await _give_up_policies(plan, host)
    await leave_steps.take_rights(hub, what, _say)


async def _leave_by_ourselves(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> None:
    what = plan.what
    await leave_steps.delete_cluster(hub, what.cluster, _say)
    await leave_steps.clean_host(host, what, _say)
    await leave_steps.wait_gone(hub, what, _say, releases=True)
    await leave_steps.take_rights(hub, what, _say)


async def _leave_host(plan: LeavePlan, host: ApiClient) -> None:
    """Clean the host while the hub is away, and say what stays on the hub."""
    what = plan.what
    async with leave_steps.take_lead(host, what):
        await leave_steps.remember_left(host, what, _say)
        await leave_steps.clean_host(host, what, _say)
        await _give_up_policies(plan, host)
    space = execution_namespace(what.cluster)
    _say(f"{what.cluster} has left the host. On the hub stay, since it does not answer:")
    _say(f"  Cluster {what.cluster}, its Works in {space}, its Lease in karmada-cluster")
    _say(f"  the names {what.cluster} in the roles vc-agent:{what.agent}")
    _say(f"Once it answers, run karmada-vc-agent leave {what.cluster} again")


async def _leave_hub(plan: LeavePlan, hub: ApiClient) -> None:
    """Clean the hub while the host is away, and say what stays on the host."""
    what = plan.what
    await leave_steps.delete_cluster(hub, what.cluster, _say)
    await leave_steps.wait_gone(hub, what, _say, releases=True)
    await leave_steps.take_rights(hub, what, _say)
    _say("On the host stay, since it does not answer:")
    _say(f"  namespaces with label {CLUSTER_LABEL}={what.cluster}, and what is in them")
    _say(f"  cluster.{what.cluster} in ConfigMap {what.namespace}/{what.agent}-state")
    _say(f"Once it answers, run karmada-vc-agent leave {what.cluster} again")


# --- prune ------------------------------------------------------------------------------


async def run_prune(plan: LeavePlan) -> None:
    """List host objects whose Work vanished; remove them with --yes."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(_client("hub", plan.hub))
        host = await stack.enter_async_context(_client("host", plan.host))
        clusters = (
            (plan.what.cluster,)
            if plan.what.cluster
            else await claimed_clusters(host, plan.what.agent)
        )
        total = 0
        for cluster in clusters:
            total += await _prune(plan, hub, host, cluster)
    if total and not plan.is_sure:
        _say(f"to remove these {total}, run it again with --yes")
    elif not total:
        _say("nothing to remove")


async def _prune(plan: LeavePlan, hub: ApiClient, host: ApiClient, cluster: str) -> int:
    facts = await leave_steps.look_at_hub(hub, cluster)
    if facts.cluster is None:
        command = f"karmada-vc-agent leave {cluster}"
        _say(f"{cluster}: its Cluster is not on the hub; {command} removes all that it has")
        return 0
    if facts.cluster["metadata"].get("deletionTimestamp"):
        _say(f"{cluster}: its Cluster is being deleted on the hub, and what it has goes with it")
        return 0
    what = replace(plan.what, cluster=cluster)
    check_ours(facts.cluster, what, await join_steps.host_uid(host))
    user = await leave_claims.claims_user(host, plan.what.agent) if plan.is_sure else ""
    cleaner = HostCleaner(host, plan.what.agent, cluster, _say, user)
    return await _prune_objects(plan, hub, cleaner) + await _prune_namespaces(plan, hub, cleaner)


async def _prune_objects(plan: LeavePlan, hub: ApiClient, cleaner: HostCleaner) -> int:
    found = await cleaner.orphans(await _work_names(hub, cleaner.cluster))
    if found and plan.is_sure:
        # Read once more: a Work may have come while the host was looked through.
        works = await _work_names(hub, cleaner.cluster)
        found = [one for one in found if is_orphan(one[1], works)]
    for one in found:
        _say(f"{cleaner.cluster}: {'removing' if plan.is_sure else 'orphaned'} {describe(one)}")
        if plan.is_sure:
            await cleaner.delete(*one)
    return len(found)


async def _work_names(hub: ApiClient, cluster: str) -> set[str]:
    return {work["metadata"]["name"] for work in await leave_steps.works_of(hub, cluster)}


async def _prune_namespaces(plan: LeavePlan, hub: ApiClient, cleaner: HostCleaner) -> int:
    """Give up claimed namespaces that no Work needs, unless something of others is in there."""
    needed = namespaces_needed(await leave_steps.works_of(hub, cleaner.cluster))
    pruned = 0
    for name, live in (await cleaner.orphaned_namespaces(needed)).items():
        obstacle = await cleaner.obstacle(name, live)
        if obstacle:
            _say(f"{cleaner.cluster}: orphaned Namespace {name} stays: {obstacle}")
            continue
        if not plan.is_sure:
            _say(f"{cleaner.cluster}: orphaned Namespace {name}")
            pruned += 1
            continue
        needed = namespaces_needed(await leave_steps.works_of(hub, cleaner.cluster))
        if name in await cleaner.orphaned_namespaces(needed):  # no Work came meanwhile
            await cleaner.give_up(name, live, preserve=False)
            pruned += 1
    return pruned


# --- talking ----------------------------------------------------------------------------


def warn(plan: LeavePlan, facts: HubFacts) -> None:
    """Say what still targets the virtual cluster, and what becomes of it."""
    if facts.cluster is None:
        _say(f"Cluster {plan.what.cluster} is not on the hub; removing what is left of it")
    if not facts.bindings:
        return
    fate = "stays, without our marks" if plan.what.preserve else "ends"
    _say(f"bindings still target {plan.what.cluster}; what they run there {fate}:")
    for binding in facts.bindings[:SHOWN]:
        _say(f"  {binding}")
    if len(facts.bindings) > SHOWN:
        _say(f"  and {len(facts.bindings) - SHOWN} more")


def _confirm(plan: LeavePlan, question: str) -> None:
    """Ask, unless --yes was given. Raises LeaveError where the answer is no or nobody is there."""
    if plan.is_sure:
        return
    if not sys.stdin.isatty():
        raise LeaveError("nobody is there to answer; give --yes. Nothing was done")
    if not click.confirm(question):
        raise LeaveError("nothing was done")


async def _answers(plan: LeavePlan, client: ApiClient) -> bool:
    """Whether a server answers; where it does not, that is an error unless forced."""
    path = CLUSTERS_PATH if client.name == "hub" else "/api/v1/namespaces/kube-system"
    try:
        async with waiting(f"an answer from the {client.name}", PROBE_S):
            await client.get(path, {"limit": "1"} if client.name == "hub" else None)
    except NotFoundError:
        return True  # it is no Karmada, which is said later
    except (UnreachableError, TimeoutError) as error:
        if not plan.is_forced:
            raise LeaveError(
                f"no answer from the {client.name} ({error or 'timed out'}); with --force leave "
                "cleans the other side and tells what stays"
            ) from error
        _say(f"the {client.name} does not answer: going on without it")
        return False
    return True


def _client(name: str, credentials: Credentials) -> ApiClient:
    return ApiClient(name, credentials, connections=8, user_agent="karmada-vc-agent-leave")


def _say(text: str) -> None:
    click.echo(text)
