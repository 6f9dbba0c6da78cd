"""Runs kopf for VirtualCluster objects; imported only where they are on: 20 MB.

kopf lists and watches, adds the finalizer and removes it. It stores nothing on the objects, so that
all events are handled again after a restart: handlers compare. The status is written beside it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
import kopf

from karmada_vc_agent.features.objects.definitions import (
    OBJECTS,
    PATH,
    VERSION,
    Definitions,
    ObjectsStart,
    finalizer,
    is_for,
)
from karmada_vc_agent.features.objects.status import StatusWriter, name_of_counted
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, itself, same
from karmada_vc_agent.kube.errors import KubeError, NotFoundError, UnreachableError
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.informers import wait_all_synced
from karmada_vc_agent.kube.transport import Credentials, keepalive_socket
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import DOMAIN
from karmada_vc_agent.runner.common import FEW_WORKERS
from karmada_vc_agent.runner.parts import Parts, check_permitted, conditions_of_objects, removal_of
from karmada_vc_agent.work.removal import Removal

_log = logging.getLogger(__name__)
# They log each event that was handled; OS signals, which are not for a thread; and as Python prints
# it each request that a host does not answer: the agent's own clients report that.
logging.getLogger("kopf").setLevel(logging.WARNING)
logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
for _module in ("_cogs.clients.watching", "_core.reactor.observation"):
    logging.getLogger(f"kopf.{_module}").setLevel(logging.CRITICAL)

DRAIN_PAUSE_S = 1.0
DRAIN_PAUSE_MAX_S = 5.0
"""Between two steps of one that waits for the same as before: many may be deleted at once."""
FAILED_PAUSE_S = 10.0
STOP_S = 5.0
"""How long it may take to end; all its work can be repeated."""


@dataclass(eq=False)
class Operator:
    """Passes events of objects from the thread of kopf to the loop that runs it.

    agent: name of the agent. credentials: of the host, as they are now. seen: called with each
    object of a list, and each event. step: takes the next step of a deletion; returns what it waits
    for, "" once it is complete. serves: whether one of a name is this process' to serve.
    """

    agent: str
    credentials: Callable[[], Credentials]
    seen: Callable[[str | None, Object], None]
    step: Callable[[str], Awaitable[str]]
    serves: Callable[[str], bool] = lambda _: True

    async def run(self) -> None:
        """Watch until cancelled; raises RuntimeError where kopf ends by itself."""
        main, stop, ended = asyncio.get_running_loop(), threading.Event(), asyncio.Event()

        def operate() -> None:
            try:
                asyncio.run(self._operate(main, stop))
            except Exception:  # noqa: BLE001 - the thread ends; `run` raises
                _log.exception("Failed to watch VirtualCluster objects")
            finally:
                if not main.is_closed():
                    main.call_soon_threadsafe(ended.set)

        threading.Thread(target=operate, name="virtual cluster objects", daemon=True).start()
        try:
            await ended.wait()
        finally:
            stop.set()
            async with asyncio.timeout(STOP_S):
                await ended.wait()
        raise RuntimeError("kopf ended by itself")

    async def _operate(self, main: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        """Run kopf in the loop of its thread. main: the loop that handles what it reports."""

        async def reported(event: Any, **_: Any) -> None:
            main.call_soon_threadsafe(self.seen, event["type"], dict(event["object"]))

        async def deleted(name: str | None, **_: Any) -> None:
            removal = flows.run(name, partial(self._remove, name or ""))
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(removal, main))

        def is_ours(name: str | None, meta: Any, **_: Any) -> bool:
            if self.serves(name or ""):
                return is_for(self.agent, meta)
            # Where there is no deletion to handle, kopf would remove the finalizer.
            return finalizer(self.agent) in meta.get("finalizers", ())

        registry, where = kopf.OperatorRegistry(), (DOMAIN, VERSION, OBJECTS)
        kopf.on.login(registry=registry)(self.login)
        kopf.on.event(*where, registry=registry)(reported)
        kopf.on.delete(*where, registry=registry, when=is_ours)(deleted)
        await kopf.operator(
            registry=registry,
            settings=_settings(self.agent),
            clusterwide=True,
            standalone=True,
            stop_flag=stop,
        )

    async def login(self, **_: Any) -> kopf.AiohttpSession:
        """Return how kopf reaches the host; called again when that rejects it."""
        credentials = self.credentials()
        session = aiohttp.ClientSession(
            # Each object has one request in progress: none waits for a connection of another one.
            connector=aiohttp.TCPConnector(
                limit=0, ssl=credentials.ssl_context or True, socket_factory=keepalive_socket
            ),
            headers=credentials.authorization(),
            proxy=credentials.proxy,
            request_class=_requests_that_expect(credentials.server_hostname),
        )
        return kopf.AiohttpSession(server=credentials.server, aiohttp_session=session)

    async def _remove(self, name: str) -> None:
        """Wait until the removal is complete; kopf then removes the finalizer.

        One that fails for a bug is retried here, for kopf would have to keep a mark on the object
        to do so.
        """
        before, pause_s = "", DRAIN_PAUSE_S
        while True:
            try:
                text = await self.step(name)
                if not text:
                    return
                is_same = text == before
                pause_s = min(pause_s * 1.25, DRAIN_PAUSE_MAX_S) if is_same else DRAIN_PAUSE_S
                before = text
            except Exception:  # noqa: BLE001 - it is retried
                _log.exception("Failed to remove a virtual cluster")
                pause_s = FAILED_PAUSE_S
            await asyncio.sleep(pause_s)


def _requests_that_expect(name: str | None) -> type[aiohttp.ClientRequest]:
    """Return requests that expect this name (None = the URL's): kopf ignores tls-server-name."""

    class Request(aiohttp.ClientRequest):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "server_hostname": name})

    return Request


