"""Options of gateway: mistakes in one line and exit code 2, before anything is served."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from karmada_vc_agent.cli import main

SETTINGS = """\
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
virtualClusters: [{name: a, nodeNames: [n]}]
gateway: {enabled: true, host: g.example}
"""
HOST_THAT_IS_AWAY = """\
contexts: [{name: main, context: {cluster: host}}]
clusters: [{name: host, cluster: {server: "http://127.0.0.1:9"}}]
current-context: main
"""


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--bind-address", ":99999"), 'flags: --bind-address: ":99999" is not a valid'),
        (("--bind-address", "a b:1"), "write host:port or :port (at most 65535)"),
        (("--bind-address", "0"), "flags: --bind-address: is not set; the gateway needs it"),
        (("--health-probe-bind-address", "x"), "or 0 to disable it"),
        (("--metrics-bind-address", "x"), "flags: --metrics-bind-address: "),
        (("--cert-file", "/nothing"), "gateway.certFile: /nothing: No such file or directory"),
        (
            ("--cert-file", __file__, "--private-key-file", "/nothing"),
            "gateway.privateKeyFile: /nothing: No such file or directory",
        ),
        (
            ("--cert-file", __file__, "--private-key-file", __file__),
            f"gateway.certFile: {__file__} and {__file__} are not a certificate and its key in PEM",
        ),
    ],
)
def test_mistakes_of_gateway_are_reported_in_one_line(
    tmp_path: Path, flags: tuple[str, ...], told: str
) -> None:
    settings, host = tmp_path / "agent.yaml", tmp_path / "host.kubeconfig"
    settings.write_text(SETTINGS)
    host.write_text(HOST_THAT_IS_AWAY)
    given = ("--config", str(settings), "--kubeconfig", str(host), *flags)
    result = CliRunner().invoke(main, ["gateway", *given])
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("karmada-vc-agent: ")
    assert told in line
