"""The trip of one Work through a whole agent: which files of ours run for it."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import karmada_vc_agent
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.vocabulary import execution_namespace
from tests.fakes import objects
from tests.fakes.virtual_time import VirtualTimeLoop
from tests.fuzz.served_ways import NEIGHBOUR, Field, field

_SOURCE = Path(karmada_vc_agent.__file__).parent
_WORK = f"/apis/work.karmada.io/v1alpha1/namespaces/{execution_namespace(NEIGHBOUR)}/works/web"
_ON_HOST = f"/apis/apps/v1/namespaces/shop-v-{NEIGHBOUR}/deployments/web"
_SETTLED_S = (60.0, 63.0, 67.0)
"""What an agent does at its start is over by then. What renews meanwhile, as Leases, is part of no
trip, and does not fall into all three."""
_STATUS = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2}


def files_of_a_trip() -> list[str]:
    """Return the files that run from the watch event of a Deployment Work to its last status."""
    trips = []
    for settled_s in _SETTLED_S:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            trips.append(runner.run(_trip(settled_s)))
    return sorted(set.intersection(*trips))


async def _trip(settled_s: float) -> set[str]:
    async with field() as running:
        await asyncio.sleep(settled_s)
        with _files() as files:
            running.hub.seed(objects.work(objects.deployment(ns="shop"), vc=NEIGHBOUR, name="web"))
            await running.until(lambda: running.host.find(_ON_HOST) is not None, "not applied")
            live = running.host.live(_ON_HOST)
            running.host.seed({**live, "status": _STATUS})
            await running.until(lambda: _is_reported(running), "no status on the hub")
        return files


def _is_reported(running: Field) -> bool:
    statuses = dig(running.hub.live(_WORK), "status", "manifestStatuses") or [{}]
    return bool(dig(statuses[0], "status", "readyReplicas") == 2)


@contextmanager
def _files() -> Iterator[set[str]]:
    """Collect the files of the agent in which a function is called meanwhile."""
    files: set[str] = set()
    source = f"{_SOURCE}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(source):
            files.add(name.removeprefix(source))

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
