"""The trip of one request: authenticate, plan, authorize, send, map, answer."""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any

import orjson

from karmada_vc_agent.features.gateway.host_state import ClusterView, HostState
from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ResponseKind,
    Sealer,
    VirtualRequest,
)
from karmada_vc_agent.features.gateway.mapping.plan import plan
from karmada_vc_agent.features.gateway.mapping.refusals import JSON, RefusalError, unauthorized
from karmada_vc_agent.features.gateway.mapping.responses import Forward, Plan
from karmada_vc_agent.features.gateway.request_metrics import (
    RequestMeter,
    RequestRecord,
    audit_line,
)
from karmada_vc_agent.features.gateway.server import fairness, host_requests
from karmada_vc_agent.features.gateway.server.access import (
    Authentication,
    until_refused,
    wait_until_set_up,
)
from karmada_vc_agent.features.gateway.server.answers import EXPIRED, MappedAnswer, first_of
from karmada_vc_agent.features.gateway.server.connections import ClientGoneError, Exchange, Head
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.errors import KubeError, UnreachableError, error_from_answer
from karmada_vc_agent.kube.transport import decode_object
from karmada_vc_agent.model.objects import Object

_log = logging.getLogger(__name__)

BODIES_AT_ONCE = 16
"""Large bodies of requests, of all virtual clusters."""
LONG_PLAN_BYTES, LONG_PLANS_AT_ONCE = 4 * 1024, 2
"""Requests that are mapped in a thread, and how many threads of all virtual clusters do that."""
HELD_BYTES, HEAVY_BYTES = 64 * 2**20, 8 * 2**20
"""The largest body, as it is held once it is read; larger than this, one of all is mapped."""
UNREAD_S = 0.25
"""After this time a watch whose client does not read counts among those that lent their places."""
_CREATED = 201
CLIENT_GONE = 499
"""What the log has as the code of a request whose client disconnected before its answer."""
_MAIN, _DISCONNECTED, _, _REFUSED, _CLAIMS_CHANGED = range(5)
"""What may end a long request."""


Planner = Callable[[VirtualRequest, ClusterView], Plan]


