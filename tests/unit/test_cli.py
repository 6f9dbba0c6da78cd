"""The command line: help, mistakes in settings, where settings come from."""

import asyncio
import errno
import socket
import ssl
import subprocess
import sys
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from karmada_vc_agent.cli import main, metrics_tls, warn_of_other_manifests
from karmada_vc_agent.config.decoding import flags_of
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model import versions
from karmada_vc_agent.telemetry.endpoints import listen_failure
from tests.fakes.tls import trusting, write_certificate

SETTINGS = """\
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
clusterLeaseDuration: 40s
virtualClusters:
- name: branch-a
  nodeSelector: {matchLabels: {branch: a}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(SETTINGS)
    return path


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments], env=environment)


def error_of(result: Result) -> str:
    """Return the one line that a mistake is told in."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_help_names_every_flag_with_its_default() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for setting in flags_of(CONFIG):
        assert setting.flag in result.output
    assert "[default: 40s]" in " ".join(result.output.split())
    for flag in ("--config", "--reregister"):
        assert flag in result.output


def test_help_shows_examples_and_a_minimal_file() -> None:
    output = run("--help").output
    assert "karmada-vc-agent run --karmada-kubeconfig hub.kubeconfig --config agent.yaml" in output
    assert "kind: AgentConfig" in output


def test_minimal_file_of_the_help_is_valid(tmp_path: Path) -> None:
    lines = run("--help").output.splitlines()
    start = lines.index(next(line for line in lines if "apiVersion:" in line))
    shown = lines[start:]
    indent = len(shown[0]) - len(shown[0].lstrip())
    path = tmp_path / "agent.yaml"
    path.write_text("\n".join(line[indent:] for line in shown))
    assert "hub.kubeconfig" in error_of(
        run("--config", str(path), "--karmada-kubeconfig", str(tmp_path / "hub.kubeconfig"))
    )


KUBECONFIG = """
current-context: x
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
"""


def test_main_help_names_the_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "run" in result.output


def test_main_help_describes_each_command_in_full() -> None:
    assert "..." not in CliRunner().invoke(main, ["--help"]).output.partition("Commands:")[2]


def test_missing_file_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    line = error_of(run("--config", str(path)))
    assert line == f"karmada-vc-agent: {path}: No such file or directory"


def test_mistake_in_the_file_names_file_path_and_problem(settings: Path) -> None:
    settings.write_text(SETTINGS.replace("40s", "soon"))
    line = error_of(run("--config", str(settings)))
    assert line == (
        f'karmada-vc-agent: {settings}: clusterLeaseDuration: "soon" is not a valid duration; '
        "write for example 40s or 2m"
    )


