"""LogOnce: a lasting state is one line."""

import logging

import pytest

from karmada_vc_agent.kube.flows import LogOnce

_log = logging.getLogger(__name__)


def test_same_message_for_the_same_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    once = LogOnce(_log)
    for attempt, reason in enumerate(("a", "a", "b", "a")):
        once.warning("Waiting", reason=reason, attempt=attempt)
    assert [vars(record)["attempt"] for record in caplog.records] == [0, 2, 3]


def test_state_that_ended_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    once = LogOnce(_log)
    once.error("Waiting")
    once.ended()
    once.error("Waiting")
    assert len(caplog.records) == 2


def test_each_thing_has_a_state_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    once = LogOnce(_log)
    for about in ("a", "b", "a"):
        once.warning("Waiting", about=about)
    once.ended("a")
    once.warning("Waiting", about="a")
    once.warning("Waiting", about="b")
    assert len(caplog.records) == 3


def test_bug_is_logged_with_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    once = LogOnce(_log)
    for _ in range(2):
        once.bug("Failing", ValueError("x"))
    (record,) = caplog.records
    assert record.exc_info is not None
