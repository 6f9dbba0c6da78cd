"""Waits for the first lists of all that is watched, and names those that are missing."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from karmada_vc_agent.kube.named_reflector import NamedReflector
from karmada_vc_agent.kube.reflector import Reflector

_log = logging.getLogger(__name__)


Lists = Reflector[Any] | NamedReflector[Any]
"""A reflector of a path, whole or in part."""


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