class Gateway:
    """Answers the requests of all virtual clusters. audit: takes lines of the audit log."""

    def __init__(
        self,
        state: HostState,
        host: host_requests.HostRequests,
        sealer: Callable[[], Sealer],
        limits: fairness.Limits,
        audit: Callable[[bytes], object] | None,
        meter: RequestMeter,
        planner: Planner = plan,
    ) -> None:
        self._state = state
        self._host = host
        self._sealer = sealer
        self._limits = limits
        self._audit = audit
        self._meter = meter
        self._planner = planner
        self._authentication = Authentication(state, lambda cluster: partial(self._ask, cluster))
        self._ending = asyncio.Event()
        self._moved = defaultdict[str, asyncio.Event](asyncio.Event)
        self._creations = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._scheduler = fairness.FairScheduler(limits.active, state.virtual_clusters.loop_share)
        meter.used = self._scheduler.time.used
        self._bodies, self._answers = fairness.MemoryBudget(BODIES_AT_ONCE), fairness.MemoryBudget()
        self._events = fairness.MemoryBudget()
        self._watches = fairness.MemoryBudget(flows.MOST_FILES, held_s=math.inf, slow_s=UNREAD_S)
        self._events.lent = self._watches.lent = self._answers.lent
        self._planning = fairness.MemoryBudget(LONG_PLANS_AT_ONCE)
        self._heavy = fairness.MemoryBudget(1)
        state.claims_changed.subscribe(self._claims_changed)
        state.unserved.subscribe(self._forget)

    def end_long(self) -> None:
        """End all watches in good order: their clients open them elsewhere."""
        self._ending.set()

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request; nothing that happens to it reaches another one."""
        head = exchange.head
        record = exchange.record
        try:
            with flows.of(head.cluster):
                await self._answer(exchange)
        except RefusalError as refusal:
            await self._refuse(exchange, refusal)
        except ClientGoneError:
            record.code, record.rejected = CLIENT_GONE, "client-gone"
            exchange.stream.abort()
        except UnreachableError as error:  # what the rewriting rests on is not listed yet
            starting = RefusalError(503, f"the gateway is starting: {error}", counted="starting")
            await self._refuse(exchange, starting)
        except Exception:  # noqa: BLE001 - a bug at one request must not cost the others
            _log.exception("Failed to answer a request", extra={"virtual_cluster": head.cluster})
            bug = RefusalError(500, "the gateway failed to answer", counted="bug")
            await self._refuse(exchange, bug)
        finally:
            if self._audit is not None:
                self._audit(audit_line(record))
            is_served = head.cluster in self._state.virtual_clusters
            self._meter.answered(record, head.cluster if is_served else "")
            if not self._state.sums_of(head.cluster):  # a watch ends after its virtual cluster
                self._scheduler.forget(head.cluster)

    async def _refuse(self, exchange: Exchange, refusal: RefusalError) -> None:
        exchange.record.rejected = refusal.counted
        try:
            await exchange.refuse(refusal)
        except ClientGoneError:
            exchange.stream.abort()

    async def _answer(self, exchange: Exchange) -> None:
        cluster = exchange.head.cluster
        if not cluster or not self._state.sums_of(cluster):
            raise unauthorized()
        await self._scheduler.time.measured(cluster, self._answer_served(exchange))

    async def _answer_served(self, exchange: Exchange) -> None:
        head, record = exchange.head, exchange.record
        who = record.who = await self._authentication.identify(head)
        async with AsyncExitStack() as held:
            held.enter_context(self._limits.slot(head.cluster, is_long=False))
            body = await exchange.body(partial(_take, held, self._bodies, head.cluster))
            await self._scheduler.wait(head.cluster)
            if head.is_upgrade and (body or not head.value(b"upgrade")):
                raise RefusalError(400, "an upgrade names a protocol and has no body")
            view = self._view(head.cluster)
            planned = await self._plan(exchange, body, view)
            if isinstance(planned, Forward) and planned.sets_up and _is_near_bound(view):
                # One after the other: what one creates counts for the next.
                await held.enter_async_context(self._creations[head.cluster])
                planned = await self._plan(exchange, body, self._view(head.cluster))
            if isinstance(planned, Forward):
                _note(record, planned, is_upgrade=head.is_upgrade)
            await self._authorize(who, planned, view)
            if isinstance(planned, RefusalError):
                # Raised here it would hold this frame, and the body, until garbage is collected.
                await self._refuse(exchange, planned)
                return
            if not planned.is_long and not head.is_upgrade:
                await self._forward(exchange, planned, who, view)
                return
        with self._limits.slot(head.cluster, is_long=True):
            await self._forward_long(exchange, planned, who, view)

    async def _authorize(
        self, who: Caller, planned: Forward | RefusalError, view: ClusterView
    ) -> None:
        if planned.authorize is not None:
            reviews = self._authentication.reviews_of(view.name)
            await reviews.check(who, planned.authorize, view.anchor)

    async def _check(self, head: Head, forward: Forward, view: ClusterView) -> None:
        """Check a long request as at its start. Raises RefusalError."""
        await self._authorize(await self._authentication.identify(head), forward, view)

    def _view(self, cluster: str) -> ClusterView:
        vc = self._state.virtual_clusters.get(cluster)
        if vc is None:
            raise unauthorized()
        if self._state.unlisted():
            raise RefusalError(503, "the gateway is starting", counted="starting")
        return ClusterView(self._state, self._sealer(), vc)

    async def _plan(self, exchange: Exchange, body: bytes, view: ClusterView) -> Plan:
        """Plan; for a kind that the host did not serve, ask it again what it serves."""
        head = exchange.head
        accept, content_type = head.value(b"accept"), head.value(b"content-type")
        request = VirtualRequest(
            head.method, head.path, head.query, accept, content_type, body, head.is_upgrade
        )
        planned = await self._planned(request, view)
        if view.missed_kind and await self._state.look_for_kinds():
            return await self._planned(request, view)
        return planned

    async def _planned(self, request: VirtualRequest, view: ClusterView) -> Plan:
        """Plan, beside the loop if there is much to translate: 3 MiB of names take 5 s."""
        if request.size < LONG_PLAN_BYTES:
            return self._planner(request, view)
        held = fairness.held_bytes(request.body)
        if held > HELD_BYTES:
            most = f"{HELD_BYTES >> 20} MiB"
            raise RefusalError(
                413, f"the request body has too many parts: read, it is larger than {most}"
            )
        await self._scheduler.wait(view.name)  # a held back cluster must not occupy a place of all
        async with AsyncExitStack() as reserved:
            if held > HEAVY_BYTES:
                await _take(reserved, self._heavy, view.name)
            await _take(reserved, self._planning, view.name)
            with view.pinned():
                planned, used = await _to_its_end(self._planner, request, view)
        self._scheduler.time.spend(view.name, used)
        return planned

    async def _forward(
        self, exchange: Exchange, forward: Forward, who: Caller, view: ClusterView
    ) -> None:
        async with AsyncExitStack() as large:
            mapped = self._mapped(exchange, forward, view, large)
            if forward.pages is not None:
                sent = partial(self._sent, exchange, forward, who)
                await mapped.send_pages(forward.pages, sent, forward.query)
                return
            async with self._sent(exchange, forward, who) as answer:
                if answer.status == 101:
                    is_opaque = forward.response.kind is ResponseKind.OPAQUE
                    if not exchange.head.is_upgrade or forward.as_gateway or not is_opaque:
                        raise RuntimeError("what is mapped must not become a tunnel")
                    await host_requests.tunnel(exchange, answer)
                    return
                if answer.status != 404 or forward.otherwise is None:
                    if forward.sets_up and answer.status == _CREATED:
                        await self._know(view.name, forward.sets_up)
                    await mapped.send(answer)
                    return
                await answer.read()
        await self._forward(exchange, forward.otherwise, who, view)

    async def _know(self, cluster: str, host_namespace: str) -> None:
        """Wait until a namespace that was created can be used, as by the next request."""
        with suppress(KubeError):
            await self._state.read_namespace(host_namespace)
        await wait_until_set_up(partial(self._ask, cluster), host_namespace)

    def _mapped(
        self, exchange: Exchange, forward: Forward, view: ClusterView, large: AsyncExitStack
    ) -> MappedAnswer:
        """Return what sends an answer. large: holds the memory that it needs, until it is sent."""
        cluster = exchange.head.cluster
        return MappedAnswer(
            exchange,
            forward,
            view,
            self._state.read_namespace,
            fairness.TimeSlice(partial(self._scheduler.wait, cluster)),
            partial(_take, large, self._answers, cluster),
            partial(self._events.reserved, cluster),
            partial(self._watches.reserved, cluster, str(id(exchange))),
        )

    async def _forward_long(
        self, exchange: Exchange, forward: Forward, who: Caller, view: ClusterView
    ) -> None:
        exchange.record.is_long = True
        cluster = exchange.head.cluster
        answer = self._forward(exchange, forward, who, view)
        refused = until_refused(partial(self._check, exchange.head, forward, view))
        if exchange.head.is_upgrade:
            if _MAIN not in await first_of(answer, refused):
                raise unauthorized("revoked")
            return
        others: list[Awaitable[Any]] = [exchange.disconnected(), self._ending.wait(), refused]
        is_watch = forward.response.kind is ResponseKind.WATCH
        if is_watch and forward.as_gateway:
            others.append(self._moved[cluster].wait())
        ended = await first_of(self._scheduler.time.measured(cluster, answer), *others)
        if _DISCONNECTED in ended:
            raise ClientGoneError
        if _MAIN in ended:
            return
        if _REFUSED in ended:
            exchange.record.rejected = "revoked"
        if not is_watch or not exchange.has_begun:
            if _REFUSED in ended:
                raise unauthorized("revoked")
            raise RefusalError(503, "the gateway ends; try again", counted="ending")
        if _CLAIMS_CHANGED in ended:
            await exchange.send(EXPIRED)
        await exchange.end()

    def _sent(
        self, exchange: Exchange, forward: Forward, who: Caller, query: str | None = None
    ) -> AbstractAsyncContextManager[host_requests.HostAnswer]:
        head = exchange.head
        query = forward.query if query is None else query
        request = host_requests.HostRequest(
            head.cluster,
            forward.method,
            f"{forward.path}?{query}" if query else forward.path,
            host_requests.to_host(head, forward, who),
            forward.body,
            is_long=forward.is_long,
            is_upgrade=head.is_upgrade,
        )
        return self._host.send(request)

    async def _ask(self, cluster: str, path: str, obj: Any) -> Object:
        """Create an object by connections of its virtual cluster. Raises KubeError."""
        headers = [(b"accept", JSON.encode()), (b"content-type", JSON.encode())]
        request = host_requests.HostRequest(cluster, "POST", path, headers, orjson.dumps(obj))
        try:
            async with self._host.send(request) as answer:
                content = await answer.read()
        except RefusalError as refusal:
            raise UnreachableError(str(refusal)) from refusal
        if answer.status >= 300:
            raise error_from_answer(answer.status, content, path=path)
        return decode_object(content)

    def _claims_changed(self, cluster: str) -> None:
        if (event := self._moved.pop(cluster, None)) is not None:
            event.set()

    def _forget(self, cluster: str) -> None:
        self._claims_changed(cluster)
        self._creations.pop(cluster, None)
        self._host.forget(cluster)
        self._scheduler.forget(cluster)
        self._meter.forget(cluster)


def _is_near_bound(view: ClusterView) -> bool:
    """Whether as many creations as there may be at once could be more than a cluster may have."""
    context = view.context()
    return 0 < context.vc.bounds.works <= len(context.claims) + fairness.SHORT_REQUESTS


async def _to_its_end(planner: Planner, *request: Any) -> tuple[Plan, float]:
    """Plan in a thread, which cannot be stopped; return the seconds computed, too."""

    def timed() -> tuple[Plan, float]:
        began = time.thread_time()
        return planner(*request), time.thread_time() - began

    task = asyncio.create_task(asyncio.to_thread(timed))
    try:
        return await asyncio.shield(task)
    finally:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])


async def _take(
    stack: AsyncExitStack, budget: fairness.MemoryBudget, cluster: str
) -> fairness.Reservation:
    return await stack.enter_async_context(budget.reserved(cluster))


def _note(record: RequestRecord, forward: Forward, *, is_upgrade: bool) -> None:
    kind = forward.response.kind
    is_list = kind in (ResponseKind.LIST, ResponseKind.WATCH) and forward.method == "GET"
    record.host_path = forward.path
    record.verb = str(kind) if is_list else forward.method.lower()
    if is_upgrade:
        record.verb = "connect"
