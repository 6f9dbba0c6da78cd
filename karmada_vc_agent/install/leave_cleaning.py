"""Delete what a virtual cluster has on the host, or remove the agent's labels and keep it.

Touches only objects with the label of the virtual cluster, and in a namespace only if the namespace
carries the claim of this agent too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from functools import partial

from karmada_vc_agent.cluster.claims import Claim, Phase, claim_of, phase_of
from karmada_vc_agent.cluster.labelled_objects import labelled_objects, objects_in
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.install.leave_steps import Leaving, Say
from karmada_vc_agent.install.removals import revoke
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import ApiError, NotFoundError
from karmada_vc_agent.kube.for_each import for_each
from karmada_vc_agent.kube.retries import retry_on_conflict
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, labels_of, namespaced_name
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.work.bound_roles import BoundRoles
from karmada_vc_agent.work.live_objects import LiveObjects
from karmada_vc_agent.work.namespaces.namespace_release import (
    begin_release,
    delete_namespace,
    end_release,
)
from karmada_vc_agent.work.rules.metadata import without_claims
from karmada_vc_agent.work.rules.orphaned import (
    is_foreign,
    is_of_tenants,
    is_orphaned_namespace,
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

    say: called with a line for each namespace and with totals. agent_releases: whether a running
    agent releases the namespaces that are marked here: two would stand in each other's way.
    """

    def __init__(
        self, host: ApiClient, leaving: Leaving, say: Say, *, agent_releases: bool = False
    ) -> None:
        self._host = host
        self._objects = LiveObjects(host, lambda _: None)
        self._bound_roles = BoundRoles(host, is_strict=False)
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
        await self.give_up(spaces, preserve=preserve)

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
            await self._bound_roles.writing(live, "", write)

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

    async def give_up(self, spaces: Mapping[str, Object], *, preserve: bool) -> None:
        """Delete the claimed namespaces that the agent created; remove the claim of others.

        spaces: by name. Those that are being deleted are left alone.
        """
        await for_each(spaces.values(), partial(self._give_up, preserve=preserve))

    async def _give_up(self, live: Object, *, preserve: bool) -> None:
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
    await revoke(host, agent, namespace, cluster, Changes(say))
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
