"""Delete what a virtual cluster has on the host, or remove the agent's labels and keep it.

Touches only objects with the label of the virtual cluster, and in a namespace only if the namespace
carries the claim of this agent too.
"""

import asyncio
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import partial

from karmada_vc_agent.cluster.claims import Phase, claim_of, phase_of
from karmada_vc_agent.cluster.labelled_objects import labelled_objects, objects_in
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import ApiError, NotFoundError
from karmada_vc_agent.kube.for_each import for_each
from karmada_vc_agent.kube.retries import retry_on_conflict
from karmada_vc_agent.model.domain import (
    AGENT_LABEL,
    CLUSTER_LABEL,
    SHARED_LABEL,
)
from karmada_vc_agent.model.objects import Object, labels_of, namespaced_name
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.work.live_objects import LiveObjects
from karmada_vc_agent.work.namespaces.bound_roles import BoundRoles
from karmada_vc_agent.work.namespaces.namespace_release import (
    begin_release,
    delete_namespace,
    end_release,
)
from karmada_vc_agent.work.rules.metadata import without_claims
from karmada_vc_agent.work.rules.orphaned import (
    is_foreign,
    is_of_tenants,
    is_orphan,
    is_orphaned_namespace,
    work_of,
)
from karmada_vc_agent.work.rules.share_plan import owners_of
from karmada_vc_agent.work.shared_objects import SharedObjects

NAMESPACES_PATH = "/api/v1/namespaces"
POLL_S = 0.2
RELEASED_WITHIN_S = 20.0
"""A running agent that serves the virtual cluster does it in less than a second."""
Found = tuple[Resource, Object]


