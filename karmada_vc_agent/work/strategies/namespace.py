"""Namespaces, which are claimed, not only written (rewriting-rules 1)."""

from typing import ClassVar

from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.work.host_objects import Applied, HostObjects
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.strategies.own_object import OwnObject
from karmada_vc_agent.work.target import Target


class Namespace(OwnObject):
    """Passes manifests to the only writer of namespaces, which claims them."""

    waits_for_window: ClassVar[bool] = False

    def __init__(self, host_objects: HostObjects, namespaces: NamespaceWriter) -> None:
        super().__init__(host_objects)
        self._namespaces = namespaces

    async def apply(self, target: Target) -> Applied | None:
        """Claim the namespace and write its manifest; None while it is not needed."""
        translated = target.object
        check = target.check_of(translated)
        return await self._namespaces.apply(target.vc, _name(target), translated.obj, check)

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Release the namespace."""
        await self._namespaces.release(target.vc, _name(target), preserve=preserve)


def _name(target: Target) -> VirtualNamespace:
    return VirtualNamespace(target.object.virtual_key.name)
