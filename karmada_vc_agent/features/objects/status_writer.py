"""Keeps the status of VirtualCluster objects; sole writer of it."""

import time
from collections.abc import Callable

from karmada_vc_agent.features.objects.definitions import Definitions
from karmada_vc_agent.features.objects.object_names import PATH
from karmada_vc_agent.features.objects.reading import Definition
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.merge_patch import merge_patch
from karmada_vc_agent.model.objects import Object

PAUSE_S = 5.0
"""Between two writes of one object: what changes meanwhile is in the next."""
LOOK_S = 20.0
"""How often an object is looked at of which nobody tells anything, such as that the hub is away."""


class StatusWriter:
    """Writes the status of an object where it is another one than it has.

    status: returns what it is to be.
    """

    def __init__(
        self,
        host: ApiClient,
        definitions: Definitions,
        status: Callable[[Definition], Object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._definitions = definitions
        self._status = status
        self._clock = clock
        self._written: dict[str, float] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Write the status of one object, if there is something new to say."""
        definition = self._definitions.of(name)
        if definition is None:
            self._written.pop(name, None)
            return None
        if self._definitions.is_to_be_taken(name):
            await self._definitions.take(name)  # it may be gone by now
            definition = self._definitions.of(name) or definition
        wanted = self._status(definition)
        if wanted == definition.status:
            return Requeue(LOOK_S)
        pause_s = self._written.get(name, float("-inf")) + PAUSE_S - self._clock()
        if pause_s > 0:
            return Requeue(pause_s)
        patch = {"status": merge_patch(definition.status, wanted)}
        body = {"metadata": {"uid": definition.uid}, **patch}
        try:
            answer = await self._host.merge_patch(f"{PATH}/{name}/status", body)
        except NotFoundError:
            self._written.pop(name, None)
            self._definitions.forget(name)
            return None
        self._written[name] = self._clock()
        self._definitions.observe(answer)
        return Requeue(LOOK_S)
