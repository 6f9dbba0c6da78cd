"""A list that comes in pages: how large they are, and where it goes on after a fault."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from karmada_vc_agent.kube.codec import Page, Unreadable

T = TypeVar("T")

PAGE_SIZE = 500
FIRST_PAGE = 50
"""Before it is known how large objects are: etcd takes up to 1.5 MiB each."""
PAGE_BYTES = 4 * 2**20


class PageSize:
    """How many objects to ask for at once.

    As many as fit into PAGE_BYTES, going by those that came last; half as many after an answer
    that did not come whole, and slowly more again.
    """

    def __init__(self) -> None:
        self._most = PAGE_SIZE
        self._object_bytes = 0.0

    @property
    def limit(self) -> int:
        """How many objects the next page is to have."""
        if not self._object_bytes:
            return min(FIRST_PAGE, self._most)
        return max(1, min(self._most, int(PAGE_BYTES / self._object_bytes)))

    def came(self, objects: int, size: int) -> None:
        """Take note of a page of so many objects and bytes."""
        self._most = min(PAGE_SIZE, self._most + max(1, self._most // 4))
        if objects:
            average = size / objects
            self._object_bytes = max(average, (self._object_bytes + average) / 2)

    def was_cut_off(self) -> None:
        """Take note of a page that fell silent, broke off or was too large."""
        self._most = max(1, self.limit // 2)


@dataclass(slots=True)
class Listing(Generic[T]):
    """What came of a list until now; epoch: of the server, as History counts."""

    epoch: int
    objects: list[T] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    token: str = ""

    def add(self, page: Page[T]) -> bool:
        """Take a page; return whether it was the last one."""
        self.objects += page.items
        self.unreadable += page.unreadable
        self.token = page.continue_token
        return not self.token
