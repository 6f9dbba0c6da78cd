"""One manifest of a Work on the host: apply it, look at it, remove it, let go of it.

Translation decides what it becomes or why it is refused; namespaces are claimed first.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from karmada_vc_agent.apply import causes
from karmada_vc_agent.apply.causes import Cause
from karmada_vc_agent.apply.failure import Failure, conflict, refused
from karmada_vc_agent.apply.host_objects import Applied, Check, HostObjects, RecreationError
from karmada_vc_agent.apply.shared_names import SharedNames
from karmada_vc_agent.apply.shared_objects import SharedObjects
from karmada_vc_agent.interpretation.errors import InterpretationError
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ApiError, InvalidError, UnreadableError, UnwritableError
from karmada_vc_agent.model.domain import WORK_ANNOTATION
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import (
    NAMESPACE,
    GroupVersionKind,
    Object,
    annotations_of,
    gvk_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.planning import node_ports
from karmada_vc_agent.planning.apply_plan import Foreign
from karmada_vc_agent.translation import services
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.denial import explain_denial
from karmada_vc_agent.translation.immutable import explain_immutable
from karmada_vc_agent.translation.notices import node_port_reassigned, shared_name
from karmada_vc_agent.translation.refusal import Code, Refusal, RefusedError
from karmada_vc_agent.translation.restore import names_of, restore_text
from karmada_vc_agent.translation.retained import assert_placement
from karmada_vc_agent.translation.shape import malformed
from karmada_vc_agent.translation.translate import (
    Converted,
    HostObject,
    Skipped,
    translate,
)

FindResource = Callable[[GroupVersionKind], Awaitable[Resource | None]]
ContextFor = Callable[[VirtualCluster, str], TranslationContext]
"""(virtual cluster, `<execution namespace>/<work>`) -> the facts a translation rests on."""


class NamespaceKeeper(Protocol):
    """What is asked of the namespaces controller, the only writer of namespaces."""

    async def claim(self, vc: VirtualCluster, namespace: VirtualNamespace) -> object: ...

    async def apply(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object, check: Check
    ) -> Applied | None: ...

    async def release(
        self, vc: VirtualCluster, namespace: VirtualNamespace, *, preserve: bool
    ) -> None: ...

    def is_going(self, name: str) -> bool: ...


_FAILURES = (ApiError, UnreadableError, UnwritableError, InterpretationError, RetryError)
"""What costs one manifest; no answer at all is an outage and costs no condition."""


class Manifests:
    """Carries single manifests out.

    lost_node: names a node that the virtual cluster selects but an older one owns.
    """

    def __init__(
        self,
        host_objects: HostObjects,
        shared_objects: SharedObjects,
        namespaces: NamespaceKeeper,
        find_resource: FindResource,
        context_for: ContextFor,
        lost_node: Callable[[str], str | None],
        shared_names: SharedNames,
    ) -> None:
        self._host_objects = host_objects
        self._shared_objects = shared_objects
        self._namespaces = namespaces
        self._find_resource = find_resource
        self._lost_node = lost_node
        self._shared_names = shared_names
        self.context_for = context_for
        self._depending_on_claims: set[str] = set()

    def depending_on_claims(self, cluster: str) -> list[str]:
        """Return the Works of a virtual cluster to carry out again when its namespaces change."""
        own = f"{execution_namespace(cluster)}/"
        return [work for work in self._depending_on_claims if work.startswith(own)]

    def forget_cluster(self, cluster: str) -> None:
        """Forget the Works of a Cluster that is gone."""
        self._depending_on_claims.difference_update(self.depending_on_claims(cluster))

    async def apply(
        self, vc: VirtualCluster, manifest: Object, work: str
    ) -> Applied | Failure | None:
        """Apply one manifest; None where it counts as applied without an object.

        Raises UnreachableError; all else that goes wrong is a Failure with virtual names.
        """
        problem = malformed(manifest)
        if problem:
            return refused(vc, manifest, Refusal(Code.MANIFEST_INVALID, "", problem))
        gvk, resource = gvk_of(manifest), None
        try:
            resource = await self._find_resource(gvk)
            if resource is None:
                text = f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
                return Failure(text, cause=Cause(vc.name, causes.KIND, gvk))
            return await self._apply(vc, manifest, resource, work)
        except RefusedError as error:
            return refused(vc, manifest, error.refusal)
        except RecreationError as error:
            text = self._virtual_text(vc, manifest, resource, str(error))
            return Failure(text, is_recreation=True)
        except _FAILURES as error:
            namespace = manifest["metadata"].get("namespace") or ""
            return Failure(
                self._virtual_text(vc, manifest, resource, str(error)),
                cause=causes.of_answer(vc.name, gvk, namespace, error),
            )

    def _virtual_text(
        self, vc: VirtualCluster, manifest: Object, resource: Resource | None, text: str
    ) -> str:
        """Return an answer of the host with virtual names, also of what is not claimed yet."""
        context = self.context_for(vc, "")
        names = context.names()
        if resource is not None:
            translated = translate(manifest, resource.namespaced, context)
            if isinstance(translated, HostObject):
                names = names_of(translated.obj, context)
        text = restore_text(text, names)
        return text if vc.apply_as is None else explain_denial(text, vc.name, vc.apply_as)

    async def cached(self, vc: VirtualCluster, manifest: Object, work: str) -> Object | None:
        """Return the live object if an informer knows it and it is this Work's.

        Also of a manifest that a rule refuses by now.
        """
        found = await self._translate(vc, manifest, work)
        if found is None:
            return None
        resource, translated = found
        if isinstance(translated, Converted):
            return manifest
        key = translated.host_key
        if translated.is_shared:
            return self._shared_objects.cached(resource, key.name)
        live = self._host_objects.cached(resource, key.namespace, key.name)
        return live if annotations_of(live or {}).get(WORK_ANNOTATION) == work else None

    async def remove(
        self, vc: VirtualCluster, manifest: Object, work: str, *, preserve: bool
    ) -> None:
        """Delete what a manifest made, or take all marks off it and leave it.

        One that was refused made nothing. Raises KubeError, and RetryError where the
        interpreter cannot say what stays.
        """
        found = await self._translate(vc, manifest, work)
        if found is None:
            return
        resource, translated = found
        self._depending_on_claims.discard(work)
        if isinstance(translated, Converted):
            await self._remove_bindings(vc, translated, preserve=preserve)
        elif translated.is_shared:
            name = translated.host_key.name
            await self._shared_objects.leave(resource, name, vc.name, work, preserve=preserve)
        elif translated.host_key.gvk == NAMESPACE:
            namespace = VirtualNamespace(translated.virtual_key.name)
            await self._namespaces.release(vc, namespace, preserve=preserve)
        elif preserve:
            try:
                await self._host_objects.release(resource, translated.obj, _rights(vc, translated))
            except InterpretationError as error:
                text = self._virtual_text(vc, manifest, resource, str(error))
                cause = causes.of_interpretation(vc.name, error)
                raise RetryError(text, [cause] if cause else ()) from error
        else:
            await self._host_objects.remove(resource, translated.obj, _rights(vc, translated))

    async def _translate(
        self, vc: VirtualCluster, manifest: Object, work: str
    ) -> tuple[Resource, HostObject | Converted] | None:
        # What is odd about the rest of it may have come after it was applied.
        is_nameless = malformed(_bare(manifest))
        resource = None if is_nameless else await self._find_resource(gvk_of(manifest))
        if resource is None:
            return None
        context = self.context_for(vc, work)
        translated = translate(manifest, resource.namespaced, context)
        if isinstance(translated, Refusal):
            # It may have been applied before the rule that refuses it now came to hold.
            translated = translate(
                _bare(manifest), resource.namespaced, replace(context, names_only=True)
            )
        if isinstance(translated, Refusal | Skipped):
            return None
        return resource, translated

    async def _apply(
        self, vc: VirtualCluster, manifest: Object, resource: Resource, work: str
    ) -> Applied | Failure | None:
        context = self.context_for(vc, work)
        translated = translate(manifest, resource.namespaced, context)
        if isinstance(translated, Refusal):
            return refused(vc, manifest, translated)
        if isinstance(translated, Skipped):
            return None
        if isinstance(translated, Converted):
            return await self._apply_bindings(vc, manifest, translated, context)
        if translated.depends_on_claims:
            self._depending_on_claims.add(work)
        applied = await self._apply_object(vc, resource, translated, context)
        if isinstance(applied, Foreign):
            return conflict(vc, manifest)
        if applied is None:
            return None
        return replace(applied, notices=(*translated.notices, *applied.notices))

    async def _apply_object(
        self,
        vc: VirtualCluster,
        resource: Resource,
        translated: HostObject,
        context: TranslationContext,
    ) -> Applied | Foreign | None:
        """Write one object by who keeps objects of its kind."""
        check = _asserting(translated, context)
        if translated.host_key.gvk == NAMESPACE:
            namespace = VirtualNamespace(translated.virtual_key.name)
            return await self._namespaces.apply(vc, namespace, translated.obj, check)
        if resource.namespaced:
            await self._namespaces.claim(vc, VirtualNamespace(translated.virtual_key.namespace))
        await self._refuse_overlap(vc, resource, translated)
        rights = _rights(vc, translated)
        if translated.is_shared:
            obj, work = translated.obj, context.work
            return await self._shared_objects.apply(resource, obj, vc.name, work, rights)
        if services.is_service(translated.host_key.gvk):
            return await self._apply_service(resource, translated, check, rights)
        return await self._apply_named(resource, translated, context, check, rights)

    async def _apply_named(
        self,
        resource: Resource,
        translated: HostObject,
        context: TranslationContext,
        check: Check,
        rights: str,
    ) -> Applied | Foreign:
        """Write an object that may take names which all virtual clusters share."""
        key = translated.host_key
        result, taken = await self._shared_names.applying(
            translated.obj,
            lambda: self._host_objects.cached(resource, key.namespace, key.name),
            context.work,
            lambda: self._apply_pinned(resource, translated, context.vc, check, rights),
        )
        if isinstance(result, Foreign):
            return result
        return replace(result, notices=tuple(map(shared_name, taken)))

    async def _apply_pinned(
        self,
        resource: Resource,
        translated: HostObject,
        vc: VirtualCluster,
        check: Check,
        rights: str,
    ) -> Applied | Foreign:
        """Write an object; one that cannot follow its group to other nodes is refused."""
        try:
            return await self._host_objects.apply(resource, translated.obj, check, rights)
        except InvalidError as error:
            key = translated.host_key
            live = await self._host_objects.live(resource, key.namespace, key.name)
            refusal = explain_immutable(str(error), key.gvk, live, vc.required_selector)
            if refusal is None:
                raise
            raise RefusedError(refusal.code, refusal.path, refusal.detail) from error

    async def _apply_service(
        self, resource: Resource, translated: HostObject, check: Check, rights: str
    ) -> Applied | Foreign:
        """Write a Service; fixed node ports that others have are left to the host."""
        key = translated.host_key
        live = self._host_objects.cached(resource, key.namespace, key.name)
        desired = node_ports.keep_assigned(translated.obj, live)
        try:
            applied = await self._host_objects.apply(resource, desired, check, rights)
        except InvalidError as error:
            taken = node_ports.taken_ports(str(error))
            if not taken:
                raise
            desired = node_ports.without(desired, taken)
            applied = await self._host_objects.apply(resource, desired, check, rights)
        if isinstance(applied, Foreign):
            return applied
        found = node_ports.reassigned(applied.live)
        return replace(applied, notices=tuple(node_port_reassigned(*ports) for ports in found))

    async def _apply_bindings(
        self,
        vc: VirtualCluster,
        manifest: Object,
        converted: Converted,
        context: TranslationContext,
    ) -> Applied | Failure:
        """Write the RoleBindings that stand for a ClusterRoleBinding, one in each namespace."""
        self._depending_on_claims.add(context.work)
        was_written = was_recreated = False
        for translated in converted.objects:
            if self._namespaces.is_going(translated.host_key.namespace):
                continue  # nothing new can be made there
            resource = await self._find_resource(translated.host_key.gvk)
            assert resource is not None  # noqa: S101 - served wherever ClusterRoleBindings are
            check = _asserting(translated, context)
            rights = _rights(vc, translated)
            applied = await self._host_objects.apply(resource, translated.obj, check, rights)
            if isinstance(applied, Foreign):
                return conflict(vc, manifest)
            was_written |= applied.was_written
            was_recreated |= applied.was_recreated
        return Applied(manifest, was_written, was_recreated)

    async def _remove_bindings(
        self, vc: VirtualCluster, converted: Converted, *, preserve: bool
    ) -> None:
        for translated in converted.objects:
            resource = await self._find_resource(translated.host_key.gvk)
            assert resource is not None  # noqa: S101 - served wherever ClusterRoleBindings are
            if preserve:
                await self._host_objects.release(resource, translated.obj, _rights(vc, translated))
            else:
                await self._host_objects.remove(resource, translated.obj, _rights(vc, translated))

    async def _refuse_overlap(
        self, vc: VirtualCluster, resource: Resource, translated: HostObject
    ) -> None:
        """Refuse to create anything while an older virtual cluster owns one of our nodes."""
        node = self._lost_node(vc.name)
        if node is None:
            return
        key = translated.host_key
        if await self._host_objects.live(resource, key.namespace, key.name) is None:
            detail = f'node "{node}" also belongs to another virtual cluster'
            raise RefusedError(Code.NODE_OVERLAP, "", detail)


def _rights(vc: VirtualCluster, translated: HostObject) -> str:
    """Return the user with whose rights an object is written; empty = the agent itself."""
    account = vc.apply_as
    if account is None or translated.is_system:
        return ""
    if account.is_default and not translated.host_key.namespace:
        return ""
    return account.user


def _bare(manifest: Object) -> Object:
    """Return a manifest with nothing but its identity, enough to find what it made."""
    found = manifest.get("metadata")
    metadata = found if isinstance(found, dict) else {}
    identity = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": identity,
    }


def _asserting(translated: HostObject, context: TranslationContext) -> Check:
    def check(retained: Object, live: Object | None) -> Object:
        asserted = assert_placement(retained, translated, live, context)
        if isinstance(asserted, Refusal):
            raise RefusedError(asserted.code, asserted.path, asserted.detail)
        return asserted.obj

    return check
