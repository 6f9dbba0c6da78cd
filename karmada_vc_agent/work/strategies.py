"""How host objects are applied and removed, by their sort; names they share.

Hosts that two virtual clusters use are detected in the informers: An index over our
own labelled objects has the users of a name, so lookups send no request. Writes in progress count
too: of two that use one name at once the first gets it. The other one is never named
(rewriting-rules 4.3, 7; ADR 16).
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.tasks import for_each
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import CLUSTER_LABEL, WORK_ANNOTATION
from karmada_vc_agent.model.karmada import cluster_of_work
from karmada_vc_agent.model.objects import GroupKind, Object, annotations_of, labels_of
from karmada_vc_agent.model.virtual_cluster import Guard, HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.draft import node_port_reassigned, shared_name
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from karmada_vc_agent.translation.placement import explain_immutable
from karmada_vc_agent.translation.shared_names import (
    holds_names,
    shared_names,
)
from karmada_vc_agent.translation.translate import Converted, HostObject
from karmada_vc_agent.work.host_objects import Applied, HostObjects
from karmada_vc_agent.work.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.rules import server_changes
from karmada_vc_agent.work.rules.apply_plan import Foreign
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.targets import Strategy, Target

NAME_INDEX = "shared name"
"""Index of the informers of host objects: shared_names()."""

LOOKS, LOOK_EVERY_S = 200, 0.05


class SharedNames:
    """Reports hosts that another virtual cluster uses, and refuses them if so configured.

    informers: of host objects, with NAME_INDEX. refuses: whether they are refused to a virtual
    cluster (settings `refuseSharedHosts` and `tenancy`). enqueue: called with the Works
    (`<execution namespace>/<work>`) to sync again when a name becomes free. former_names: earlier
    names of a virtual cluster, whose objects are its own.
    """

    def __init__(
        self,
        informers: InformerSet,
        discovery: Discovery,
        enqueue: Callable[[str], None],
        refuses: Callable[[str], bool] = lambda _cluster: False,
        former_names: Callable[[str], Iterable[str]] = lambda _cluster: (),
        *,
        scopes: Scopes,
    ) -> None:
        self._informers = informers
        self._discovery = discovery
        self._enqueue = enqueue
        self._refuses = refuses
        self._former_names = former_names
        self._in_flight: Counter[tuple[str, str]] = Counter()
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        scopes.ended.subscribe(
            lambda cluster: self._forget(lambda work: cluster_of_work(work) == cluster)
        )

    def follow(self, old: Object | None, new: Object | None) -> None:
        """Enqueue the Works that wait for a name that an object released."""
        if old is not None:
            self._free(shared_names(old).keys() - shared_names(new or {}).keys())

    def forget_work(self, work: str) -> None:
        """Forget a Work that is deleted: it waits for no name any more."""
        self._forget(lambda each: each == work)

    def _forget(self, is_dropped: Callable[[str], bool]) -> None:
        for name, works in list(self._waiting.items()):
            works -= {work for work in works if is_dropped(work)}
            if not works:
                del self._waiting[name]

    async def wait_listed(self, obj: Object) -> None:
        """Wait until all users of the names for which an object may be refused are listed.

        obj: as translated. A restart must not give a name away. Raises RetryError.
        """
        if not self._refuses(labels_of(obj)[CLUSTER_LABEL]) or not shared_names(obj):
            return
        stores = self._stores_of_holders()
        for _ in range(LOOKS):
            if all(store.is_synced for store in stores):
                return
            await asyncio.sleep(LOOK_EVERY_S)
        raise RetryError("refuseSharedHosts waits for the host to list who uses which host name")

    def _stores_of_holders(self) -> list[Store[Object]]:
        """Return a store for each kind that has names; starts missing informers.

        A kind that is served in several versions needs one of them.
        """
        served = {
            gvk.group_kind: resource
            for gvk, resource in self._discovery.served.by_kind.items()
            if holds_names(gvk)
        }
        stores = map(self._informers.store, served.values())
        return [store for store in stores if store is not None]

    @contextmanager
    def taking(self, obj: Object, live: Object | None, work: str) -> Iterator[tuple[str, ...]]:
        """Reserve the names of an object while it is written; yields those that others use.

        obj: as translated. live: the informer's object. Raises RefusedError (SharedHostConflict).
        """
        cluster = labels_of(obj)[CLUSTER_LABEL]
        names, had = shared_names(obj), shared_names(live or {}).keys()
        taken = tuple(name for name in names if self._is_taken(name, cluster))
        # Names already in use stay, even if the setting is newer.
        if self._refuses(cluster):
            self._refuse_hosts([name for name in taken if name not in had], names, work)
        flights = [(name, cluster) for name in names]
        self._in_flight.update(flights)
        freed = names.keys() - had
        try:
            yield taken
            freed = had - names.keys()
        finally:
            self._in_flight.subtract(flights)
            self._in_flight += Counter()  # drops entries at zero
            self._free(freed)

    def _is_taken(self, name: str, cluster: str) -> bool:
        if any(each == name and owner != cluster for each, owner in self._in_flight):
            return True
        own = {cluster, *self._former_names(cluster)}
        return any(
            labels_of(holder).get(CLUSTER_LABEL) not in own
            for store in self._informers.stores().values()
            for holder in store.by_index(NAME_INDEX, name)
        )

    def _refuse_hosts(self, taken: Iterable[str], paths: dict[str, str], work: str) -> None:
        hosts = list(taken)
        if not hosts:
            return
        for name in hosts:
            self._waiting[name].add(work)
        path = paths[hosts[0]]
        detail = (
            f'{path} "{hosts[0]}" is used by another virtual cluster; an administrator can '
            f'allow it with "allow: [{Guard.SHARED_HOSTS}]"'
        )
        raise RefusedError(Code.SHARED_HOST_CONFLICT, path, detail)

    def _free(self, names: Collection[str]) -> None:
        for name in names:
            for work in self._waiting.pop(name, ()):
                self._enqueue(work)


OF_KIND: Mapping[GroupKind, Strategy] = {
    kinds.NAMESPACE: Strategy.NAMESPACE,
    kinds.SERVICE: Strategy.SERVICE,
}
"""Kinds with a strategy of their own."""


def strategy_of(translated: HostObject | Converted) -> Strategy:
    """Return the strategy for the result of a translation."""
    if isinstance(translated, Converted):
        return Strategy.BINDINGS
    if translated.is_shared:
        return Strategy.SHARED
    return OF_KIND.get(translated.host_key.gvk.group_kind, Strategy.OBJECT)


class Strategies:
    """Applies and removes targets.

    lost_node: returns the name of a node that the virtual cluster selects but an older one owns.
    """

    def __init__(
        self,
        host_objects: HostObjects,
        shared_objects: SharedObjects,
        namespaces: NamespaceWriter,
        shared_names: SharedNames,
        lost_node: Callable[[str], str | None],
    ) -> None:
        self._host_objects = host_objects
        self._shared_objects = shared_objects
        self._namespaces = namespaces
        self._names = shared_names
        self._lost_node = lost_node

    async def apply(self, target: Target) -> Applied | Foreign | None:
        """Align the host; None if the manifest counts as applied without an object.

        Raises RefusedError, RetryError, RecreationError, InterpretationError, KubeError.
        """
        match target.strategy:
            case Strategy.BINDINGS:
                return await self._apply_bindings(target)
            case Strategy.NAMESPACE:
                check = target.check_of(target.object)
                name = _namespace(target)
                return await self._namespaces.apply(target.vc, name, target.object.obj, check)
            case Strategy.SHARED:
                await self._meet_preconditions(target)
                return await self._shared_objects.apply(
                    target.resource,
                    target.object.obj,
                    target.vc.name,
                    target.work,
                    target.check_of(target.object),
                    target.as_user(target.object),
                )
            case Strategy.SERVICE:
                await self._meet_preconditions(target)
                return await self._apply_service(target)
            case Strategy.OBJECT:
                await self._meet_preconditions(target)
                return await self._apply_object(target)

    def cached(self, target: Target) -> Object | None:
        """Return the live object if an informer has it and it belongs to this Work; no request.

        RoleBindings of a ClusterRoleBinding have no status to read: the manifest is in their place.
        A shared object names no Work.
        """
        if target.strategy is Strategy.BINDINGS:
            return target.manifest
        key = target.object.host_key
        if target.strategy is Strategy.SHARED:
            return self._shared_objects.cached(target.resource, key.name)
        live = self._host_objects.cached(target.resource, key.namespace, key.name)
        return live if annotations_of(live or {}).get(WORK_ANNOTATION) == target.work else None

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Delete what `apply` created, or release it if `preserve`.

        The last owner deletes a shared object. Raises RetryError, InterpretationError, KubeError.
        """
        match target.strategy:
            case Strategy.NAMESPACE:
                await self._namespaces.release(target.vc, _namespace(target), preserve=preserve)
            case Strategy.SHARED:
                name = target.object.host_key.name
                await self._shared_objects.leave(
                    target.resource, name, target.vc.name, target.work, preserve=preserve
                )
            case _:
                if any(holds_names(each.host_key.gvk) for each in target.objects):
                    self._names.forget_work(target.work)
                remove = self._host_objects.release if preserve else self._host_objects.remove

                async def remove_one(each: HostObject) -> None:
                    await remove(target.resource, each.obj, target.as_user(each))

                await for_each(target.objects, remove_one)

    async def _meet_preconditions(self, target: Target) -> None:
        """Claim the namespace of an object; refuse a new one while an older cluster owns a node.

        Raises RefusedError, RetryError while the namespace terminates, KubeError.
        """
        vc, translated = target.vc, target.object
        if target.resource.namespaced:
            namespace = VirtualNamespace(translated.virtual_key.namespace)
            await self._namespaces.claim_with_share(vc, namespace)
        node = self._lost_node(vc.name)
        if node is None:
            return
        key = translated.host_key
        if await self._host_objects.live(target.resource, key.namespace, key.name) is None:
            detail = f'node "{node}" also belongs to another virtual cluster'
            raise RefusedError(Code.NODE_OVERLAP, "", detail)

    async def _apply_object(self, target: Target) -> Applied | Foreign:
        """Write an object; report names that another virtual cluster uses, too."""
        key, desired = target.object.host_key, target.object.obj
        if not holds_names(key.gvk):
            return await self._write(target)
        await self._names.wait_listed(desired)
        live = await self._host_objects.get(target.resource, key.namespace, key.name)
        with self._names.taking(desired, live, target.work) as taken:
            result = await self._write(target)
        if isinstance(result, Foreign):
            return result
        return replace(result, notices=tuple(map(shared_name, taken)))

    async def _write(self, target: Target) -> Applied | Foreign:
        """Write an object; refuse one that cannot follow its group to other nodes."""
        key = target.object.host_key
        try:
            return await self._write_one(target, target.object, target.object.obj)
        except InvalidError as error:
            live = await self._host_objects.live(target.resource, key.namespace, key.name)
            refusal = explain_immutable(str(error), key.gvk, live, target.vc.required_selector)
            if refusal is None:
                raise
            raise RefusedError(refusal.code, refusal.path, refusal.detail) from error

    async def _apply_service(self, target: Target) -> Applied | Foreign:
        """Write a Service; the host reassigns node ports that are taken (rewriting-rules 4.3).

        Reports the node ports that the host chose in place of fixed ones.
        """
        key = target.object.host_key
        live = await self._host_objects.get(target.resource, key.namespace, key.name)
        desired = server_changes.keep_assigned(target.object.obj, live)
        try:
            result = await self._write_one(target, target.object, desired)
        except InvalidError as error:
            taken = server_changes.taken_ports(str(error))
            if not taken:
                raise
            desired = server_changes.without_ports(desired, taken)
            result = await self._write_one(target, target.object, desired)
        if isinstance(result, Foreign):
            return result
        reassigned = server_changes.reassigned_ports(result.live)
        return replace(result, notices=tuple(node_port_reassigned(*ports) for ports in reassigned))

    async def _apply_bindings(self, target: Target) -> Applied | Foreign:
        """Write a RoleBinding in each claimed namespace; the reported object is the manifest."""
        results = await for_each(target.objects, partial(self._apply_binding, target))
        for result in results:
            if isinstance(result, Foreign):
                return result
        applied = [result for result in results if isinstance(result, Applied)]
        return Applied(
            target.manifest,
            was_written=any(result.was_written for result in applied),
            was_recreated=any(result.was_recreated for result in applied),
            taken_from=max((result.taken_from for result in applied), default=""),
        )

    async def _apply_binding(self, target: Target, each: HostObject) -> Applied | Foreign | None:
        """Write one RoleBinding while its namespace is claimed; None where it no longer is."""
        namespace = HostNamespace(each.host_key.namespace)
        async with self._namespaces.equipped(target.vc, namespace) as is_claimed:
            return await self._write_one(target, each, each.obj) if is_claimed else None

    async def _write_one(
        self, target: Target, translated: HostObject, desired: Object
    ) -> Applied | Foreign:
        check, as_user = target.check_of(translated), target.as_user(translated)
        return await self._host_objects.apply(target.resource, desired, check, as_user)


def _namespace(target: Target) -> VirtualNamespace:
    return VirtualNamespace(target.object.virtual_key.name)
