"""Bugs: a fault of ours ends at its manifest; what servers say goes on to whoever asked."""

import asyncio

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.work import targets
from karmada_vc_agent.work.targets import Bugs
from tests.fakes import objects

MANIFEST = objects.config_map()


def test_fault_of_ours_becomes_a_problem_that_names_nothing_of_the_host() -> None:
    with Bugs().guard("karmada-es-branch-a/web", MANIFEST) as guard:
        raise TypeError("host-secret")
    assert guard.problem.startswith("internal error (TypeError)")
    assert "host-secret" not in guard.problem


@pytest.mark.parametrize(
    "error", [UnreachableError("away"), RetryError("later"), asyncio.CancelledError()]
)
def test_what_is_no_fault_of_ours_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), Bugs().guard("a/b", MANIFEST):
        raise error


def test_fault_is_logged_once_with_its_manifest(caplog: pytest.LogCaptureFixture) -> None:
    bugs = Bugs()
    for _ in range(2):
        with bugs.guard("karmada-es-branch-a/web", MANIFEST):
            raise TypeError
    assert [r.__dict__["where"] for r in caplog.records] == [
        "karmada-es-branch-a/web ConfigMap edge/settings"
    ]


def test_without_a_fault_there_is_no_problem() -> None:
    with Bugs().guard("a/b", MANIFEST) as guard:
        pass
    assert guard.problem == ""


def test_fault_that_comes_again_and_again_is_not_logged_anew_for_others_that_come(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_REMEMBERED", 2)
    bugs = Bugs()
    for where in ("a", "b", "a", "c", "a", "b"):
        bugs.note(where, TypeError())
    assert [r.__dict__["where"] for r in caplog.records] == ["a", "b", "c", "b"]
