"""Preconditions of writing an object of a virtual cluster."""

from collections.abc import Callable

from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation.refusal import Code, RefusedError
from karmada_vc_agent.work.host_objects import HostObjects
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.target import Target


class Preconditions:
    """Claims namespaces, and refuses new objects while a node is in two groups.

    lost_node: returns the name of a node that the virtual cluster selects but an older one owns.
    """

    def __init__(
        self,
        host_objects: HostObjects,
        namespaces: NamespaceWriter,
        lost_node: Callable[[str], str | None],
    ) -> None:
        self._host_objects = host_objects
        self._namespaces = namespaces
        self._lost_node = lost_node

    async def meet(self, target: Target) -> None:
        """Claim the namespace of an object, or refuse it while an older one owns a node of ours.

        Raises RefusedError, RetryError while the namespace terminates, KubeError.
        """
        vc, translated = target.vc, target.object
        if target.resource.namespaced:
            await self._namespaces.claim(vc, VirtualNamespace(translated.virtual_key.namespace))
        node = self._lost_node(vc.name)
        if node is None:
            return
        key = translated.host_key
        if await self._host_objects.live(target.resource, key.namespace, key.name) is None:
            detail = f'node "{node}" also belongs to another virtual cluster'
            raise RefusedError(Code.NODE_OVERLAP, "", detail)
