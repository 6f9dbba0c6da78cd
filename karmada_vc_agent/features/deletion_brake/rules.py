"""Which deletions are too many at once, and what identifies a list of them (ADR 76)."""

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from karmada_vc_agent.config.settings import DeletionBrakeSettings
from karmada_vc_agent.model.domain import DOMAIN

RECORD_PREFIX = "deletions."
"""In the ConfigMap with the agent's state, then a virtual cluster: the record of what is held."""
CONFIRM_PREFIX = f"confirm-deletions.{DOMAIN}/"
"""On that ConfigMap, by an administrator, then a virtual cluster: which list, and what with it."""
KEEP = "keep "
"""Before the digest: delete the Works alone, and keep their objects on the host."""
_NAMED = 20
"""Works that a record names; those of all virtual clusters are in one ConfigMap."""


def is_too_much(limits: DeletionBrakeSettings, deleted: int, total: int) -> bool:
    """Return whether so many deletions are held; total: all objects, those deleted included."""
    return deleted >= limits.at_least and deleted > limits.share * total


@dataclass(frozen=True, slots=True)
class Deletion:
    """A Work that is being deleted; objects: how many of the host are deleted with it."""

    uid: str
    work: str
    objects: int


class Record(msgspec.Struct, frozen=True):
    """The held deletions of a virtual cluster, as recorded on the host.

    removed: objects deleted within the window before. objects: those held. total: all objects,
    removed ones included. works: names of some held Works.
    """

    digest: str
    removed: int
    objects: int
    total: int
    works: tuple[str, ...] = ()


def record_of(deletions: Iterable[Deletion], removed: int, total: int) -> Record:
    """Return the record of held deletions; Works without objects are in no list."""
    held = sorted((each for each in deletions if each.objects), key=lambda each: each.work)
    names = tuple(each.work for each in held[:_NAMED])
    return Record(digest_of(held), removed, count(held), total, names)


def read_record(text: str) -> Record | None:
    """Return a record; None if there is none, or a malformed one."""
    try:
        return msgspec.json.decode(text, type=Record) if text else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def state_path(namespace: str, agent: str) -> str:
    """Return the path of the ConfigMap with the agent's state."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{agent}-state"


def digest_of(deletions: Iterable[Deletion]) -> str:
    """Return the digest of a list, whatever its order."""
    uids = sorted(each.uid for each in deletions)
    return hashlib.sha256("\n".join(uids).encode()).hexdigest()[:16]


def count(deletions: Iterable[Deletion]) -> int:
    """Return how many objects are deleted."""
    return sum(each.objects for each in deletions)


class Recent:
    """The number of objects deleted within the window; times are monotonic seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._deleted: deque[tuple[float, int]] = deque()
        self._count = 0

    def add(self, objects: int, now: float) -> None:
        """Add deleted objects."""
        self._deleted.append((now, objects))
        self._count += objects

    def count(self, now: float) -> int:
        """Return how many there were."""
        while self._deleted and self._deleted[0][0] <= now - self._window_s:
            self._count -= self._deleted.popleft()[1]
        return self._count
