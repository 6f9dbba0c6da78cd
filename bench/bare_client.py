"""A client that sends what an agent sent, and does nothing else: what servers and wire cost.

An agent's writes are read from the audit logs, and copied: under names of its own, with what the
objects hold afterwards. A status is written by a merge patch, whatever the agent did; that of a
Cluster once it has Karmada's finalizer, for which each agent must wait (docs/contract.md 2).
"""

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import aiohttp
import msgspec
import orjson

from bench.audit import BARE, Sent
from bench.lab import ROOT, Lab
from bench.measurements import LIST_BYTES, WRITERS, in_turns
from bench.session import Session
from bench.works import Object
from e2e.lab.audit import Target
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig
from karmada_vc_agent.model.vocabulary import CLUSTER_FINALIZER

METHODS = {"update": "PATCH", "patch": "PATCH", "delete": "DELETE"}
"""Of what is no creation."""
MERGE = "application/merge-patch+json"
AGAIN_S = 0.01
_OF_SERVER = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)


class Request(msgspec.Struct, frozen=True):
    """One request; server: hub or host."""

    server: str
    method: str
    path: str
    body: msgspec.Raw


Chain = list[Request]
"""Requests that wait for each other."""


class Task(msgspec.Struct):
    """What the process of the client sends. servers: hub and host, to their kubeconfigs."""

    servers: dict[str, str]
    waves: list[list[Chain]]


class BareRun(msgspec.Struct, frozen=True):
    """How long all took, and the CPU of the client."""

    requests: int
    seconds: float
    cpu_s: float


async def copies(
    session: Session, sent: list[Sent], rename: Callable[[str], str] | None = None
) -> list[tuple[Sent, Request]]:
    """Return what an agent sent, oldest first, each with its copy.

    What was deleted since is left out, and reviews of access, which are no objects.
    """
    objects = [each for each in sent if not each.write.target.plural.endswith("reviews")]
    sent = named(objects)
    live: dict[tuple[str, Target], Object] = {}
    for server, collection, plural in sorted({_collection(each) for each in sent}):
        listed = await (session.hub if server == "hub" else session.host).get(
            collection, most_bytes=LIST_BYTES
        )
        head = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        for item in listed["items"]:
            of = item["metadata"]
            live[server, Target(plural, of.get("namespace", ""), of["name"])] = head | item
    ordered = sorted(sent, key=lambda each: each.write.at)
    return [
        (each, copy(each, live[key], rename))
        for each in ordered
        if (key := (each.server, _target(each))) in live
    ]


def named(sent: Iterable[Sent]) -> list[Sent]:
    """Give creations without a name, as of an aggregated API, those of what was written later.

    Those that nothing was written to later are left out.
    """
    sent = list(sent)
    rest: dict[tuple[str, str], list[Target]] = {}
    for each in sent:
        target = each.write.target
        targets = rest.setdefault((each.server, target.plural), [])
        if target.name and target not in targets:
            targets.append(target)
    result = []
    for each in sent:
        target = each.write.target
        if each.write.verb != "create" or target.name:
            result.append(each)
        elif targets := rest[each.server, target.plural]:
            write = replace(each.write, target=targets.pop(0))
            result.append(each._replace(write=write))
    return result


def _target(sent: Sent) -> Target:
    # The audit names a Namespace as the namespace of itself.
    plural, namespace, name = sent.write.target
    return Target(plural, "" if plural == "namespaces" else namespace, name)


def _collection(sent: Sent) -> tuple[str, str, str]:
    plural = sent.write.target.plural
    head, _, _ = sent.write.path.partition("?")[0].rpartition(f"/{plural}")
    return sent.server, f"{head}/{plural}", plural


