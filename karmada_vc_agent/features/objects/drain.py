"""Removes the virtual cluster of a deleted VirtualCluster object, then the object.

What it waits for becomes a condition of the object.
"""

import logging

from karmada_vc_agent.features.objects.definitions import Definitions
from karmada_vc_agent.features.objects.object_names import PATH
from karmada_vc_agent.features.objects.reading import Definition
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError, NotFoundError, UnreachableError
from karmada_vc_agent.work.removal import Removal

_log = logging.getLogger(__name__)


class Drain:
    """Removes the virtual clusters of deleted objects from hub and host."""

    def __init__(self, host: ApiClient, definitions: Definitions, removal: Removal) -> None:
        self._host = host
        self._definitions = definitions
        self._removal = removal

    async def step(self, name: str) -> str:
        """Take the next step for an object; return what it waits for, "" once it is complete."""
        if self._definitions.of(name) is None:
            return ""
        try:
            definition = await self._read(name)
            if definition is not None and not definition.is_deleting:
                # Recreated under its name, or restored from a backup, while kopf waits here.
                self._definitions.note_waiting(name, "")
                return ""
            text = await self._waits_for(definition)
        except UnreachableError as error:
            text = f"waiting for an API server that does not answer: {error}"
        except KubeError as error:
            text = f"an API server refused, trying again: {error}"
        if text:
            self._definitions.note_waiting(name, text)
        else:
            _log.info("Removed a virtual cluster", extra={"virtual_cluster": name})
            self._definitions.end(name)
        return text

    async def _read(self, name: str) -> Definition | None:
        """Return an object as it is now: its deletionPolicy may change while it waits."""
        try:
            body = await self._host.get(f"{PATH}/{name}")
        except NotFoundError:
            return None  # another writer removed the finalizer
        return self._definitions.observe(body)

    async def _waits_for(self, definition: Definition | None) -> str:
        if definition is None:
            return ""
        name, source = definition.name, self._definitions.source
        vc = source.get(name)
        if vc is None or source.rival(name) is not None:
            return ""  # another one of this name is served, or none ever was
        return await self._removal.step(vc, source, keeps=definition.is_preserved)
