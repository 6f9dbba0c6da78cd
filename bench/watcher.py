"""When things happened, seen from outside: watches on hub and hosts with one clock.

Only the few fields that make a milestone are decoded, so that watching a burst takes little
of the machine that it measures.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from enum import Enum

import msgspec

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.vocabulary import cluster_of_execution_namespace
from karmada_vc_agent.work.work_watches import ALL_WORKS_PATH

AGAIN_S = 0.1
Subject = tuple[str, str]
"""Cluster, and the name that a Work and its object share."""


class Milestone(Enum):
    """What is waited for."""

    ON_HUB = "on hub"
    ON_HOST = "on host"
    CHANGED = "changed on hub"
    APPLIED = "applied"
    HEALTHY = "healthy"
    GONE = "gone"


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    generation: int = 0


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Entry(msgspec.Struct):
    health: str = ""


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    manifest_statuses: list[_Entry] = msgspec.field(default_factory=list)


class _Work(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _WorkEvent(msgspec.Struct):
    type: str
    object: _Work


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ObjectEvent(msgspec.Struct):
    type: str
    object: _Object


@asynccontextmanager
async def _again() -> AsyncIterator[None]:
    """Say why a watch failed, before it is opened again."""
    try:
        yield
    except (KubeError, msgspec.ValidationError) as error:  # an ERROR has a Status, which is no Work
        print(f"hack/bench: a watch is opened again: {error}", file=sys.stderr, flush=True)
    await asyncio.sleep(AGAIN_S)


class Watcher:
    """Remembers when each subject first reached each milestone, in seconds of `time.monotonic`."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Subject, Milestone], float] = {}
        self._waiting: list[tuple[set[tuple[Subject, Milestone]], asyncio.Event]] = []

    async def wait(
        self, subjects: Iterable[Subject], milestone: Milestone, timeout_s: float = 600.0
    ) -> float:
        """Wait until all reached a milestone; return when the last did. Raises TimeoutError."""
        wanted = [(subject, milestone) for subject in subjects]
        missing = {key for key in wanted if key not in self._seen}
        if missing:
            reached = asyncio.Event()
            self._waiting.append((missing, reached))
            try:
                await asyncio.wait_for(reached.wait(), timeout_s)
            except TimeoutError:
                raise TimeoutError(
                    f"{len(missing)} not {milestone.value}: {min(missing)}"
                ) from None
            finally:
                self._waiting.remove((missing, reached))
        return max(self._seen[key] for key in wanted)

    async def watch_works(self, hub: ApiClient) -> None:
        """Follow all Works until cancelled."""
        decoder = msgspec.json.Decoder(_WorkEvent)
        while True:
            # A watch that ends, or that was silent for too long, starts over with what there is.
            async with _again():
                async for line in hub.watch(ALL_WORKS_PATH, {}):
                    self._note_work(decoder.decode(line))

    def _note_work(self, event: _WorkEvent) -> None:
        of_work, status = event.object.metadata, event.object.status
        subject = (cluster_of_execution_namespace(of_work.namespace) or "", of_work.name)
        self.mark(subject, Milestone.ON_HUB)
        if event.type == "DELETED":
            self.mark(subject, Milestone.GONE)
        if of_work.generation > 1:
            self.mark(subject, Milestone.CHANGED)
        if any(c.type == "Applied" and c.status == "True" for c in status.conditions):
            self.mark(subject, Milestone.APPLIED)
        if any(entry.health == "Healthy" for entry in status.manifest_statuses):
            self.mark(subject, Milestone.HEALTHY)

    async def watch_objects(self, host: ApiClient, path: str, cluster: str) -> None:
        """Follow objects of the host that belong to Works of a cluster until cancelled."""
        decoder = msgspec.json.Decoder(_ObjectEvent)
        while True:
            async with _again():
                async for line in host.watch(path, {}):
                    event = decoder.decode(line)
                    self.mark((cluster, event.object.metadata.name), Milestone.ON_HOST)

    def mark(self, subject: Subject, milestone: Milestone) -> None:
        """Note that a subject reached a milestone now, unless it did before."""
        key = (subject, milestone)
        if key in self._seen:
            return
        self._seen[key] = time.monotonic()
        for missing, reached in self._waiting:
            missing.discard(key)
            if not missing:
                reached.set()
