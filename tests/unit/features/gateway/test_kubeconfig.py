"""The kubeconfig of an operator: whose token is asked for, and what is written."""

import base64
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from karmada_vc_agent.cli import main
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.features.gateway import kubeconfig as kubeconfig_options
from karmada_vc_agent.features.gateway.identity import AUDIENCE
from karmada_vc_agent.kube.transport import Credentials
from tests.fakes.api_server import FakeApiServer
from tests.fakes.gateway_lab import AGENT, namespace

ACCOUNTS = "/api/v1/namespaces/vc-system-v-a/serviceaccounts"
SETTINGS = """
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
virtualClusters:
- name: a
  nodeNames: [n]
"""
GATEWAY = "gateway: {enabled: true, host: g}\n"


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_token_is_of_an_account_in_the_anchor_and_for_the_gateway(
    *, is_there: bool
) -> None:
    async with FakeApiServer() as host:
        host.seed(namespace("edge-v-a", "a", "edge"), namespace("vc-system-v-a", "a", "vc-system"))
        if is_there:
            host.fail(409, "AlreadyExists", path=ACCOUNTS)
        else:
            host.answer(b'{"metadata": {"name": "alice"}}', 201, path=ACCOUNTS)
        host.answer(b'{"status": {"token": "secret"}}', 201, path=f"{ACCOUNTS}/alice/token")
        credentials = Credentials(host.url, None, "a test")
        found = await kubeconfig_options._new_token(credentials, AGENT, "a", "alice", 3600)
        (asked,) = host.asked("POST", f"{ACCOUNTS}/alice/token")
    assert found == "secret"
    assert asked.body["spec"] == {"audiences": [AUDIENCE], "expirationSeconds": 3600}


@pytest.mark.parametrize("agent", [AGENT, "another"])
async def test_cluster_without_an_anchor_of_this_agent_is_reported(agent: str) -> None:
    async with FakeApiServer() as host:
        if agent != AGENT:
            host.seed(namespace("vc-system-v-a", "a", "vc-system"))
        credentials = Credentials(host.url, None, "a test")
        with pytest.raises(CommandError, match="has no namespace for operators of a"):
            await kubeconfig_options._new_token(credentials, agent, "a", "alice", 3600)


def test_the_file_is_private_and_has_all_that_kubectl_needs(tmp_path: Path) -> None:
    text = kubeconfig_options._text("a", "https://g:8443/virtualclusters/a/", b"PEM", "alice", "t")
    path = tmp_path / "a.kubeconfig"
    kubeconfig_options._write(text, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    content = yaml.safe_load(path.read_text())
    assert content["current-context"] == "a"
    cluster = content["clusters"][0]["cluster"]
    assert cluster["server"] == "https://g:8443/virtualclusters/a/"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert content["users"] == [{"name": "alice", "user": {"token": "t"}}]


def test_a_file_that_others_may_read_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "old", tmp_path / "a.kubeconfig"
    elsewhere.write_text("old")
    link.symlink_to(elsewhere)
    kubeconfig_options._write("new", str(link))
    assert (elsewhere.read_text(), link.read_text(), link.is_symlink()) == ("old", "new", False)
    assert link.stat().st_mode & 0o777 == 0o600


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig_options._write("text", "-")
    assert capsys.readouterr().out == "text"


@pytest.mark.parametrize(
    ("more", "flags", "told"),
    [
        ("", (), "gateway.enabled: is false, must be true"),
        (GATEWAY, ("--duration", "5m"), "must be 10m or more"),
        (GATEWAY, ("--duration", "x"), "not a valid duration"),
        (
            "gateway: {enabled: true, host: g, caFile: /nothing/here}\n",
            (),
            "agent.yaml: gateway.caFile: /nothing/here: No such file or directory; or give it by",
        ),
        (GATEWAY, ("--certificate-authority", "/dev/null"), "/dev/null: no certificate in PEM"),
        (GATEWAY, ("--certificate-authority", __file__), "no certificate in PEM"),
        (GATEWAY, ("--account", "A b"), '"A b" is not a valid name of a ServiceAccount'),
        (GATEWAY, ("--server", "g:8443"), '"g:8443" is not a valid http(s) URL'),
        (GATEWAY, ("--output", "/dev/null"), '"/dev/null" is not a file; give one, or - for'),
        (GATEWAY, ("--output", "/"), '"/" is not a file'),
        (GATEWAY, ("--output", ""), '"" is not a file'),
        (GATEWAY, ("--output", "/nothing/here"), "/nothing is not a directory"),
        (GATEWAY, ("--agent-namespace", "../x"), '--agent-namespace: "../x" is not a valid DNS'),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    tmp_path: Path, more: str, flags: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(SETTINGS + more)
    done = CliRunner().invoke(main, ["kubeconfig", "a", "--config", str(path), *flags])
    assert done.exit_code == 2
    assert told in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize("name", ["a,b", "A", ""])
def test_invalid_cluster_name_is_not_requested(tmp_path: Path, name: str) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(SETTINGS + GATEWAY)
    done = CliRunner().invoke(main, ["kubeconfig", name, "--config", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f'CLUSTER: "{name}" is not a valid Cluster name' in done.stderr
