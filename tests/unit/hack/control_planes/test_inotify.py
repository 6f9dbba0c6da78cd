"""A set starts once there is room for its inotify instances, and says what it waits for."""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_planes import inotify
from control_planes.errors import ControlPlanesError


@pytest.fixture
def instance() -> Iterator[int]:
    descriptor = ctypes.CDLL(None).inotify_init()
    yield descriptor
    os.close(descriptor)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "_POLL_S", 0.0)


class Kernel:
    """So many instances are in use at each look, the last number from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int, *used: int) -> None:
        self._used = list(used)
        monkeypatch.setattr(inotify, "limit", lambda: limit)
        monkeypatch.setattr(inotify, "used", self.look)

    def look(self) -> int:
        return self._used.pop(0) if len(self._used) > 1 else self._used[0]


def test_own_instances_are_counted(tmp_path: Path, instance: int) -> None:
    (tmp_path / "self").symlink_to("/proc/self")
    (tmp_path / "12").symlink_to(f"/proc/{os.getpid()}")
    (tmp_path / "13").symlink_to("/proc/nobody")
    before = inotify.used(tmp_path)
    second = ctypes.CDLL(None).inotify_init()
    assert before >= 1
    assert inotify.used(tmp_path) == before + 1
    os.close(second)


def test_space_is_there_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Kernel(monkeypatch, 128, 102)
    said: list[str] = []
    with inotify.room(26, tmp_path / "lock", said.append):
        assert said == []


def test_waits_for_space_and_says_so_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Kernel(monkeypatch, 128, 120, 120, 120, 120, 52)
    said: list[str] = []
    with inotify.room(26, tmp_path / "cache" / "lock", said.append):
        (line,) = said
    assert line.startswith(
        "26 inotify instances are not free (120 of 128 inotify instances in use)"
    )
    assert "bring another set down, or raise sysctl" in line


def test_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Kernel(monkeypatch, 128, 120)
    monkeypatch.setattr(inotify, "WAIT_S", 0.0)
    with (
        pytest.raises(ControlPlanesError, match="bring another set down"),
        inotify.room(26, tmp_path / "lock", print),
    ):
        pass


def test_waits_for_a_set_that_is_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Kernel(monkeypatch, 128, 0)
    said: list[str] = []
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def say(text: str) -> None:
            said.append(text)
            fcntl.flock(other, fcntl.LOCK_UN)

        with inotify.room(26, tmp_path / "lock", say):
            pass
    assert said[0].startswith("another set is starting")


def test_limit_that_is_never_enough_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Kernel(monkeypatch, 20, 0)
    with (
        pytest.raises(ControlPlanesError, match="needs 26 inotify instances, and a user may have"),
        inotify.room(26, tmp_path / "lock", print),
    ):
        pass
