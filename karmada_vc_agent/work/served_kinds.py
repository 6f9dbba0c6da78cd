"""Kinds that the host serves, and interpreter rules of the hub, watched."""

import asyncio
import logging
import uuid
from collections.abc import Callable

import orjson

from karmada_vc_agent.interpretation import user_hooks
from karmada_vc_agent.kube.client import METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import DEFINITIONS_PATH, Discovery, ServedApis, is_absent
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError
from karmada_vc_agent.kube.flows import ALONE, Supervisor
from karmada_vc_agent.kube.https import Endpoint, WebhookClient, WebhookError
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.vocabulary import Rule

_log = logging.getLogger(__name__)

Concerns = Callable[[GroupVersionKind], bool]
"""Matches the kinds that a change concerns."""

_GROUP = "config.karmada.io"
_CUSTOMIZATIONS = "resourceinterpretercustomizations"
_WEBHOOKS = "resourceinterpreterwebhookconfigurations"


class InterpreterRules:
    """Feeds the interpreter with hooks of users; were_seen: an earlier process had some."""

    were_seen = False

    def __init__(
        self,
        hub: ApiClient,
        run_script: user_hooks.RunScript,
        on_change: Callable[[Concerns], None],
        supervisor: Supervisor = ALONE,
        client: WebhookClient | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._on_change = on_change
        self._declarative = user_hooks.DeclarativeLevel(run_script)
        self._webhooks = user_hooks.WebhookLevel(self._call, lambda: str(uuid.uuid4()))
        codec = RawCodec()
        self._customizations: Store[Object] = Store(codec)
        self._customizations.add_handler(self._customizations_changed)
        self._configurations: Store[Object] = Store(codec)
        self._configurations.add_handler(self._configurations_changed)
        self._reflectors = [
            self._reflector(hub, _CUSTOMIZATIONS, codec, self._customizations),
            self._reflector(hub, _WEBHOOKS, codec, self._configurations),
        ]
        self._client = client or WebhookClient()
        self._services: Store[Object] = Store(codec)
        self._service_reflector = Reflector(hub, "/api/v1/services", codec, self._services)
        self._wants_services = asyncio.Event()
        self.levels: list[user_hooks.HookLevel] = [self._declarative, self._webhooks]

    @property
    def stores(self) -> tuple[Store[Object], ...]:
        """Return the stores of customizations and webhook configurations."""
        return self._customizations, self._configurations

    async def run(self) -> None:
        """Watch until cancelled."""
        start = self._supervisor.start
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                start(group, "reflector", reflector.run, f"reflector {reflector.path}")
            await self._wants_services.wait()
            start(group, "reflector", self._service_reflector.run, "reflector services")
            if not await self._service_reflector.wait_answered():
                _warn_of_missing_right("", "services", ("list", "watch"))

    async def close(self) -> None:
        await self._client.close()

    async def wait_answered(self) -> None:
        """Wait until everything is listed, or forbidden."""
        for reflector in self._reflectors:
            if not await reflector.wait_answered():
                resource = reflector.path.rpartition("/")[2]
                _warn_of_missing_right(_GROUP, resource, ("get", "list", "watch"))

    def _reflector(
        self, hub: ApiClient, resource: str, codec: RawCodec, store: Store[Object]
    ) -> Reflector[Object]:
        path = f"/apis/{_GROUP}/v1alpha1/{resource}"

        async def absent() -> bool:
            return not (store.is_synced or self.were_seen) and await is_absent(hub, path)

        return Reflector(hub, path, codec, store, is_absent=absent)

    def _customizations_changed(self, _old: Object | None, _new: Object | None) -> None:
        before = self._declarative.scripts
        self._declarative.scripts = user_hooks.index_scripts(self._customizations)
        kinds = user_hooks.changed_kinds(before, self._declarative.scripts)
        if kinds:
            self._on_change(lambda kind: kind in kinds)

    def _configurations_changed(self, _old: Object | None, _new: Object | None) -> None:
        before = self._webhooks.webhooks
        self._webhooks.webhooks = user_hooks.webhooks_of(self._configurations)
        changed = {*before} ^ {*self._webhooks.webhooks}  # in their old and new versions
        if any(
            isinstance(hook.target, user_hooks.ServiceReference) for hook in self._webhooks.webhooks
        ):
            self._wants_services.set()
        if changed:
            self._on_change(lambda kind: any(hook.concerns(kind) for hook in changed))

    async def _call(self, hook: user_hooks.Webhook, body: bytes) -> bytes:
        try:
            return await self._client.post(await self._endpoint(hook), body, hook.timeout_s)
        except (TimeoutError, ConnectionError) as error:
            raise user_hooks.UnavailableError(str(error)) from error
        except WebhookError as error:
            raise user_hooks.HookError(str(error)) from error

    async def _endpoint(self, hook: user_hooks.Webhook) -> Endpoint:
        target = hook.target
        if isinstance(target, str):
            return target, hook.ca_bundle, None
        if not await self._service_reflector.wait_answered():
            text = "it refers to a Service, and the agent may not read Services of the hub"
            raise user_hooks.UnavailableError(text)
        service = self._services.get(target.namespace, target.name)
        try:
            url = user_hooks.service_url(target, service)
        except user_hooks.HookError as error:
            raise user_hooks.UnavailableError(str(error)) from error
        return url, hook.ca_bundle, target.host


def _warn_of_missing_right(group: str, resource: str, verbs: tuple[str, ...]) -> None:
    _log.warning(
        "Serving without interpreter rules: the agent may not read them on the hub. Run "
        "karmada-vc-agent join, or add the rule to its ClusterRole there",
        extra={"rule": str(Rule((group,), (resource,), verbs))},
    )


LOOKS_AFTER_S = (0.0, 0.1, 0.4, 1.5)
PAUSE_S = 1.0
PAUSE_WITHOUT_RIGHT_S = 300.0
WATCH_S = 600
_BOOKMARK = b'{"type":"BOOKMARK"'


class ServedKinds:
    """Follows the kinds that the host serves; on_served: called when they changed."""

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
            except (KubeError, AttributeError, ValueError) as error:  # the latter: no list
                if isinstance(error, ForbiddenError):
                    pause_s = PAUSE_WITHOUT_RIGHT_S
                _log.debug("Following changes of served kinds again", extra={"reason": str(error)})
            await asyncio.sleep(pause_s)

    async def _watch_once(self) -> None:
        """Follow one watch to its end. A refresh covers what changed before it."""
        request, path = self._host.request, DEFINITIONS_PATH
        content = await request("GET", path, query={"limit": "1"}, accept=METADATA_ONLY)
        version = (orjson.loads(content).get("metadata") or {}).get("resourceVersion") or ""
        self._changed.set()
        query = {"resourceVersion": version, "timeoutSeconds": str(WATCH_S)}
        async for line in self._host.watch(path, query | {"allowWatchBookmarks": "true"}):
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
                    extra = {"reason": str(error)}
                    _log.debug("Postponing the refresh of served kinds", extra=extra)

    async def _report(self) -> None:
        while True:
            await self._refreshed.wait()
            self._refreshed.clear()
            self._on_served(self._discovery.served)
