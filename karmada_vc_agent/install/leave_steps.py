"""The steps of `leave`: leadership, Cluster, Works, rights, and the agent's record.

Never two writers. While an agent serves the virtual cluster, the Cluster is deleted on the hub and
that agent cleans up; then this command deletes what no Work created, and marks the namespaces that
stay, which the agent then releases. Otherwise this command holds leadership, so that no agent
starts meanwhile, and does everything itself. Every step can be repeated: it skips what an earlier
attempt finished.
"""

import asyncio
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from karmada_vc_agent.access.agent_objects import TOKEN_KINDS, hub_secret_name
from karmada_vc_agent.access.hub_objects import HubAccess, named_clusters
from karmada_vc_agent.cluster.agent_state import AgentState, ClusterRecord
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.commands.shared import CommandError, waiting
from karmada_vc_agent.install.apply_objects import Changes, find
from karmada_vc_agent.install.grants import prune
from karmada_vc_agent.install.join_hub import CLUSTER_ROLES_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.model.domain import (
    CHECKPOINT_ANNOTATION,
    LEASE_HOLDER_ANNOTATION,
    PRESERVE_ANNOTATION,
)
from karmada_vc_agent.model.karmada import (
    EXECUTION_FINALIZER,
    LEASE_NAMESPACE,
    SYSTEM_LABEL,
    execution_namespace,
)
from karmada_vc_agent.model.kinds import RBAC_API
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of, namespaced_name
from karmada_vc_agent.work.removal import preserve_work
from karmada_vc_agent.work.work_finalizer import remove_finalizer
from karmada_vc_agent.work.works import work_path

POLL_S = 1.0
LEAD_WITHIN_S = 25.0
"""A killed agent holds its Lease for 15 s; a holder after that is running."""
SHOWN = 20
_BINDINGS = ("resourcebindings", "clusterresourcebindings")
_RBAC_PATH = f"/apis/{RBAC_API}"
_BINDINGS_PATH = "/apis/work.karmada.io/v1alpha2"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Leaving:
    """The virtual cluster and the agent that leave, and how.

    claims_user: the user to impersonate for its namespaces; empty = none. is_sure: skip the
    confirmation. is_forced: continue if the hub or the host is unreachable. purges: remove the
    agent, too.
    """

    cluster: str
    agent: str
    namespace: str
    preserve: bool
    timeout_s: float
    claims_user: str = ""
    is_sure: bool = False
    is_forced: bool = False
    purges: bool = False


async def bindings_to(hub: ApiClient, cluster: str) -> list[str]:
    """Return the bindings of Karmada that target a Cluster. Raises KubeError."""
    targeting = []
    for kind in _BINDINGS:
        answer = await hub.get(f"{_BINDINGS_PATH}/{kind}")
        for binding in answer.get("items") or []:
            clusters = dig(binding, "spec", "clusters") or []
            if any(entry.get("name") == cluster for entry in clusters):
                metadata = binding["metadata"]
                name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
                targeting.append(f"{kind.removesuffix('s')} {name}")
    return targeting


# --- leadership -------------------------------------------------------------------------


async def is_served(hub: ApiClient, leaving: Leaving, process: str) -> bool:
    """Return whether an agent process renews the Lease of the Cluster. Raises KubeError."""
    if await find(hub, f"{CLUSTERS_PATH}/{leaving.cluster}") is None:
        return False
    lease = await find(hub, f"{LEASES_PATH}/{leaving.cluster}")
    return annotations_of(lease or {}).get(LEASE_HOLDER_ANNOTATION) == process


