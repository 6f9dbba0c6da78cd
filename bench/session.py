"""What a bench runs in: control planes, clients of their API servers, and who watches them."""

import asyncio
import os
import platform
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from bench.audit import Requests
from bench.lab import ROOT, Lab
from bench.measurements import Bench
from bench.watcher import Watcher
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig
from karmada_vc_agent.kube.transport import Timeouts

T = TypeVar("T")
TIMEOUTS = Timeouts(connect_s=60, silence_s=300, request_s=600)
"""While it brings a namespace to 5,000 Clusters, a hub may not answer for a minute."""


@dataclass(frozen=True, slots=True)
class Session:
    """One hub and one host that keep audit logs, seen from outside."""

    lab: Lab
    hub: ApiClient
    host: ApiClient
    watcher: Watcher
    bench: Bench
    requests: Requests


@asynccontextmanager
async def open_session(lab: Lab) -> AsyncIterator[Session]:
    """Watch all Works of the hub for the time of a block."""
    async with client(lab, "hub") as hub, client(lab, "host") as host:
        watcher = Watcher()
        requests = Requests(lab.directory / "logs")
        async with asyncio.TaskGroup() as group:  # a watch that fails ends the bench
            watch = group.create_task(watcher.watch_works(hub))
            yield Session(lab, hub, host, watcher, Bench(hub, watcher), requests)
            watch.cancel()


def client(lab: Lab, name: str) -> ApiClient:
    """Return a client of hub or host."""
    credentials = read_kubeconfig(lab.kubeconfig(name))
    return ApiClient(name, credentials, connections=32, user_agent="bench", timeouts=TIMEOUTS)


async def describe(session: Session) -> dict[str, str]:
    """Return what one must know of machine and versions."""
    return machine_of((await session.hub.get("/version"))["gitVersion"])


def machine_of(kubernetes: str) -> dict[str, str]:
    """Return the same for the version of the API servers."""
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": revision(),
        "cores": str(os.cpu_count()),
        "load average at the start": f"{os.getloadavg()[0]:.1f}",
        "Kubernetes": kubernetes,
        "Python": platform.python_version(),
        "watched with": loop,
    }


def revision() -> str:
    """Return the short id of the commit that is measured."""
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or "unknown"


def say(text: str) -> None:
    """Print a line of progress to stderr."""
    print(f"hack/bench: {text}", file=sys.stderr, flush=True)


async def ending(measuring: Coroutine[Any, Any, T]) -> T:
    """Await a measurement; one that is ended must end the agents in order."""
    task = asyncio.ensure_future(measuring)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
