"""TokenFile: a token that somebody else renews, well or badly."""

from pathlib import Path

import pytest

from karmada_vc_agent.kube.kubeconfig import TOKEN_REREAD_S, TOKEN_RETRY_S, _TokenFile
from tests.fakes.virtual_time import Clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def test_token_is_read_again_after_a_minute(path: Path) -> None:
    clock = Clock()
    token = _TokenFile(path, clock)
    assert token() == "first"
    path.write_text("second")
    assert token() == "first"
    clock.advance(TOKEN_REREAD_S)
    assert token() == "second"


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff\xfe", b"a\r\nb", b"\0"])
def test_file_that_holds_no_token_leaves_the_last_good_one_and_is_read_soon(
    path: Path, content: bytes
) -> None:
    clock = Clock()
    token = _TokenFile(path, clock)
    token()
    path.write_bytes(content)
    clock.advance(TOKEN_REREAD_S)
    assert token() == "first"
    path.write_text("second")
    clock.advance(TOKEN_RETRY_S)
    assert token() == "second"


def test_file_without_a_first_token_is_an_error_of_the_file(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(OSError, match="contains no token"):
        _TokenFile(path)()


def test_token_that_the_server_does_not_know_is_read_soon(path: Path) -> None:
    clock = Clock()
    token = _TokenFile(path, clock)
    token()
    path.write_text("second")
    token.suspect()
    clock.advance(TOKEN_RETRY_S)
    assert token() == "second"
