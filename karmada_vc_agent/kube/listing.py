"""A paginated list: page sizes, and where to continue after a failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from karmada_vc_agent.kube.answers import check_version, decoded
from karmada_vc_agent.kube.client import JSON, METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.codec import Page, Unreadable
from karmada_vc_agent.kube.errors import CutOffError, TooLargeError
from karmada_vc_agent.model.objects import dig

T = TypeVar("T")

PAGE_SIZE = 500
FIRST_PAGE = 50
"""Before any object was seen: etcd stores up to 1.5 MiB for each."""
PAGE_BYTES = 2 * 2**20
LARGEST_PAGE_BYTES = 2 * PAGE_BYTES
"""A page is read again with fewer objects beyond that; one object may be larger."""
FEW = 4
"""Objects of a page after one that was too large; etcd stores up to 1.5 MiB for each."""


async def check_listed(client: ApiClient, path: str) -> None:
    """Check by a small request that the server lists a collection. Raises KubeError if not."""
    answer = await client.request("GET", path, query={"limit": "1"}, accept=METADATA_ONLY)
    check_version(dig(decoded(answer), "metadata", "resourceVersion"))


class PageSize:
    """The number of objects to request at once.

    As many as fit into PAGE_BYTES, judged by the previous pages; half as many after a response that
    was cut off, then slowly more again.
    """

    def __init__(self) -> None:
        self._most = PAGE_SIZE
        self._object_bytes = 0.0

    @property
    def limit(self) -> int:
        """Return the limit of the next page."""
        if not self._object_bytes:
            return min(FIRST_PAGE, self._most)
        return max(1, min(self._most, int(PAGE_BYTES / self._object_bytes)))

    def received(self, objects: int, size: int) -> None:
        """Record a page of so many objects and bytes."""
        self._most = min(PAGE_SIZE, self._most + max(1, self._most // 4))
        if objects:
            average = size / objects
            self._object_bytes = max(average, (self._object_bytes + average) / 2)

    def was_cut_off(self) -> None:
        """Record a page that stalled or broke off."""
        self._most = max(1, self.limit // 2)

    def was_too_large(self) -> None:
        """Record a page that was too large."""
        self._most = max(1, min(FEW, self.limit // 2))


async def read_page(
    client: ApiClient, path: str, query: Mapping[str, str], size: PageSize, accept: str = JSON
) -> bytes:
    """Read a page of as many objects as fit. Raises ApiError, UnreachableError."""
    while True:
        limit = size.limit
        paged_query = {**query, "limit": str(limit)}
        try:
            if limit == 1:
                return await client.read_page(path, paged_query, accept)
            return await client.read_page(path, paged_query, accept, LARGEST_PAGE_BYTES)
        except TooLargeError:
            if limit == 1:
                raise
            size.was_too_large()
        except CutOffError:
            size.was_cut_off()
            raise


@dataclass(slots=True)
class Listing(Generic[T]):
    """The received part of a list; epoch: of the server, see History."""

    epoch: int
    objects: list[T] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    token: str = ""

    def add(self, page: Page[T]) -> bool:
        """Add a page; return whether it was the last one."""
        self.objects += page.items
        self.unreadable += page.unreadable
        self.token = page.continue_token
        return not self.token
