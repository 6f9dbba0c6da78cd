"""Logs: one line a message, as text or JSON."""

import ast
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import karmada_vc_agent
from karmada_vc_agent.telemetry.endpoints import start_logging


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Give the root logger back as it was."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    logging.captureWarnings(capture=False)  # another test may have started logging, too
    yield
    logger.handlers[:], logger.level = handlers, level
    logging.captureWarnings(capture=False)
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return _lines(capsys)[-1]


def test_text_is_the_message_then_pairs_quoted_where_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging("info", "text")
    logging.getLogger("x").info("Backing off", extra={"key": "a/b", "reason": 'no "such" thing'})
    expected = r'Z INFO    Backing off | key=a/b reason="no \"such\" thing"'
    assert last_line(capsys).endswith(expected)


def test_text_without_fields_has_no_separator(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("info", "text")
    logging.getLogger("x").info("Stopping")
    assert last_line(capsys).endswith("Z INFO    Stopping")


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("info", "json")
    try:
        json.loads("no JSON")
    except json.JSONDecodeError:
        logging.getLogger("x").exception("Failed to reconcile", extra={"key": "a", "away_s": 1.5})
    line = json.loads(last_line(capsys))
    assert (line["level"], line["msg"], line["key"]) == ("error", "Failed to reconcile", "a")
    assert line["away_s"] == 1.5
    assert "json.decoder.JSONDecodeError: " in line["exception"]
    assert line["ts"].endswith("+00:00")


@pytest.mark.filterwarnings("default")
def test_lines_of_libraries_are_json_whatever_they_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging("info", "json")
    circle: list[object] = []
    circle.append(circle)
    fields = {"settings": object(), "level": 7, "number": float("nan"), "of": {1: b"\xff"}}
    logging.getLogger("kopf.reactor").warning("two\nlines %s", "\x00\ud800", extra=fields)
    logging.getLogger("aiohttp.access").info("%s", circle, extra={"circle": circle})
    logging.getLogger("asyncio").error("Task failed", stack_info=True)
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    lines = [json.loads(each, parse_constant=pytest.fail) for each in _lines(capsys)]
    assert [each["msg"] for each in lines[:3]] == [
        "two\nlines \x00\ud800",
        "[[...]]",
        "Task failed",
    ]
    assert "DeprecationWarning: old" in lines[3]["msg"]
    assert lines[0]["level"] == "warning"


def test_what_is_below_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("warning", "text")
    logging.getLogger("x").info("Serving")
    assert capsys.readouterr().err == ""


def test_no_log_line_names_a_field_that_each_record_has() -> None:
    """logging refuses such a line where it is made, which ends whoever wanted to say it."""
    taken = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    clashes = {
        f"{path.name}:{key.lineno} {key.value}"
        for path in Path(karmada_vc_agent.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword)
        and node.arg == "extra"
        and isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if isinstance(key, ast.Constant) and key.value in taken
    }
    assert clashes == set()
