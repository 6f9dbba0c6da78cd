"""run_plugin and ExecUser: what a plugin gives, when it runs again, and what ends it."""

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from karmada_vc_agent.kube import exec_credentials
from karmada_vc_agent.kube.exec_credentials import (
    ExecUser,
    PluginError,
    _ExecStatus,
    run_plugin,
)
from karmada_vc_agent.kube.kubeconfig import CredentialsFollower, read_kubeconfig
from karmada_vc_agent.kube.transport import Credentials
from tests.fakes.authority import Authority, kubeconfig

AUTHORITY = Authority()
VERSION = "client.authentication.k8s.io/v1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Program:
    """A plugin that prints a file, and counts how often it ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answer = folder / "answer"
        self.write('cat "$(dirname "$0")/answer"')

    def write(self, text: str) -> None:
        program = self.folder / "plugin"
        program.write_text(f'#!/bin/sh\necho >> "$(dirname "$0")/runs"\n{text}\n')
        program.chmod(0o700)

    def gives(self, **status: Any) -> None:
        self._answer.write_text(json.dumps({"apiVersion": VERSION, "status": status}))

    def gives_nothing(self) -> None:
        """Have the plugin fail."""
        self._answer.unlink()

    def gives_certificate(self, until: timedelta, **status: Any) -> bytes:
        chain, key = AUTHORITY.pair(start=NOW - timedelta(days=1), lifetime=until + timedelta(1))
        pair = {"clientCertificateData": chain.decode(), "clientKeyData": key.decode()}
        self.gives(**pair, **status)
        return chain

    def run(self, **spec: Any) -> _ExecStatus:
        return run_plugin(
            {"apiVersion": VERSION, "command": "./plugin", "interactiveMode": "Never"} | spec,
            {"server": "https://hub.example:6443", "certificate-authority-data": "Q0E="},
            self.folder,
        )

    @property
    def runs(self) -> int:
        runs = self.folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0


class Wall:
    """Unix time of a test."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now.timestamp()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def wall() -> Wall:
    return Wall()


def test_plugin_receives_its_cluster_and_its_environment(program: Program) -> None:
    program.write(
        'echo "{\\"apiVersion\\": \\"$0\\"}" > /dev/null\n'
        'printf \'{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "%s"}}\' '
        '"$(printf %s "$1$OWN$KUBERNETES_EXEC_INFO" | tr -d \'" \')"'
    )
    spec = {"args": ["-x"], "env": [{"name": "OWN", "value": "y"}], "provideClusterInfo": True}
    token = program.run(**spec).token
    assert token is not None
    assert token.startswith("-xy{apiVersion:client.authentication.k8s.io/v1,kind:ExecCredential")
    assert "spec:{interactive:false,cluster:{server:https://hub.example:6443" in token
    assert "certificate-authority-data:Q0E=" in token


