"""A certificate is requested: approved although others write, waited for, and said why not."""

import asyncio
import base64
from typing import Any

import orjson
import pytest

from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.join_hub import POLL_S, SIGNING_S, request_certificate
from karmada_vc_agent.kube.certificates import SIGNING_REQUESTS_PATH
from karmada_vc_agent.kube.errors import ConflictError
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer

PATH = f"{SIGNING_REQUESTS_PATH}/agent-00000"
APPROVAL = f"{PATH}/approval"
PEM = base64.b64encode(b"PEM").decode()
USER = "system:karmada:agent:branches"


@pytest.fixture(autouse=True)
def _fixed_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "000000")


async def request(hub: FakeApiServer, *, approves: bool = True) -> tuple[Object, str]:
    return await request_certificate(hub.client("hub"), USER, "agent", 600, approves=approves)


def answer(hub: FakeApiServer, **status: Any) -> None:
    """Have the request read from now on with this status."""
    body = orjson.dumps({"metadata": {"name": "agent-00000"}, "status": status})
    hub.answer(body, path=PATH, times=10_000)


def condition(kind: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": "True", "message": message}


def sign(hub: FakeApiServer) -> None:
    answer(hub, certificate=PEM)


async def test_approval_that_meets_another_write_is_tried_again(hub: FakeApiServer) -> None:
    hub.fail(409, "Conflict", method="PUT", path=APPROVAL, times=3)
    hub.answer(b"{}", path=APPROVAL)
    asyncio.get_running_loop().call_later(2.0, sign, hub)
    user, name = await request(hub)
    assert (user["client-certificate-data"], name) == (PEM, "agent-00000")
    approvals = hub.asked("PUT", APPROVAL)
    assert len(approvals) == 4
    (approved,) = approvals[-1].body["status"]["conditions"]
    assert (approved["type"], approved["reason"]) == ("Approved", "KarmadaVcAgentJoin")


async def test_endless_conflicts_are_reported(hub: FakeApiServer) -> None:
    hub.fail(409, "Conflict", method="PUT", path=APPROVAL, times=99)
    with pytest.raises(ConflictError):
        await request(hub)
    assert len(hub.asked("PUT", APPROVAL)) == 5


async def test_what_is_approved_already_is_not_written(hub: FakeApiServer) -> None:
    answer(hub, conditions=[condition("Approved")], certificate=PEM)
    assert (await request(hub))[0]["client-certificate-data"] == PEM
    assert not hub.asked("PUT", APPROVAL)


async def test_signature_is_polled_until_it_is_there(hub: FakeApiServer) -> None:
    asyncio.get_running_loop().call_later(10.5, sign, hub)
    await request(hub, approves=False)
    assert len(hub.asked("GET", PATH)) == pytest.approx(10.5 / POLL_S, abs=1)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "it is not approved"),
        ({"conditions": [condition("Approved")]}, "although it is approved"),
    ],
)
async def test_missing_signature_is_reported_with_the_last_observation(
    hub: FakeApiServer, status: dict[str, Any], said: str
) -> None:
    answer(hub, **status)
    started = asyncio.get_running_loop().time()
    with pytest.raises(CommandError, match=rf"not signed within 60 s \({said}\)"):
        await request(hub, approves=False)
    assert asyncio.get_running_loop().time() - started == pytest.approx(SIGNING_S)


async def test_refusal_ends_the_wait(hub: FakeApiServer) -> None:
    answer(hub, conditions=[condition("Denied", "not this one")])
    with pytest.raises(CommandError, match="Denied: not this one"):
        await request(hub, approves=False)
