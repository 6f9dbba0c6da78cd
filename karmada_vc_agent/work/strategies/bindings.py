"""The RoleBindings that represent a ClusterRoleBinding, one in each claimed namespace (5.2)."""

from functools import partial
from typing import ClassVar

from karmada_vc_agent.kube.for_each import for_each
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace
from karmada_vc_agent.translation.translate import HostObject
from karmada_vc_agent.work.host_objects import Applied, HostObjects
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.rules.apply_plan import Foreign
from karmada_vc_agent.work.target import Target


class Bindings:
    """Writes and deletes the RoleBindings."""

    waits_for_window: ClassVar[bool] = False

    def __init__(self, host_objects: HostObjects, namespaces: NamespaceWriter) -> None:
        self._host_objects = host_objects
        self._namespaces = namespaces

    async def apply(self, target: Target) -> Applied | Foreign:
        """Write them; the reported object is the manifest, which has none on the host."""
        results = await for_each(target.objects, partial(self._apply, target))
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

    async def _apply(self, target: Target, each: HostObject) -> Applied | Foreign | None:
        """Write one of them while its namespace is claimed; None where it is not any more."""
        place = HostNamespace(each.host_key.namespace)
        async with self._namespaces.equipped(target.vc, place) as is_claimed:
            if not is_claimed:
                return None
            return await self._host_objects.apply(
                target.resource, each.obj, target.check_of(each), target.as_user(each)
            )

    def cached(self, target: Target) -> Object | None:
        """Return the manifest: there is no status to read."""
        return target.manifest

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Delete them, or release them if `preserve`."""
        remove = self._host_objects.release if preserve else self._host_objects.remove

        async def remove_one(each: HostObject) -> None:
            await remove(target.resource, each.obj, target.as_user(each))

        await for_each(target.objects, remove_one)
