"""The steps of `leave`: leadership, Cluster, Works, rights, and the agent's record.

Never two writers: while an agent serves the virtual cluster it cleans up the host, and this command
deletes only what no Work created; otherwise this command holds leadership. Each can be repeated.
"""

import asyncio
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from karmada_vc_agent.access.admission import CLAIMS, PolicyOwner, protected_user
from karmada_vc_agent.access.agent_objects import TOKEN_KINDS, hub_secret_name
from karmada_vc_agent.access.rights import HubAccess, named_clusters
from karmada_vc_agent.cluster.host_objects import labelled_objects, objects_in
from karmada_vc_agent.cluster.hub_clusters import (
    CLUSTERS_PATH,
    AgentState,
    ClusterRecord,
    agent_id,
    agent_of,
    cluster_id,
)
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.cluster.virtual_clusters import Claim, Phase, Scopes, claim_of, phase_of
from karmada_vc_agent.commands.shared import CommandError, waiting
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import Changes
from karmada_vc_agent.install.host_rights import POLICIES_PATH, prune, revoke_tokens
from karmada_vc_agent.install.join_hub import hub_role
from karmada_vc_agent.kube import discovery
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, ConflictError, NotFoundError, NotServedError
from karmada_vc_agent.kube.flows import for_each, retry_on_conflict
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of, namespaced_name
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.work.host_objects import LiveObjects, write_binding
from karmada_vc_agent.work.namespace_writer import begin_release, delete_namespace, end_release
from karmada_vc_agent.work.removal import preserve_work, remove_finalizer
from karmada_vc_agent.work.rules import ownership
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.works import work_path

POLL_S, LEAD_POLL_S = 1.0, 0.2
LEAD_WITHIN_S = 25.0
"""A killed agent holds its Lease for 15 s; a holder after that is running."""
SHOWN = 20
_BINDINGS = ("resourcebindings", "clusterresourcebindings")
_RBAC_PATH = f"/apis/{vocabulary.RBAC_API}"
_BINDINGS_PATH = "/apis/work.karmada.io/v1alpha2"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Leaving:
    """The virtual cluster and the agent that leave, and how.

    claims_user: the user to impersonate for its namespaces; empty = none. purges: the agent, too.
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


@asynccontextmanager
async def leading(
    hub: ApiClient | None, host: ApiClient, leaving: Leaving, say: Say
) -> AsyncIterator[bool]:
    """Hold leadership, so that no agent starts meanwhile; yield whether an agent does instead.

    That is one that serves the virtual cluster; without an answer of the hub (None), any agent that
    leads raises CommandError.
    """
    alone = "no agent is running: cleaning up from here"
    if await host.find(f"{NAMESPACES_PATH}/{leaving.namespace}") is None:
        if hub is not None:
            say(alone)
        yield False
        return
    process = f"leave-{socket.gethostname()}_{uuid.uuid4()}"
    (name,) = await leases_of(host, leaving.namespace, leaving.agent, leaving.cluster)
    # As if it had led before: it removes its virtual cluster from the checkpoint.
    election = LeaderElection(
        host, leaving.namespace, name, process, lineage=vocabulary.CHECKPOINT_ANNOTATION
    )

    async def hold() -> None:
        await election.acquire()
        await election.lead()

    before = now = await _lead(host, leaving, name)
    holding = asyncio.create_task(hold())
    served = False
    cluster = f"{CLUSTERS_PATH}/{leaving.cluster}"
    held_by = f"leadership, now held by {before[0] or 'no process'}"
    try:
        try:
            async with waiting(held_by, LEAD_WITHIN_S):
                while not (election.is_leading() or served):
                    await asyncio.sleep(LEAD_POLL_S)
                    now = await _lead(host, leaving, name)
                    # The Lease of a killed agent still names it; clocks are not compared.
                    is_live = now != before and not election.is_leading()
                    if hub is not None and is_live and await hub.find(cluster) is not None:
                        lease = await hub.find(f"{LEASES_PATH}/{leaving.cluster}") or {}
                        served = (
                            annotations_of(lease).get(vocabulary.LEASE_HOLDER_ANNOTATION) == now[0]
                        )
        except TimeoutError:
            alone = f"the running agent does not serve {leaving.cluster}: cleaning up from here"
            if hub is None:
                raise CommandError(
                    f"an agent is running ({now[0]}) and would restore what is removed; stop it, "
                    "then try again"
                ) from None
        await _lead(host, leaving, name)  # it is held now: processes of another number see that
        if not election.is_leading():
            holding.cancel()
        if hub is not None:
            serving = f"{leaving.cluster} is served by a running agent, which cleans up the host"
            say(serving if served else alone)
        yield served
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await election.release()


async def leases_of(host: ApiClient, namespace: str, agent: str, cluster: str = "") -> list[str]:
    """Return the Leases of the agent's processes, or of the one that serves a virtual cluster."""
    named = next((each.leases for each in FEATURES if each.leases), None)
    return await named(host, namespace, agent, cluster) if named else [agent]


