"""Run `leave`: by the running agent, by this process, or with one side unreachable."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace

import click

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.install import join_steps, leave_purge, leave_steps
from karmada_vc_agent.install.leave_checks import check_known, check_ours, claims_user
from karmada_vc_agent.install.leave_cleaning import HostCleaner, claimed, clean_host, describe
from karmada_vc_agent.install.leave_steps import SHOWN, HubFacts, Leaving
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.errors import NotServedError, UnreachableError
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object
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


async def run_leave(plan: LeavePlan) -> None:
    """Leave as planned. Raises ConfigError, CommandError, KubeError."""
    async with _connect(plan) as (hub, host, uid):
        user = await _claims_user(plan.what, host)
        plan = replace(plan, what=replace(plan.what, claims_user=user))
        facts = await _check(plan, hub, host, uid)
        was_noted = host is not None and await leave_steps.has_left(host, plan.what)
        _ask(plan, facts, has_hub=hub is not None)
        await _leave(plan, hub, host)
        _report_rest(plan.what, hub, host)
        if hub is None:
            return
        had_left = facts.cluster is None and was_noted
        _say(f"{plan.what.cluster} {_HAD_LEFT if had_left else 'has left'}")
        if plan.purges:
            await leave_purge.purge(plan.what, hub, host, _say)
        elif host is not None:
            await leave_purge.report_agent(plan.what, hub, host, plan.flags, _say)


async def _claims_user(what: Leaving, host: ApiClient | None) -> str:
    """Return the user to impersonate for claimed namespaces, "" = none."""
    if host is None or not await HostCleaner(host, what, _say).namespaces():
        return ""
    return await claims_user(host, what.agent)


async def _check(
    plan: LeavePlan, hub: ApiClient | None, host: ApiClient | None, uid: str
) -> HubFacts:
    """Check that the virtual cluster may leave; return what the hub knows. uid: of the host."""
    facts = leave_steps.NOTHING
    if hub is not None:
        await check_karmada(hub)
        if host is not None:
            await check_apart(hub, uid)
        facts = await leave_steps.read_hub(hub, plan.what.cluster)
        check_ours(facts.cluster, plan.what, uid)
        if plan.purges:
            await leave_purge.check_last(plan.what, hub, host, uid)
    await check_known(plan.what, facts, hub, host)
    return facts


def _ask(plan: LeavePlan, facts: HubFacts, *, has_hub: bool) -> None:
    what = f"Remove virtual cluster {plan.what.cluster}"
    if has_hub:
        warn(plan, facts)
        _confirm(plan, f"{what} and agent {plan.what.agent}?" if plan.purges else f"{what}?")
    else:
        _confirm(plan, f"{what} from the host only?")


async def _leave(plan: LeavePlan, hub: ApiClient | None, host: ApiClient | None) -> None:
    """Remove the virtual cluster from hub and host; None = it does not answer."""
    what = plan.what
    lead = leave_steps.leading(hub, host, what, _say) if host is not None else nullcontext(False)
    async with lead as is_served:
        if host is not None:
            await leave_steps.remember_left(host, what, _say)
        if hub is not None:
            if is_served and what.preserve:
                await leave_steps.preserve_works(hub, what.cluster, _say)
            await leave_steps.delete_cluster(hub, what.cluster, _say)
        if host is not None and not is_served:
            await clean_host(host, what, _say)
        if hub is not None:
            await leave_steps.wait_deleted(hub, what, _say, releases=not is_served)
        if host is not None:
            if is_served:  # the agent leaves what no Work created, such as `default`
                await clean_host(host, what, _say, agent_releases=True)
            await leave_purge.give_up_policies(host, what, _say)
        if hub is not None:
            await leave_steps.take_rights(hub, what, _say)


def _report_rest(what: Leaving, hub: ApiClient | None, host: ApiClient | None) -> None:
    """Print what remains where a server does not answer."""
    name = what.cluster
    if hub is None:
        _say(f"{name} has left the host. The hub does not answer, so these remain there:")
        space = execution_namespace(name)
        _say(f"  Cluster {name}, its Works in {space}, its Lease in karmada-cluster")
        _say(f"  the names {name} in the roles vc-agent:{what.agent}")
    elif host is None:
        _say("The host does not answer, so these remain there:")
        _say(f"  namespaces with label {CLUSTER_LABEL}={name}, and what is in them")
        _say(f"  cluster.{name} in ConfigMap {what.namespace}/{what.agent}-state")
    if hub is None or host is None:
        _say(f"Once it answers, run karmada-vc-agent leave {name} again")


# --- purge ------------------------------------------------------------------------------


async def run_purge(plan: LeavePlan) -> None:
    """Remove an agent without virtual clusters. Raises CommandError, KubeError."""
    async with _connect(plan) as (hub, host, uid):
        if hub is not None:
            await check_karmada(hub)
        await leave_purge.check_last(plan.what, hub, host, uid)
        _confirm(plan, f"Remove agent {plan.what.agent} and all that join created for it?")
        await leave_purge.purge(plan.what, hub, host, _say)


# --- prune ------------------------------------------------------------------------------


async def run_prune(plan: LeavePlan) -> None:
    """List host objects whose Work is deleted; remove them with --yes."""
    async with _client("hub", plan.hub) as hub, _client("host", plan.host) as host:
        claims = await claimed(host, f"{AGENT_LABEL}={plan.what.agent}")
        clusters = [plan.what.cluster] if plan.what.cluster else {of.cluster for _, of in claims}
        total = sum([await _prune(plan, hub, host, cluster) for cluster in sorted(clusters)])
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
    user = await claims_user(host, plan.what.agent) if plan.is_sure else ""
    cleaner = HostCleaner(host, replace(what, claims_user=user), _say, agent_releases=True)
    return await _prune_objects(plan, hub, cleaner) + await _prune_namespaces(plan, hub, cleaner)


async def _prune_objects(plan: LeavePlan, hub: ApiClient, cleaner: HostCleaner) -> int:
    """Delete objects without a Work. The Works are read last: one may be created meanwhile."""
    objects = await cleaner.objects(await cleaner.namespaces())
    works = {each["metadata"]["name"] for each in await leave_steps.works_of(hub, cleaner.cluster)}
    orphans = [each for each in objects if is_orphan(each[1], works)]
    for each in orphans:
        _say(f"{cleaner.cluster}: {'removing' if plan.is_sure else 'orphaned'} {describe(each)}")
        if plan.is_sure:
            await cleaner.delete(*each)
    return len(orphans)


async def _prune_namespaces(plan: LeavePlan, hub: ApiClient, cleaner: HostCleaner) -> int:
    """Delete or release claimed namespaces that no Work needs, unless others have objects there."""

    async def orphaned() -> dict[str, Object]:
        works = await leave_steps.works_of(hub, cleaner.cluster)
        return await cleaner.orphaned_namespaces(namespaces_needed(works))

    pruned = 0
    for name, live in (await orphaned()).items():
        if obstacle := await cleaner.obstacle(name, live):
            _say(f"{cleaner.cluster}: orphaned Namespace {name} stays: {obstacle}")
            continue
        if not plan.is_sure:
            _say(f"{cleaner.cluster}: orphaned Namespace {name}")
        elif name in await orphaned():  # no Work was created meanwhile
            await cleaner.give_up({name: live}, preserve=False)
        else:
            continue
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
    """Ask for confirmation unless --yes is given. Raises CommandError on "no", or without a tty."""
    if plan.is_sure:
        return
    if not sys.stdin.isatty():
        raise CommandError("no terminal to ask for confirmation; use --yes. Nothing was changed")
    if not click.confirm(question):
        raise CommandError("nothing was changed")


async def _answers(plan: LeavePlan, client: ApiClient) -> bool:
    """Whether a server answers. Raises CommandError if it does not, unless forced."""
    path = CLUSTERS_PATH if client.name == "hub" else "/api/v1/namespaces/kube-system"
    try:
        async with waiting(f"an answer from the {client.name}", PROBE_S):
            await client.get(path, {"limit": "1"} if client.name == "hub" else None)
    except NotServedError:
        return True  # not Karmada: reported later
    except (UnreachableError, TimeoutError) as error:
        if not plan.is_forced:
            raise CommandError(
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

    Raises CommandError if neither answers, or if one does not and the plan is not forced.
    """
    async with _client("hub", plan.hub) as hub, _client("host", plan.host) as host:
        has_hub, has_host = await _answers(plan, hub), await _answers(plan, host)
        if not has_hub and not has_host:
            raise CommandError("neither hub nor host answers")
        uid = await join_steps.host_uid(host) if has_host else ""
        yield hub if has_hub else None, host if has_host else None, uid


def _client(name: str, credentials: Credentials) -> ApiClient:
    return ApiClient(name, credentials, connections=8, user_agent="karmada-vc-agent-leave")


def _say(text: str) -> None:
    click.echo(text)
