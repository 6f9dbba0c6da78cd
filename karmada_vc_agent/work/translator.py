"""Translates manifests of Works, each once in a reconcile, and selects their strategies."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.denial import explain_denial
from karmada_vc_agent.translation.refusal import Code, Refusal
from karmada_vc_agent.translation.restore import names_of, restore_text
from karmada_vc_agent.translation.shape import malformed_frame
from karmada_vc_agent.translation.translate import Converted, HostObject, Skipped, translate
from karmada_vc_agent.work.failure import Failure, not_served, refused
from karmada_vc_agent.work.strategies import strategy_of
from karmada_vc_agent.work.target import Target, WorkManifest

FindResource = Callable[[GroupVersionKind], Awaitable[Resource | None]]
ContextFor = Callable[[VirtualCluster, str], TranslationContext]
"""(virtual cluster, `<execution namespace>/<work>`) -> the facts that a translation depends on."""


class Translator:
    """Translates manifests and finds their objects."""

    def __init__(self, find_resource: FindResource, context_for: ContextFor) -> None:
        self.context_for = context_for
        self._find_resource = find_resource

    async def translate(self, item: WorkManifest) -> Target | Failure | Skipped:
        """Return what a manifest becomes, and store it for later callers. Raises KubeError."""
        if item.translation is None:
            item.translation = await self._translate(item)
        return item.translation

    async def _translate(self, item: WorkManifest) -> Target | Failure | Skipped:
        vc, manifest = item.vc, item.manifest
        problem = malformed_frame(manifest)
        if problem:
            return refused(vc, manifest, Refusal(Code.MANIFEST_INVALID, "", problem))
        resource = await self._find_resource(gvk_of(manifest))
        if resource is None:
            return not_served(gvk_of(manifest))
        context = self.context_for(vc, item.work)
        result = translate(manifest, resource.namespaced, context)
        if isinstance(result, Refusal):
            return refused(vc, manifest, result)
        if isinstance(result, Skipped):
            return result
        return await self._target(item, context, resource, result)

    async def locate(self, item: WorkManifest, find: FindResource | None = None) -> Target | None:
        """Return what a manifest created on the host, even if it is refused now.

        find: for a kind that is not served at its version.
        """
        translation = await self.translate(item)
        if isinstance(translation, Target):
            return translation
        # It may have become malformed or refused after it was applied.
        bare = _bare(item.manifest)
        if isinstance(translation, Skipped) or malformed_frame(bare):
            return None
        resource = await (find or self._find_resource)(gvk_of(bare))
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
        strategy = strategy_of(result)
        if isinstance(result, HostObject):
            return Target(
                strategy,
                item.vc,
                item.manifest,
                context,
                resource,
                (result,),
                depends_on_claims=result.depends_on_claims,
                notices=result.notices,
            )
        found = await self._find_resource(result.gvk)
        if found is None:
            return not_served(result.gvk)
        return Target(
            strategy, item.vc, item.manifest, context, found, result.objects, depends_on_claims=True
        )

    def virtual_text(self, item: WorkManifest, text: str) -> str:
        """Return a message of the host with virtual names, including those not claimed yet."""
        vc, target = item.vc, item.translation
        context = self.context_for(vc, "")
        names = context.names()
        if isinstance(target, Target) and target.objects:
            names = names_of(target.object.obj, context)
        text = restore_text(text, names)
        return text if vc.apply_as is None else explain_denial(text, vc.name, vc.apply_as)


def _bare(manifest: Object) -> Object:
    """Return a manifest with its identity only, enough to find what it created."""
    found = manifest.get("metadata")
    metadata = found if isinstance(found, dict) else {}
    identity = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": identity,
    }
