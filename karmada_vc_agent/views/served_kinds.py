"""Notices that the host serves other kinds than before, as soon as it does.

Discovery is asked again when a CustomResourceDefinition changes, and a few times shortly
after: a kind is served a moment later than its definition is stored. Without the right to
watch them, and for kinds that come otherwise, Works find out when they try again.
"""

import asyncio
import logging
from collections.abc import Callable

import orjson

from karmada_vc_agent.kube.aggregated import DEFINITIONS_PATH
from karmada_vc_agent.kube.client import METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotFoundError

_log = logging.getLogger(__name__)

LOOKS_AFTER_S = (0.0, 0.1, 0.4, 1.5)
PAUSE_S = 1.0
PAUSE_WITHOUT_RIGHT_S = 300.0
WATCH_S = 600
_BOOKMARK = b'{"type":"BOOKMARK"'


class ServedKinds:
    """Follows what the host serves.

    on_served: told what is served after each look.
    """

    def __init__(
        self, host: ApiClient, discovery: Discovery, on_served: Callable[[ServedApis], None]
    ) -> None:
        self._host = host
        self._discovery = discovery
        self._on_served = on_served
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(), name="watch of definitions")
            group.create_task(self._look(), name="look at served kinds")

    async def _watch(self) -> None:
        while True:
            pause_s = PAUSE_S
            try:
                await self._watch_once()
            except (ForbiddenError, NotFoundError) as error:
                _log.debug("Not following what is served", extra={"reason": str(error)})
                pause_s = PAUSE_WITHOUT_RIGHT_S
            except (KubeError, AttributeError, ValueError) as error:  # the latter: no list
                _log.debug("Following what is served again", extra={"reason": str(error)})
            await asyncio.sleep(pause_s)

    async def _watch_once(self) -> None:
        """Follow one watch to its end. What changed before it is found by a look."""
        content = await self._host.request(
            "GET", DEFINITIONS_PATH, query={"limit": "1"}, accept=METADATA_ONLY
        )
        version = (orjson.loads(content).get("metadata") or {}).get("resourceVersion") or ""
        self._changed.set()
        query = {
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        async for line in self._host.watch(DEFINITIONS_PATH, query):
            # Which one it is does not matter, what is served does; an error ends the watch.
            if not line.startswith(_BOOKMARK):
                self._changed.set()

    async def _look(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for pause_s in LOOKS_AFTER_S:
                await asyncio.sleep(pause_s)
                self._discovery.expire()
                try:
                    self._on_served(await self._discovery.refresh())
                except KubeError as error:
                    _log.debug("Looking at served kinds later", extra={"reason": str(error)})