async def _lead(host: ApiClient, leaving: Leaving, name: str) -> tuple[str, str]:
    """Return holder and time of a Lease. Raises CommandError if it is the wrong one by now."""
    if [name] != await leases_of(host, leaving.namespace, leaving.agent, leaving.cluster):
        raise CommandError("the agent changes the number of its shards now; try again")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{leaving.namespace}/leases/{name}"
    spec = dig(await host.find(path), "spec") or {}
    return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")


async def works_of(hub: ApiClient, cluster: str) -> list[Object]:
    answer = await hub.get(work_path(vocabulary.execution_namespace(cluster)))
    return list(answer.get("items") or [])


async def preserve_works(hub: ApiClient, cluster: str, say: Say) -> None:
    """Have the agent keep the host objects of all Works.

    The mark on a Work ends when the hub writes it from its binding; that on the Cluster lasts.
    """
    mark = {"metadata": {"annotations": {vocabulary.PRESERVE_ANNOTATION: "true"}}}
    await hub.merge_patch(f"{CLUSTERS_PATH}/{cluster}", mark)
    works = await works_of(hub, cluster)
    for work in works:
        await preserve_work(hub, work)
    say(f"hub: marked Works to preserve their objects: {len(works)}")


async def _release_works(hub: ApiClient, works: list[Object], say: Say) -> None:
    released = 0
    for work in works:
        if vocabulary.EXECUTION_FINALIZER in (work["metadata"].get("finalizers") or ()):
            with suppress(ConflictError, NotFoundError):  # the next read shows it
                await remove_finalizer(hub, work)
                released += 1
    if released:
        say(f"hub: removed the finalizer of Works: {released}")


async def wait_deleted(hub: ApiClient, leaving: Leaving, say: Say, *, releases: bool) -> None:
    """Wait until the Cluster is deleted; releases: remove finalizers. Raises CommandError."""
    deadline = time.monotonic() + leaving.timeout_s
    said = ""
    while await hub.find(f"{CLUSTERS_PATH}/{leaving.cluster}") is not None:
        works = await works_of(hub, leaving.cluster)
        if releases:
            await _release_works(hub, works, say)
        awaited = f"Works ({len(works)})" if works else "the hub to remove the Cluster"
        if awaited != said:
            say(f"hub: waiting for {awaited}")
            said = awaited
        if time.monotonic() > deadline:
            bindings = await bindings_to(hub, leaving.cluster)
            still = "; still targeted by " + ", ".join(bindings[:SHOWN]) if bindings else ""
            raise CommandError(
                f"Cluster {leaving.cluster} still exists after {leaving.timeout_s:.0f} s, "
                f"waiting for {awaited}{still}. It is marked for deletion; run leave again to "
                "continue"
            )
        await asyncio.sleep(POLL_S)


