"""`karmada-vc-agent leave`: its options, and how it runs."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any

import click

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors, waiting
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.virtual_cluster_problems import cluster_name_problem
from karmada_vc_agent.install import join_hub, leave_purge, leave_steps
from karmada_vc_agent.install.apply_objects import find
from karmada_vc_agent.install.leave_host import (
    HostCleaner,
    check_exists,
    check_ours,
    claimed,
    claims_user,
    clean_host,
    describe,
)
from karmada_vc_agent.install.leave_steps import SHOWN, Leaving, Say
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotServedError, UnreachableError
from karmada_vc_agent.kube.kubeconfig import find_credentials, read_kubeconfig
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import parse_duration_s
from karmada_vc_agent.runner.hub_presence import check_apart, check_karmada
from karmada_vc_agent.work.rules.ownership import is_orphan, namespaces_needed

PROBE_S = 10.0
_say: Say = click.echo
_HAD_LEFT = "had left before; nothing was left to remove"


async def run_leave(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """Remove a virtual cluster. Raises CommandError, KubeError."""
    async with _connect(leaving, hub_at, host_at) as (hub, host, uid):
        if host is not None and await HostCleaner(host, leaving, _say).namespaces():
            leaving = replace(leaving, claims_user=await claims_user(host, leaving.agent))
        cluster = await _check(leaving, hub, host, uid)
        had_left = host is not None and await leave_steps.has_left(host, leaving)
        question = f"Remove virtual cluster {leaving.cluster}"
        if hub is not None:
            bindings = await leave_steps.bindings_to(hub, leaving.cluster)
            warn(leaving, bindings, is_on_hub=cluster is not None)
            question += f" and agent {leaving.agent}" if leaving.purges else ""
        else:
            question += " from the host only"
        _confirm(leaving, f"{question}?")
        await _leave(leaving, hub, host)
        _report_rest(leaving, hub, host)
        if hub is None:
            return
        had_left = had_left and cluster is None
        _say(f"{leaving.cluster} {_HAD_LEFT if had_left else 'has left'}")
        if leaving.purges:
            await leave_purge.purge(leaving, hub, host, _say)
        elif host is not None:
            await leave_purge.report_agent(leaving, hub, host, _say)


async def _check(
    leaving: Leaving, hub: ApiClient | None, host: ApiClient | None, uid: str
) -> Object | None:
    """Check that the virtual cluster may leave; return its Cluster. uid: of the host."""
    cluster = None
    if hub is not None:
        await check_karmada(hub)
        if host is not None:
            await check_apart(hub, uid)
        cluster = await find(hub, f"{CLUSTERS_PATH}/{leaving.cluster}")
        check_ours(cluster, leaving, uid)
        if leaving.purges:
            await leave_purge.check_last(leaving, hub, host, uid)
    await check_exists(leaving, cluster, hub, host)
    return cluster


async def _leave(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None) -> None:
    """Remove the virtual cluster from hub and host; None = it does not answer."""
    name = leaving.cluster
    lead = leave_steps.leading(hub, host, leaving, _say) if host else nullcontext(False)
    async with lead as is_served:
        if host is not None:
            await leave_steps.remember_left(host, leaving, _say)
        if hub is not None:
            if is_served and leaving.preserve:
                await leave_steps.preserve_works(hub, name, _say)
            await leave_steps.delete_cluster(hub, name, _say)
        if host is not None and not is_served:
            await clean_host(host, leaving, _say)
        if hub is not None:
            await leave_steps.wait_deleted(hub, leaving, _say, releases=not is_served)
        if host is not None:
            if is_served:  # the agent leaves what no Work created, such as `default`
                await clean_host(host, leaving, _say, agent_releases=True)
            await leave_purge.give_up_policies(host, leaving, _say)
        if hub is not None:
            await leave_steps.take_rights(hub, leaving, _say)


def _report_rest(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None) -> None:
    """Print what remains where a server does not answer."""
    name = leaving.cluster
    if hub is None:
        _say(f"{name} has left the host. The hub does not answer, so these remain there:")
        space = execution_namespace(name)
        _say(f"  Cluster {name}, its Works in {space}, its Lease in karmada-cluster")
        _say(f"  the names {name} in the roles vc-agent:{leaving.agent}")
    elif host is None:
        _say("The host does not answer, so these remain there:")
        _say(f"  namespaces with label {CLUSTER_LABEL}={name}, and what is in them")
        _say(f"  cluster.{name} in ConfigMap {leaving.namespace}/{leaving.agent}-state")
    if hub is None or host is None:
        _say(f"Once it answers, run karmada-vc-agent leave {name} again")


# --- purge ------------------------------------------------------------------------------


async def run_purge(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """Remove an agent without virtual clusters. Raises CommandError, KubeError."""
    async with _connect(leaving, hub_at, host_at) as (hub, host, uid):
        if hub is not None:
            await check_karmada(hub)
        await leave_purge.check_last(leaving, hub, host, uid)
        _confirm(leaving, f"Remove agent {leaving.agent} and all that join created for it?")
        await leave_purge.purge(leaving, hub, host, _say)


# --- prune ------------------------------------------------------------------------------


async def run_prune(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """List host objects whose Work is deleted; remove them with --yes."""
    async with _client("hub", hub_at) as hub, _client("host", host_at) as host:
        claims = await claimed(host, f"{AGENT_LABEL}={leaving.agent}")
        clusters = [leaving.cluster] if leaving.cluster else {of.cluster for _, of in claims}
        total = sum(
            [await _prune(replace(leaving, cluster=each), hub, host) for each in sorted(clusters)]
        )
    if total and not leaving.is_sure:
        _say(f"to remove these {total}, run the command again with --yes")
    elif not total:
        _say("nothing to remove")


async def _prune(leaving: Leaving, hub: ApiClient, host: ApiClient) -> int:
    name = leaving.cluster
    cluster = await find(hub, f"{CLUSTERS_PATH}/{name}")
    if cluster is None:
        command = f"karmada-vc-agent leave {name}"
        _say(f"{name}: its Cluster is not on the hub; {command} removes everything it has")
        return 0
    if cluster["metadata"].get("deletionTimestamp"):
        _say(f"{name}: its Cluster is being deleted on the hub, and everything it has with it")
        return 0
    check_ours(cluster, leaving, await join_hub.host_uid(host))
    user = await claims_user(host, leaving.agent) if leaving.is_sure else ""
    cleaner = HostCleaner(host, replace(leaving, claims_user=user), _say, agent_releases=True)
    pruned = await _prune_objects(leaving, hub, cleaner)
    return pruned + await _prune_namespaces(leaving, hub, cleaner)


async def _prune_objects(leaving: Leaving, hub: ApiClient, cleaner: HostCleaner) -> int:
    """Delete objects without a Work. The Works are read last: one may be created meanwhile."""
    objects = await cleaner.objects(await cleaner.namespaces())
    works = {each["metadata"]["name"] for each in await leave_steps.works_of(hub, cleaner.cluster)}
    orphans = [each for each in objects if is_orphan(each[1], works)]
    for each in orphans:
        _say(f"{cleaner.cluster}: {'removing' if leaving.is_sure else 'orphaned'} {describe(each)}")
        if leaving.is_sure:
            await cleaner.delete(*each)
    return len(orphans)


async def _prune_namespaces(leaving: Leaving, hub: ApiClient, cleaner: HostCleaner) -> int:
    """Delete or release claimed namespaces that no Work needs, unless others have objects there."""

    async def orphaned() -> dict[str, Object]:
        works = await leave_steps.works_of(hub, cleaner.cluster)
        return await cleaner.orphaned_namespaces(namespaces_needed(works))

    pruned = 0
    for name, live in (await orphaned()).items():
        if obstacle := await cleaner.obstacle(name, live):
            _say(f"{cleaner.cluster}: orphaned Namespace {name} stays: {obstacle}")
            continue
        if not leaving.is_sure:
            _say(f"{cleaner.cluster}: orphaned Namespace {name}")
        elif name in await orphaned():  # no Work was created meanwhile
            await cleaner.give_up(live, preserve=False)
        else:
            continue
        pruned += 1
    return pruned


# --- output -----------------------------------------------------------------------------


def warn(leaving: Leaving, bindings: Sequence[str], *, is_on_hub: bool) -> None:
    """Print which bindings still target the virtual cluster, and what becomes of what they run."""
    if not is_on_hub:
        _say(f"Cluster {leaving.cluster} is not on the hub; removing what remains of it")
    if not bindings:
        return
    fate = "stays, without the agent's labels" if leaving.preserve else "ends"
    _say(f"bindings still target {leaving.cluster}; what they run there {fate}:")
    for binding in bindings[:SHOWN]:
        _say(f"  {binding}")
    if len(bindings) > SHOWN:
        _say(f"  and {len(bindings) - SHOWN} more")


def _confirm(leaving: Leaving, question: str) -> None:
    """Ask for confirmation unless --yes is given. Raises CommandError on "no", or without a tty."""
    if leaving.is_sure:
        return
    if not sys.stdin.isatty():
        raise CommandError("no terminal for the confirmation; use --yes. Nothing was changed")
    if not click.confirm(question):
        raise CommandError("nothing was changed")


async def _answers(leaving: Leaving, client: ApiClient) -> bool:
    """Return whether a server answers. Raises CommandError if it does not, unless forced."""
    path = CLUSTERS_PATH if client.name == "hub" else "/api/v1/namespaces/kube-system"
    try:
        async with waiting(f"an answer from the {client.name}", PROBE_S):
            await client.get(path, {"limit": "1"} if client.name == "hub" else None)
    except NotServedError:
        return True  # not Karmada: reported later
    except (UnreachableError, TimeoutError) as error:
        if not leaving.is_forced:
            raise CommandError(
                f"no answer from the {client.name} ({error or 'timed out'}); with --force, leave "
                "cleans up the other side and prints what remains"
            ) from error
        _say(f"the {client.name} does not answer: continuing without it")
        return False
    return True


@asynccontextmanager
async def _connect(
    leaving: Leaving, hub_at: Credentials, host_at: Credentials
) -> AsyncIterator[tuple[ApiClient | None, ApiClient | None, str]]:
    """Yield clients of hub and host, None for one that does not answer, and the UID of the host.

    Raises CommandError if neither answers, or if one does not and `leaving` is not forced.
    """
    async with _client("hub", hub_at) as hub, _client("host", host_at) as host:
        has_hub, has_host = await _answers(leaving, hub), await _answers(leaving, host)
        if not has_hub and not has_host:
            raise CommandError("neither hub nor host answers")
        uid = await join_hub.host_uid(host) if has_host else ""
        yield hub if has_hub else None, host if has_host else None, uid


def _client(name: str, credentials: Credentials) -> ApiClient:
    return ApiClient(name, credentials, connections=8, user_agent="karmada-vc-agent-leave")


_EPILOG = """\b
Examples:
  # remove a virtual cluster and everything that runs in it
  karmada-vc-agent leave branch-a --config agent.yaml \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # keep its workloads running, unmanaged
  karmada-vc-agent leave branch-a --preserve-resources --yes \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # the hub is lost: stop the agent, then clean up the host and print what remains on the hub
  karmada-vc-agent leave branch-a --force --yes \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # list, then remove objects and namespaces whose Work disappeared while the agent was down
  karmada-vc-agent leave --prune --karmada-kubeconfig admin.kubeconfig
  karmada-vc-agent leave --prune --yes --karmada-kubeconfig admin.kubeconfig
