"""HTTP to one API server in one place.

Requests share a pool of a few connections and one rate limit; watches have a connection
each. Answers are bytes or decoded JSON; every failure is a class of errors.py.
"""

import asyncio
import base64
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self

import aiohttp
import orjson
from yarl import URL

from karmada_vc_agent.kube import salvage
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.errors import (
    ApiError,
    ForbiddenError,
    TooManyRequestsError,
    UnreachableError,
    UnreadableError,
    UnwritableError,
    error_from_answer,
)
from karmada_vc_agent.kube.history import History
from karmada_vc_agent.kube.instruments import NOBODY, ClientInstrument
from karmada_vc_agent.kube.permissions import Denials, Need, need_of
from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.model.objects import Object

_log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
WATCH_SILENCE_S = 150.0
"""A watch without a line is opened anew: servers send a bookmark about every minute."""
PATIENCE = 3
"""How often one request waits for a server that answers 429 with a time."""

MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"
_ACTS_AS = "Impersonate-User"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

Query = Mapping[str, str]


class ApiClient:
    """A client of one API server with its own pool, rate limit and fence.

    may_write: asked before every write; while it is False, writes fail as unreachable. So a
    process that may have lost its lead cannot change anything.
    credentials: may be replaced at any time; counts from the next request on.
    history: shared by all clients of one server.
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
    ) -> None:
        self.name = name
        self.credentials = credentials
        self._limit = TokenBucket(qps, burst, time.monotonic)
        self._may_write = may_write
        self._headers = {"User-Agent": user_agent}
        self._slots = asyncio.Semaphore(connections)
        request = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        watch = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=WATCH_SILENCE_S)
        self._requests = self._session(connections, request)
        self._watches = self._session(0, watch)
        self._unreachable_since: float | None = None
        self.answered_at: float | None = None
        self.lost_at: float | None = None
        self.instrument: ClientInstrument = NOBODY
        self.history = History(name)
        self.denials = Denials(time.monotonic)
        self._recovery_listeners: list[Callable[[], None]] = []

    @property
    def is_reachable(self) -> bool:
        """Whether the last request was answered at all."""
        return self._unreachable_since is None

    def on_recovery(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the server answers again after an outage."""
        self._recovery_listeners.append(listener)

    def _session(self, connections: int, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections,
                keepalive_timeout=75,
                socket_factory=_keepalive_socket,
                enable_cleanup_closed=False,
            ),
            timeout=timeout,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            raise_for_status=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._requests.close()
        await self._watches.close()

    async def get(self, path: str, query: Query | None = None) -> Object:
        """GET and decode."""
        return _decoded(await self.request("GET", path, query=query))

    async def create(
        self, path: str, obj: Any, as_user: str = "", query: Query | None = None
    ) -> Object:
        """POST and decode; as_user: see request()."""
        return _decoded(await self.request("POST", path, query=query, body=obj, as_user=as_user))

    async def replace(self, path: str, obj: Any, as_user: str = "") -> Object:
        """PUT and decode; as_user: see request()."""
        return _decoded(await self.request("PUT", path, body=obj, as_user=as_user))

    async def merge_patch(
        self, path: str, patch: Any, as_user: str = "", query: Query | None = None
    ) -> Object:
        """PATCH with a JSON merge patch and decode; as_user: see request()."""
        answer = await self.request(
            "PATCH", path, query=query, body=patch, content_type=MERGE_PATCH, as_user=as_user
        )
        return _decoded(answer)

    async def delete(self, path: str, options: Object | None = None, as_user: str = "") -> None:
        """DELETE; options as DeleteOptions, for example preconditions; as_user: see request()."""
        await self.request("DELETE", path, body=options, as_user=as_user)

    async def delete_same(self, path: str, live: Object, as_user: str = "") -> None:
        """DELETE an object in the background if it is still this one, by its uid.

        Raises NotFoundError where it is gone, ConflictError where another has its name.
        """
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {"uid": live["metadata"]["uid"]},
        }
        await self.delete(path, options, as_user)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        as_user: str = "",
    ) -> bytes:
        """Send one request and return the body of a 2xx answer.

        body: encoded as JSON where it is not bytes. Waits out a server that answers 429.
        as_user: with whose rights; the server adds the groups of a ServiceAccount itself, so
        that the right to impersonate this one name is enough. Raises ApiError, UnreachableError.
        """
        headers = {"Content-Type": content_type, "Accept": accept}
        if as_user:
            headers[_ACTS_AS] = as_user
        for attempt in range(PATIENCE + 1):
            try:
                answer = await self._send(method, path, query, body, headers)
            except TooManyRequestsError as error:
                if attempt == PATIENCE:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                return answer[1]
        raise AssertionError("unreachable")

    async def get_if_changed(
        self, path: str, etag: str | None, accept: str = JSON
    ) -> tuple[bytes, str | None] | None:
        """GET unless the server still has this ETag (then None); returns body and ETag."""
        headers = {"Accept": accept}
        if etag:
            headers["If-None-Match"] = etag
        status, content, new_etag = await self._send("GET", path, None, None, headers)
        return None if status == 304 else (content, new_etag)

    async def _send(
        self, method: str, path: str, query: Query | None, body: Any, headers: dict[str, str]
    ) -> tuple[int, bytes, str | None]:
        await self._limit.wait()
        async with self._slots:
            # Asked after all waiting: the lead may have been lost meanwhile.
            if method != "GET" and not self._may_write():
                raise UnreachableError(f"{self.name}: not leading, nothing is written")
            return await self._exchange(method, path, query, body, headers)

    async def _exchange(
        self, method: str, path: str, query: Query | None, body: Any, headers: dict[str, str]
    ) -> tuple[int, bytes, str | None]:
        content = body if body is None or isinstance(body, bytes) else _encoded(body)
        started, code = time.monotonic(), "<error>"
        try:
            async with self._requests.request(
                method, self._url(path), data=content, **self._options(query, headers)
            ) as response:
                received = await response.read()
                retry_after = response.headers.get("Retry-After")
                etag = response.headers.get("ETag")
                status = response.status
                code = str(status)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(error) from error
        finally:
            self.instrument.answered(method, code, time.monotonic() - started)
        self._answered()
        if status >= 400:
            answer = error_from_answer(status, received, retry_after)
            # What another user may not do is no right that we lack.
            is_own = _ACTS_AS not in headers
            raise self._explained(answer, need_of(method, path) if is_own else None)
        return status, received, etag

    async def watch(self, path: str, query: Query) -> AsyncIterator[bytes]:
        """Yield the lines of a watch until the server ends it.

        Raises ApiError, UnreachableError.
        """
        options = self._options({**query, "watch": "true"}, {})
        has_begun = False
        started, code = time.monotonic(), "<error>"
        self.instrument.watched(path)
        try:
            async with self._watches.get(self._url(path), **options) as response:
                code = str(response.status)
                self.instrument.answered("GET", code, time.monotonic() - started)
                if response.status >= 400:
                    retry_after = response.headers.get("Retry-After")
                    answer = error_from_answer(response.status, await response.read(), retry_after)
                    raise self._explained(answer, need_of("GET", path, watches=True))
                self._answered()
                has_begun = True
                rest = b""
                async for chunk, _ in response.content.iter_chunks():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if code == "<error>":
                self.instrument.answered("GET", code, time.monotonic() - started)
            # Proxies cut streams: one that broke off says nothing about the server.
            raise self._lost(error, is_away=not has_begun) from error

    def _url(self, path: str) -> URL:
        # As it is: nothing in a path may be folded or decoded on the way.
        return URL(self.credentials.server + path, encoded=True)

    def _options(self, query: Query | None, headers: dict[str, str]) -> dict[str, Any]:
        return {
            "params": query,
            "headers": self._authorized(headers),
            # With each request, not with the pool: after a change of `credentials` the next
            # request opens a connection of its own, and the old ones end by themselves.
            "ssl": self.credentials.ssl_context or True,
            "server_hostname": self.credentials.server_hostname,
            "proxy": self.credentials.proxy,
        }

    def _authorized(self, headers: dict[str, str]) -> dict[str, str]:
        token = self.credentials.token()
        if token:
            return {**headers, "Authorization": f"Bearer {token}"}
        if self.credentials.basic_auth:
            password = base64.b64encode(":".join(self.credentials.basic_auth).encode())
            return {**headers, "Authorization": f"Basic {password.decode()}"}
        return headers

    def _lost(self, error: Exception, *, is_away: bool = True) -> UnreachableError:
        """Return what to raise; log the beginning of an outage once."""
        cause = str(error) or type(error).__name__
        if is_away:
            self.lost_at = time.monotonic()
        if is_away and self._unreachable_since is None:
            self._unreachable_since = time.monotonic()
            _log.warning(
                "Waiting for API server",
                extra={"server": self.name, "url": self.credentials.server, "reason": cause},
            )
        return UnreachableError(f"{self.name} {self.credentials.server}: {cause}")

    def _explained(self, error: ApiError, need: Need | None) -> ApiError:
        """Say of a missing permission which rule it takes, and remember it for a while."""
        if not isinstance(error, ForbiddenError):
            return error
        explained = error.missing(need)
        if explained.need is not None:
            self.denials.note(explained.need)
        return explained

    def _answered(self) -> None:
        self.answered_at = time.monotonic()
        if self._unreachable_since is not None:
            away_s = round(time.monotonic() - self._unreachable_since, 1)
            self._unreachable_since = None
            _log.info("API server answers again", extra={"server": self.name, "away_s": away_s})
            for listener in self._recovery_listeners:
                listener()


def _decoded(content: bytes) -> Object:
    try:
        decoded, _ = salvage.loads(content)
    except ValueError as error:
        raise UnreadableError(f"the answer is no JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise UnreadableError("the answer is no object")
    return decoded


def _encoded(body: Any) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise UnwritableError(f"cannot be sent as JSON: {error}") from error


def _keepalive_socket(address: Any) -> socket.socket:
    """Make a socket that notices a cut line after about 30 s, so that no watch hangs for ever."""
    family, kind, protocol = address[0], address[1], address[2]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
