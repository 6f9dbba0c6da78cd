"""The HTTP client of one API server.

Requests share a connection pool and a rate limit, both divided fairly among flows. Pages of lists,
which may take minutes, have a pool of their own, and each watch has a connection. Every failure,
also of the libraries below, is a class of errors.py.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Self

import aiohttp
from yarl import URL

from karmada_vc_agent.kube import errors, transport
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.flows import SHORT_WATCH_S, FairSlots, TokenBucket, WatchSlots
from karmada_vc_agent.kube.store import History
from karmada_vc_agent.kube.transport import ClientInstrument, Credentials, Timeouts
from karmada_vc_agent.model.objects import Object

PAGES_AT_ONCE, LIST_CONNECTIONS = 4, 32
"""Lists mostly wait: a server answers once its cache is as new as they are, within 0.1 s."""
MANY_WATCHES = 1_000_000
PART_OF_OWN = 16
"""One of so many connections is of the agent itself alone, however many flows are slow."""
RETRIES_OF_429 = 3
"""Retries of a request to a server that answers 429 with Retry-After."""

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON = "application/json"
_ANOTHER_UID = "metadata.uid: Invalid value"
"""How API servers reject a patch for an object that has another uid; DELETE answers 409."""
_ODD_PATH = re.compile(r"[?#\s]|/\.\.?(/|$)|%2F|%25", re.IGNORECASE)
"""What would end a path, climb out of it, or have another one inside a name (`pods/web%2Flog`)."""
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
ONE_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The answer to a write whose content the caller has."""
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Request:
    """One request.

    body: encoded as JSON unless it is bytes. is_page: of a list. is_ours: whether it is for
    ourselves; what others name may need rights that we are not to have. most_bytes: of the
    response. patience: retries while the server answers 429. See also `ApiClient.request`.
    """

    method: str
    path: str
    query: Query | None = None
    body: Any = None
    as_user: str = ""
    content_type: str = JSON
    accept: str = JSON
    is_page: bool = False
    is_ours: bool = True
    most_bytes: int = transport.ANSWER_BYTES
    patience: int = RETRIES_OF_429
    etag: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": self.content_type, "Accept": self.accept}
        if self.as_user:
            headers["Impersonate-User"] = self.as_user
        if self.etag:
            headers["If-None-Match"] = self.etag
        return headers


class _Lane(NamedTuple):
    """A connection pool, and what shares it among flows."""

    session: aiohttp.ClientSession
    slots: FairSlots


