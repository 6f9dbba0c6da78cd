"""One manifest of a Work on the host: translate it, apply it, remove it.

The result of the one translation selects the strategy; the steps from `live` to `write` are the
same for all (host_objects.py).
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from karmada_vc_agent.cluster.virtual_clusters import HeldError, Scopes
from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.kube.controller import RetryError, Signal
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import (
    ApiError,
    InvalidError,
    NotServedError,
    UnreadableError,
    UnwritableError,
)
from karmada_vc_agent.kube.flows import for_each
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    ObjectKey,
    annotations_of,
    gvk_of,
    key_of,
    maps_at,
)
from karmada_vc_agent.model.quantity import WindowState
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION, cluster_of_work
from karmada_vc_agent.translation.context import (
    Notice,
    TranslationContext,
    node_port_reassigned,
    owned_elsewhere,
    shared_name,
)
from karmada_vc_agent.translation.guards import holds_names
from karmada_vc_agent.translation.kind_policy import Code, Refusal, RefusedError
from karmada_vc_agent.translation.placement import explain_immutable
from karmada_vc_agent.translation.rbac_rules import explain_denial
from karmada_vc_agent.translation.restore import names_of, restore_text
from karmada_vc_agent.translation.translate import (
    Converted,
    HostObject,
    Skipped,
    malformed_frame,
    translate,
)
from karmada_vc_agent.work.host_objects import Applied, HostObjects, RecreationError
from karmada_vc_agent.work.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.reporting import (
    Done,
    Failure,
    Strategy,
    Target,
    WindowGate,
    WorkManifest,
    dependency_of,
    not_served,
    refused,
    strategy_of,
)
from karmada_vc_agent.work.rules import server_changes
from karmada_vc_agent.work.rules.apply_plan import ForeignError
from karmada_vc_agent.work.rules.ownership import conflict_text
from karmada_vc_agent.work.shared_objects import SharedNames, SharedObjects


class ReportedObjects:
    """By virtual cluster: host object -> its name on the hub, `Deployment edge/web`."""

    def __init__(self, scopes: Scopes) -> None:
        self._objects: defaultdict[str, dict[ObjectKey, str]] = scopes.keep_each(dict)
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> list[str]:
        """Return what is recorded of a virtual cluster, sorted."""
        return sorted(self._objects.get(cluster, {}).values())

    def note(self, cluster: str, key: ObjectKey, text: str) -> None:
        if self._objects[cluster].get(key) != text:
            self._objects[cluster][key] = text
            self.changed.emit(cluster)

    def settled(self, cluster: str, key: ObjectKey) -> None:
        """Drop an object that is no longer reported, or was deleted."""
        if self._objects.get(cluster, {}).pop(key, None) is not None:
            self.changed.emit(cluster)


FindResource = Callable[[GroupVersionKind], Awaitable[Resource | None]]
ContextFor = Callable[[VirtualCluster, str], TranslationContext]
"""(virtual cluster, `<execution namespace>/<work>`) -> the facts that a translation depends on."""

_NO_WINDOWS = WindowGate()
_FAILURES = (
    *(ApiError, UnreadableError, UnwritableError, InterpretationError, RetryError),
    *(RefusedError, RecreationError, ForeignError),
)
"""Errors that concern one manifest; no response at all is an outage and no failure."""


@dataclass(eq=False)
class Manifests:
    """Applies and removes single manifests.

    find_resource: where a kind is served, by the host or else by the hub. lost_node: a node that a
    virtual cluster selects but an older one owns. owned: adopted objects that something else owns.
    """

    host_objects: HostObjects
    shared_objects: SharedObjects
    namespaces: NamespaceWriter
    find_resource: FindResource
    host_kinds: Discovery
    context_for: ContextFor
    lost_node: Callable[[str], str | None]
    shared_names: SharedNames
    windows: WindowGate
    owned: ReportedObjects
    scopes: Scopes

    def __post_init__(self) -> None:
        self._depending_on_claims: dict[str, None] = self.scopes.keep_by(cluster_of_work)

    def depending_on_claims(self, cluster: str) -> list[str]:
        """Return the Works of a virtual cluster to sync again when its claims change."""
        return [work for work in self._depending_on_claims if cluster_of_work(work) == cluster]

    def forget_work(self, work: str) -> None:
        """Forget a deleted Work, as `<execution namespace>/<name>`."""
        self._depending_on_claims.pop(work, None)
        self.windows.forget_work(work)

    async def apply(
        self, item: WorkManifest, *, is_former: bool = False
    ) -> tuple[Done, WindowState | None]:
        """Apply one manifest; return how, and the window that it waits for, if any.

        What waits is kept as it was applied before, if that is recorded; is_former: it is that.
        Raises UnreachableError; any other error is returned as a Failure with virtual names.
        """
        windows = self.windows if item.vc.window else _NO_WINDOWS
        window: WindowState | None = None
        try:
            target = item.translation = item.translation or await self._translate(item)
            if isinstance(target, Failure):
                return target, None
            if isinstance(target, Skipped):
                return None, None
            target = windows.marked(target)
            window = None if is_former else windows.closed(item.vc)
            if window and await windows.was_applied(target, is_dispatched=item.is_dispatched):
                window = None
            done = await self._apply(target) if window is None else None
        except _FAILURES as error:
            return self._failure(item, error), window  # whether it waits is not clear yet
        if window is not None and (former := windows.former(item)) is not None:
            done, _ = await self.apply(former, is_former=True)
        elif isinstance(done, Applied) and not is_former:
            windows.note(item)
        return done, window

    async def _translate(self, item: WorkManifest) -> Target | Failure | Skipped:
        vc, manifest = item.vc, item.manifest
        problem = malformed_frame(manifest)
        if problem:
            return refused(vc, manifest, Refusal(Code.MANIFEST_INVALID, "", problem))
        resource = await self.find_resource(gvk_of(manifest))
        if resource is None:
            return not_served(gvk_of(manifest))
        context = self.context_for(vc, item.work)
        result = translate(manifest, resource.namespaced, context)
        if isinstance(result, Refusal):
            return refused(vc, manifest, result)
        if isinstance(result, Skipped):
            return result
        return await self._target(item, context, resource, result)

    async def _locate(self, item: WorkManifest, find: FindResource | None = None) -> Target | None:
        """Return what a manifest created, even if refused now; find: for an unserved version."""
        translation = item.translation = item.translation or await self._translate(item)
        if isinstance(translation, Target):
            return translation
        # It may have become malformed or refused after it was applied.
        bare = _bare(item.manifest)
        if isinstance(translation, Skipped) or malformed_frame(bare):
            return None
        resource = await (find or self.find_resource)(gvk_of(bare))
        if resource is None:
            return None
        context = replace(self.context_for(item.vc, item.work), names_only=True)
        result = translate(bare, resource.namespaced, context)
        if isinstance(result, Refusal | Skipped):
            return None
        target = await self._target(item, context, resource, result)
        return target if isinstance(target, Target) else None

    async def _target(
        self,
        item: WorkManifest,
        context: TranslationContext,
        resource: Resource,
        result: HostObject | Converted,
    ) -> Target | Failure:
        fields = strategy_of(result), item.vc, item.manifest, context
        if isinstance(result, HostObject):
            objects = (result,)
            return Target(*fields, resource, objects, result.depends_on_claims, result.notices)
        converted = await self.find_resource(result.gvk)
        if converted is None:
            return not_served(result.gvk)
        return Target(*fields, converted, result.objects, depends_on_claims=True)

    def _failure(self, item: WorkManifest, error: Exception) -> Failure:
        vc, manifest, target = item.vc, item.manifest, item.translation
        if isinstance(error, RefusedError):
            return refused(vc, manifest, error.refusal)
        if isinstance(error, ForeignError):
            key = key_of(manifest)
            return Failure(conflict_text(key.gvk.kind, key.namespace, key.name, vc.name))
        if isinstance(error, HeldError):
            detail = f"an administrator of the host holds its namespace: {error.hold}"
            refusal = Refusal(Code.NAMESPACE_HELD, "metadata.namespace", detail, error.namespace)
            return refused(vc, manifest, refusal)
        context, gvk = self.context_for(vc, ""), gvk_of(manifest)
        names = context.names()
        if isinstance(target, Target):
            gvk = target.resource.gvk
            names = names_of(target.object.obj, context) if target.objects else names
        text = restore_text(str(error), names)
        if vc.apply_as is not None:
            text = explain_denial(text, vc.name, vc.apply_as)
        if isinstance(error, RecreationError):
            return Failure(text, is_recreation=True)
        if isinstance(error, NotServedError):
            self.host_kinds.doubt(gvk)
        dependency = dependency_of(vc.name, gvk, manifest["metadata"].get("namespace") or "", error)
        return Failure(text, waits_for=(dependency,) if dependency is not None else ())

    async def _apply(self, target: Target) -> Done:
        if target.depends_on_claims:
            self._depending_on_claims[target.work] = None
        applied = await self._apply_by_strategy(target)
        if applied is None:
            # Not needed yet; it is once its namespace is claimed for something else.
            self._depending_on_claims[target.work] = None
            return None
        notices = (*target.notices, *self._owner_notices(target, applied.live))
        return replace(applied, notices=(*notices, *applied.notices)) if notices else applied

    def _owner_notices(self, target: Target, live: Object) -> tuple[Notice, ...]:
        cluster, key = target.vc.name, key_of(live)
        # A Work never makes an object with owners: they are of who made it before.
        owners = ", ".join(
            f"{owner.get('kind', '?')} {owner.get('name', '?')}"
            for owner in maps_at(live, "metadata", "ownerReferences")
        )
        if not owners:
            self.owned.settled(cluster, key)
            return ()
        namespace, name = (target.manifest["metadata"].get(k) or "" for k in ("namespace", "name"))
        self.owned.note(cluster, key, f"{key.gvk.kind} {namespace}/{name} by {owners}")
        return (owned_elsewhere(owners),)

    def is_settled(self, item: WorkManifest, live: Object) -> bool:
        """Return whether a namespaced object is that of a manifest, and as it is to be."""
        key, claims = key_of(item.manifest), self.context_for(item.vc, item.work).claims
        place = claims.get(VirtualNamespace(key.namespace))
        is_its = place is not None and key_of(live) == key._replace(namespace=place)
        return is_its and self.host_objects.is_settled(live)

    async def cached(self, item: WorkManifest) -> Object | None:
        """Return the live object of a manifest if an informer has it; of bindings the manifest."""
        target = await self._locate(item)
        if target is None:
            return None
        if target.strategy is Strategy.BINDINGS:
            return target.manifest
        key = target.object.host_key
        if target.strategy is Strategy.SHARED:
            return self.shared_objects.cached(target.resource, key.name)
        live = self.host_objects.cached(target.resource, key.namespace, key.name)
        return live if annotations_of(live or {}).get(WORK_ANNOTATION) == target.work else None

    async def remove(self, item: WorkManifest, *, preserve: bool) -> Failure | None:
        """Delete or release what a manifest created; return why not. Raises UnreachableError."""
        self._depending_on_claims.pop(item.work, None)
        try:
            target = await self._target_on_host(item)
            if target is None or isinstance(target, Failure):
                return target
            for each in target.objects:
                self.owned.settled(target.vc.name, each.host_key)
            await self._remove(target, preserve=preserve)
        except _FAILURES as error:
            return self._failure(item, error)
        return None

    async def _target_on_host(self, item: WorkManifest) -> Target | Failure | None:
        """Return what a manifest may have created, at a served version. Raises KubeError."""
        target = await self._locate(item, self.host_kinds.find_any)
        if target is None:
            failure = item.translation
            is_unserved = isinstance(failure, Failure) and failure.is_unserved
            return self._failure_unless_unserved(gvk_of(item.manifest)) if is_unserved else None
        there = [
            each
            for each in target.objects
            # The agent may not even read in a namespace that is not claimed.
            if not (place := each.host_key.namespace) or await self.namespaces.may_hold(place)
        ]
        if target.objects and not there:
            return None
        gvk = target.resource.gvk
        resource = await self.host_kinds.find_any(gvk)
        if resource is None:
            return self._failure_unless_unserved(gvk)
        return replace(target, resource=resource, objects=tuple(there))

    def _failure_unless_unserved(self, gvk: GroupVersionKind) -> Failure | None:
        """Return a Failure if objects of a kind may exist: its API group does not answer."""
        if self.host_kinds.covers(gvk):
            return None
        return not_served(gvk, f"the host does not report what it serves of {gvk.api_version}")

    async def _apply_by_strategy(self, target: Target) -> Applied | None:
        """Align the host; None if the manifest counts as applied without an object."""
        vc, resource = target.vc, target.resource
        if target.strategy is Strategy.BINDINGS:
            return await self._apply_bindings(target)
        each, check = target.object, target.check_of(target.object)
        if target.strategy is Strategy.NAMESPACE:
            name = VirtualNamespace(each.virtual_key.name)
            return await self.namespaces.apply(vc, name, each.obj, check)
        await self._meet_preconditions(target)
        if target.strategy is Strategy.SHARED:
            user, work = target.as_user(each), target.work
            return await self.shared_objects.apply(resource, each.obj, vc.name, work, check, user)
        if target.strategy is Strategy.SERVICE:
            return await self._apply_service(target)
        return await self._apply_object(target)

    async def _remove(self, target: Target, *, preserve: bool) -> None:
        """Delete what `apply` created, or release it; the last owner deletes a shared object."""
        vc, resource = target.vc, target.resource
        if target.strategy is Strategy.NAMESPACE:
            namespace = VirtualNamespace(target.object.virtual_key.name)
            await self.namespaces.release(vc, namespace, preserve=preserve)
        elif target.strategy is Strategy.SHARED:
            name, leave = target.object.host_key.name, self.shared_objects.leave
            await leave(resource, name, vc.name, target.work, preserve=preserve)
        else:
            remove = self.host_objects.release if preserve else self.host_objects.remove
            await for_each(
                target.objects, lambda each: remove(resource, each.obj, target.as_user(each))
            )

    async def _meet_preconditions(self, target: Target) -> None:
        vc, translated = target.vc, target.object
        if target.resource.namespaced:
            namespace = VirtualNamespace(translated.virtual_key.namespace)
            await self.namespaces.claim_with_share(vc, namespace)
        node = self.lost_node(vc.name)
        if node is None:
            return
        key = translated.host_key
        if await self.host_objects.live(target.resource, key.namespace, key.name) is None:
            detail = f'node "{node}" also belongs to another virtual cluster'
            raise RefusedError(Code.NODE_OVERLAP, "", detail)

    async def _apply_object(self, target: Target) -> Applied:
        key, desired = target.object.host_key, target.object.obj
        if not holds_names(key.gvk):
            return await self._write(target)
        await self.shared_names.wait_listed(desired)
        live = await self.host_objects.get(target.resource, key.namespace, key.name)
        with self.shared_names.taking(desired, live) as taken:
            result = await self._write(target)
        return replace(result, notices=tuple(map(shared_name, taken)))

    async def _write(self, target: Target) -> Applied:
        try:
            return await self._write_one(target, target.object, target.object.obj)
        except InvalidError as error:
            gvk, *place = target.object.host_key
            live = await self.host_objects.live(target.resource, *place)
            refusal = explain_immutable(str(error), gvk, live, target.vc.required_selector)
            if refusal is None:
                raise
            raise RefusedError(refusal.code, refusal.path, refusal.detail) from error

    async def _apply_service(self, target: Target) -> Applied:
        """Write a Service; report node ports that the host reassigned (rewriting-rules 4.3)."""
        key = target.object.host_key
        live = await self.host_objects.get(target.resource, key.namespace, key.name)
        desired = server_changes.keep_assigned(target.object.obj, live)
        try:
            result = await self._write_one(target, target.object, desired)
        except InvalidError as error:
            taken = server_changes.taken_ports(str(error))
            if not taken:
                raise
            desired = server_changes.without_ports(desired, taken)
            result = await self._write_one(target, target.object, desired)
        reassigned = server_changes.reassigned_ports(result.live)
        return replace(result, notices=tuple(node_port_reassigned(*ports) for ports in reassigned))

    async def _apply_bindings(self, target: Target) -> Applied:
        async def apply(each: HostObject) -> Applied | None:
            namespace = HostNamespace(each.host_key.namespace)
            async with self.namespaces.equipped(target.vc, namespace) as is_claimed:
                return await self._write_one(target, each, each.obj) if is_claimed else None

        applied = list(filter(None, await for_each(target.objects, apply)))
        return Applied(
            target.manifest,
            was_written=any(result.was_written for result in applied),
            was_recreated=any(result.was_recreated for result in applied),
        )

    async def _write_one(self, target: Target, translated: HostObject, desired: Object) -> Applied:
        check, as_user = target.check_of(translated), target.as_user(translated)
        return await self.host_objects.apply(target.resource, desired, check, as_user)


def _bare(manifest: Object) -> Object:
    given = manifest.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    identity = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return {**{key: manifest.get(key) for key in ("apiVersion", "kind")}, "metadata": identity}