def test_plugin_that_hangs_is_ended_with_what_it_started(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_credentials, "PLUGIN_S", 0.5)
    program.write('sleep 600 &\necho $! > "$(dirname "$0")/child"\nwait')
    started = time.monotonic()
    told = "its plugin plugin did not answer within 0.5 s and was ended; install it anew"
    with pytest.raises(PluginError, match=told):
        program.run(installHint="install it anew")
    assert time.monotonic() - started < 5.0
    child = int((program.folder / "child").read_text())
    while _is_alive(child):
        assert time.monotonic() - started < 10.0
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo no way >&2; exit 3", "failed with exit code 3: no way"),
        ("echo nonsense", "gave no ExecCredential"),
        ("echo '{}'", "gave no ExecCredential"),
        ('echo \'{"apiVersion": "other/v1", "status": {"token": "x"}}\'', "apiVersion other/v1"),
        (f'echo \'{{"apiVersion": "{VERSION}"}}\'', "returned no credential"),
        (
            f'echo \'{{"apiVersion": "{VERSION}", "status": {{"clientKeyData": "x"}}}}\'',
            "nor both clientCertificateData and clientKeyData",
        ),
    ],
)
def test_plugin_that_gives_nothing_says_why(program: Program, text: str, problem: str) -> None:
    program.write(text)
    with pytest.raises(PluginError, match=problem):
        program.run()


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"command": "/nowhere/plugin"}, "cannot be run: .*No such file"),
        ({"command": ""}, "exec.command is not set"),
        ({"apiVersion": "v1alpha1"}, 'exec.apiVersion is "v1alpha1", must be'),
        ({"interactiveMode": "Always"}, "needs a terminal"),
    ],
)
def test_plugin_that_cannot_be_run_says_why(
    program: Program, spec: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(PluginError, match=problem):
        program.run(**spec)


def test_certificate_is_outdated_before_it_ends(program: Program, wall: Wall) -> None:
    program.gives_certificate(timedelta(hours=1))
    user = ExecUser(program.run(), wall)
    assert user.token is None
    assert user.certificate is not None
    wall.now += timedelta(minutes=54)
    assert not user.is_outdated()
    wall.now += timedelta(minutes=2)
    assert user.is_outdated()


def test_plugin_says_that_its_certificate_ends_earlier(program: Program, wall: Wall) -> None:
    program.gives_certificate(timedelta(hours=1), expirationTimestamp="2026-01-01T00:01:00Z")
    user = ExecUser(program.run(), wall)
    wall.now += timedelta(seconds=47)
    assert not user.is_outdated()
    wall.now += timedelta(seconds=2)
    assert user.is_outdated()


def test_certificate_that_the_server_rejects_is_outdated(program: Program, wall: Wall) -> None:
    program.gives_certificate(timedelta(hours=1))
    user = ExecUser(program.run(), wall)
    user.suspect()
    assert not user.is_outdated(), "it is just there: not again and again"
    wall.now += timedelta(seconds=10)
    assert user.is_outdated()


def test_expired_certificate_is_none(program: Program, wall: Wall) -> None:
    program.gives_certificate(-timedelta(hours=1))
    with pytest.raises(PluginError, match="that expired at 2025-12-31T23:00:00Z"):
        ExecUser(program.run(), wall)


def test_token_is_outdated_before_it_ends(program: Program, wall: Wall) -> None:
    program.gives(token="first", expirationTimestamp="2026-01-01T01:00:00Z")
    user = ExecUser(program.run(), wall)
    assert user.token == "first"
    wall.now += timedelta(minutes=54)
    assert not user.is_outdated()
    wall.now += timedelta(minutes=2)
    assert user.is_outdated()


def test_token_without_an_end_is_outdated_once_the_server_rejects_it(
    program: Program, wall: Wall
) -> None:
    program.gives(token="first")
    user = ExecUser(program.run(), wall)
    wall.now += timedelta(days=1000)
    assert not user.is_outdated()
    user.suspect()
    assert user.is_outdated()


@pytest.mark.parametrize("expires", [None, "2026-01-01T00:00:00Z"])
def test_plugin_that_fails_is_not_run_with_each_rejected_request(
    program: Program, wall: Wall, expires: str | None
) -> None:
    program.gives(token="first", expirationTimestamp=expires)
    user = ExecUser(program.run(), wall)
    runs = 0
    for _ in range(60):
        wall.now += timedelta(seconds=1)
        user.suspect()
        runs += user.is_outdated()
    assert 5 <= runs <= 6


async def test_another_certificate_is_used_once_the_first_is_outdated(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_credentials, "BETWEEN_RUNS_S", 0.0)
    path = tmp_path / "kubeconfig"
    content = yaml.safe_load(kubeconfig(AUTHORITY.pair()))
    spec = {"apiVersion": VERSION, "command": "./plugin", "interactiveMode": "Never"}
    content["users"][0]["user"] = {"exec": spec}
    path.write_text(yaml.safe_dump(content))
    lasts = datetime.now(UTC) - NOW
    program.gives_certificate(lasts + timedelta(days=1))
    used: list[Credentials] = []
    credentials = read_kubeconfig(path)
    follower = CredentialsFollower("hub", credentials, used.append)
    await follower.check()
    assert used == []
    assert program.runs == 1
    program.gives_certificate(lasts + timedelta(days=1), expirationTimestamp=NOW.isoformat())
    follower = CredentialsFollower("hub", read_kubeconfig(path), used.append)
    program.gives_nothing()
    await follower.check()
    assert used == [], "what was in use stays"
    assert program.runs == 3
    program.gives_certificate(lasts + timedelta(days=1))
    await follower.check()
    await follower.check()
    (renewed,) = used
    assert renewed.ssl_context is not None
    assert renewed.ssl_context is not credentials.ssl_context


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
