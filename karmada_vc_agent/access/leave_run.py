"""Run `leave`: by the running agent, by this process, or with one side unreachable."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import click

from karmada_vc_agent.access import join_steps, leave_claims, leave_purge, leave_steps
from karmada_vc_agent.access.apply_objects import find
from karmada_vc_agent.access.leave_checks import check_known, check_ours
from karmada_vc_agent.access.leave_cleaning import HostCleaner, claimed_clusters, describe
from karmada_vc_agent.access.leave_purge import InstalledAgent
from karmada_vc_agent.access.leave_steps import SHOWN, HubFacts, LeaveError, Leaving
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.errors import NotServedError, UnreachableError
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.runner.api_servers import check_apart, check_karmada
from karmada_vc_agent.work.rules.orphaned import is_orphan, namespaces_needed

PROBE_S = 10.0
_HAD_LEFT = "had left before; nothing was left to remove"


@dataclass(frozen=True, slots=True)
class LeavePlan:
    """All input of a `leave`.

    purges: whether the agent goes as well. flags: those of the command that say where it is.
    """

    what: Leaving
    hub: Credentials
    host: Credentials
    is_sure: bool
    is_forced: bool
    purges: bool = False
    flags: str = ""

    @property
    def agent(self) -> InstalledAgent:
        """Whose virtual cluster leaves."""
        return InstalledAgent(self.what.agent, self.what.namespace)


async def run_leave(plan: LeavePlan) -> None:
    """Leave as planned. Raises ConfigError, LeaveError, PreflightError, KubeError."""
    async with _connect(plan) as (hub, host, uid):
        if host is not None:
            plan = await _as_agent(plan, host)
        if hub is not None:
            await _leave(plan, hub, host, uid)
        elif host is not None:
            await check_known(plan.what, leave_steps.NOTHING, None, host)
            _confirm(plan, f"Remove virtual cluster {plan.what.cluster} from the host only?")
            await _leave_host(plan, host)


async def _leave(plan: LeavePlan, hub: ApiClient, host: ApiClient | None, uid: str) -> None:
    """Leave a hub that answers; uid: of the host."""
    await check_karmada(hub)
    if host is not None:
        await check_apart(hub, uid)
    facts = await leave_steps.read_hub(hub, plan.what.cluster)
    check_ours(facts.cluster, plan.what, uid)
    if plan.purges:
        await leave_purge.check_last(plan.agent, hub, host, uid, leaving=plan.what.cluster)
    await check_known(plan.what, facts, hub, host)
    was_noted = host is not None and await leave_steps.has_left(host, plan.what)
    warn(plan, facts)
    and_agent = f" and agent {plan.what.agent}" if plan.purges else ""
    _confirm(plan, f"Remove virtual cluster {plan.what.cluster}{and_agent}?")
    if host is not None:
        await _leave_both(plan, hub, host)
    else:
        await _leave_hub(plan, hub)
    had_left = facts.cluster is None and was_noted
    _say(f"{plan.what.cluster} {_HAD_LEFT if had_left else 'has left'}")
    if plan.purges:
        await leave_purge.purge(plan.agent, hub, host, _say)
    elif host is not None:
        await leave_purge.report_agent(plan.agent, hub, host, plan.flags, _say)


async def _as_agent(plan: LeavePlan, host: ApiClient) -> LeavePlan:
    """Find the user to impersonate for claimed namespaces before anything is changed."""
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
            _say("no agent is running: cleaning up from here")
            await _leave_by_ourselves(plan, hub, host)
            await _give_up_policies(plan, host)
    except leave_steps.AgentLeadsError:
        # By now it has renewed the Lease of the Cluster, if it serves it.
        if await _is_served(plan, hub, host):
            await _leave_by_agent(plan, hub, host)
            return
        _say(f"the running agent does not serve {plan.what.cluster}: cleaning up from here")
        await _leave_by_ourselves(plan, hub, host)


async def _is_served(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> bool:
    """Whether the leading agent renews the Lease of the Cluster."""
    if await find(hub, f"{CLUSTERS_PATH}/{plan.what.cluster}") is None:
        return False
    leader = await leave_steps.live_leader_of(host, plan.what)
    facts = await leave_steps.read_hub(hub, plan.what.cluster)
    return facts.cluster is not None and leader != "" and leader == facts.served_by


async def _leave_by_agent(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> None:
    what = plan.what
    _say(f"{what.cluster} is served by a running agent, which cleans up the host")
    if what.preserve:
        await leave_steps.preserve_works(hub, what.cluster, _say)
    await leave_steps.delete_cluster(hub, what.cluster, _say)
    await leave_steps.wait_gone(hub, what, _say, releases=False)
    # Remove what no Work created, such as `default`.
    await leave_steps.clean_host(host, what, _say, agent_releases=True)
    await _give_up_policies(plan, host)
    await leave_steps.take_rights(hub, what, _say)


async def _leave_by_ourselves(plan: LeavePlan, hub: ApiClient, host: ApiClient) -> None:
    what = plan.what
    await leave_steps.delete_cluster(hub, what.cluster, _say)
    await leave_steps.clean_host(host, what, _say)
    await leave_steps.wait_gone(hub, what, _say, releases=True)
    await leave_steps.take_rights(hub, what, _say)


async def _leave_host(plan: LeavePlan, host: ApiClient) -> None:
    """Clean up the host while the hub is unreachable, and print what remains on the hub."""
    what = plan.what
    async with leave_steps.take_lead(host, what):
        await leave_steps.remember_left(host, what, _say)
        await leave_steps.clean_host(host, what, _say)
        await _give_up_policies(plan, host)
    space = execution_namespace(what.cluster)
    _say(f"{what.cluster} has left the host. The hub does not answer, so these remain there:")
    _say(f"  Cluster {what.cluster}, its Works in {space}, its Lease in karmada-cluster")
    _say(f"  the names {what.cluster} in the roles vc-agent:{what.agent}")
    _say(f"Once it answers, run karmada-vc-agent leave {what.cluster} again")


async def _leave_hub(plan: LeavePlan, hub: ApiClient) -> None:
    """Clean up the hub while the host is unreachable, and print what remains on the host."""
    what = plan.what
    await leave_steps.delete_cluster(hub, what.cluster, _say)
    await leave_steps.wait_gone(hub, what, _say, releases=True)
    await leave_steps.take_rights(hub, what, _say)
    _say("The host does not answer, so these remain there:")
    _say(f"  namespaces with label {CLUSTER_LABEL}={what.cluster}, and what is in them")
    _say(f"  cluster.{what.cluster} in ConfigMap {what.namespace}/{what.agent}-state")
    _say(f"Once it answers, run karmada-vc-agent leave {what.cluster} again")


# --- purge ------------------------------------------------------------------------------


async def run_purge(plan: LeavePlan) -> None:
    """Remove an agent without virtual clusters. Raises LeaveError, PreflightError, KubeError."""
    async with _connect(plan) as (hub, host, uid):
        if hub is not None:
            await check_karmada(hub)
        await leave_purge.check_last(plan.agent, hub, host, uid)
        _confirm(plan, f"Remove agent {plan.what.agent} and all that join created for it?")
        await leave_purge.purge(plan.agent, hub, host, _say)


# --- prune ------------------------------------------------------------------------------


async def run_prune(plan: LeavePlan) -> None:
    """List host objects whose Work is gone; remove them with --yes."""
    async with _client("hub", plan.hub) as hub, _client("host", plan.host) as host:
        clusters = (
            (plan.what.cluster,)
            if plan.what.cluster
            else await claimed_clusters(host, plan.what.agent)
        )
        total = 0
        for cluster in clusters:
            total += await _prune(plan, hub, host, cluster)
    if total and not plan.is_sure:
        _say(f"to remove these {total}, run the command again with --yes")
    elif not total:
        _say("nothing to remove")


async def _prune(plan: LeavePlan, hub: ApiClient, host: ApiClient, cluster: str) -> int:
    facts = await leave_steps.read_hub(hub, cluster)
    if facts.cluster is None:
        command = f"karmada-vc-agent leave {cluster}"
        _say(f"{cluster}: its Cluster is not on the hub; {command} removes everything it has")
        return 0
    if facts.cluster["metadata"].get("deletionTimestamp"):
        _say(f"{cluster}: its Cluster is being deleted on the hub, and everything it has with it")
        return 0
    what = replace(plan.what, cluster=cluster)
    check_ours(facts.cluster, what, await join_steps.host_uid(host))
    user = await leave_claims.claims_user(host, plan.what.agent) if plan.is_sure else ""
    cleaner = HostCleaner(host, plan.what.agent, cluster, _say, user, agent_releases=True)
    return await _prune_objects(plan, hub, cleaner) + await _prune_namespaces(plan, hub, cleaner)


async def _prune_objects(plan: LeavePlan, hub: ApiClient, cleaner: HostCleaner) -> int:
    found = await cleaner.orphans(await _work_names(hub, cleaner.cluster))
    if found and plan.is_sure:
        # Read again: a Work may have been created while the host was listed.
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
    """Delete or release claimed namespaces that no Work needs, unless others have objects there."""
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
        if name in await cleaner.orphaned_namespaces(needed):  # no Work was created meanwhile
            await cleaner.give_up({name: live}, preserve=False)
            pruned += 1
    return pruned


# --- output -----------------------------------------------------------------------------


def warn(plan: LeavePlan, facts: HubFacts) -> None:
    """Print what still targets the virtual cluster, and what becomes of it."""
    if facts.cluster is None:
        _say(f"Cluster {plan.what.cluster} is not on the hub; removing what remains of it")
    if not facts.bindings:
        return
    fate = "stays, without the agent's labels" if plan.what.preserve else "ends"
    _say(f"bindings still target {plan.what.cluster}; what they run there {fate}:")
    for binding in facts.bindings[:SHOWN]:
        _say(f"  {binding}")
    if len(facts.bindings) > SHOWN:
        _say(f"  and {len(facts.bindings) - SHOWN} more")


def _confirm(plan: LeavePlan, question: str) -> None:
    """Ask for confirmation unless --yes is given. Raises LeaveError on "no", or without a tty."""
    if plan.is_sure:
        return
    if not sys.stdin.isatty():
        raise LeaveError("no terminal to ask for confirmation; use --yes. Nothing was changed")
    if not click.confirm(question):
        raise LeaveError("nothing was changed")


async def _answers(plan: LeavePlan, client: ApiClient) -> bool:
    """Whether a server answers. Raises LeaveError if it does not, unless forced."""
    path = CLUSTERS_PATH if client.name == "hub" else "/api/v1/namespaces/kube-system"
    try:
        async with waiting(f"an answer from the {client.name}", PROBE_S):
            await client.get(path, {"limit": "1"} if client.name == "hub" else None)
    except NotServedError:
        return True  # not Karmada: reported later
    except (UnreachableError, TimeoutError) as error:
        if not plan.is_forced:
            raise LeaveError(
                f"no answer from the {client.name} ({error or 'timed out'}); with --force, leave "
                "cleans up the other side and prints what remains"
            ) from error
        _say(f"the {client.name} does not answer: continuing without it")
        return False
    return True


@asynccontextmanager
async def _connect(
    plan: LeavePlan,
) -> AsyncIterator[tuple[ApiClient | None, ApiClient | None, str]]:
    """Yield clients of hub and host, None for one that does not answer, and the UID of the host.

    Raises LeaveError if neither answers, or if one does not and the plan is not forced.
    """
    async with _client("hub", plan.hub) as hub, _client("host", plan.host) as host:
        has_hub, has_host = await _answers(plan, hub), await _answers(plan, host)
        if not has_hub and not has_host:
            raise LeaveError("neither hub nor host answers")
        uid = await join_steps.host_uid(host) if has_host else ""
        yield hub if has_hub else None, host if has_host else None, uid


def _client(name: str, credentials: Credentials) -> ApiClient:
    return ApiClient(name, credentials, connections=8, user_agent="karmada-vc-agent-leave")


def _say(text: str) -> None:
    click.echo(text)
