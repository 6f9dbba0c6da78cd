"""Cluster-scoped objects that virtual clusters share, with their owners (rewriting-rules 5.1)."""

from typing import ClassVar

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.preconditions import Preconditions
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.target import Target


class Shared:
    """Joins and leaves the one host object."""

    waits_for_window: ClassVar[bool] = False

    def __init__(self, shared_objects: SharedObjects, preconditions: Preconditions) -> None:
        self._shared_objects = shared_objects
        self._preconditions = preconditions

    async def apply(self, target: Target) -> Applied:
        """Join the object, or change it if all its owners agree."""
        await self._preconditions.meet(target)
        translated = target.object
        return await self._shared_objects.apply(
            target.resource,
            translated.obj,
            target.vc.name,
            target.work,
            target.check_of(translated),
            target.as_user(translated),
        )

    def cached(self, target: Target) -> Object | None:
        """Return the live object if the informer has it; it names no Work."""
        return self._shared_objects.cached(target.resource, target.object.host_key.name)

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Leave the object; the last owner deletes it."""
        await self._shared_objects.leave(
            target.resource,
            target.object.host_key.name,
            target.vc.name,
            target.work,
            preserve=preserve,
        )
