"""Logs: one line a message, as text or JSON."""

import json
import logging
from collections.abc import Iterator

import pytest

from karmada_vc_agent.telemetry.logs import start_logging


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Give the root logger back as it was."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:], logger.level = handlers, level
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def test_text_is_the_message_then_pairs_quoted_where_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging("info", "text")
    logging.getLogger("x").info("Backing off", extra={"key": "a/b", "reason": 'no "such" thing'})
    assert last_line(capsys).endswith(r'Z INFO    Backing off key=a/b reason="no \"such\" thing"')


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("info", "json")
    try:
        json.loads("no JSON")
    except json.JSONDecodeError:
        logging.getLogger("x").exception("Failed to reconcile", extra={"key": "a"})
    line = json.loads(last_line(capsys))
    assert (line["level"], line["msg"], line["key"]) == ("error", "Failed to reconcile", "a")
    assert "json.decoder.JSONDecodeError: " in line["exception"]
    assert line["ts"].endswith("+00:00")


def test_what_is_below_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("warning", "text")
    logging.getLogger("x").info("Serving")
    assert capsys.readouterr().err == ""