@asynccontextmanager
async def leading(
    hub: ApiClient | None, host: ApiClient, leaving: Leaving, say: Say
) -> AsyncIterator[bool]:
    """Hold leadership, so that no agent starts meanwhile; yield whether an agent does instead.

    That is one that serves the virtual cluster. hub: None = it does not answer; then any agent
    that leads raises CommandError. An agent that was never installed needs no leadership.
    """
    alone = "no agent is running: cleaning up from here"
    if await find(host, f"/api/v1/namespaces/{leaving.namespace}") is None:
        if hub is not None:
            say(alone)
        yield False
        return
    process = f"leave-{socket.gethostname()}_{uuid.uuid4()}"
    # As if it had led before: it removes its virtual cluster from the checkpoint.
    election = LeaderElection(
        host,
        leaving.namespace,
        leaving.agent,
        process,
        lineage=CHECKPOINT_ANNOTATION,
    )
    leads = asyncio.Event()

    async def hold() -> None:
        await election.acquire()
        leads.set()
        await election.lead()

    before = await _lead(host, leaving)
    holding = asyncio.create_task(hold())
    served = False
    try:
        try:
            async with waiting(
                f"leadership, now held by {before[0] or 'no process'}", LEAD_WITHIN_S
            ):
                while not (leads.is_set() or served):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_S):
                            await leads.wait()
                    now = await _lead(host, leaving)
                    # The Lease of a killed agent still names it; clocks are not compared.
                    is_live = now != before and not leads.is_set()
                    served = hub is not None and is_live and await is_served(hub, leaving, now[0])
        except TimeoutError:
            alone = f"the running agent does not serve {leaving.cluster}: cleaning up from here"
            if hub is None:
                running, _ = await _lead(host, leaving)
                raise CommandError(
                    f"an agent is running ({running}) and would restore what is removed; stop it, "
                    "then try again"
                ) from None
        if not leads.is_set():
            holding.cancel()
        if hub is not None:
            serving = f"{leaving.cluster} is served by a running agent, which cleans up the host"
            say(serving if served else alone)
        yield served
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await election.release()


async def _lead(host: ApiClient, leaving: Leaving) -> tuple[str, str]:
    """Return the holder of the leader Lease, and when it was renewed."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{leaving.namespace}/leases/{leaving.agent}"
    spec = dig(await find(host, path), "spec") or {}
    return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")


# --- the hub ----------------------------------------------------------------------------


async def delete_cluster(hub: ApiClient, cluster: str, say: Say) -> None:
    """Delete the Cluster, which sets its deletionTimestamp."""
    with suppress(NotFoundError):
        await hub.delete(f"{CLUSTERS_PATH}/{cluster}")
        say(f"hub: Cluster {cluster} is being deleted")


async def works_of(hub: ApiClient, cluster: str) -> list[Object]:
    """Return the Works of a Cluster."""
    answer = await hub.get(work_path(execution_namespace(cluster)))
    return list(answer.get("items") or [])


async def preserve_works(hub: ApiClient, cluster: str, say: Say) -> None:
    """Have the agent keep the host objects of all Works.

    The mark on a Work does not last: the hub writes the Work again from its binding. That on the
    Cluster does.
    """
    mark = {"metadata": {"annotations": {PRESERVE_ANNOTATION: "true"}}}
    await hub.merge_patch(f"{CLUSTERS_PATH}/{cluster}", mark)
    works = await works_of(hub, cluster)
    for work in works:
        await preserve_work(hub, work)
    say(f"hub: marked {len(works)} Works to preserve their objects")


async def release_works(hub: ApiClient, cluster: str, say: Say) -> None:
    """Remove the agent's finalizer from all Works."""
    released = 0
    for work in await works_of(hub, cluster):
        if EXECUTION_FINALIZER in (work["metadata"].get("finalizers") or ()):
            with suppress(ConflictError, NotFoundError):  # the next read shows it
                await remove_finalizer(hub, work)
                released += 1
    if released:
        say(f"hub: removed the finalizer of {released} Works")


async def wait_deleted(hub: ApiClient, leaving: Leaving, say: Say, *, releases: bool) -> None:
    """Wait until the Cluster is deleted, and print what it waits for.

    releases: remove finalizers of Works that appear late. Raises CommandError.
    """
    deadline = time.monotonic() + leaving.timeout_s
    said = ""
    while await find(hub, f"{CLUSTERS_PATH}/{leaving.cluster}") is not None:
        if releases:
            await release_works(hub, leaving.cluster, say)
        left = len(await works_of(hub, leaving.cluster))
        waiting = f"{left} Works" if left else "the hub to remove the Cluster"
        if waiting != said:
            say(f"hub: waiting for {waiting}")
            said = waiting
        if time.monotonic() > deadline:
            bindings = await bindings_to(hub, leaving.cluster)
            still = "; still targeted by " + ", ".join(bindings[:SHOWN]) if bindings else ""
            raise CommandError(
                f"Cluster {leaving.cluster} still exists after {leaving.timeout_s:.0f} s, "
                f"waiting for {waiting}{still}. It is marked for deletion; run leave again to "
                "continue"
            )
        await asyncio.sleep(POLL_S)


