"""Operator: kopf in a thread of its own tells of objects, and holds those that are deleted."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial

import aiohttp
import pytest
from aiohttp import web

from karmada_vc_agent.features.objects.definitions import PATH, finalizer
from karmada_vc_agent.features.objects.operator import (
    Operator,
)
from karmada_vc_agent.kube.new_keys import serving_context
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.objects.conftest import BRANCH_A, virtual_cluster

FINALIZER = finalizer("karmada-vc-agent")
OBJECT = f"{PATH}/branch-a"
WITHIN_S = 20.0


class Recorder:
    """Records what the operator passes on, and in which thread."""

    def __init__(self) -> None:
        self.events: list[tuple[str | None, str]] = []
        self.steps: list[str] = []
        self.threads: set[str] = set()
        self.waits = "waits"

    def seen(self, kind: str | None, body: Object) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.append((kind, body["metadata"]["name"]))
        if "fault" in body["spec"]:
            raise RuntimeError("a bug")

    async def step(self, name: str) -> str:
        self.threads.add(threading.current_thread().name)
        self.steps.append(name)
        if len(self.steps) == 1:
            raise RuntimeError("a bug")
        return self.waits


class HangingRecorder(Recorder):
    """Never ends with the removal of objects whose names begin with `slow`."""

    async def step(self, name: str) -> str:
        if name.startswith("slow"):
            await asyncio.Event().wait()
        return ""


@asynccontextmanager
async def running(
    host: FakeApiServer, recorder: Recorder, serves: Callable[[str], bool] = lambda _: True
) -> AsyncIterator[asyncio.Task[None]]:
    at = partial(getattr, host.client(), "credentials")
    operator = Operator("karmada-vc-agent", at, recorder.seen, recorder.step, serves)
    task = asyncio.create_task(operator.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.05)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr("karmada_vc_agent.features.objects.operator.FAILED_PAUSE_S", 0.1)
    monkeypatch.setattr("karmada_vc_agent.features.objects.operator.DRAIN_PAUSE_S", 0.1)
    return Recorder()


async def test_existing_and_added_objects_are_notified(
    host: FakeApiServer, recorder: Recorder
) -> None:
    host.seed(virtual_cluster("branch-a"))
    async with running(host, recorder):
        await until(lambda: (None, "branch-a") in recorder.events)
        host.seed(virtual_cluster("branch-b", spec=BRANCH_A | {"fault": True}))
        host.seed(virtual_cluster("branch-c"))
        await until(lambda: ("ADDED", "branch-c") in recorder.events)
    assert recorder.threads == {threading.current_thread().name}


async def test_finalizer_is_all_that_is_written(host: FakeApiServer, recorder: Recorder) -> None:
    host.seed(virtual_cluster(finalizers=[]))
    async with running(host, recorder):
        await until(lambda: host.live(OBJECT)["metadata"].get("finalizers") == [FINALIZER])
        await until(lambda: ("MODIFIED", "branch-a") in recorder.events)
        host.change(OBJECT, spec=BRANCH_A | {"region": "north"})
        await until(lambda: recorder.events.count(("MODIFIED", "branch-a")) == 2)
    assert len(host.writes()) == 1
    assert not host.live(OBJECT)["metadata"].get("annotations")


async def test_deletion_waits_for_its_steps_and_outlives_a_fault(
    host: FakeApiServer, recorder: Recorder
) -> None:
    host.seed(virtual_cluster())
    async with running(host, recorder):
        await until(lambda: bool(recorder.events))
        host.mark_deleted(OBJECT)
        await until(lambda: len(recorder.steps) > 2)
        assert host.find(OBJECT)
        recorder.waits = ""
        await until(lambda: host.find(OBJECT) is None)
        await until(lambda: ("DELETED", "branch-a") in recorder.events)


async def test_deletion_that_was_marked_before_continues(
    host: FakeApiServer, recorder: Recorder
) -> None:
    host.seed(virtual_cluster())
    host.mark_deleted(OBJECT)
    recorder.waits = ""
    async with running(host, recorder):
        await until(lambda: host.find(OBJECT) is None)


async def test_an_object_that_hangs_holds_up_no_other_one(host: FakeApiServer) -> None:
    """All there is of some hangs, as where all their requests to the host do."""
    recorder, many = HangingRecorder(), [f"slow-{number}" for number in range(40)]
    host.seed(*(virtual_cluster(name) for name in (*many, "branch-a")))
    for name in (*many, "branch-a"):
        host.mark_deleted(f"{PATH}/{name}")
    async with running(host, recorder):
        await until(lambda: host.find(OBJECT) is None)
        assert all(host.find(f"{PATH}/{name}") for name in many)
        host.seed(virtual_cluster("branch-b"))
        await until(lambda: ("ADDED", "branch-b") in recorder.events)


async def test_requests_for_some_objects_that_hang_hold_up_no_other_one(
    host: FakeApiServer, recorder: Recorder
) -> None:
    many = [f"slow-{number}" for number in range(120)]  # aiohttp has 100 connections by itself
    released = [host.hold("PATCH", f"{PATH}/{name}", 100) for name in many]
    host.seed(*(virtual_cluster(name, finalizers=[]) for name in many))
    async with running(host, recorder):
        await until(lambda: sum(request.method == "PATCH" for request in host.requests) >= 120)
        host.seed(virtual_cluster(finalizers=[]))
        await until(lambda: host.live(OBJECT)["metadata"].get("finalizers") == [FINALIZER])
    for each in released:
        each.set()


async def test_operator_ends_when_it_is_cancelled(host: FakeApiServer, recorder: Recorder) -> None:
    host.seed(virtual_cluster())
    async with running(host, recorder) as task:
        await until(lambda: bool(recorder.events))
    assert task.cancelled()
    names = [thread.name for thread in threading.enumerate()]
    await until(lambda: "virtual cluster objects" not in [t.name for t in threading.enumerate()])
    assert names


async def test_object_of_another_agent_is_left_alone(
    host: FakeApiServer, recorder: Recorder
) -> None:
    labels = {"virtualcluster.kubeedge.io/agent": "another"}
    theirs = finalizer("another")
    host.seed(virtual_cluster("branch-b", labels=labels, finalizers=[theirs]))
    host.seed(virtual_cluster("branch-a", finalizers=[]))
    async with running(host, recorder):
        await until(lambda: host.live(OBJECT)["metadata"].get("finalizers") == [FINALIZER])
        host.mark_deleted(f"{PATH}/branch-b")
        await until(lambda: ("MODIFIED", "branch-b") in recorder.events)
    assert host.live(f"{PATH}/branch-b")["metadata"]["finalizers"] == [theirs]
    assert recorder.steps == []


async def test_host_is_requested_by_all_settings_of_its_kubeconfig(recorder: Recorder) -> None:
    """Its certificate is for tls-server-name, and not for the address that it is reached by."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.headers["Authorization"])
        return web.json_response({"gitVersion": "v1"})

    listener = await asyncio.get_running_loop().create_server(
        web.Server(answer, access_log=None), "127.0.0.2", 0, ssl=serving_context()
    )
    address = listener.sockets[0].getsockname()[:2]
    trusted = await asyncio.to_thread(ssl.get_server_certificate, address)
    named = Credentials(
        f"https://127.0.0.2:{address[1]}",
        ssl.create_default_context(cadata=trusted),
        "test",
        token=lambda: "secret",
        server_hostname="karmada-vc-agent",
    )
    for credentials, is_trusted in (named, True), (replace(named, server_hostname=None), False):
        operator = Operator(
            "karmada-vc-agent", partial(copy, credentials), recorder.seen, recorder.step
        )
        session = (await operator.login()).aiohttp_session
        async with session:
            if is_trusted:
                async with session.get(f"{credentials.server}/version") as response:
                    assert (await response.json())["gitVersion"] == "v1"
            else:
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await session.get(f"{credentials.server}/version")
    assert asked == ["Bearer secret"]
    listener.close()


async def test_finalizer_of_what_another_process_serves_is_neither_added_nor_removed(
    host: FakeApiServer, recorder: Recorder
) -> None:
    host.seed(virtual_cluster("branch-a"), virtual_cluster("branch-b", finalizers=[]))
    async with running(host, recorder, lambda name: name == "own"):
        await until(lambda: {(None, "branch-a"), (None, "branch-b")} <= {*recorder.events})
        host.change(OBJECT, spec=BRANCH_A | {"region": "north"})
        await until(lambda: ("MODIFIED", "branch-a") in recorder.events)
        host.mark_deleted(OBJECT)
        await until(lambda: len(recorder.steps) > 2)
        host.remove(OBJECT)
        recorder.waits = ""
        await until(lambda: ("DELETED", "branch-a") in recorder.events)
        host.seed(virtual_cluster("own", finalizers=[]))
        await until(lambda: host.live(f"{PATH}/own")["metadata"].get("finalizers") == [FINALIZER])
    assert {each.path for each in host.writes()} <= {f"{PATH}/own", OBJECT}
    assert host.find(OBJECT) is None