class ApiClient:
    """A client of one API server with its own pool, rate limit and fence.

    may_write: whether this process leads; otherwise writes fail as unreachable. fence: why nothing
    may be written, "" = it may. credentials: may be replaced at any time; then watches are opened
    again. history: of the server. refusal: returns the error to raise instead of a write to a path.
    watch_slots: shared by all who watch. is_shared: whether there are several virtual clusters.
    """

    def __init__(
        self,
        name: str,
        credentials: Credentials,
        *,
        qps: float = 0.0,
        burst: int = 1,
        connections: int = 16,
        user_agent: str = "karmada-vc-agent",
        may_write: Callable[[], bool] = lambda: True,
        fence: Callable[[], str] = lambda: "",
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        history: History | None = None,
        list_connections: int = LIST_CONNECTIONS,
        watch_slots: WatchSlots | None = None,
        is_shared: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self._credentials = credentials
        self._limit = TokenBucket(qps, burst, time.monotonic)
        self._may_write = may_write
        self._fence = fence
        self._patience_s = timeouts.patience_s
        resolver = transport.Resolver(timeouts.connect_s)

        def lane(limit: int, silence_s: float, total_s: float | None) -> _Lane:
            timeout = aiohttp.ClientTimeout(
                total=total_s, sock_connect=timeouts.connect_s, sock_read=silence_s
            )
            session = transport.new_session(limit, resolver, timeout, user_agent)
            return _Lane(session, FairSlots(limit, is_shared, limit // PART_OF_OWN))

        self._requests = lane(connections, timeouts.silence_s, timeouts.request_s)
        self._lists = lane(list_connections, timeouts.silence_s, None)
        self._pages, self._page_s = FairSlots(PAGES_AT_ONCE, is_shared), timeouts.list_s
        self._watches = lane(0, timeouts.watch_silence_s, None)
        self._watched: set[aiohttp.ClientResponse] = set()
        self._watch_slots = watch_slots or WatchSlots(MANY_WATCHES)
        self.is_reachable = True
        """Whether the last request got an answer."""
        self.answered_at: float | None = None
        self.instrument = ClientInstrument()
        self.history = history or History(name)
        self.refusal: Callable[[str], errors.ForbiddenError | None] = lambda _path: None
        self.denials = errors.Denials(time.monotonic)
        self.unauthorized = Signal[[]]()
        """Emitted when the server rejects the credential (401)."""

    @property
    def credentials(self) -> Credentials:
        return self._credentials

    @credentials.setter
    def credentials(self, credentials: Credentials) -> None:
        self._credentials = credentials
        for response in list(self._watched):
            response.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for lane in (self._requests, self._lists, self._watches):
            await lane.session.close()

    async def get(
        self, path: str, query: Query | None = None, most_bytes: int = transport.ANSWER_BYTES
    ) -> Object:
        """GET and decode. Raises UnreadableError for a page instead of the named object."""
        return await self._object(_Request("GET", path, query, most_bytes=most_bytes))

    async def find(self, path: str, most_bytes: int = transport.ANSWER_BYTES) -> Object | None:
        """GET an object; None if there is none. Raises KubeError, also while it is not served."""
        try:
            return await self.get(path, most_bytes=most_bytes)
        except errors.NotFoundError:
            return None

    async def look_up(self, path: str) -> Object | None:
        """GET what another party named; None where there is none, or we may not see it."""
        try:
            return await self._object(_Request("GET", path, is_ours=False))
        except (errors.NotFoundError, errors.ForbiddenError, errors.UnwritableError):
            return None

    async def create(
        self, path: str, obj: Any, as_user: str = "", query: Query | None = None
    ) -> Object:
        """POST and decode; as all writes: see request(), raises UnreadableError for a page."""
        answer = await self._call(_Request("POST", path, query, obj, as_user))
        return transport.decode_created(answer, obj)

    async def replace(
        self,
        path: str,
        obj: Any,
        as_user: str = "",
        query: Query | None = None,
        *,
        is_terse: bool = False,
    ) -> Object:
        """PUT and decode. is_terse: return the new metadata, in an object that may have more."""
        accept = ONE_METADATA_ONLY if is_terse else JSON
        return await self._object(_Request("PUT", path, query, obj, as_user, accept=accept))

    async def merge_patch(
        self,
        path: str,
        patch: Any,
        as_user: str = "",
        query: Query | None = None,
        *,
        is_terse: bool = False,
    ) -> Object:
        """PATCH with a JSON merge patch and decode; as `replace`."""
        accept = ONE_METADATA_ONLY if is_terse else JSON
        return await self._object(
            _Request("PATCH", path, query, patch, as_user, MERGE_PATCH, accept)
        )

    async def server_side_apply(
        self, path: str, obj: Any, manager: str, *, is_dry: bool = False, is_forced: bool = False
    ) -> Object:
        """PATCH by server-side apply and decode; creates what does not exist.

        is_forced: take over fields that other managers own; otherwise ConflictError names them.
        """
        query = {"fieldManager": manager, "force": "true" if is_forced else "false"}
        if is_dry:
            query["dryRun"] = "All"
        return await self._object(_Request("PATCH", path, query, obj, content_type=APPLY_PATCH))

    async def delete(self, path: str, options: Object | None = None, as_user: str = "") -> None:
        """DELETE; options: DeleteOptions. Raises UnreadableError for a page."""
        await self._object(_Request("DELETE", path, None, options, as_user))

    async def delete_same(
        self, path: str, live: Object, as_user: str = "", *, is_unchanged: bool = False
    ) -> None:
        """DELETE an object in the background if its uid is unchanged.

        is_unchanged: and only if its resourceVersion is unchanged, too. Raises NotFoundError if it
        does not exist, ConflictError if another one has its name.
        """
        marks = ("uid", "resourceVersion") if is_unchanged else ("uid",)
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {mark: live["metadata"][mark] for mark in marks},
        }
        await self.delete(path, options, as_user)

    async def replace_same(self, path: str, live: Object, desired: Object) -> Object:
        """PUT an object if uid and version are unchanged. Raises as `delete_same`.

        Without its uid API servers create an RBAC object that was deleted, whatever its version.
        """
        marks = {mark: live["metadata"][mark] for mark in ("uid", "resourceVersion")}
        return await self.replace(path, {**desired, "metadata": {**desired["metadata"], **marks}})

    async def patch_same(self, path: str, live: Object, patch: Object, as_user: str = "") -> Object:
        """PATCH the metadata of an object if its uid is unchanged. Raises as `delete_same`."""
        uid = {"uid": live["metadata"]["uid"]}
        try:
            return await self.merge_patch(path, {"metadata": patch["metadata"] | uid}, as_user)
        except errors.InvalidError as error:
            if _ANOTHER_UID not in str(error):
                raise
            raise errors.ConflictError(409, "Conflict", str(error)) from error

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        accept: str = JSON,
        as_user: str = "",
        is_patient: bool = True,
    ) -> bytes:
        """Send one request, return the body of a 2xx response. Raises ApiError, UnreachableError.

        body: encoded as JSON unless it is bytes. is_patient: wait while the server answers 429.
        as_user: the user to impersonate; the server adds the groups of a ServiceAccount itself.
        """
        patience = RETRIES_OF_429 if is_patient else 0
        return await self._call(
            _Request(method, path, query, body, as_user, accept=accept, patience=patience)
        )

    async def read_page(
        self, path: str, query: Query, accept: str = JSON, most_bytes: int = transport.ANSWER_BYTES
    ) -> bytes:
        """GET one page of a list; after a CutOffError a smaller page may succeed."""
        return await self._call(
            _Request("GET", path, query, accept=accept, is_page=True, most_bytes=most_bytes)
        )

    async def get_if_changed(
        self, path: str, etag: str | None, accept: str = JSON
    ) -> tuple[Object, str | None] | None:
        """GET unless the server still has this ETag (then None); returns object and ETag."""
        request = _Request("GET", path, accept=accept, etag=etag)
        response, content = await self._send(request, None)
        if response.status == 304:
            return None
        transport.check_success(response.status)
        return transport.decode_object(content), response.headers.get("ETag")

    async def _object(self, request: _Request) -> Object:
        answer = await self._call(request)
        return transport.decode(answer, request.path, or_status=request.method == "DELETE")

    async def _call(self, request: _Request) -> bytes:
        content = transport.encode_body(request.body)
        waited_s = 0.0
        for attempt in range(request.patience + 1):
            try:
                response, answer = await self._send(request, content)
            except errors.TooManyRequestsError as error:
                waited_s += error.retry_after_s
                if attempt == request.patience or waited_s > self._patience_s:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                transport.check_success(response.status)
                return answer
        raise AssertionError("unreachable")

    async def _send(
        self, request: _Request, content: bytes | None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        await self._limit.wait()
        lane = self._lists if request.is_page else self._requests
        async with lane.slots.hold():
            if request.method != "GET":  # after all waiting, as the lead may have been lost
                reason = self._fence() if self._may_write() else "not the leader"
                if reason:
                    raise errors.UnreachableError(f"{self.name}: {reason}, write refused")
                if (refusal := self.refusal(request.path)) is not None:
                    raise refusal
            return await self._exchange(lane, request, content)

    async def _exchange(
        self, lane: _Lane, request: _Request, content: bytes | None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        started, code, url = time.monotonic(), "<error>", self._url(request.path)
        try:
            async with lane.session.request(
                request.method, url, data=content, **self._options(request.query, request.headers)
            ) as response:
                code = str(response.status)
                may_read = self._pages.hold() if request.is_page else nullcontext()
                limit_s = self._page_s if request.is_page else None
                async with may_read, asyncio.timeout(limit_s):
                    answer = await transport.read_body(response, request.most_bytes)
        except Exception as error:
            is_begun = code != "<error>"
            may_break = request.is_page or isinstance(error, errors.TooLargeError)
            lost = self._lost(error, started, is_begun=is_begun, may_break=may_break)
            raise lost from error
        finally:
            self.instrument.answered(request.method, code, time.monotonic() - started)
        self._answered()
        # A right that an impersonated user lacks is not one that we lack.
        is_own = request.is_ours and not request.as_user
        if response.status >= 400:
            need = errors.need_of(request.method, request.path) if is_own else None
            raise self._explained(response, answer, request.path, need, content)
        if not request.as_user:
            self.denials.granted(request.method, request.path)
        return response, answer

    async def watch(self, path: str, query: Query) -> AsyncIterator[bytes]:
        """Yield the lines of a watch until the server ends it. Raises KubeError."""
        async with self._watch_slots, aclosing(self._watch(path, query)) as lines:
            async for line in lines:
                yield line

    async def _watch(self, path: str, query: Query) -> AsyncGenerator[bytes, None]:
        started, url = time.monotonic(), self._url(path)
        code, has_begun = "<error>", False
        self.instrument.watched(path)
        query = {**query, "watch": "true"}
        if self._watch_slots.are_scarce:
            query["timeoutSeconds"] = str(SHORT_WATCH_S)
        try:
            options = self._options(query, {})
            async with self._watches.session.get(url, **options) as response:
                code = str(response.status)
                self.instrument.answered("GET", code, time.monotonic() - started)
                if response.status != 200:
                    await self._refuse_watch(response, path)
                self.denials.granted("GET", path, watches=True)
                self._answered()
                has_begun = True
                self._watched.add(response)
                try:
                    async with aclosing(transport.read_lines(response)) as lines:
                        async for line in lines:
                            yield line
                finally:
                    self._watched.discard(response)
        except (errors.ApiError, errors.UnreadableError):
            raise
        except Exception as error:
            if code == "<error>":
                self.instrument.answered("GET", code, time.monotonic() - started)
            # Proxies cut streams: a broken one says nothing about the server.
            raise self._lost(error, started, is_begun=has_begun, may_break=True) from error

    async def _refuse_watch(self, response: aiohttp.ClientResponse, path: str) -> NoReturn:
        answer = await transport.read_body(response)
        if response.status < 400:
            raise errors.UnreadableError(f"unexpected status {response.status} of a watch")
        self._answered()
        raise self._explained(response, answer, path, errors.need_of("GET", path, watches=True))

    def _url(self, path: str) -> URL:
        """Return a URL with the path verbatim: nothing in it may be normalised or decoded."""
        if _ODD_PATH.search(path):
            raise errors.UnwritableError(f"{path!r} is not a valid path")
        return URL(self.credentials.server + path, encoded=True)

    def _options(self, query: Query | None, headers: Mapping[str, str]) -> dict[str, Any]:
        return {
            "params": query,
            "headers": {**headers, **self.credentials.authorization()},
            # On each request, not on the pool: after a change of `credentials` the next
            # request opens a new connection, and the old ones expire.
            "ssl": self.credentials.ssl_context or True,
            "server_hostname": self.credentials.server_hostname,
            "proxy": self.credentials.proxy,
            # API servers send no redirects, and our token is for them alone.
            "allow_redirects": False,
        }

    def _lost(
        self, error: Exception, started: float, *, is_begun: bool, may_break: bool
    ) -> errors.UnreachableError:
        """Return the error; note an outage. may_break: a broken response is no sign of one."""
        reason = errors.reason_of(error)
        is_answering = self.answered_at is not None and self.answered_at > started
        if not is_answering and not (is_begun and may_break):
            self.is_reachable = False
            self.history.begin_outage(self.credentials.server, reason)
        is_connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
        is_silent = isinstance(error, TimeoutError) and not is_connecting
        lost = errors.CutOffError if is_begun or is_silent else errors.UnreachableError
        if isinstance(error, errors.UnreachableError):
            lost = type(error)
        return lost(f"{self.name} {self.credentials.server}: {reason}")

    def _explained(
        self,
        response: aiohttp.ClientResponse,
        answer: bytes,
        path: str,
        need: errors.Need | None,
        sent: bytes | None = None,
    ) -> errors.ApiError:
        """Return the error of a response; with the missing RBAC rule, which is remembered."""
        retry_after = response.headers.get("Retry-After")
        error = errors.error_from_answer(response.status, answer, retry_after, path=path, sent=sent)
        if isinstance(error, errors.PageError):
            error.target = f"{self.name} {self.credentials.server}{path}"
        if isinstance(error, errors.UnauthorizedError):
            error.target = f"{self.name} {self.credentials.server}, with {self.credentials.source}"
            self.unauthorized.emit()
        if not isinstance(error, errors.ForbiddenError):
            return error
        explained = error.missing(need)
        explained.server = self.name
        if explained.need is not None:
            self.denials.note(explained.need)
        return explained

    def _answered(self) -> None:
        self.answered_at = time.monotonic()
        was_away, self.is_reachable = not self.is_reachable, True
        self.history.answered(was_away=was_away)


async def evict(client: ApiClient, pod_path: str, pod: Object) -> None:
    """Evict this very pod. Raises ConflictError if it is another one, ApiError, UnreachableError.

    TooManyRequestsError, at once: a PodDisruptionBudget forbids it.
    """
    metadata = pod["metadata"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    await client.request("POST", f"{pod_path}/eviction", body=body, is_patient=False)
