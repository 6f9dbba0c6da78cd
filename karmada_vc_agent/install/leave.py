"""`karmada-vc-agent leave`: its options, how it runs, and the end of an agent."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import click

from karmada_vc_agent.access.rights import MANAGED, named_clusters
from karmada_vc_agent.cluster.host_objects import unlabel_nodes
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, AgentState, host_id
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors, waiting
from karmada_vc_agent.config.checks import cluster_name_problem
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install import host_rights, join_hub
from karmada_vc_agent.install import leave_steps as steps
from karmada_vc_agent.install.apply_objects import Changes, path_of
from karmada_vc_agent.install.join_hub import hub_role
from karmada_vc_agent.install.leave_steps import HostCleaner, Leaving, Say
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError, NotServedError, UnreachableError
from karmada_vc_agent.kube.kubeconfig import find_credentials, read_kubeconfig
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of
from karmada_vc_agent.model.quantity import parse_duration_s
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.vocabulary import (
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    CLUSTER_READER,
    CLUSTER_ROLES_PATH,
    HOST_ANNOTATION,
    MEMBERSHIP_LABEL,
    RBAC_API,
    TENANT_ROLES,
    execution_namespace,
)
from karmada_vc_agent.runner.hub_presence import check_apart, check_karmada
from karmada_vc_agent.work.rules.ownership import is_orphan, namespaces_needed, work_of

_OF_KUBERNETES = frozenset(("default", "kube-system", "kube-public", "kube-node-lease"))


async def check_last(
    leaving: Leaving, hub: ApiClient | None, host: ApiClient | None, host_uid: str
) -> None:
    """Refuse a wrong agent; hub, host: None = no answer. Raises CommandError, KubeError."""
    role = await hub_role(hub, leaving.agent) if hub is not None else {}
    marked = annotations_of(role).get(HOST_ANNOTATION, "")
    if host_uid and marked and marked != host_id(host_uid):
        problem = f'the roles of agent "{leaving.agent}" on the hub are of an agent on another host'
        raise CommandError(f"{problem}; nothing was changed")
    left = await clusters_left(leaving, hub, host)
    if others := [name for name in left if name != leaving.cluster]:
        raise CommandError(
            f"agent {leaving.agent} has other virtual clusters: {listed(others, steps.SHOWN)}; "
            "run leave for each of them first. Nothing was changed"
        )


async def purge(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None, say: Say) -> None:
    """Remove an agent; what others have in its namespace stays, and that with it."""
    if hub is not None:
        await host_rights.prune(hub, leaving.agent, (), Changes(say))
    if host is not None:
        await _purge_host(leaving, host, say)
    if hub is None or host is None:
        away = "hub" if hub is None else "host"
        say(f"The {away} does not answer; once it does, run leave --purge again")
        return
    say(f"agent {leaving.agent} is removed; stop its process if it is not a Deployment of the host")


async def give_up_policies(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Remove rights, then policies, if only the leaving virtual cluster needs them."""
    if set(await clusters_left(leaving, None, host)) - {leaving.cluster}:
        return
    with suppress(NotFoundError):
        await host.delete(f"/apis/{RBAC_API}/clusterrolebindings/vc-agent:{leaving.agent}")
        say(f"host: agent {leaving.agent} has no virtual cluster left: removing all its rights")
    await host_rights.remove_policies(
        host, await Discovery(host).refresh(), leaving.agent, Changes(say)
    )


async def report_agent(leaving: Leaving, hub: ApiClient, host: ApiClient, say: Say) -> None:
    """Say how to remove an agent that is left without virtual clusters. Raises KubeError."""
    is_there = await host.find(f"{CLUSTER_ROLES_PATH}/vc-agent:{leaving.agent}") is not None
    if is_there and not await clusters_left(leaving, hub, host):
        text = "to remove it as well, run karmada-vc-agent leave --purge with the same options"
        say(f"agent {leaving.agent} has no virtual cluster left; {text}")


async def clusters_left(
    leaving: Leaving, hub: ApiClient | None, host: ApiClient | None
) -> list[str]:
    """Return the virtual clusters that the agent still has, sorted."""
    names: set[str] = set()
    if host is not None:
        claims = await steps.claimed(host, f"{AGENT_LABEL}={leaving.agent}")
        records = (await AgentState.recorded(host, leaving.namespace, leaving.agent)).clusters()
        names = {claim.cluster for _, claim in claims}
        names |= {name for name, record in records.items() if not record.has_left}
    if hub is not None:
        names |= set(named_clusters(await hub_role(hub, leaving.agent)))
    return sorted(names)