async def take_rights(hub: ApiClient, leaving: Leaving, say: Say) -> None:
    """Remove the virtual cluster from the agent's roles, and delete what belongs to its name."""
    access = HubAccess(leaving.agent, (leaving.cluster,))
    local = f"{_RBAC_PATH}/namespaces/{vocabulary.LEASE_NAMESPACE}"
    remaining: list[str] = []
    for path in (
        f"{vocabulary.CLUSTER_ROLES_PATH}/{access.role}",
        f"{local}/roles/{access.role}",
        f"{vocabulary.CLUSTER_ROLES_PATH}/{access.auth_role}",
    ):
        role = await hub.find(path)
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
    namespace = vocabulary.execution_namespace(leaving.cluster)
    bindings = f"{_RBAC_PATH}/namespaces/{namespace}/rolebindings"
    await delete_present(hub, f"{bindings}/{access.role}:works", say)
    for secret in (hub_secret_name(leaving.cluster, kind) for kind in TOKEN_KINDS):
        path = f"/api/v1/namespaces/{vocabulary.LEASE_NAMESPACE}/secrets/{secret}"
        live = await hub.find(path)
        if labels_of(live or {}).get(vocabulary.SYSTEM_LABEL) == "true":
            await delete_present(hub, path, say)
    space = await hub.find(f"/api/v1/namespaces/{namespace}")
    if space is not None and not space["metadata"].get("deletionTimestamp"):
        await delete_present(hub, f"/api/v1/namespaces/{namespace}", say)


def _without(rules: list[Object], cluster: str) -> list[Object]:
    """Return rules without those for one Cluster: empty resourceNames would mean every name."""
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


async def remember_left(host: ApiClient, leaving: Leaving, say: Say) -> None:
    """Record that it left, so that no agent registers it while its settings have it (trap 5)."""
    if await host.find(f"/api/v1/namespaces/{leaving.namespace}") is None:
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
    state = await AgentState.recorded(host, namespace, agent)
    back = [name for name in clusters if (record := state.cluster(name)) and record.has_left]
    for name in back:
        await state.forget(name)
    return back


NAMESPACES_PATH = "/api/v1/namespaces"
RELEASE_POLL_S = 0.2
RELEASED_WITHIN_S = 20.0
"""A running agent that serves the virtual cluster does it in less than a second."""
Listed = tuple[discovery.Resource, Object]


