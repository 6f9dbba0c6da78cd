"""Commands that cannot go on: words for who gave the kubeconfig, and nothing beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.kube.client import ApiClient
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces"
KUBECONFIG = """
current-context: x
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
"""


async def test_refused_credential_is_reported_with_server_and_kubeconfig(
    host: FakeApiServer, client: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    host.fail(401, "Unauthorized", message="Unauthorized")
    with pytest.raises(SystemExit) as ended, one_line_errors():
        await client.get(PATH)
    assert ended.value.code == 1
    credentials = client.credentials
    assert capsys.readouterr().err == (
        f"karmada-vc-agent: host {credentials.server}, with {credentials.source}: Unauthorized; "
        "renew the credential, or use another kubeconfig\n"
    )


async def test_missing_right_is_reported_with_the_server(
    host: FakeApiServer, client: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = 'namespaces is forbidden: User "u" cannot list resource "namespaces" in API group ""'
    host.fail(403, "Forbidden", message=denied)
    with pytest.raises(SystemExit), one_line_errors():
        await client.get(PATH)
    told = capsys.readouterr().err
    assert told.startswith("karmada-vc-agent: host: forbidden: the account used needs rule {")


async def test_unserved_path_is_reported_with_the_server(
    host: FakeApiServer, client: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    host.answer(b"404 page not found", 404)
    with pytest.raises(SystemExit), one_line_errors():
        await client.get(PATH)
    assert capsys.readouterr().err == (
        f"karmada-vc-agent: host {client.credentials.server}{PATH} is not served now (404: the "
        "server could not find the requested resource); try again later\n"
    )


def test_server_that_is_away_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    both = ("--karmada-kubeconfig", str(path), "--kubeconfig", str(path))
    command = [sys.executable, "-m", "karmada_vc_agent", "leave", "branch-a", "--yes", *both]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("karmada-vc-agent: no answer from the hub (hub https://127.0.0.1:1: ")
    assert "ssl:" not in line


def test_failure_of_any_command_is_reported_line_by_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class NewError(CommandError):
        pass

    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise NewError("this is missing\nand that")
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "karmada-vc-agent: this is missing\nkarmada-vc-agent: and that\n"
    )
