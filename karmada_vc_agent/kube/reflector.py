"""Lists and watches one resource into a Store, and continues after every fault.

A list resumes after an outage with the page it was at, a watch where it was, unless the server no
longer has that version (410), or its time was reset. Watches from a future version are silent, so
after a watch without events, or a lost connection, a small request reads the server's version.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.client import JSON, METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.codec import Codec, Page, WatchEvent
from karmada_vc_agent.kube.discovery import never
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.kube.store import Store, is_lower
from karmada_vc_agent.kube.transport import ANSWER_BYTES, check_version, decode_object
from karmada_vc_agent.model.objects import dig

T = TypeVar("T")

PAGE_SIZE = 500
FIRST_PAGE = 50
"""Before any object was seen: etcd stores up to 1.5 MiB for each."""
PAGE_BYTES = 2 * 2**20
LARGEST_PAGE_BYTES = 2 * PAGE_BYTES
"""A page is read again with fewer objects beyond that; one object may be larger."""
FEW_OBJECTS = 4
"""Objects of a page after one that was too large; etcd stores up to 1.5 MiB for each."""


async def check_listed(client: ApiClient, path: str) -> None:
    """Check by a small request that the server lists a collection. Raises KubeError if not."""
    answer = await client.request("GET", path, query={"limit": "1"}, accept=METADATA_ONLY)
    check_version(dig(decode_object(answer), "metadata", "resourceVersion"))


class PageSize:
    """The number of objects to request at once: what fits into PAGE_BYTES, by the previous page."""

    def __init__(self) -> None:
        self.limit, self._most = FIRST_PAGE, PAGE_SIZE

    def received(self, objects: int, size: int) -> None:
        """Record a page of so many objects and bytes; after a fault slowly request more again."""
        fitting = PAGE_BYTES * objects // size if objects else self.limit
        self._most = min(PAGE_SIZE, self._most + max(1, self._most // 4))
        self.limit = max(1, min(self._most, fitting))

    def was_cut_off(self, most: int = PAGE_SIZE) -> None:
        """Record a page that stalled or broke off, or was too large: request half of it."""
        self.limit = self._most = max(1, min(most, self.limit // 2))


async def read_page(
    client: ApiClient, path: str, query: Mapping[str, str], size: PageSize, accept: str = JSON
) -> bytes:
    """Read a page of as many objects as fit. Raises ApiError, UnreachableError."""
    while True:
        is_one = size.limit == 1
        paged_query = {**query, "limit": str(size.limit)}
        try:
            most = ANSWER_BYTES if is_one else LARGEST_PAGE_BYTES
            return await client.read_page(path, paged_query, accept, most)
        except errors.TooLargeError:
            if is_one:
                raise
            size.was_cut_off(FEW_OBJECTS)
        except errors.CutOffError:
            size.was_cut_off()
            raise


_log = logging.getLogger(__name__)

R = TypeVar("R")

WATCH_S = (300, 600)
"""Each watch ends after a random time in this range, as client-go's do."""
BACKOFF_S = (0.2, 10.0)


