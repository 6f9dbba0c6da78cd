"""Check what `leave` may remove on the host, then delete or release it."""

import asyncio
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from functools import partial

from karmada_vc_agent.access.hub_objects import named_clusters
from karmada_vc_agent.access.policy_owner import GROUP, PolicyOwner, protected_user
from karmada_vc_agent.cluster.claims import Claim, Phase, claim_of, phase_of
from karmada_vc_agent.cluster.hub_clusters import agent_id, agent_of, cluster_id
from karmada_vc_agent.cluster.labelled_objects import labelled_objects, objects_in
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.commands.shared import CommandError, waiting
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import Changes, find
from karmada_vc_agent.install.grants import revoke_tokens
from karmada_vc_agent.install.join_hub import hub_role
from karmada_vc_agent.install.leave_steps import Leaving, Say, recorded_state
from karmada_vc_agent.kube.access_reviews import is_allowed, need_to_impersonate, own_user_name
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource, is_absent
from karmada_vc_agent.kube.errors import ApiError, NotFoundError, NotServedError
from karmada_vc_agent.kube.tasks import for_each, retry_on_conflict
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, dig, labels_of, namespaced_name
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.work.bound_roles import write_binding
from karmada_vc_agent.work.host_objects import LiveObjects
from karmada_vc_agent.work.namespace_content import begin_release, delete_namespace, end_release
from karmada_vc_agent.work.rules.ownership import (
    is_foreign,
    is_of_tenants,
    is_orphaned_namespace,
    without_claims,
    work_of,
)
from karmada_vc_agent.work.shared_objects import SharedObjects

NAMESPACES_PATH = "/api/v1/namespaces"
POLL_S = 0.2
RELEASED_WITHIN_S = 20.0
"""A running agent that serves the virtual cluster does it in less than a second."""
Listed = tuple[Resource, Object]


