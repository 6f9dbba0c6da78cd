"""Waits for the first lists of all that is watched, and names those that are missing."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from karmada_vc_agent.kube.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a resource is not followed, and since when, in seconds of the loop."""

    reason: str
    since: float

    def lasts_s(self) -> float:
        """Return for how long."""
        return asyncio.get_running_loop().time() - self.since


class Lists(Protocol):
    """What lists and watches a path, whole or in part."""

    path: str
    store: Store[Any]

    async def run(self) -> None:
        """List and watch until cancelled."""

    @property
    def is_synced(self) -> bool:
        """Whether the first list is complete."""

    @property
    def trouble(self) -> Trouble | None:
        """Why the last response was no good list or watch, None if it was one."""

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""


async def wait_all_synced(reflectors: Sequence[Lists], timeout_s: float) -> None:
    """Wait for all first lists; each `timeout_s` log which are missing, and continue."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for reflector in reflectors:
                    await reflector.wait_synced()
                return
        missing = ",".join(unlisted(reflectors))
        _log.warning("Waiting for the first lists", extra={"paths": missing})


def not_listed(path: str, reason: str) -> str:
    """Return the words for a server that answers, and does not list a collection."""
    return f"no API server lists {path}: {reason}"


def unlisted(reflectors: Iterable[Lists]) -> list[str]:
    """Return the paths whose first list has not come yet."""
    return [reflector.path for reflector in reflectors if not reflector.is_synced]