async def take_rights(hub: ApiClient, leaving: Leaving, say: Say) -> None:
    """Remove the virtual cluster from the agent's roles, and delete what belongs to its name."""
    access = HubAccess(leaving.agent, (leaving.cluster,))
    local = f"{_RBAC_PATH}/namespaces/{LEASE_NAMESPACE}"
    remaining: list[str] = []
    for path in (
        f"{CLUSTER_ROLES_PATH}/{access.role}",
        f"{local}/roles/{access.role}",
        f"{CLUSTER_ROLES_PATH}/{access.auth_role}",
    ):
        role = await find(hub, path)
        if role is None or leaving.cluster not in named_clusters(role):
            continue
        role["rules"] = _without(role["rules"], leaving.cluster)
        remaining += named_clusters(role)
        if not remaining:
            say(f"hub: agent {access.agent} has no virtual cluster left: removing all its rights")
            await prune(hub, access.agent, (), Changes(say))
            break
        await hub.merge_patch(path, {"rules": role["rules"]})
        say(f"hub: {role['kind']} {access.role} no longer names {leaving.cluster}")
    await delete_present(hub, f"{LEASES_PATH}/{leaving.cluster}", say)
    namespace = execution_namespace(leaving.cluster)
    bindings = f"{_RBAC_PATH}/namespaces/{namespace}/rolebindings"
    await delete_present(hub, f"{bindings}/{access.works_role}", say)
    for secret in (hub_secret_name(leaving.cluster, kind) for kind in TOKEN_KINDS):
        path = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets/{secret}"
        live = await find(hub, path)
        if labels_of(live or {}).get(SYSTEM_LABEL) == "true":
            await delete_present(hub, path, say)
    space = await find(hub, f"/api/v1/namespaces/{namespace}")
    if space is not None and not space["metadata"].get("deletionTimestamp"):
        await delete_present(hub, f"/api/v1/namespaces/{namespace}", say)


def _without(rules: list[Object], cluster: str) -> list[Object]:
    """Return rules that do not name a Cluster, dropping those that name no other.

    An empty resourceNames would mean every name.
    """
    kept = []
    own = {hub_secret_name(cluster, kind) for kind in TOKEN_KINDS}
    for rule in rules:
        names = rule.get("resourceNames")
        dropped = own if "secrets" in (rule.get("resources") or ()) else {cluster}
        if names is None or dropped.isdisjoint(names):
            kept.append(rule)
        elif rest := [name for name in names if name not in dropped]:
            kept.append({**rule, "resourceNames": rest})
    return kept


async def delete_present(client: ApiClient, path: str, say: Say) -> None:
    """Delete an object and say so, unless there is none. Raises KubeError."""
    with suppress(NotFoundError):
        await client.delete(path)
        say(f"{client.name}: deleted {'/'.join(path.split('/')[-2:])}")


# --- the record -------------------------------------------------------------------------


async def remember_left(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Record that the virtual cluster left, so that no agent registers it again (trap 5).

    An agent removes the record at its start once its settings no longer name the cluster.
    """
    if await find(host, f"/api/v1/namespaces/{leaving.namespace}") is None:
        return
    state = AgentState(host, leaving.namespace, leaving.agent)
    await state.load()
    before = state.cluster(leaving.cluster)
    record = ClusterRecord(before.uid if before else "", before.settings if before else "", True)
    if before != record:
        await state.remember(leaving.cluster, record)
        say(f"host: recorded that {leaving.cluster} left; remove it from the agent's settings")


async def forget_left(
    host: ApiClient, namespace: str, agent: str, clusters: tuple[str, ...]
) -> list[str]:
    """Let virtual clusters that left be registered again; return those. Raises KubeError."""
    state = await recorded_state(host, namespace, agent)
    back = [name for name in clusters if (record := state.cluster(name)) and record.has_left]
    for name in back:
        await state.forget(name)
    return back


async def has_left(host: ApiClient, leaving: Leaving) -> bool:
    """Return whether an earlier `leave` recorded that it left. Raises KubeError."""
    state = await recorded_state(host, leaving.namespace, leaving.agent)
    record = state.cluster(leaving.cluster)
    return record is not None and record.has_left


async def recorded_state(host: ApiClient, namespace: str, agent: str) -> AgentState:
    """Return what an agent recorded: nothing if there is no such agent. Raises KubeError."""
    state = AgentState(host, namespace, agent)
    with suppress(NotFoundError):
        await state.look()
    return state
