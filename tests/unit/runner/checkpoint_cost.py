"""What the checkpoint of so many Works costs: `python -m tests.unit.runner.checkpoint_cost`.

CPU is measured first, and memory in a second run, since tracing costs CPU.
"""

import argparse
import asyncio
import base64
import random
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import cast

from karmada_vc_agent.features.checkpoint.reader import Expected, read
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.checkpoint.checkpoint_scene import TEMPLATE, Scene

BYTES_A_WORK = 3000
"""Of base64; with the rest of a Work 3.4 kB of JSON."""


class _Host:
    """Keeps Secrets, and costs next to nothing."""

    def __init__(self) -> None:
        self.secrets: dict[str, Object] = {}
        self.writes = 0

    async def get(self, path: str) -> Object:
        if path not in self.secrets:
            raise NotFoundError(404, "NotFound", path)
        return self.secrets[path]

    async def create(self, path: str, obj: Object) -> Object:
        return self._put(f"{path}/{obj['metadata']['name']}", obj)

    async def merge_patch(self, path: str, patch: Object) -> Object:
        old = self.secrets[path]
        data = {key: text for key, text in {**old["data"], **patch["data"]}.items() if text}
        return self._put(path, {**old, "data": data})

    def _put(self, path: str, obj: Object) -> Object:
        self.writes += 1
        version = str(self.writes)
        self.secrets[path] = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
        return self.secrets[path]

    def data(self) -> list[dict[str, str]]:
        return [secret["data"] for secret in self.secrets.values()]

    def size(self) -> int:
        return sum(len(text) for each in self.data() for text in each.values())


async def _look(
    works: int, tell: Callable[[str, _Host, Callable[[], Awaitable[None]]], Awaitable[None]]
) -> None:
    """Write so many Works, then one that changed, then read all as a start does."""
    host, chance = _Host(), random.Random(1)  # noqa: S311 - no secret
    scene = Scene(FakeApiServer(), cast("ApiClient", host))

    def put(number: int, generation: int = 1) -> None:
        text = base64.b64encode(chance.randbytes(BYTES_A_WORK * 3 // 4)).decode()
        scene.work(f"work-{number}", text=text, generation=generation)

    async def start() -> None:
        found = read(host.data(), Expected(TEMPLATE, {})).works("branch-a")
        if len(found) < works:
            _say(f"{works - len(found)} Works find no room")

    for number in range(works):
        put(number)
    await tell("all written", host, scene.write)
    put(0, generation=2)
    await tell("one changed", host, scene.write)
    await tell("none changed", host, scene.write)
    await tell("read at a start", host, start)


async def _print_cpu(what: str, host: _Host, act: Callable[[], Awaitable[None]]) -> None:
    begun, writes = time.process_time(), host.writes
    await act()
    took_ms = (time.process_time() - begun) * 1000
    _say(f"{what:16} {took_ms:6.0f} ms of CPU, {host.writes - writes} requests")


async def _print_memory(what: str, host: _Host, act: Callable[[], Awaitable[None]]) -> None:
    """Say what the agent keeps; what lies in the Secrets does not count."""
    before, stored = tracemalloc.get_traced_memory()[0], host.size()
    tracemalloc.reset_peak()
    await act()
    held, peak = tracemalloc.get_traced_memory()
    grown = host.size() - stored
    mb = [(each - before - grown) / 1e6 for each in (held, peak)]
    _say(
        f"{what:16} {mb[0]:6.1f} MB kept, {mb[1]:.1f} MB at most; {host.size() / 1e6:.1f} MB saved"
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", type=int, default=1000)
    given = parser.parse_args()
    asyncio.run(_look(given.works, _print_cpu))
    tracemalloc.start()
    asyncio.run(_look(given.works, _print_memory))
