"""Cluster-scoped host objects, and names, that virtual clusters share.

A shared object names no Work, so the Works that use it are kept here, and enqueued when the object
changes: they may wait for an owner to leave or to agree.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from urllib.parse import quote

from karmada_vc_agent.cluster.host_objects import labelled_objects
from karmada_vc_agent.cluster.rules.conditions import find_condition
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.interpretation.interpreter import BUILT_IN, Interpreter
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import ForbiddenError, NotServedError
from karmada_vc_agent.kube.flows import retry_on_conflict
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.model.objects import GroupKind, Object, dig, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import Guard
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, SHARED_LABEL, cluster_of_work
from karmada_vc_agent.translation.guards import holds_names, shared_names
from karmada_vc_agent.translation.kind_policy import DEFINE_KINDS, Code, RefusedError
from karmada_vc_agent.work.host_objects import Applied, Check, LiveObjects, StoreOf
from karmada_vc_agent.work.reporting import Dependency
from karmada_vc_agent.work.rules.apply_plan import (
    difference,
    is_shared,
    owners_of,
    plan_leave,
    plan_share,
    with_owners,
)


@dataclass(eq=False)
class SharedObjects:
    """Joins and leaves shared objects; enqueue: gets `<execution namespace>/<work>` to sync."""

    host: ApiClient
    store_of: StoreOf
    enqueue: Callable[[str], None]
    interpreter: Interpreter = BUILT_IN
    former_names: Callable[[str], Container[str]] = lambda _: ()
    _: KW_ONLY
    scopes: Scopes

    def __post_init__(self) -> None:
        self._objects = LiveObjects(self.host, self.store_of)
        self._users: defaultdict[tuple[GroupKind, str], set[str]] = defaultdict(set)
        self.scopes.ended.subscribe(
            lambda cluster: self._forget_users(lambda user: cluster_of_work(user) == cluster)
        )

    def follow(self, old: Object | None, new: Object | None) -> None:
        """Enqueue all Works that use an object that changed."""
        if obj := new or old:
            for work in self._users.get(_key(obj), ()):
                self.enqueue(work)

    def cached(self, resource: Resource, name: str) -> Object | None:
        """Return the live object if the informer has it; sends no request."""
        return self._objects.cached(resource, "", name)

    async def apply(
        self,
        resource: Resource,
        desired: Object,
        cluster: str,
        work: str,
        check: Check,
        as_user: str = "",
    ) -> Applied:
        """Join an object, or change it if all its owners agree.

        Raises KubeError, InterpretationError, RetryError, RefusedError, also as `check`.
        """
        self._users[_key(desired)].add(work)
        name = desired["metadata"]["name"]

        async def write(live: Object | None) -> Applied:
            if live is not None and dig(live, "metadata", "deletionTimestamp"):
                raise RetryError(f'{gvk_of(live).kind} "{name}" is being deleted on the host')
            obj, owners, differs_at = plan_share(desired, live, cluster, self.former_names(cluster))
            if obj is not None and live is not None and owners is not None:
                retained = await self.interpreter.retain(cluster, obj, live)
                obj = with_owners(check(retained, live), owners)
            if differs_at:
                if obj is not None:
                    answer = await self.host.replace(resource.path(name=name), obj)
                    self._observe(resource, answer, work)
                raise _conflict(differs_at, live)
            if obj is None:
                assert live is not None  # noqa: S101 - only a live object can be kept
                return Applied(live, was_written=False)
            if live is None:
                await self._refuse_groups_of_host(resource, obj)
                answer = await self.host.create(resource.path(), obj, as_user)
            else:
                await self._refuse_under_others(obj, live)
                answer = await self.host.replace(resource.path(name=name), obj, as_user)
            self._observe(resource, answer, work)
            return Applied(answer, was_written=True)

        live = await self._objects.live(resource, "", name)
        fresh = partial(self._objects.fresh, resource, "", name)
        return await retry_on_conflict(live, write, fresh)

    async def leave(
        self, resource: Resource, name: str, cluster: str, work: str, *, preserve: bool
    ) -> None:
        """Leave an object; the last owner deletes it, a CRD only if it has no objects."""
        path = resource.path(name=name)

        async def write(live: Object | None) -> None:
            left = live and plan_leave(live, cluster)
            if live is None or left is None:
                return
            if preserve or owners_of(left) or await self._has_objects(live):
                self._observe(resource, await self.host.replace(path, left), work)
            else:
                await self.host.delete_same(path, live, is_unchanged=True)

        live = await self._objects.live(resource, "", name)
        await retry_on_conflict(live, write, partial(self._objects.fresh, resource, "", name))
        self._forget_users(lambda user: user == work)

    async def leave_all(
        self,
        served: ServedApis,
        cluster: str,
        *,
        preserve: bool,
        selects: Callable[[Resource], bool] = lambda _: True,
    ) -> list[tuple[Resource, str]]:
        """Leave all objects of a virtual cluster; return them. Raises KubeError."""
        left = [
            (resource, str(live["metadata"]["name"]))
            async for resource, live in labelled_objects(
                self.host, served, SHARED_LABEL, wants=selects
            )
            if cluster in owners_of(live)
        ]
        for resource, name in left:
            await self.leave(resource, name, cluster, "", preserve=preserve)
        return left

    def _observe(self, resource: Resource, answer: Object, work: str) -> None:
        """Store what a Work wrote; enqueue the others now, since the watch will not report it."""
        self._objects.observe(resource, answer)
        for user in self._users.get(_key(answer), set()) - {work}:
            self.enqueue(user)

    def _forget_users(self, is_dropped: Callable[[str], bool]) -> None:
        for key, users in list(self._users.items()):
            users -= {user for user in users if is_dropped(user)}
            if not users:
                del self._users[key]

    async def _refuse_groups_of_host(self, resource: Resource, desired: Object) -> None:
        if gvk_of(desired).group_kind not in DEFINE_KINDS:
            return
        group = str(dig(desired, "spec", "group"))
        try:
            await self.host.get(f"/apis/{quote(group, safe='')}")
        except NotServedError:
            return  # a definition that a page lets pass meets the same page when it is created
        listed = await self.host.get(resource.path(), {"labelSelector": SHARED_LABEL})
        if not any(dig(each, "spec", "group") == group for each in listed.get("items") or ()):
            detail = f'spec.group is "{group}", whose kinds are for the host to define'
            raise RefusedError(Code.SHARED_OBJECT_CONFLICT, "spec.group", detail, group)

    async def _refuse_under_others(self, desired: Object, live: Object | None) -> None:
        """Refuse a schema that may empty fields in objects of others than its owners."""
        path = difference(desired.get("spec"), dig(live, "spec"), "spec") or _lost(desired, live)
        if live is None or path is None:
            return
        owners = ",".join(sorted(owners_of(desired)))
        if await self._has_objects(live, f"{CLUSTER_LABEL} notin ({owners})"):
            detail = (
                f"differs at {path} from the definition on the host, and others have objects of "
                "it; the agent applies it once they use the same definition or have no objects"
            )
            kind = f"{dig(live, 'spec', 'group')}/{dig(live, 'spec', 'names', 'kind')}"
            raise RefusedError(Code.SHARED_OBJECT_CONFLICT, path, detail, kind)

    async def _has_objects(self, live: Object, selector: str = "") -> bool:
        established = find_condition(dig(live, "status", "conditions"), "Established")
        is_never_served = established is not None and established["status"] == "False"
        if is_never_served or gvk_of(live).group_kind not in DEFINE_KINDS:
            return False
        query = {"limit": "1"} | ({"labelSelector": selector} if selector else {})
        group, plural = dig(live, "spec", "group"), dig(live, "spec", "names", "plural")
        served = [each for each in dig(live, "spec", "versions") or () if each.get("served")]
        if not served:
            return True  # it cannot be listed
        api = f"/apis/{group}/{served[0]['name']}"
        try:
            return bool((await self.host.get(f"{api}/{plural}", query)).get("items"))
        except ForbiddenError:
            # Added after `join`: the agent may list it in claimed namespaces only.
            return not selector or await self._has_objects_in_claimed(api, plural, selector)

    async def _has_objects_in_claimed(self, api: str, plural: str, selector: str) -> bool:
        namespaces = await self.host.get(
            "/api/v1/namespaces", {"labelSelector": f"{CLUSTER_LABEL},{selector}"}
        )
        for namespace in namespaces.get("items") or ():
            path = f"{api}/namespaces/{namespace['metadata']['name']}/{plural}"
            with suppress(ForbiddenError):  # no rights, so nothing was created there
                if (await self.host.get(path, {"limit": "1"})).get("items"):
                    return True
        return False


def _lost(desired: Object, live: Object | None) -> str | None:
    """Return the path of what a schema would lose; the host adds nothing to one."""
    schemas = (
        [dig(each, "schema") for each in dig(obj, "spec", "versions") or ()]
        for obj in (live, desired)
    )
    for index, (old, new) in enumerate(zip(*schemas, strict=False)):
        path = difference(old, new, f"spec.versions[{index}].schema")
        if path is not None:
            return path
    return None


def _key(obj: Object) -> tuple[GroupKind, str]:
    return gvk_of(obj).group_kind, obj["metadata"]["name"]


def _conflict(path: str, live: Object | None) -> RefusedError:
    owner = "owned by other virtual clusters" if live and is_shared(live) else "of the host"
    return RefusedError(
        Code.SHARED_OBJECT_CONFLICT, path, f"differs from the object {owner} at {path}"
    )


NAME_INDEX = "shared name"
"""Index of the informers of host objects: shared_names()."""

LOOKS, LOOK_EVERY_S = 200, 0.05


@dataclass(eq=False)
class SharedNames:
    """Reports hosts that another virtual cluster uses, and refuses them if so configured.

    Users are in an index of our labelled objects, or writing now, and never named (ADR 16).
    freed: called with the names that became free. refuses: whether a virtual cluster is refused.
    """

    informers: InformerSet
    discovery: Discovery
    freed: Callable[[set[Dependency]], None]
    refuses: Callable[[str], bool] = lambda _cluster: False
    former_names: Callable[[str], Iterable[str]] = lambda _cluster: ()

    def __post_init__(self) -> None:
        self._in_flight: Counter[tuple[str, str]] = Counter()

    async def wait_listed(self, obj: Object) -> None:
        """Wait for all users of its names: a restart must not give one away. Raises RetryError."""
        if not self.refuses(labels_of(obj)[CLUSTER_LABEL]) or not shared_names(obj):
            return
        kinds = self.discovery.served.by_kind.items()
        # A kind that is served in several versions needs one of them.
        served = {gvk.group_kind: resource for gvk, resource in kinds if holds_names(gvk)}
        stores = list(map(self.informers.store, served.values()))  # starts missing informers
        for _ in range(LOOKS):
            if all(store is None or store.is_synced for store in stores):
                return
            await asyncio.sleep(LOOK_EVERY_S)
        raise RetryError("refuseSharedHosts waits for the host to list who uses which host name")

    @contextmanager
    def taking(self, obj: Object, live: Object | None) -> Iterator[tuple[str, ...]]:
        """Reserve names while an object is written; yields those taken. Raises RefusedError."""
        cluster = labels_of(obj)[CLUSTER_LABEL]
        names, had = shared_names(obj), shared_names(live or {}).keys()
        taken = tuple(name for name in names if self._is_taken(name, cluster))
        # Names already in use stay, even if the setting is newer.
        host = next((name for name in taken if name not in had), None)
        if host is not None and self.refuses(cluster):
            detail = (
                f'{names[host]} "{host}" is used by another virtual cluster; an administrator can '
                f'allow it with "allow: [{Guard.SHARED_HOSTS}]"'
            )
            raise RefusedError(Code.SHARED_HOST_CONFLICT, names[host], detail, host)
        flights = [(name, cluster) for name in names]
        self._in_flight.update(flights)
        freed = names.keys() - had
        try:
            yield taken
            freed = had - names.keys()
        finally:
            self._in_flight.subtract(flights)
            self._in_flight += Counter()  # drops entries at zero
            self.freed({(name,) for name in freed})

    def _is_taken(self, name: str, cluster: str) -> bool:
        if any(each == name and owner != cluster for each, owner in self._in_flight):
            return True
        own = {cluster, *self.former_names(cluster)}
        return any(
            labels_of(holder).get(CLUSTER_LABEL) not in own
            for store in self.informers.stores().values()
            for holder in store.by_index(NAME_INDEX, name)
        )