\b
  # with the last virtual cluster, or after it, remove the agent itself as well
  karmada-vc-agent leave branch-a --purge --config agent.yaml --karmada-kubeconfig admin.kubeconfig
  karmada-vc-agent leave --purge --config agent.yaml --karmada-kubeconfig admin.kubeconfig
\b
Afterwards remove the virtual cluster from the agent's settings. Until then the agent remembers
that it left and does not register it; karmada-vc-agent join allows it again.
"""


@click.command(epilog=_EPILOG, short_help="Remove one virtual cluster, or the agent itself.")
@click.argument("cluster", required=False, default="")
@click.option(
    "--config",
    "config_path",
    type=shared.FilePath(),
    help="Settings file of the agent, for its name and namespace.",
)
@shared.agent_name
@shared.agent_namespace
@click.option(
    "--karmada-kubeconfig",
    required=True,
    type=shared.FilePath(),
    help="Kubeconfig with administrator rights on the hub.",
)
@shared.karmada_context
@shared.kubeconfig
@click.option(
    "--preserve-resources", is_flag=True, help="Keep the host objects, without the agent's labels."
)
@click.option(
    "--prune",
    "prunes",
    is_flag=True,
    help="Remove only host objects whose Work was deleted; without --yes, list them.",
)
@click.option(
    "--purge",
    "purges",
    is_flag=True,
    help="Also remove the agent and all that join created for it, once no virtual cluster is left.",
)
@click.option(
    "--force", "is_forced", is_flag=True, help="Continue if the hub or the host is unreachable."
)
@click.option("--yes", "is_sure", is_flag=True, help="Skip the confirmation.")
@click.option(
    "--timeout",
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for the hub to remove the Cluster.",
)
def leave(**options: Any) -> None:
    """Remove one virtual cluster cleanly: Cluster, Works, host objects, rights.

    Lists the bindings that still target it, and asks for confirmation. If a running agent serves
    it, that agent cleans up the host; otherwise this command does. On the host it touches only
    objects with the label of the virtual cluster in namespaces with the claim of the agent. With
    the last virtual cluster it also removes the agent's rights and policies, and with --purge the
    agent itself.
    """
    with one_line_errors():
        leaving = _leaving(options)
        run = run_prune if options["prunes"] else run_leave if leaving.cluster else run_purge
        hub = read_kubeconfig(options["karmada_kubeconfig"], options["karmada_context"])
        host = find_credentials(options["kubeconfig"], in_cluster_first=True)
        asyncio.run(run(leaving, hub, host))


def _leaving(options: dict[str, Any]) -> Leaving:
    """Return what leaves. Raises ConfigError."""
    cluster, prunes, purges = options["cluster"], options["prunes"], options["purges"]
    preserve = options["preserve_resources"]
    if not (cluster or prunes or purges):
        raise ConfigError("flags", "CLUSTER", "name the virtual cluster to remove")
    if cluster and (problem := cluster_name_problem(cluster)):
        raise ConfigError("flags", "CLUSTER", problem)
    if prunes and (purges or preserve or options["is_forced"]):
        others = "--purge, --preserve-resources or --force"
        raise ConfigError("flags", "--prune", f"cannot be combined with {others}")
    if preserve and not cluster:
        raise ConfigError("flags", "--preserve-resources", "needs a virtual cluster to leave")
    _, agent, namespace = shared.settings_and_agent(options)
    try:
        timeout_s = parse_duration_s(options["timeout"])
    except ValueError as error:
        raise ConfigError("flags", "--timeout", str(error)) from error
    return Leaving(
        cluster,
        agent,
        namespace,
        preserve,
        timeout_s,
        is_sure=options["is_sure"],
        is_forced=options["is_forced"],
        purges=purges,
    )
