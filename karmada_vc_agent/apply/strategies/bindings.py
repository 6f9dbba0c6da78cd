"""The RoleBindings that represent a ClusterRoleBinding, one in each claimed namespace (5.2)."""

from typing import ClassVar

from karmada_vc_agent.apply.host_objects import Applied, HostObjects
from karmada_vc_agent.apply.namespace_writer import NamespaceWriter
from karmada_vc_agent.apply.target import Target
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace
from karmada_vc_agent.planning.apply_plan import Foreign


class Bindings:
    """Writes and deletes the RoleBindings."""

    waits_for_window: ClassVar[bool] = False

    def __init__(self, host_objects: HostObjects, namespaces: NamespaceWriter) -> None:
        self._host_objects = host_objects
        self._namespaces = namespaces

    async def apply(self, target: Target) -> Applied | Foreign:
        """Write them; the reported object is the manifest, which has none on the host."""
        was_written = was_recreated = False
        for each in target.objects:
            if not await self._namespaces.equip(target.vc, HostNamespace(each.host_key.namespace)):
                continue  # nothing new can be created there
            result = await self._host_objects.apply(
                target.resource, each.obj, target.check_of(each), target.as_user(each)
            )
            if isinstance(result, Foreign):
                return result
            was_written |= result.was_written
            was_recreated |= result.was_recreated
        return Applied(target.manifest, was_written, was_recreated)

    def cached(self, target: Target) -> Object | None:
        """Return the manifest: there is no status to read."""
        return target.manifest

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Delete them, or release them if `preserve`."""
        for each in target.objects:
            as_user = target.as_user(each)
            if preserve:
                await self._host_objects.release(target.resource, each.obj, as_user)
            else:
                await self._host_objects.remove(target.resource, each.obj, as_user)
