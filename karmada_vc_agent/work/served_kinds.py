"""Detects changes of the kinds that the host serves.

Discovery is refreshed when a CustomResourceDefinition changes, and a few times shortly after: a
kind is served a moment after its definition is stored. Kinds that are added otherwise are noticed
by the next caller that refreshes, such as the status of Clusters, and reported as well.
"""

import asyncio
import logging
from collections.abc import Callable

import orjson

from karmada_vc_agent.kube.client import METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.discovery import DEFINITIONS_PATH, Discovery, ServedApis
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError

_log = logging.getLogger(__name__)

LOOKS_AFTER_S = (0.0, 0.1, 0.4, 1.5)
PAUSE_S = 1.0
PAUSE_WITHOUT_RIGHT_S = 300.0
WATCH_S = 600
_BOOKMARK = b'{"type":"BOOKMARK"'


class ServedKinds:
    """Follows the kinds that the host serves.

    on_served: called with the served kinds when they changed, by whatever refresh.
    """

    def __init__(
        self, host: ApiClient, discovery: Discovery, on_served: Callable[[ServedApis], None]
    ) -> None:
        self._host = host
        self._discovery = discovery
        self._on_served = on_served
        self._changed = asyncio.Event()
        self._refreshed = asyncio.Event()
        discovery.changed.subscribe(self._refreshed.set)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(), name="watch of definitions")
            group.create_task(self._refresh(), name="look at served kinds")
            group.create_task(self._report(), name="report served kinds")

    async def _watch(self) -> None:
        while True:
            pause_s = PAUSE_S
            try:
                await self._watch_once()
            except ForbiddenError as error:
                _log.debug("Not following changes of served kinds", extra={"reason": str(error)})
                pause_s = PAUSE_WITHOUT_RIGHT_S
            except (KubeError, AttributeError, ValueError) as error:  # the latter: no list
                _log.debug("Following changes of served kinds again", extra={"reason": str(error)})
            await asyncio.sleep(pause_s)

    async def _watch_once(self) -> None:
        """Follow one watch to its end. A refresh covers what changed before it."""
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
            # It does not matter which one changed; an error ends the watch.
            if not line.startswith(_BOOKMARK):
                self._changed.set()

    async def _refresh(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for pause_s in LOOKS_AFTER_S:
                await asyncio.sleep(pause_s)
                self._discovery.expire()
                try:
                    await self._discovery.refresh()
                except KubeError as error:
                    _log.debug(
                        "Postponing the refresh of served kinds", extra={"reason": str(error)}
                    )

    async def _report(self) -> None:
        while True:
            await self._refreshed.wait()
            self._refreshed.clear()
            self._on_served(self._discovery.served)
