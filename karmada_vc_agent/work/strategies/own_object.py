"""What all objects of a single Work have in common."""

from typing import ClassVar

from karmada_vc_agent.model.domain import WORK_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.work.host_objects import HostObjects
from karmada_vc_agent.work.target import Target


class OwnObject:
    """Finds and removes the one object of a manifest."""

    waits_for_window: ClassVar[bool] = True

    def __init__(self, host_objects: HostObjects) -> None:
        self._host_objects = host_objects

    def cached(self, target: Target) -> Object | None:
        """Return the live object if the informer has it and it belongs to this Work."""
        key = target.object.host_key
        live = self._host_objects.cached(target.resource, key.namespace, key.name)
        return live if annotations_of(live or {}).get(WORK_ANNOTATION) == target.work else None

    async def remove(self, target: Target, *, preserve: bool) -> None:
        """Delete the object, or release it if `preserve`."""
        desired, as_user = target.object.obj, target.as_user(target.object)
        if preserve:
            await self._host_objects.release(target.resource, desired, as_user)
        else:
            await self._host_objects.remove(target.resource, desired, as_user)