class HostCleaner:
    """Cleans up one virtual cluster of one agent.

    Touches only objects with the label of the virtual cluster, and in a namespace only if it has
    the claim of this agent, too. While policies let only the agent's account change or delete a
    claimed namespace, an administrator impersonates that for these requests only (ADR 17).
    say: called with a line for each namespace and with totals. agent_releases: whether a running
    agent releases the namespaces that are marked here: two would stand in each other's way.
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
        self._discovery = Discovery(host)

    async def namespaces(self) -> dict[str, Object]:
        """Return the host namespaces that this agent claims for the virtual cluster, by name."""
        listed = await claimed(
            self._host, f"{CLUSTER_LABEL}={self.cluster},{AGENT_LABEL}={self._agent}"
        )
        return {live["metadata"]["name"]: live for live, _ in listed}

    async def objects(self, spaces: Container[str]) -> list[Listed]:
        """Return our objects, in namespaces only those of `spaces`, without the Namespaces."""
        served = await self._discovery.refresh()
        selector = f"{CLUSTER_LABEL}={self.cluster}"
        return [
            (resource, live)
            async for resource, live in labelled_objects(self._host, served, selector)
            if work_of(live)
            and resource.gvk.kind != "Namespace"
            and (not live["metadata"].get("namespace") or live["metadata"]["namespace"] in spaces)
        ]

    async def orphaned_namespaces(self, needed: Container[str]) -> dict[str, Object]:
        """Return the claimed host namespaces that no Work needs, by name.

        needed: the virtual namespaces that Works need.
        """
        return {
            name: live
            for name, live in (await self.namespaces()).items()
            if (claim := claim_of(live))
            and not is_of_tenants(live)
            and is_orphaned_namespace(claim.namespace, needed)
        }

    async def obstacle(self, name: str, live: Object) -> str:
        """Return what prevents deleting a namespace, or ""."""
        text = f"{{}} {name}/{{}} does not belong to the virtual cluster"
        is_made = is_made_by_agent(live)
        return await obstacle_in(self._host, name, self.cluster, text) if is_made else ""

    async def clean(self, *, preserve: bool) -> None:
        """Delete everything, or release it if `preserve`. Raises KubeError."""
        spaces = await self.namespaces()
        objects = await self.objects(spaces)
        clean = self.release if preserve else self.delete
        await for_each(objects, lambda listed: clean(*listed))
        if objects:
            done = "released, without the agent's labels" if preserve else "deleted"
            self._say(f"host: {len(objects)} objects {done}")
        shared = SharedObjects(self._host, lambda _: None, lambda _: None, scopes=Scopes())
        served = await self._discovery.refresh()
        for resource, name in await shared.leave_all(served, self.cluster, preserve=preserve):
            self._say(f"host: {resource.gvk.kind} {name} is shared: released")
        await for_each(spaces.values(), partial(self.give_up, preserve=preserve))

    async def delete(self, resource: Resource, listed: Object) -> None:
        """Delete one object, also if it was recreated meanwhile from the same Work."""
        await self._change(resource, listed, listed, self._host.delete_same)

    async def release(self, resource: Resource, listed: Object) -> None:
        """Remove our and Karmada's labels and annotations from an object, and keep it.

        One that is of another Work by now, or of none, stays as it is. Raises KubeError, RetryError
        if it binds a role that grants more than virtual clusters may.
        """

        async def bare(path: str, live: Object) -> None:
            write = partial(self._host.replace, path, without_claims(live))
            await write_binding(self._host, live, "", write)

        await self._change(resource, listed, await self._fresh(resource, listed), bare)

    async def _change(
        self,
        resource: Resource,
        listed: Object,
        live: Object | None,
        write: Callable[[str, Object], Awaitable[None]],
    ) -> None:
        """Write to an object while it is of the virtual cluster and Work of the one listed."""
        metadata = listed["metadata"]
        path = resource.path(metadata.get("namespace") or "", metadata["name"])

        async def attempt(live: Object | None) -> None:
            if live is not None and _origin(live) == _origin(listed):
                await write(path, live)

        await retry_on_conflict(live, attempt, partial(self._fresh, resource, listed))

    async def _fresh(self, resource: Resource, listed: Object) -> Object | None:
        metadata = listed["metadata"]
        namespace = metadata.get("namespace") or ""
        return await self._objects.fresh(resource, namespace, metadata["name"])

    async def give_up(self, live: Object, *, preserve: bool) -> None:
        """Delete a claimed namespace if the agent created it, else remove the claim.

        One that is being deleted is left alone.
        """
        name, agent, user = live["metadata"]["name"], self._agent, self._claims_user
        if live["metadata"].get("deletionTimestamp"):
            return
        if is_made_by_agent(live) and not preserve:
            await delete_namespace(self._host, live, agent, user)
            self._say(f"host: namespace {name} deleted")
            return
        with suppress(NotFoundError):
            begun = await begin_release(self._host, live, agent, user)
            if self._agent_releases:
                await self._wait_released(name)
            if not self._agent_releases:
                await end_release(self._host, begun, agent, user)
            self._say(f"host: namespace {name} stays, without the agent's claim")

    async def _wait_released(self, name: str) -> None:
        """Wait for the running agent to release a namespace; one that does not releases none."""
        path = f"{NAMESPACES_PATH}/{name}"
        try:
            async with waiting(f"the agent to release namespace {name}", RELEASED_WITHIN_S):
                while True:
                    if phase_of(await self._host.get(path), self._agent) is not Phase.RELEASING:
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            self._agent_releases = False


async def clean_host(
    host: ApiClient, leaving: Leaving, say: Say, *, agent_releases: bool = False
) -> None:
    """Delete or release everything that remains on the host.

    agent_releases: whether a running agent serves the virtual cluster, and releases what stays.
    """
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
    """Return why a namespace is not to be deleted with its content: it has objects of others.

    cluster: whose objects do not count. text: to be filled with kind and name of the first other.
    """
    served = await Discovery(host).refresh()
    if not served.is_complete:
        return "not all kinds of the host can be listed now"
    try:
        async for resource, live in objects_in(host, served, namespace):
            if is_foreign(resource.gvk, live, cluster):
                return text.format(resource.gvk.kind, live["metadata"]["name"])
    except ApiError as error:
        return f"not all of its content can be listed: {error}"
    return ""


def describe(listed: Listed) -> str:
    """Return a text such as `Deployment edge-v-branch-a/web (Work web-1234)`."""
    resource, live = listed
    metadata = live["metadata"]
    name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
    return f"{resource.gvk.kind} {name} (Work {work_of(live)})"


def _origin(live: Object) -> tuple[str | None, str]:
    """Return virtual cluster and Work of an object."""
    return labels_of(live).get(CLUSTER_LABEL), work_of(live)


_POLICIES_PATH = f"/apis/{GROUP}/v1/validatingadmissionpolicies"


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
    name, agent = leaving.cluster, leaving.agent
    agents = await claimants(host, name) if host is not None else set()
    if others := agents - {agent}:
        problem = (
            f'namespaces of virtual cluster "{name}" on the host are claimed by agent '
            f'"{min(others)}", not by "{agent}"; nothing was changed'
        )
        raise CommandError(problem)
    known: list[str] = []
    if host is not None:
        known += (await recorded_state(host, leaving.namespace, agent)).clusters()
    if hub is not None:
        known += named_clusters(await hub_role(hub, agent))
    if cluster is None and not agents and name not in known:
        text = f'virtual cluster "{name}" of agent {agent_id(leaving.namespace, agent)} not found'
        raise CommandError(f"{text}; recorded: {', '.join(sorted(known))}" if known else text)


async def claimants(host: ApiClient, cluster: str) -> set[str]:
    """Return the agents that claim host namespaces of a virtual cluster."""
    return {claim.agent for _, claim in await claimed(host, f"{CLUSTER_LABEL}={cluster}")}


async def claims_user(host: ApiClient, agent: str) -> str:
    """Return the user to impersonate when changing claimed namespaces; "" = none.

    Raises CommandError if that is not possible, KubeError.
    """
    policy = PolicyOwner(agent, "", "").claims_policy
    path = f"{_POLICIES_PATH}/{policy}"
    try:
        live = await find(host, path)
    except NotServedError:
        if not await is_absent(host, path):
            raise
        live = None  # a host without policies
    user = protected_user(live or {})
    if not user or user == await own_user_name(host):
        return ""
    law = f"host: ValidatingAdmissionPolicy {policy} lets only {user} release namespaces"
    need = need_to_impersonate(user)
    if not await is_allowed(host, need):
        source = host.credentials.source
        problem = (
            f"{law}, and {source} may not impersonate it; add this rule, or use another account:"
        )
        raise CommandError(problem, f"  {need}")
    return user
