"""Objects of a single Work: in a namespace of their virtual cluster, or cluster-scoped."""

from dataclasses import replace

from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.translation.host_wide_names import holds_names
from karmada_vc_agent.translation.immutable import explain_immutable
from karmada_vc_agent.translation.notices import shared_name
from karmada_vc_agent.translation.refusal import RefusedError
from karmada_vc_agent.work.host_objects import Applied, HostObjects
from karmada_vc_agent.work.preconditions import Preconditions
from karmada_vc_agent.work.rules.apply_plan import Foreign
from karmada_vc_agent.work.shared_names import SharedNames
from karmada_vc_agent.work.strategies.own_object import OwnObject
from karmada_vc_agent.work.target import Target


class Plain(OwnObject):
    """Writes an object; some use names that all virtual clusters share."""

    def __init__(
        self, host_objects: HostObjects, preconditions: Preconditions, names: SharedNames
    ) -> None:
        super().__init__(host_objects)
        self._preconditions = preconditions
        self._names = names

    async def apply(self, target: Target) -> Applied | Foreign:
        """Write the object; reports names that another virtual cluster uses, too."""
        await self._preconditions.meet(target)
        key = target.object.host_key
        if not holds_names(key.gvk):
            return await self._write(target)
        await self._names.wait_listed(target.object.obj)
        live = await self._host_objects.known(target.resource, key.namespace, key.name)
        with self._names.taking(target.object.obj, live, target.work) as taken:
            result = await self._write(target)
        if isinstance(result, Foreign):
            return result
        return replace(result, notices=tuple(map(shared_name, taken)))

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Delete the object, or leave it there without our marks; it waits for no name."""
        if holds_names(target.object.host_key.gvk):
            self._names.forget_work(target.work)
        await super().remove(target, preserve=preserve)

    async def _write(self, target: Target) -> Applied | Foreign:
        """Write the object; refuses one that cannot follow its group to other nodes."""
        translated, resource = target.object, target.resource
        check, as_user = target.check_of(translated), target.as_user(translated)
        try:
            return await self._host_objects.apply(resource, translated.obj, check, as_user)
        except InvalidError as error:
            key = translated.host_key
            live = await self._host_objects.live(resource, key.namespace, key.name)
            refusal = explain_immutable(str(error), key.gvk, live, target.vc.required_selector)
            if refusal is None:
                raise
            raise RefusedError(refusal.code, refusal.path, refusal.detail) from error
