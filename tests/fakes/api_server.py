"""A small Kubernetes API server on loopback, with faults on demand, for the real ApiClient."""

import asyncio
import base64
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object, copy_object
from tests.fakes import served
from tests.fakes.pages import PageFault
from tests.fakes.served import Served
from tests.fakes.storage import Change, NotServedError, Place, StatusError, Storage
from tests.fakes.watches import Watch, is_selected_by, tell

KUBE_SYSTEM_UID = "3f2d9c1e-8a47-4c55-9a0b-6b1f0c2d7e11"


@dataclass(frozen=True)
class Request:
    """What came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Fault:
    """What happens to requests instead of, or before, their answer; times counts down.

    act: returns the answer, or None to go on with the next fault and then as usual.
    """

    act: Callable[[web.BaseRequest], Any]
    method: str = ""
    path: str = ""
    times: int = 1_000_000
    only_lists: bool = False
    query: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, request: Request) -> bool:
        if self.only_lists and request.is_watch:
            return False
        if self.times <= 0 or (self.method and self.method != request.method):
            return False
        if not self.query.items() <= request.query.items():
            return False
        return not self.path or self.path == request.path


class FakeApiServer:
    """Serves `storage`; `requests` is what it was asked, in order."""

    def __init__(self, resources: tuple[Served, ...] = served.HOST) -> None:
        self.storage = Storage(resources)
        self.storage.listener = self._changed
        self.requests: list[Request] = []
        self.aggregated_discovery = True
        self.stale_groups: frozenset[str] = frozenset()
        self.health: dict[str, int] = {"/readyz": 200, "/healthz": 200}
        self.version: Object = {"gitVersion": "v1.34.0"}
        self.admission: list[Callable[[Place, Object], Object]] = []
        """Each may change what is to be created or merged, or raise StatusError."""
        self.url = ""
        self._faults: list[Fault] = []
        self._watches: list[Watch] = []
        self._pages: dict[str, tuple[list[Object], int]] = {}
        self._numbers = itertools.count()
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._clients: list[ApiClient] = []

    # --- running ----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._server = web.Server(self._handle, access_log=None)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._server, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for client in self._clients:
            await client.close()
        self.end_watches()
        assert self._listener is not None
        assert self._server is not None
        self._listener.close()
        await self._server.shutdown(0)

    def client(self, name: str = "host", **options: Any) -> ApiClient:
        """Return a new client of this server; closed with the server."""
        credentials = options.pop("credentials", Credentials(self.url, None, "a test"))
        client = ApiClient(name, credentials, **options)
        self._clients.append(client)
        return client

    # --- for tests: objects -------------------------------------------------------------------

    def seed(self, *objects: Object) -> Object:
        """Put objects there; return the last one as stored."""
        stored: Object = {}
        for obj in objects:
            stored = self.storage.seed(obj)
        copied: Object = copy_object(stored)
        return copied

    def find(self, path: str) -> Object | None:
        """Return the object at a path as the server has it."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"
        obj = self.storage.objects.get(place.key)
        return copy_object(obj) if obj is not None else None

    def live(self, path: str) -> Object:
        """Return the object at a path, which must be there."""
        obj = self.find(path)
        assert obj is not None, f"{path} is not there"
        return obj

    def listed(self, path: str) -> list[Object]:
        """Return the objects of a collection."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"
        return [copy_object(obj) for obj in self.storage.matching(place)]

    def change(self, path: str, **fields: Any) -> Object:
        """Replace top-level fields of an object, as another client would with a PUT."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"
        return self.storage.replace(place, {**self.live(path), **fields})

    def set_by_another(self, path: str, field: str, manager: str) -> None:
        """Let another manager own a field, named as server-side apply does."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"
        self.storage.owned[place.key, field] = manager

    def mark_deleted(self, path: str) -> None:
        """Delete an object as another client would: with finalizers it only gets the mark."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"
        self.storage.delete(place, None)

    def remove(self, path: str) -> None:
        """Delete an object at once, whatever finalizers it has."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"
        self.storage._remove(place, self.storage.get(place))

    def writes(self) -> list[Request]:
        """Return the requests that could change something; reviews are questions."""
        return [
            request
            for request in self.requests
            if request.method != "GET" and "reviews" not in request.path
        ]

    def changes(self) -> list[Request]:
        """Return the writes that were no dry runs."""
        return [request for request in self.writes() if request.query.get("dryRun") != "All"]

    def asked(self, method: str, path: str) -> list[Request]:
        """Return the requests with this method and path."""
        return [r for r in self.requests if (r.method, r.path) == (method, path)]

    # --- for tests: faults --------------------------------------------------------------------

    def fail(
        self,
        code: int,
        reason: str = "",
        *,
        method: str = "",
        path: str = "",
        times: int = 1,
        message: str = "as the test wants",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        """Answer the next requests with a Status. query: that they have among others."""

        def act(incoming: web.BaseRequest) -> web.Response:
            place = self.storage.place(incoming.path) if code == 404 else None
            named = ("", "")
            if place is not None:
                named = (place.name, place.served.plural)
                named = named if place.name else (place.namespace, "namespaces")
            status = StatusError(code, reason, message, *named).status
            return _json(status, code, dict(headers or {}))

        self._faults.append(Fault(act, method, path, times, query=query or {}))

    def spoil_list(self, path: str, spoil: Callable[[Object], bytes]) -> None:
        """Answer the next list of a collection with what `spoil` makes of the true one."""
        place = self.storage.place(path)
        assert place is not None, f"{path} is not served"

        def act(incoming: web.BaseRequest) -> web.Response:
            body = spoil(self._list(place, incoming.query))
            return web.Response(body=body, content_type="application/json")

        self._faults.append(Fault(act, "GET", path, 1, only_lists=True))

    def answer(self, body: bytes, code: int = 200, *, path: str = "", times: int = 1) -> None:
        """Answer the next requests with these bytes."""
        self._faults.append(Fault(lambda _: web.Response(body=body, status=code), "", path, times))

    @contextmanager
    def in_front(self, page: PageFault) -> Iterator[None]:
        """Answer all by a page while this lasts, as a proxy without a server; watches end."""
        fault = Fault(lambda _: web.Response(body=page.body, status=page.code))
        self._faults.insert(0, fault)
        self.end_watches()
        yield
        self._faults.remove(fault)

    def clear_faults(self) -> None:
        """Answer as usual from now on."""
        self._faults.clear()

    def before(self, method: str, path: str, act: Callable[[], object], times: int = 1) -> None:
        """Do something just before the next such request is answered, as another client would."""

        def run(_: web.BaseRequest) -> None:
            act()

        self._faults.append(Fault(run, method, path, times))

    def hold(self, method: str, path: str, times: int = 1) -> asyncio.Event:
        """Let the next such requests wait for the event that is returned."""
        released = asyncio.Event()

        async def wait(_: web.BaseRequest) -> None:
            await released.wait()

        self._faults.append(Fault(wait, method, path, times))
        return released

    def drip(self, path: str, pieces: int, pause_s: float) -> None:
        """Send the next list in as many pieces, with a pause before each."""

        async def send(incoming: web.BaseRequest) -> web.StreamResponse:
            body = orjson.dumps({"kind": "List", "metadata": {}, "items": [], "pad": "x" * 900})
            response = web.StreamResponse()
            await response.prepare(incoming)
            size = -(-len(body) // pieces)
            for start in range(0, len(body), size):
                await asyncio.sleep(pause_s)
                await response.write(body[start : start + size])
            return response

        self._faults.append(Fault(send, "GET", path, 1))

    def drop_next(self, path: str) -> None:
        """Break off the connection of the next request without an answer."""
        self._faults.append(Fault(_drop, "GET", path, 1))

    @contextmanager
    def down(self, method: str = "", path: str = "") -> Iterator[None]:
        """Break off connections without an answer while this lasts; watches end, too."""
        fault = Fault(_drop, method, path)
        self._faults.insert(0, fault)
        if not method:
            self.end_watches()
        yield
        self._faults.remove(fault)

    def end_watches(self) -> None:
        """End every watch, as a server does when their time is over."""
        for watch in self._watches:
            watch.lines.put_nowait(None)

    def bookmark(self) -> None:
        """Tell every watch how far it has come."""
        for watch in self._watches:
            metadata = {"resourceVersion": str(self.storage.version)}
            obj = {"kind": watch.place.served.kind, "metadata": metadata}
            watch.lines.put_nowait({"type": "BOOKMARK", "object": obj})

    def watch_error(self, code: int, reason: str) -> None:
        """Let every watch end with an ERROR event."""
        for watch in self._watches:
            status = StatusError(code, reason, "as the test wants").status
            watch.lines.put_nowait({"type": "ERROR", "object": status})
            watch.lines.put_nowait(None)

    # --- answering ----------------------------------------------------------------------------

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        content = await incoming.read()
        request = Request(
            incoming.method,
            incoming.path,
            dict(incoming.query),
            dict(incoming.headers),
            orjson.loads(content) if content else None,
        )
        self.requests.append(request)
        for fault in [fault for fault in self._faults if fault.concerns(request)]:
            fault.times -= 1
            answer = fault.act(incoming)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if isinstance(answer, web.StreamResponse):
                return answer
        try:
            if request.is_watch:
                return await self._watch(incoming, request)
            return self._answer(request)
        except StatusError as error:
            return _json(error.status, error.code)
        except NotServedError:
            return web.Response(text="404 page not found\n", status=404)

    def _answer(self, request: Request) -> web.Response:
        if request.path in self.health:
            code = self.health[request.path]
            return web.Response(text="ok" if code == 200 else "no", status=code)
        if request.path == "/version":
            return _json(self.version)
        document = self._discover(request)
        if document is not None:
            return document
        return self._answer_about(self._place(request), request)

    def _answer_about(self, place: Place, request: Request) -> web.Response:
        if not place.name and request.method == "GET":
            return _json(self._list(place, request.query))
        if not place.name and request.method == "POST":
            body = self._admit(place, request.body)
            if request.query.get("dryRun") == "All":
                return _json(body, 201)
            return _json(self.storage.create(place, body), 201)
        if place.name and request.method == "PATCH":
            return _json(self._patch(place, request))
        acts: dict[str, Callable[[Place, Any], Object]] = {
            "GET": lambda place, _: self.storage.get(place),
            "PUT": lambda place, body: self._write(
                request, lambda: self.storage.replace(place, body)
            ),
            "DELETE": self.storage.delete,
        }
        if not place.name or request.method not in acts:
            raise StatusError(405, "MethodNotAllowed", "the server does not allow this method")
        return _json(acts[request.method](place, request.body))

    def _patch(self, place: Place, request: Request) -> Object:
        if _is_json_patch(request):
            return self.storage.json_patch(place, request.body)
        if _is_apply_patch(request):
            if not request.query.get("fieldManager"):
                raise StatusError(400, "BadRequest", "fieldManager is required for apply patch")
            is_forced = request.query.get("force") == "true"
            return self._write(
                request, lambda: self.storage.apply(place, request.body, is_forced=is_forced)
            )
        if not _is_merge_patch(request):
            raise StatusError(415, "UnsupportedMediaType", "no patch of a kind that is known")
        body = self._admit(place, request.body)
        if request.query.get("dryRun") == "All":
            return self.storage.get(place)
        return self.storage.merge_patch(place, body)

    def _write(self, request: Request, act: Callable[[], Object]) -> Object:
        """Do a write; of a dry run, only the answer is left."""
        if request.query.get("dryRun") != "All":
            return act()
        backup, history = self.storage.backup(), list(self.storage.history)
        compacted, listener = self.storage.compacted, self.storage.listener
        self.storage.listener = lambda _: None
        try:
            answer: Object = copy_object(act())
        finally:
            self.storage.restore(backup)
            self.storage.history[:] = history
            self.storage.compacted, self.storage.listener = compacted, listener
        return answer

    def _admit(self, place: Place, body: Any) -> Any:
        for admit in self.admission:
            body = admit(place, body)
        return body

    def _place(self, request: Request) -> Place:
        place = self.storage.place(request.path)
        if place is None:
            raise NotServedError
        return place

    def _discover(self, request: Request) -> web.Response | None:
        wanted = "as=APIGroupDiscoveryList" in request.headers.get("Accept", "")
        aggregated = wanted and self.aggregated_discovery
        document = served.discovery(
            request.path, self.storage.served, aggregated=aggregated, stale=self.stale_groups
        )
        if document is None or not aggregated:
            return _json(document) if document is not None else None
        tag = served.etag(document)
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return _json(document, headers={"ETag": tag})

    def _list(self, place: Place, query: Mapping[str, str]) -> Object:
        token = query.get("continue")
        if token is not None:
            if token not in self._pages or self._pages[token][1] < self.storage.compacted:
                raise StatusError(410, "Expired", "The provided continue parameter is too old")
            items, version = self._pages[token]
        else:
            found = self.storage.matching(place)
            items = [obj for obj in found if is_selected_by(query, obj)]
            version = self.storage.version
        metadata: Object = {"resourceVersion": str(version)}
        limit = int(query.get("limit") or 0)
        if limit and len(items) > limit:
            token = base64.b64encode(f"page {next(self._numbers)}".encode()).decode()
            self._pages[token] = (items[limit:], version)
            items = items[:limit]
            metadata["continue"] = token
        elif place.served.is_custom:
            metadata["continue"] = ""
        if not place.served.is_custom:
            bare = ("apiVersion", "kind")
            items = [{k: v for k, v in obj.items() if k not in bare} for obj in items]
        kind = f"{place.served.kind}List"
        api_version = place.served.api_version
        return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}

    async def _watch(self, incoming: web.BaseRequest, request: Request) -> web.StreamResponse:
        place = self._place(request)
        watch = Watch(place, request.query)
        since = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse()
        await response.prepare(incoming)
        if since < self.storage.compacted:
            status = StatusError(410, "Expired", f"too old resource version: {since}").status
            await response.write(_line({"type": "ERROR", "object": status}))
            return response
        for change in self.storage.history:
            if change.version > since:
                tell(watch, change)
        self._watches.append(watch)
        seconds = int(request.query.get("timeoutSeconds") or 0)
        if seconds:
            asyncio.get_running_loop().call_later(seconds, watch.lines.put_nowait, None)
        try:
            while (event := await watch.lines.get()) is not None:
                await response.write(_line(event))
        except ConnectionError:
            pass  # the client went away
        finally:
            self._watches.remove(watch)
        return response

    def _changed(self, change: Change) -> None:
        for watch in self._watches:
            tell(watch, change)


def _is_json_patch(request: Request) -> bool:
    return request.headers.get("Content-Type") == "application/json-patch+json"


def _is_apply_patch(request: Request) -> bool:
    return request.headers.get("Content-Type") == "application/apply-patch+yaml"


def _is_merge_patch(request: Request) -> bool:
    return request.headers.get("Content-Type") == "application/merge-patch+json"


def _drop(incoming: web.BaseRequest) -> web.Response:
    assert incoming.transport is not None
    incoming.transport.abort()
    return web.Response()


def _line(event: Object) -> bytes:
    return written(event) + b"\n"


def _json(body: Object, code: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=written(body), status=code, content_type="application/json", headers=headers
    )


def written(value: Any) -> bytes:
    """Return JSON, also of what is nested deeper than orjson writes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()