class HostCleaner:
    """Cleans up one virtual cluster of one agent.

    Touches only objects with the label of the virtual cluster, and in a namespace only if it has
    the claim of this agent, too; for claimed namespaces it impersonates the agent's account where
    policies let no other (ADR 17). agent_releases: whether a running agent releases the marked.
    """

    def __init__(
        self, host: ApiClient, leaving: Leaving, say: Say, *, agent_releases: bool = False
    ) -> None:
        self._host = host
        self._objects = LiveObjects(host, lambda _: None)
        self._agent = leaving.agent
        self.cluster = leaving.cluster
        self._say = say
        self._claims_user = leaving.claims_user
        self._agent_releases = agent_releases
        self._discovery = discovery.Discovery(host)

    async def namespaces(self) -> dict[str, Object]:
        """Return the host namespaces that this agent claims for the virtual cluster, by name."""
        listed = await claimed(
            self._host,
            f"{vocabulary.CLUSTER_LABEL}={self.cluster},{vocabulary.AGENT_LABEL}={self._agent}",
        )
        return {live["metadata"]["name"]: live for live, _ in listed}

    async def objects(self, spaces: Container[str]) -> list[Listed]:
        """Return our objects, in namespaces only those of `spaces`, without the Namespaces."""
        served = await self._discovery.refresh()
        selector = f"{vocabulary.CLUSTER_LABEL}={self.cluster}"
        return [
            (resource, live)
            async for resource, live in labelled_objects(self._host, served, selector)
            if ownership.work_of(live)
            and resource.gvk.kind != "Namespace"
            and (not live["metadata"].get("namespace") or live["metadata"]["namespace"] in spaces)
        ]

    async def orphaned_namespaces(self, needed: Container[str]) -> dict[str, Object]:
        """Return the claimed host namespaces whose virtual namespace no Work needs, by name."""
        return {
            name: live
            for name, live in (await self.namespaces()).items()
            if (claim := claim_of(live))
            and not ownership.is_of_tenants(live)
            and ownership.is_orphaned_namespace(claim.namespace, needed)
        }

    async def obstacle(self, name: str, live: Object) -> str:
        """Return what prevents deleting a namespace, or ""."""
        if not is_made_by_agent(live):
            return ""
        text = f"{{}} {name}/{{}} does not belong to the virtual cluster"
        return await obstacle_in(self._host, name, self.cluster, text)

    async def clean(self, *, preserve: bool) -> None:
        """Delete everything, or release it if `preserve`. Raises KubeError."""
        spaces = await self.namespaces()
        objects = await self.objects(spaces)
        clean = self.release if preserve else self.delete
        await for_each(objects, lambda listed: clean(*listed))
        if objects:
            done = "released objects, without the agent's labels" if preserve else "deleted objects"
            self._say(f"host: {done}: {len(objects)}")
        shared = SharedObjects(self._host, lambda _: None, lambda _: None, scopes=Scopes())
        served = await self._discovery.refresh()
        for resource, name in await shared.leave_all(served, self.cluster, preserve=preserve):
            self._say(f"host: {resource.gvk.kind} {name} is shared: released")
        await for_each(spaces.values(), partial(self.give_up, preserve=preserve))

    async def delete(self, resource: discovery.Resource, listed: Object) -> None:
        """Delete one object, also if it was recreated meanwhile from the same Work."""
        await self._change(resource, listed, listed, self._host.delete_same)

    async def release(self, resource: discovery.Resource, listed: Object) -> None:
        """Remove marks and keep it. Raises KubeError; RetryError if it binds too strong a role."""

        async def bare(path: str, live: Object) -> None:
            write = partial(self._host.replace, path, ownership.without_claims(live))
            await write_binding(self._host, live, "", write)

        await self._change(resource, listed, None, bare)

    async def _change(
        self,
        resource: discovery.Resource,
        listed: Object,
        live: Object | None,
        write: Callable[[str, Object], Awaitable[None]],
    ) -> None:
        """Write to an object while it is of the Work of the one listed. live: None = read it."""
        metadata = listed["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        fresh = partial(self._objects.fresh, resource, namespace, name)

        async def attempt(live: Object | None) -> None:
            if live is not None and _origin(live) == _origin(listed):
                await write(resource.path(namespace, name), live)

        await retry_on_conflict(live or await fresh(), attempt, fresh)

    async def give_up(self, live: Object, *, preserve: bool) -> None:
        """Delete a claimed namespace if the agent created it, else remove the claim."""
        name, agent, user = live["metadata"]["name"], self._agent, self._claims_user
        if live["metadata"].get("deletionTimestamp"):
            return
        if is_made_by_agent(live) and not preserve:
            await delete_namespace(self._host, live, agent, user)
            self._say(f"host: namespace {name} deleted")
            return
        with suppress(NotFoundError):
            begun = await begin_release(self._host, live, agent, user)
            if not (self._agent_releases and await self._is_released(name)):
                await end_release(self._host, begun, agent, user)
            self._say(f"host: namespace {name} stays, without the agent's claim")

    async def _is_released(self, name: str) -> bool:
        """Wait for the running agent to release a namespace; one that does not releases none."""
        path = f"{NAMESPACES_PATH}/{name}"
        try:
            async with waiting(f"the agent to release namespace {name}", RELEASED_WITHIN_S):
                while True:
                    await asyncio.sleep(RELEASE_POLL_S)
                    if phase_of(await self._host.get(path), self._agent) is not Phase.RELEASING:
                        break
        except TimeoutError:
            self._agent_releases = False
        return self._agent_releases


async def clean_host(
    host: ApiClient, leaving: Leaving, say: Say, *, agent_releases: bool = False
) -> None:
    """Delete or release all that remains; agent_releases: a running agent releases what stays."""
    agent, namespace, cluster = leaving.agent, leaving.namespace, leaving.cluster
    await revoke_tokens(host, agent, namespace, cluster, Changes(say))
    cleaner = HostCleaner(host, leaving, say, agent_releases=agent_releases)
    await cleaner.clean(preserve=leaving.preserve)
    for feature in FEATURES:
        await feature.leave(host, namespace, agent, cluster, say)


async def claimed(host: ApiClient, selector: str) -> list[tuple[Object, Claim]]:
    """Return the claimed host namespaces that match a label selector. Raises KubeError."""
    answer = await host.get(NAMESPACES_PATH, {"labelSelector": selector})
    return [(live, claim) for live in answer.get("items") or () if (claim := claim_of(live))]


async def obstacle_in(host: ApiClient, namespace: str, cluster: str, text: str) -> str:
    """Return why a namespace is not to be deleted. text: takes kind and name of the first."""
    served = await discovery.Discovery(host).refresh()
    if not served.is_complete:
        return "not all kinds of the host can be listed now"
    try:
        async for resource, live in objects_in(host, served, namespace):
            if ownership.is_foreign(resource.gvk, live, cluster):
                return text.format(resource.gvk.kind, live["metadata"]["name"])
    except ApiError as error:
        return f"not all of its content can be listed: {error}"
    return ""


def _origin(live: Object) -> tuple[str | None, str]:
    return labels_of(live).get(vocabulary.CLUSTER_LABEL), ownership.work_of(live)


def check_ours(cluster: Object | None, leaving: Leaving, host_uid: str) -> None:
    """Reject a Cluster that this host did not register, or that another agent serves.

    host_uid: empty = unknown; then only Push Clusters are detected. Raises CommandError.
    """
    if cluster is None:
        return
    own_id, is_pull = dig(cluster, "spec", "id"), dig(cluster, "spec", "syncMode") == "Pull"
    agent, given = agent_of(cluster), agent_id(leaving.namespace, leaving.agent)
    problem = ""
    if not is_pull or (host_uid and own_id != cluster_id(host_uid, leaving.cluster)):
        problem = f"is not a virtual cluster of this host (its spec.id is {own_id})"
    elif agent not in ("", given):
        problem = (
            f"is served by agent {agent} (namespace/name), not by {given}; give --agent-namespace "
            "and --agent-name, or that agent's --config"
        )
    if problem:
        raise CommandError(f'Cluster "{leaving.cluster}" on the hub {problem}. Nothing was changed')


async def check_exists(
    leaving: Leaving, cluster: Object | None, hub: ApiClient | None, host: ApiClient | None
) -> None:
    """Reject a name without Cluster or record, and namespaces that another agent claims."""
    name, agent = leaving.cluster, leaving.agent
    agents, recorded = set[str](), set[str]()
    if host is not None:
        agents = await claimants(host, name)
        recorded |= (await AgentState.recorded(host, leaving.namespace, agent)).clusters().keys()
    if others := agents - {agent}:
        claims = f'namespaces of virtual cluster "{name}" on the host are claimed by agent'
        raise CommandError(f'{claims} "{min(others)}", not by "{agent}"; nothing was changed')
    if hub is not None:
        recorded |= set(named_clusters(await hub_role(hub, agent)))
    if cluster is None and not agents and name not in recorded:
        text = f'virtual cluster "{name}" of agent {agent_id(leaving.namespace, agent)} not found'
        raise CommandError(f"{text}; recorded: {', '.join(sorted(recorded))}" if recorded else text)


async def claimants(host: ApiClient, cluster: str) -> set[str]:
    """Return the agents that claim host namespaces of a virtual cluster."""
    return {
        claim.agent for _, claim in await claimed(host, f"{vocabulary.CLUSTER_LABEL}={cluster}")
    }


async def claims_user(host: ApiClient, agent: str) -> str:
    """Return the user to impersonate for claimed namespaces, "" = none. Raises CommandError."""
    policy = PolicyOwner(agent, "", "").name(CLAIMS)
    path = f"{POLICIES_PATH}/{policy}"
    try:
        live = await host.find(path)
    except NotServedError:
        if not await discovery.is_absent(host, path):
            raise
        live = None  # a host without policies
    user = protected_user(live or {})
    if not user or user == await discovery.own_user_name(host):
        return ""
    need = discovery.need_to_impersonate(user)
    if not await discovery.is_allowed(host, need):
        raise CommandError(
            f"host: ValidatingAdmissionPolicy {policy} lets only {user} release namespaces, and "
            f"{host.credentials.source} may not impersonate it; add this rule, or use another "
            "account:",
            f"  {need}",
        )
    return user