def copy(sent: Sent, live: Object, rename: Callable[[str], str] | None) -> Request:
    """Return the request that writes what an agent wrote to an object of other names.

    live: the object as it is now. rename: None for the same names on another server.
    """
    write = sent.write
    original = write.path.partition("?")[0]
    renamed = rename or str
    path = renamed(original)
    if write.subresource == "status":
        body: Object = {"status": live.get("status", {})}
        return Request(sent.server, "PATCH", path, _raw(body, renamed))
    if write.verb == "create":
        metadata = {k: v for k, v in live["metadata"].items() if k not in _OF_SERVER}
        metadata.pop("finalizers", None)  # nobody would remove them
        if rename and path == original and rename(metadata["name"]) == metadata["name"]:
            metadata["name"] = f"bare-{metadata['name']}"
        body = {**{k: v for k, v in live.items() if k != "status"}, "metadata": metadata}
        return Request(sent.server, "POST", path, _raw(body, renamed))
    at = {"metadata": {"annotations": {"bench-bare": write.at.isoformat()}}}
    return Request(sent.server, METHODS[write.verb], path, msgspec.Raw(orjson.dumps(at)))


def _raw(body: Object, rename: Callable[[str], str]) -> msgspec.Raw:
    return msgspec.Raw(rename(orjson.dumps(body).decode()).encode())


async def send(lab: Lab, waves: list[list[Chain]]) -> BareRun:
    """Send all in a process of its own: chains of a wave at once, wave after wave."""
    task = Task({name: str(lab.kubeconfig(name)) for name in ("hub", "host")}, waves)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.bare_client"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await child.communicate(msgspec.json.encode(task))
    if child.returncode:
        raise RuntimeError(f"the bare client ended, code {child.returncode}")
    return msgspec.json.decode(answer, type=BareRun)


async def run(task: Task) -> BareRun:
    """Send all; what `send` runs in a process of its own."""
    credentials = {n: read_kubeconfig(Path(path)) for n, path in task.servers.items()}
    sessions = {
        name: aiohttp.ClientSession(
            each.server,
            connector=aiohttp.TCPConnector(limit=WRITERS, ssl=each.ssl_context or True),
            headers={"User-Agent": BARE, "Accept": "application/json"},
        )
        for name, each in credentials.items()
    }
    accepted = Accepted()
    follows = any(accepted.concerns(one) for wave in task.waves for chain in wave for one in chain)
    used_s, begin = time.process_time(), time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(accepted.follow(sessions["hub"]))] if follows else []
            for wave in task.waves:
                await in_turns((_send_chain(sessions, chain, accepted) for chain in wave), WRITERS)
            for each in following:
                each.cancel()
    finally:
        for session in sessions.values():
            await session.close()
    requests = sum(len(chain) for wave in task.waves for chain in wave)
    return BareRun(requests, time.monotonic() - begin, time.process_time() - used_s)


class Accepted:
    """The Clusters that have Karmada's finalizer."""

    def __init__(self) -> None:
        self._by_path: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def concerns(self, request: Request) -> bool:
        """Return whether it is the status of a Cluster."""
        return request.path.startswith(f"{CLUSTERS_PATH}/") and request.path.endswith("/status")

    async def follow(self, hub: aiohttp.ClientSession) -> None:
        """Watch all Clusters, until it is cancelled: servers end watches that do not keep up."""
        form = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        while True:
            await asyncio.sleep(AGAIN_S)
            async with hub.get(
                f"{CLUSTERS_PATH}?watch=true&resourceVersion=0",
                headers={"Accept": form},
                timeout=aiohttp.ClientTimeout(total=None),
                raise_for_status=True,
            ) as answer:
                async for line in answer.content:
                    metadata = orjson.loads(line)["object"]["metadata"]
                    if CLUSTER_FINALIZER in metadata.get("finalizers", ()):
                        self._by_path[f"{CLUSTERS_PATH}/{metadata['name']}/status"].set()

    async def wait(self, request: Request) -> None:
        """Return once the Cluster of a status has it."""
        if self.concerns(request):
            await self._by_path[request.path].wait()


async def _send_chain(
    sessions: dict[str, aiohttp.ClientSession], chain: Chain, accepted: Accepted
) -> None:
    for one in chain:
        await accepted.wait(one)
        headers = {"Content-Type": MERGE if one.method == "PATCH" else "application/json"}
        session = sessions[one.server]
        async with session.request(
            one.method, one.path, data=bytes(one.body), headers=headers
        ) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{one.method} {one.path}: {answer.status} {text[:300]!r}")


if __name__ == "__main__":
    done = asyncio.run(run(msgspec.json.decode(sys.stdin.buffer.read(), type=Task)))
    sys.stdout.buffer.write(msgspec.json.encode(done))