@dataclass(eq=False, repr=False)
class Reflector(Generic[T]):
    """Keeps `store` equal to what the server has under `path`.

    is_direct: whether its versions are surely of the API server, and not of one behind it.
    is_absent: whether the API server says that it does not serve the resource. forbidden_s: the
    longest pause while the server forbids it. rests: open no watch while there is nothing, but list
    as often, or by `check`. is_short: lists are short, and need not wait for long ones.
    """

    client: ApiClient
    path: str
    codec: Codec[T]
    store: Store[T]
    query: Mapping[str, str] | None = None
    forbidden_s: float = BACKOFF_S[1]
    is_absent: Callable[[], Awaitable[bool]] = never
    _: KW_ONLY
    is_direct: bool = True
    rests: bool = False
    is_short: bool = False

    def __post_init__(self) -> None:
        self._query = dict(self.query or {})
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._is_check_due = asyncio.Event()
        self._version: str | None = None
        self._seen = ""
        self._is_back = False
        self._once = LogOnce(_log)
        self._source = f"{self.path}?{urlencode(self._query)}"
        self._named: dict[str, str] = {}
        self._epoch = 0
        self._page_size = PageSize()
        self._listing: tuple[int, Page[T] | None] | None = None
        self.failure = ""
        """Why the last response was no good list or watch, "" if it was one."""
        self._failing_since = 0.0

    async def run(self) -> None:
        self.store.on_fault = lambda part: self.client.instrument.failed(self.path, part)
        self.client.history.join(self)
        try:
            await self._follow()
        finally:
            self.client.history.leave(self)
            self._named = {}
            self.client.instrument.unreadable(self._source, self.path, {})

    async def _follow(self) -> None:
        failures, longest_s = 0, BACKOFF_S[1]
        while True:
            longest_before_s, longest_s = longest_s, BACKOFF_S[1]
            try:
                if failures and self._version is not None and not self._is_outdated:
                    await self._check_server_version()
                if self._version is None or self._is_outdated:
                    await self._list()
                if self.rests and not len(self.store) and not self.store.unreadable:
                    await self._rest()
                    failures = 0
                    continue
                watch = await self._until_new_epoch(self._watch())
                if watch is None or watch.result():
                    failures = 0
                    continue
            except errors.KubeError as error:
                self._refused(error)
                if isinstance(error, errors.ForbiddenError):
                    longest_s = self.forbidden_s
            except Exception as error:  # noqa: BLE001 - a resource must not cost the others
                self._version = self._listing = None
                self.client.instrument.failed(self.path, "watch")
                text = "Failed to watch; listing again"
                self._once.bug(text, error, server=self.client.name, path=self.path)
            # A failure, or a watch that ended without any event.
            if longest_s > longest_before_s:
                failures = 0  # what failed before, failed for something else
            failures += 1
            pause_s = min(longest_s, BACKOFF_S[0] * 2 ** min(failures - 1, 20))
            await self.client.history.pause(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    def check(self) -> None:
        self._is_check_due.set()

    async def _rest(self) -> None:
        pause_s = random.randint(*WATCH_S)  # noqa: S311 - spread, no secret
        await self._until_new_epoch(self._is_check_due.wait(), pause_s)
        self._version = None

    @property
    def _is_outdated(self) -> bool:
        return self._epoch != self.client.history.epoch

    def _refused(self, error: errors.KubeError) -> None:
        history = self.client.history
        if not self.failure:
            self._failing_since = asyncio.get_running_loop().time()
        self.failure = str(error) or type(error).__name__
        is_forbidden = isinstance(error, errors.ForbiddenError)
        if not self.is_direct or (is_forbidden and not len(self.store)):
            # There is nothing else to see here, whatever the time of the server.
            history.listed(self, history.epoch)
        if is_forbidden:
            self._answered.set()
        if isinstance(error, (errors.ExpiredError, errors.NotServedError, errors.UnreadableError)):
            self._version = None  # start over with a list
        if not isinstance(error, (errors.ExpiredError, errors.UnreachableError)):
            # The client logs outages, once for all of its users.
            name = self.client.name
            self._once.warning("Waiting to watch", server=name, path=self.path, reason=str(error))

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def failing_s(self) -> float:
        return asyncio.get_running_loop().time() - self._failing_since if self.failure else 0.0

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def wait_answered(self) -> bool:
        """Wait for the first complete list or for a denial; return whether it is synced."""
        await self._answered.wait()
        return self._synced.is_set()

    async def _check_server_version(self) -> None:
        """Detect a server whose time was reset, by one small request."""
        query = {**self._query, "limit": "1"}
        answer = await self.client.read_page(self.path, query, METADATA_ONLY)
        try:
            version = dig(decode_object(answer), "metadata", "resourceVersion")
            check_version(version)
        except errors.UnreadableError:
            self._version = None  # a list takes what can be read of it
            return
        self.failure = ""
        if is_lower(version, self._version or ""):
            self._report_reset(f"{self.path} was at version {self._version} and is at {version}")
            self._is_back = True
            self._version = None  # a list returns the current state

    def _report_reset(self, evidence: str) -> None:
        if self.is_direct and self._epoch == self.client.history.epoch:
            self.client.history.notice(evidence)

    async def _list(self) -> None:
        """List everything; after an outage continue from the last page."""
        epoch = self.client.history.epoch
        self._is_check_due.clear()
        if self._listing is None or self._listing[0] != epoch:
            self.client.instrument.listed(self.path)
            self._listing = epoch, None
        listed = self._listing[1]
        try:
            while listed is None or listed.continue_token:
                page = await self._read_page(listed.continue_token if listed else "")
                if listed is not None:
                    page.items[:0], page.unreadable[:0] = listed.items, listed.unreadable
                listed, self._listing = page, (epoch, page)
        except errors.KubeError as error:
            if not isinstance(error, errors.UnreachableError):
                self._listing = None  # after an outage its token is still valid, for minutes
            if isinstance(error, errors.NotServedError) and await self.is_absent():
                self.store.replace_all([])
                self._listed(epoch)
            raise
        self._listing = None
        self._accept(listed, epoch)

    async def _read_page(self, token: str) -> Page[T]:
        query = {**self._query, **({"continue": token} if token else {})}
        if self.is_short:
            content = await self.client.request("GET", self.path, query=query)
        else:
            content = await read_page(self.client, self.path, query, self._page_size)
        try:
            page = self.codec.page(content)
        except ValueError:
            # Takes a tenth of a second for each megabyte: others must not wait for it.
            page = await asyncio.to_thread(self.codec.page, content, is_odd=True)
            page = replace(page, items=[self.codec.trim(item) for item in page.items])
        check_version(page.resource_version)
        self._page_size.received(len(page.items) + len(page.unreadable), len(content))
        return page

    def _accept(self, page: Page[T], epoch: int) -> None:
        history = self.client.history
        is_back = self._is_back or epoch != self._epoch
        is_new = is_back or epoch != history.epoch
        if not is_new and (evidence := self._evidence(page.items, page.resource_version)):
            self._report_reset(evidence)
            is_back = True
            epoch = min(history.epoch, epoch + 1)  # this list is its first one after that
        version = page.resource_version
        if self.is_direct and not history.first_version:
            history.first_version = version
        self.store.begun_at = history.first_version
        self.store.replace_all(page.items, version, page.unreadable, is_back=is_back)
        self._epoch = epoch
        self._listed(epoch)
        self._name_unreadable()
        self._is_back = False
        self._version = self._seen = version
        self.failure = ""
        self._once.ended()

    def _listed(self, epoch: int) -> None:
        self.client.history.listed(self, epoch)
        self._synced.set()
        self._answered.set()

    def _evidence(self, objects: list[T], version: str) -> str:
        cached = self._seen or self.store.listed_version
        if is_lower(version, cached):
            return f"{self.path} was at version {cached} and is at {version}"
        is_ahead = self.store.is_ahead_of(objects, version)
        return f"{self.path} has objects at older versions" if is_ahead else ""

    async def _until_new_epoch(
        self, call: Coroutine[Any, Any, R], timeout_s: float | None = None
    ) -> asyncio.Task[R] | None:
        """Return the task of a call once it ends; None at timeout_s, or if all is listed again."""
        task = asyncio.ensure_future(call)
        doubt = asyncio.ensure_future(self.client.history.wait_new_epoch(self._epoch))
        tasks = (task, doubt)
        try:
            await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return task if task.done() else None
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> bool:
        """Watch until it ends; return whether any event arrived, bookmarks included."""
        has_events = False
        query = {
            **self._query,
            "resourceVersion": self._version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*WATCH_S)),  # noqa: S311 - spread, no secret
        }
        async for line in self.client.watch(self.path, query):
            event = self.codec.event(line)
            has_events = has_events or event.type != "ERROR"
            if event.type == "ERROR":
                raise errors.watch_error(event.error)
            if is_lower(event.resource_version, self._version or ""):
                self._version = None  # servers do not send that; a list shows the state
                return False
            self._take(event)
            if event.resource_version:
                self._version = self._seen = event.resource_version
        return has_events

    def _take(self, event: WatchEvent[T]) -> None:
        before = len(self.store.unreadable)
        if event.obj is not None and event.type == "DELETED":
            self.store.remove(event.obj)
        elif event.obj is not None:
            self.store.apply(event.obj)
        elif event.unreadable is not None and event.type == "DELETED":
            self.store.remove_unreadable(event.unreadable)
        if event.unreadable is not None and event.type != "DELETED":
            self.store.doubt(event.unreadable)
        if event.unreadable is not None or len(self.store.unreadable) != before:
            self._name_unreadable()

    def _name_unreadable(self) -> None:
        unreadable = {
            "/".join(part for part in key or () if part) or "without a name": reason
            for key, reason in self.store.unreadable.items()
        }
        if unreadable == self._named:
            return
        for name, reason in unreadable.items():
            if self._named.get(name) != reason:
                extra = {"server": self.client.name, "path": self.path, "object": name}
                _log.warning("Cannot read an object", extra={**extra, "reason": reason})
        self._named = unreadable
        self.client.instrument.unreadable(self._source, self.path, unreadable)