def test_missing_hub_kubeconfig_is_one_line(settings: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub.kubeconfig"
    line = error_of(run("--config", str(settings), "--karmada-kubeconfig", str(hub)))
    assert line == f"karmada-vc-agent: {hub}: No such file or directory"


@pytest.mark.parametrize("missing", ["--karmada-kubeconfig", "--kubeconfig"])
def test_missing_kubeconfig_is_reported_by_its_flag(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    given = tmp_path / "kubeconfig"
    given.write_text(KUBECONFIG)
    other = {"--karmada-kubeconfig", "--kubeconfig"} - {missing}
    line = error_of(run("--config", str(settings), other.pop(), str(given)))
    assert line.endswith(f"not running in a Pod; give {missing}")


def test_address_in_use_is_reported_without_python() -> None:
    taken = OSError(errno.EADDRINUSE, "error while attempting to bind on address ('::1', 1)")
    assert listen_failure(taken) == "Address already in use"
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert listen_failure(unknown) == "Name or service not known"


def test_flag_beats_environment_beats_file(settings: Path) -> None:
    file = ("--config", str(settings))
    flag = ("--cluster-lease-duration", "from-flag")
    environment = {"KARMADA_VC_AGENT_CLUSTER_LEASE_DURATION": "from-environment"}
    assert '"from-flag"' in error_of(run(*file, *flag, **environment))
    assert '"from-environment"' in error_of(run(*file, **environment))
    absent = str(settings.with_name("absent"))
    assert absent in error_of(run(*file, "--karmada-kubeconfig", absent))


def test_every_flag_can_be_set_in_the_environment(settings: Path) -> None:
    for name in ("LOG_LEVEL", "LOG_FORMAT", "LEADER_ELECT_RETRY_PERIOD"):
        line = error_of(run("--config", str(settings), **{f"KARMADA_VC_AGENT_{name}": "wrong!"}))
        assert line.startswith(f"karmada-vc-agent: environment KARMADA_VC_AGENT_{name}: ")


def test_setting_that_fails_a_check_is_named_where_it_was_set(settings: Path) -> None:
    file = ("--config", str(settings))
    variable = {"KARMADA_VC_AGENT_CONCURRENT_WORK_SYNCS": "0"}
    assert error_of(run(*file, **variable)) == (
        "karmada-vc-agent: environment KARMADA_VC_AGENT_CONCURRENT_WORK_SYNCS: is 0, "
        "must be 1 or more"
    )
    assert error_of(run(*file, "--concurrent-work-syncs", "0")) == (
        "karmada-vc-agent: flags: --concurrent-work-syncs: is 0, must be 1 or more"
    )
    settings.write_text(SETTINGS + "concurrentWorkSyncs: 0\n")
    assert error_of(run(*file)) == (
        f"karmada-vc-agent: {settings}: concurrentWorkSyncs: is 0, must be 1 or more"
    )


def test_mistake_in_a_flag_is_one_line(settings: Path) -> None:
    line = error_of(run("--config", str(settings), "--log-level", "loud"))
    assert line == (
        'karmada-vc-agent: flags: --log-level: is "loud", must be debug, info, warning or error'
    )


def test_reregistering_an_unknown_cluster_is_refused(settings: Path) -> None:
    line = error_of(run("--config", str(settings), "--reregister", "branch-z"))
    assert line == (
        'karmada-vc-agent: flags: --reregister: "branch-z" is not a virtual cluster of the settings'
    )


@pytest.mark.parametrize("flag", ["--concurrent-work-syncs", "--kube-api-qps"])
def test_number_that_is_none_is_one_line_too(settings: Path, flag: str) -> None:
    line = error_of(run("--config", str(settings), flag, "many"))
    assert line.startswith(f'karmada-vc-agent: flags: {flag}: is "many", must be a')


def test_without_a_file_the_flag_to_name_it_is_reported() -> None:
    assert error_of(run()) == (
        "karmada-vc-agent: flags: --config: give the file with the settings, "
        "which lists the virtual clusters"
    )


def test_unusable_template_is_reported_where_it_was_set(settings: Path) -> None:
    problem = (
        '"foo" must be {namespace} and {cluster} with a short separator between them: characters '
        'of a-z, 0-9 and "-", without "--"'
    )
    file = ("--config", str(settings))
    assert error_of(run(*file, "--namespace-template", "foo")) == (
        f"karmada-vc-agent: flags: --namespace-template: {problem}"
    )
    settings.write_text(SETTINGS + "namespaceTemplate: foo\n")
    assert error_of(run(*file)) == f"karmada-vc-agent: {settings}: namespaceTemplate: {problem}"


def test_duration_that_does_not_fit_a_default_is_reported_with_both(settings: Path) -> None:
    line = error_of(run("--config", str(settings), "--leader-elect-lease-duration", "5s"))
    assert line == (
        f"karmada-vc-agent: {settings}: leaderElectRenewDeadline: is 10s, must be less than "
        "leaderElectLeaseDuration (5s)"
    )


def test_switch_that_is_neither_on_nor_off_names_its_variable(settings: Path) -> None:
    line = error_of(run("--config", str(settings), KARMADA_VC_AGENT_LEADER_ELECT="foo"))
    assert line == (
        'karmada-vc-agent: environment KARMADA_VC_AGENT_LEADER_ELECT: is "foo", '
        "must be true or false"
    )


@pytest.mark.parametrize("value", ["false", "0", "no", "true"])
def test_switch_is_set_in_the_environment(settings: Path, value: str) -> None:
    absent = str(settings.with_name("absent"))
    file = ("--config", str(settings), "--karmada-kubeconfig", absent)
    assert absent in error_of(run(*file, KARMADA_VC_AGENT_LEADER_ELECT=value))


def test_unknown_flag_exits_with_2_and_is_named() -> None:
    result = run("--no-such-flag")
    assert result.exit_code == 2
    assert "--no-such-flag" in result.stderr.splitlines()[-1]


def test_running_needs_no_memory_for_other_commands_and_the_making_of_keys() -> None:
    program = """
import sys
import karmada_vc_agent.agent
import karmada_vc_agent.cli
heavy = {"cryptography", "lupa", "kubernetes", "requests", "rich"}
heavy |= {"kopf", "multiprocessing", "concurrent.futures.process", "jsonschema"}
heavy |= {"karmada_vc_agent." + name for name in (
    "access.join_options", "access.leave_run", "features.gateway.process",
    "features.gateway.server.gateway", "features.objects.operator", "kube.serving_certificate",
    "interpretation.script_helper",
)}
print(*sorted(heavy & set(sys.modules)))
"""
    loaded = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


@pytest.mark.parametrize(("directory", "is_there"), [(".", True), ("absent", False), ("", False)])
async def test_metrics_have_the_certificate_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, is_there: bool
) -> None:
    certificate, _ = write_certificate(tmp_path)
    monkeypatch.chdir(tmp_path)
    async with AsyncExitStack() as stack:
        context = metrics_tls(directory, stack)
        server = await asyncio.start_server(lambda _, out: out.close(), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        trust = trusting(certificate)
        verdict = nullcontext() if is_there else pytest.raises(ssl.SSLCertVerificationError)
        with verdict:
            _, out = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            out.close()
        server.close()


@pytest.mark.parametrize(("version", "is_warned"), [(versions.OWN, False), ("0.0.9", True)])
def test_manifests_of_another_version_are_warned_of(
    caplog: pytest.LogCaptureFixture, version: str, *, is_warned: bool
) -> None:
    warn_of_other_manifests(version)
    both = [(each.__dict__["manifests"], each.__dict__["image"]) for each in caplog.records]
    assert both == [(version, versions.OWN)] * is_warned
