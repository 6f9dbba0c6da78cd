"""Bugs: a fault of ours ends at its manifest; what servers say is raised."""

import asyncio
import logging

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.work import reporting
from karmada_vc_agent.work.reporting import Failure, WorkManifest, note_bug, unless_bug
from tests.fakes import objects

ITEM = WorkManifest(objects.virtual_cluster(), objects.config_map(), "karmada-es-branch-a/web")


@pytest.fixture(autouse=True)
def _nothing_logged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "_once", LogOnce(logging.getLogger(reporting.__name__), 2))


async def ends_with(error: BaseException | None) -> str:
    if error is not None:
        raise error
    return "done"


async def test_fault_of_ours_becomes_a_failure_that_names_nothing_of_the_host() -> None:
    failure = await unless_bug(ITEM, ends_with(TypeError("host-secret")))
    assert isinstance(failure, Failure)
    assert failure.text.startswith("internal error (TypeError)")
    assert "host-secret" not in failure.text


@pytest.mark.parametrize(
    "error", [UnreachableError("away"), RetryError("later"), asyncio.CancelledError()]
)
async def test_what_is_no_fault_of_ours_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await unless_bug(ITEM, ends_with(error))


async def test_fault_is_logged_once_with_its_manifest(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        await unless_bug(ITEM, ends_with(TypeError()))
    assert [r.__dict__["where"] for r in caplog.records] == [
        "karmada-es-branch-a/web ConfigMap edge/settings"
    ]


async def test_without_a_fault_there_is_the_result() -> None:
    assert await unless_bug(ITEM, ends_with(None)) == "done"


def test_repeated_fault_is_not_logged_again_when_others_arrive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for where in ("a", "b", "a", "c", "a", "b"):
        note_bug(where, TypeError())
    assert [r.__dict__["where"] for r in caplog.records] == ["a", "b", "c", "b"]