class HostCleaner:
    """Cleans up one virtual cluster of one agent.

    say: called with a line for each namespace and with totals. claims_user: the user to impersonate
    when changing claimed namespaces; empty = nobody. agent_releases: whether a running agent
    releases the namespaces that are marked here: two would stand in each other's way.
    """

    def __init__(
        self,
        host: ApiClient,
        agent: str,
        cluster: str,
        say: Callable[[str], None],
        claims_user: str = "",
        *,
        agent_releases: bool = False,
    ) -> None:
        self._host = host
        self._objects = LiveObjects(host, lambda _: None)
        self._bound_roles = BoundRoles(host, is_strict=False)
        self._agent = agent
        self.cluster = cluster
        self._say = say
        self._claims_user = claims_user
        self._agent_releases = agent_releases
        self._discovery = Discovery(host)

    async def namespaces(self) -> dict[str, Object]:
        """Return the host namespaces that this agent claims for the virtual cluster, by name."""
        selector = f"{CLUSTER_LABEL}={self.cluster},{AGENT_LABEL}={self._agent}"
        answer = await self._host.get(NAMESPACES_PATH, {"labelSelector": selector})
        found = answer.get("items") or []
        return {item["metadata"]["name"]: item for item in found if claim_of(item) is not None}

    async def objects(self, claimed: Container[str]) -> list[Found]:
        """Return our objects, in namespaces only those of `claimed`, without the Namespaces."""
        served = await self._discovery.refresh()
        selector = f"{CLUSTER_LABEL}={self.cluster}"
        return [
            (resource, live)
            async for resource, live in labelled_objects(self._host, served, selector)
            if work_of(live) and resource.gvk.kind != "Namespace" and _is_at_home(live, claimed)
        ]

    async def orphans(self, works: Container[str]) -> list[Found]:
        """Return those of our objects whose Work is not among `works`."""
        return [found for found in await self.objects(await self.namespaces())
                if is_orphan(found[1], works)]  # fmt: skip

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
        """Return what prevents deleting a namespace, or "".

        A namespace that the agent created is deleted with all its content, so it must not contain
        objects of others.
        """
        if not is_made_by_agent(live):
            return ""
        served = await self._discovery.refresh()
        if not served.is_complete:
            return "not all kinds of the host can be listed now"
        try:
            async for resource, found in objects_in(self._host, served, name):
                if is_foreign(resource.gvk, found, self.cluster):
                    text = namespaced_name(name, found["metadata"]["name"])
                    return f"{resource.gvk.kind} {text} does not belong to the virtual cluster"
        except ApiError as error:
            return f"not all of its content can be listed: {error}"
        return ""

    async def clean(self, *, preserve: bool) -> None:
        """Delete everything, or release it if `preserve`. Raises KubeError."""
        claimed = await self.namespaces()
        objects = await self.objects(claimed)
        clean = self.release if preserve else self.delete
        await for_each(objects, lambda found: clean(*found))
        if objects:
            done = "released, without the agent's labels" if preserve else "deleted"
            self._say(f"host: {len(objects)} objects {done}")
        await self._leave_shared(preserve=preserve)
        await self.give_up(claimed, preserve=preserve)

    async def _leave_shared(self, *, preserve: bool) -> None:
        """Release the objects that virtual clusters share; delete those without another owner."""
        served = await self._discovery.refresh()
        shared = SharedObjects(self._host, lambda _: None, lambda _: None)
        async for resource, live in labelled_objects(self._host, served, SHARED_LABEL):
            if self.cluster in owners_of(live):
                name = live["metadata"]["name"]
                await shared.leave(resource, name, self.cluster, "", preserve=preserve)
                self._say(f"host: {resource.gvk.kind} {name} is shared: released")

    async def delete(self, resource: Resource, found: Object) -> None:
        """Delete one object, also if it was recreated meanwhile from the same Work."""

        async def delete(live: Object | None) -> None:
            if live is not None and _origin(live) == _origin(found):
                await self._host.delete_same(_path(resource, live), live)

        await retry_on_conflict(found, delete, partial(self._fresh, resource, found))

    async def release(self, resource: Resource, found: Object) -> None:
        """Remove our and Karmada's labels and annotations from an object, and keep it.

        One that is of another Work by now, or of none, stays as it is. Raises KubeError, RetryError
        if it binds a role that grants more than virtual clusters may.
        """

        async def release(live: Object | None) -> None:
            if live is not None and _origin(live) == _origin(found):
                path, bare = _path(resource, live), without_claims(live)
                await self._bound_roles.writing(live, "", partial(self._host.replace, path, bare))

        fresh = partial(self._fresh, resource, found)
        await retry_on_conflict(await fresh(), release, fresh)

    async def _fresh(self, resource: Resource, found: Object) -> Object | None:
        metadata = found["metadata"]
        namespace = metadata.get("namespace") or ""
        return await self._objects.fresh(resource, namespace, metadata["name"])

    async def give_up(self, claimed: Mapping[str, Object], *, preserve: bool) -> None:
        """Delete the claimed namespaces that the agent created; remove the claim of others.

        claimed: by name. Those that are being deleted are left alone.
        """
        found = [ns for ns in claimed.values() if not ns["metadata"].get("deletionTimestamp")]
        goes = [ns for ns in found if is_made_by_agent(ns) and not preserve]
        await for_each(goes, self._delete)
        await for_each((ns for ns in found if ns not in goes), self._release)

    async def _delete(self, live: Object) -> None:
        await delete_namespace(self._host, live, self._agent, self._claims_user)
        self._say(f"host: namespace {live['metadata']['name']} deleted")

    async def _release(self, live: Object) -> None:
        name = live["metadata"]["name"]
        with suppress(NotFoundError):
            begun = await begin_release(self._host, live, self._agent, self._claims_user)
            if self._agent_releases:
                await self._wait_released(name)
            if not self._agent_releases:
                await end_release(self._host, begun, self._agent, self._claims_user)
            self._say(f"host: namespace {name} stays, without the agent's claim")

    async def _wait_released(self, name: str) -> None:
        """Wait for the running agent to release a namespace; one that does not releases none."""
        path = f"{NAMESPACES_PATH}/{name}"
        try:
            async with waiting(f"the agent to release namespace {name}", RELEASED_WITHIN_S):
                while True:
                    live = await self._host.get(path)
                    if phase_of(live, self._agent) is not Phase.RELEASING:
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            self._agent_releases = False


async def claimed_clusters(host: ApiClient, agent: str) -> tuple[str, ...]:
    """Return the virtual clusters for which an agent claims namespaces, sorted."""
    selector = f"{AGENT_LABEL}={agent},{CLUSTER_LABEL}"
    answer = await host.get(NAMESPACES_PATH, {"labelSelector": selector})
    return tuple(sorted({labels_of(item)[CLUSTER_LABEL] for item in answer.get("items") or ()}))


def describe(found: Found) -> str:
    """Return a text such as `Deployment edge-v-branch-a/web (Work web-1234)`."""
    resource, live = found
    metadata = live["metadata"]
    name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
    return f"{resource.gvk.kind} {name} (Work {work_of(live)})"


def _origin(live: Object) -> tuple[str | None, str]:
    """Return virtual cluster and Work of an object."""
    return labels_of(live).get(CLUSTER_LABEL), work_of(live)


def _is_at_home(live: Object, claimed: Container[str]) -> bool:
    namespace = live["metadata"].get("namespace") or ""
    return not namespace or namespace in claimed


def _path(resource: Resource, live: Object) -> str:
    metadata = live["metadata"]
    return resource.path(metadata.get("namespace") or "", metadata["name"])