async def _purge_host(leaving: Leaving, host: ApiClient, say: Say) -> None:
    """Remove Pods, rights, policies and records, in this order: policies confine the rights."""
    for obj in host_rights.workload(leaving.agent, leaving.namespace):
        await steps.delete_present(host, path_of(obj), say)
    changes = Changes(say)
    await host_rights.remove_gateway(host, leaving.agent, leaving.namespace, changes)
    await host_rights.prune(host, leaving.agent, (), changes, claimed=True)
    await host_rights.remove_policies(host, await Discovery(host).refresh(), leaving.agent, changes)
    if not await host_rights.rbac_objects(host, "ClusterRole", AGENT_LABEL):
        await _delete_common_roles(host, say)
    await _unmark(host, leaving, say)
    await _delete_records(host, leaving, say)
    path = f"{steps.NAMESPACES_PATH}/{leaving.namespace}"
    if leaving.namespace in _OF_KUBERNETES or await host.find(path) is None:
        return
    text = "{} {} in it does not belong to the agent"
    if obstacle := await steps.obstacle_in(host, leaving.namespace, "", text):
        say(f"host: namespace {leaving.namespace} stays: {obstacle}")
    else:
        await steps.delete_present(host, path, say)


async def _delete_common_roles(host: ApiClient, say: Say) -> None:
    bindings = [
        each for kind in host_rights.BINDINGS for each in await host_rights.rbac_objects(host, kind)
    ]
    bound = {
        each["roleRef"]["name"]: each["metadata"]
        for each in bindings
        if dig(each, "roleRef", "kind") == "ClusterRole"
    }
    for name in (*TENANT_ROLES.values(), CLUSTER_READER):
        path = f"{CLUSTER_ROLES_PATH}/{name}"
        if not labels_of(await host.find(path) or {}).items() >= MANAGED.items():
            continue
        if binding := bound.get(name):
            where = f"{binding.get('namespace') or 'the cluster'} by {binding['name']}"
            say(f"host: ClusterRole {name} stays: it is bound in {where}")
        else:
            await steps.delete_present(host, path, say)


async def _unmark(host: ApiClient, leaving: Leaving, say: Say) -> None:
    state = await AgentState.recorded(host, leaving.namespace, leaving.agent)
    names = [
        name
        for name in {**state.clusters(), **state.labels()}
        if not await steps.claimants(host, name)  # else another agent's by now
    ]
    if cleaned := sum([await unlabel_nodes(host, name) for name in names]):
        say(f"host: removed label {MEMBERSHIP_LABEL} from nodes: {cleaned}")
    for namespace in (await host.get(steps.NAMESPACES_PATH)).get("items") or ():
        if annotations_of(namespace).get(ALLOW_ADOPTION_ANNOTATION) in names:
            name = namespace["metadata"]["name"]
            patch = {"metadata": {"annotations": {ALLOW_ADOPTION_ANNOTATION: None}}}
            await host.merge_patch(f"{steps.NAMESPACES_PATH}/{name}", patch)
            say(f"host: removed annotation {ALLOW_ADOPTION_ANNOTATION} from namespace {name}")


async def _delete_records(host: ApiClient, leaving: Leaving, say: Say) -> None:
    space, name = f"namespaces/{leaving.namespace}", leaving.agent
    for feature in FEATURES:
        await feature.purge(host, leaving.namespace, name, say)
    if await host.find(f"/api/v1/{space}") is None:
        return
    accounts = f"/api/v1/{space}/serviceaccounts"
    names = [each["metadata"]["name"] for each in (await host.get(accounts)).get("items") or ()]
    await steps.delete_present(host, f"/api/v1/{space}/configmaps/{name}-state", say)
    await steps.delete_present(host, f"/apis/coordination.k8s.io/v1/{space}/leases/{name}", say)
    for own in names:
        if own == name or own.endswith(f".{name}"):
            await steps.delete_present(host, f"{accounts}/{own}", say)


PROBE_S = 10.0
_say: Say = click.echo