def _settings(agent: str) -> kopf.OperatorSettings:
    """Return settings by which nothing but the finalizer is written to objects."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = finalizer(agent)
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage([])
    settings.posting.enabled = False
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.queueing.idle_timeout = 1.0
    return settings


async def drain_step(host: ApiClient, definitions: Definitions, removal: Removal, name: str) -> str:
    """Take the next step of a deletion; return what it waits for, "" once it is complete."""
    source, text = definitions.source, ""
    if definitions.of(name) is None:
        return ""
    try:
        try:  # as it is now: its deletionPolicy may change while it waits
            definition = definitions.observe(live := await host.get(f"{PATH}/{name}"))
        except NotFoundError:
            definitions.end(name)  # another writer removed the finalizer
            return ""
        if not definition.is_deleting:
            return ""  # recreated under its name, or restored from a backup, while kopf waits here
        vc = source.get(name)
        # Otherwise another one of this name is served, or none ever was.
        if not source.serves(name):  # kopf reports nothing of it before this ends
            is_held = finalizer(definitions.agent) in live["metadata"].get("finalizers", ())
            text = "another process of the agent removes it" if is_held else ""
        elif vc is not None and source.rival(name) is None:
            text = await removal.step(vc, source, keeps=definition.is_preserved)
    except UnreachableError as error:
        text = f"waiting for an API server that does not answer: {error}"
    except KubeError as error:
        text = f"an API server refused, trying again: {error}"
    if text:
        definitions.note_waiting(name, text)
    else:
        _log.info("Removed a virtual cluster", extra={"virtual_cluster": name})
        definitions.end(name)
    return text


SETTLES_S = 0.2
"""Changes arrive in groups; one write is enough for those of this time."""
WORKS_SETTLE_S = 2.0


def setup(parts: Parts, started: ObjectsStart) -> ControllerSpec[str]:
    """Declare the controller. started: what was read before."""
    source, common, stores = started.source, parts.common, parts.common.stores
    host, config, queue = common.clients.host, common.config, common.queues.by_name()
    definitions = Definitions(
        source,
        common.live,
        partial(check_permitted, common),
        partial(queue.add_after, delay_s=SETTLES_S),
        config.agent_name,
    )
    common.live.changed.subscribe(definitions.settings_changed)
    for name in started.preserved:
        if source.rival(name) is None:  # else its Works are of the one that has the name
            parts.works.finalizer.preserve(name, is_on=True)
    step = partial(drain_step, host, definitions, removal_of(parts))
    at, seen = partial(getattr, host, "credentials"), definitions.seen
    operator = Operator(config.agent_name, at, seen, step, source.serves)

    async def operate() -> None:
        # A removal takes what is in no store for deleted.
        await wait_all_synced(stores.reflectors, config.cluster_cache_sync_timeout)
        await operator.run()

    def name_of(old: Object | None, new: Object | None) -> tuple[str, ...]:
        return tuple(each["metadata"]["name"] for each in (new or old,) if each)

    conditions, recorder = conditions_of_objects(parts), EventRecorder(host)
    signals = (
        stores.membership.changed,
        common.judgements.changed,
        common.contact.changed,
        parts.reachable.changed,
    )
    return ControllerSpec(
        "virtual-cluster-objects",
        queue,
        StatusWriter(parts, definitions, conditions.of, recorder).reconcile,
        FEW_WORKERS,
        of_all=True,
        sources=(
            *(Enqueues(signal.subscribe, itself, SETTLES_S) for signal in signals),
            Enqueues(stores.clusters.store.add_handler, name_of, SETTLES_S),
            Enqueues(common.signals.work.subscribe, name_of_counted, WORKS_SETTLE_S),
            *conditions.sources(SETTLES_S),
        ),
        resync_keys=same,
        runs={
            "virtual cluster objects": operate,
            "events of virtual cluster objects": recorder.run,
        },
    )