async def run_leave(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """Remove a virtual cluster. Raises CommandError, KubeError."""
    async with _connect(leaving, hub_at, host_at) as (hub, host, uid):
        if host is not None and await HostCleaner(host, leaving, _say).namespaces():
            leaving = replace(leaving, claims_user=await steps.claims_user(host, leaving.agent))
        is_on_hub = await _check(leaving, hub, host, uid)
        question = f"Remove virtual cluster {leaving.cluster}"
        if hub is not None:
            warn(leaving, await steps.bindings_to(hub, leaving.cluster), is_on_hub=is_on_hub)
            question += f" and agent {leaving.agent}" if leaving.purges else ""
        else:
            question += " from the host only"
        shared.confirm(f"{question}?", is_sure=leaving.is_sure)
        await _leave(leaving, hub, host)
        _report_rest(leaving, hub, host)
        if hub is None:
            return
        _say(f"{leaving.cluster} has left")
        if leaving.purges:
            await purge(leaving, hub, host, _say)
        elif host is not None:
            await report_agent(leaving, hub, host, _say)


async def _check(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None, uid: str) -> bool:
    """Check that it may leave; return whether it has a Cluster. uid: of the host."""
    cluster = None
    if hub is not None:
        await check_karmada(hub)
        if host is not None:
            await check_apart(hub, uid)
        cluster = await hub.find(f"{CLUSTERS_PATH}/{leaving.cluster}")
        steps.check_ours(cluster, leaving, uid)
        if leaving.purges:
            await check_last(leaving, hub, host, uid)
    await steps.check_exists(leaving, cluster, hub, host)
    return cluster is not None


async def _leave(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None) -> None:
    name = leaving.cluster
    lead = steps.leading(hub, host, leaving, _say) if host else nullcontext(False)
    async with lead as is_served:
        if host is not None:
            await steps.remember_left(host, leaving, _say)
        if hub is not None:
            if is_served and leaving.preserve:
                await steps.preserve_works(hub, name, _say)
            with suppress(NotFoundError):  # it sets the deletionTimestamp
                await hub.delete(f"{CLUSTERS_PATH}/{name}")
                _say(f"hub: Cluster {name} is being deleted")
        if host is not None and not is_served:
            await steps.clean_host(host, leaving, _say)
        if hub is not None:
            await steps.wait_deleted(hub, leaving, _say, releases=not is_served)
        if host is not None:
            if is_served:  # the agent leaves what no Work created, such as `default`
                await steps.clean_host(host, leaving, _say, agent_releases=True)
            await give_up_policies(host, leaving, _say)
        if hub is not None:
            await steps.take_rights(hub, leaving, _say)


def _report_rest(leaving: Leaving, hub: ApiClient | None, host: ApiClient | None) -> None:
    name = leaving.cluster
    if hub is None:
        own = f"Cluster {name}, its Lease, its Works in {execution_namespace(name)}, and {name}"
        _say(f"{name} has left the host. On the hub remain {own} in roles vc-agent:{leaving.agent}")
    elif host is None:
        own = f"namespaces with label {CLUSTER_LABEL}={name} with their content, and cluster.{name}"
        _say(f"On the host remain {own} in ConfigMap {leaving.namespace}/{leaving.agent}-state")
    if hub is None or host is None:
        _say(f"Once it answers, run karmada-vc-agent leave {name} again")


async def run_purge(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """Remove an agent without virtual clusters. Raises CommandError, KubeError."""
    async with _connect(leaving, hub_at, host_at) as (hub, host, uid):
        if hub is not None:
            await check_karmada(hub)
        await check_last(leaving, hub, host, uid)
        question = f"Remove agent {leaving.agent} and all that join created for it?"
        shared.confirm(question, is_sure=leaving.is_sure)
        await purge(leaving, hub, host, _say)


async def run_all(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """Remove all virtual clusters of an agent, and with the last it. Raises as `run_leave`."""
    async with _connect(leaving, hub_at, host_at) as (hub, host, _):
        names = await clusters_left(leaving, hub, host)
    if not names:
        _say(f"agent {leaving.agent} has no virtual cluster")
        if leaving.purges:
            await run_purge(leaving, hub_at, host_at)
        return
    question = f"Remove all virtual clusters of agent {leaving.agent} ({len(names)})?"
    shared.confirm(question, is_sure=leaving.is_sure)
    for name in names:
        await run_leave(replace(leaving, cluster=name, is_sure=True, purges=False), hub_at, host_at)
    if leaving.purges:
        async with _connect(leaving, hub_at, host_at) as (hub, host, _):
            with suppress(TimeoutError):  # what is left is reported then
                async with waiting("what they had to be deleted", leaving.timeout_s):
                    while await clusters_left(leaving, hub, host):  # noqa: ASYNC110 - by requests
                        await asyncio.sleep(steps.POLL_S)
        await run_purge(replace(leaving, is_sure=True), hub_at, host_at)


async def run_prune(leaving: Leaving, hub_at: Credentials, host_at: Credentials) -> None:
    """List host objects whose Work is deleted; remove them with --yes."""
    async with _client("hub", hub_at) as hub, _client("host", host_at) as host:
        claims = await steps.claimed(host, f"{AGENT_LABEL}={leaving.agent}")
        clusters = [leaving.cluster] if leaving.cluster else {of.cluster for _, of in claims}
        total = sum(
            [await _prune(replace(leaving, cluster=each), hub, host) for each in sorted(clusters)]
        )
    if total and not leaving.is_sure:
        _say(f"to remove these {total}, run the command again with --yes")
    elif not total:
        _say("nothing to remove")


async def _prune(leaving: Leaving, hub: ApiClient, host: ApiClient) -> int:
    """Remove what has no Work, or list it; return how many. Works are read after the objects."""
    name = leaving.cluster
    cluster = await hub.find(f"{CLUSTERS_PATH}/{name}")
    if cluster is None or cluster["metadata"].get("deletionTimestamp"):
        command = f"karmada-vc-agent leave {name}"
        _say(f"{name}: its Cluster is not on the hub, or ends; {command} removes all that it has")
        return 0
    steps.check_ours(cluster, leaving, await join_hub.host_uid(host))
    user = await steps.claims_user(host, leaving.agent) if leaving.is_sure else ""
    cleaner = HostCleaner(host, replace(leaving, claims_user=user), _say, agent_releases=True)
    objects = await cleaner.objects(await cleaner.namespaces())
    works = {each["metadata"]["name"] for each in await steps.works_of(hub, name)}
    orphans = [each for each in objects if is_orphan(each[1], works)]
    verb = "removing" if leaving.is_sure else "orphaned"
    for resource, live in orphans:
        place = "/".join(filter(None, (dig(live, "metadata", k) for k in ("namespace", "name"))))
        _say(f"{name}: {verb} {resource.gvk.kind} {place} (Work {work_of(live)})")
        if leaving.is_sure:
            await cleaner.delete(resource, live)
    return len(orphans) + await _prune_namespaces(leaving, hub, cleaner)


async def _prune_namespaces(leaving: Leaving, hub: ApiClient, cleaner: HostCleaner) -> int:
    async def orphaned() -> dict[str, Object]:
        works = await steps.works_of(hub, cleaner.cluster)
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


def warn(leaving: Leaving, bindings: Sequence[str], *, is_on_hub: bool) -> None:
    """Print which bindings still target the virtual cluster, and what becomes of what they run."""
    if not is_on_hub:
        _say(f"Cluster {leaving.cluster} is not on the hub; removing what remains of it")
    if not bindings:
        return
    fate = "stays, without the agent's labels" if leaving.preserve else "ends"
    _say(f"bindings still target {leaving.cluster}; what they run there {fate}:")
    for binding in bindings[: steps.SHOWN]:
        _say(f"  {binding}")
    if len(bindings) > steps.SHOWN:
        _say(f"  and {len(bindings) - steps.SHOWN} more")


async def _answers(leaving: Leaving, client: ApiClient) -> bool:
    """Return whether a server answers. Raises CommandError if it does not, unless forced."""
    is_hub = client.name == "hub"
    path = CLUSTERS_PATH if is_hub else "/api/v1/namespaces/kube-system"
    try:
        async with waiting(f"an answer from the {client.name}", PROBE_S):
            await client.get(path, {"limit": "1"} if is_hub else None)
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
    """Yield clients of hub and host, None for one that may be away, and the UID of the host."""
    async with _client("hub", hub_at) as hub, _client("host", host_at) as host:
        has_hub, has_host = await _answers(leaving, hub), await _answers(leaving, host)
        if not has_hub and not has_host:
            raise CommandError("neither hub nor host answers")
        uid = await join_hub.host_uid(host) if has_host else ""
        yield hub if has_hub else None, host if has_host else None, uid


def _client(name: str, credentials: Credentials) -> ApiClient:
    return ApiClient(name, credentials, connections=8, user_agent="karmada-vc-agent-leave")


@click.command(
    epilog=shared.examples("leave"), short_help="Remove one virtual cluster, or the agent itself."
)
@click.argument("cluster", required=False, default="")
@shared.options("leave")
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
        run = run_leave if leaving.cluster else run_purge
        if options["prunes"] or options["is_all"]:
            run = run_prune if options["prunes"] else run_all
        hub = read_kubeconfig(options["karmada_kubeconfig"], options["karmada_context"])
        host = find_credentials(options["kubeconfig"], in_cluster_first=True)
        asyncio.run(run(leaving, hub, host))


def _leaving(options: dict[str, Any]) -> Leaving:
    cluster, prunes, purges = options["cluster"], options["prunes"], options["purges"]
    preserve, is_all = options["preserve_resources"], options["is_all"]
    if is_all and (cluster or prunes):
        raise ConfigError("flags", "--all", "cannot be combined with CLUSTER or --prune")
    if not (cluster or prunes or purges or is_all):
        raise ConfigError("flags", "CLUSTER", "name the virtual cluster to remove")
    if cluster and (problem := cluster_name_problem(cluster)):
        raise ConfigError("flags", "CLUSTER", problem)
    if prunes and (purges or preserve or options["is_forced"]):
        others = "--purge, --preserve-resources or --force"
        raise ConfigError("flags", "--prune", f"cannot be combined with {others}")
    if preserve and not (cluster or is_all):
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
