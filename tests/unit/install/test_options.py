"""Options of join and leave: help with examples, mistakes in one line and exit code 2."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from karmada_vc_agent.cli import main

SETTINGS = """\
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
agentName: edge
worksClusterWide: true
virtualClusters:
- name: branch-a
  nodeSelector: {matchLabels: {branch: a}}
"""
HUB_THAT_IS_AWAY = """\
contexts: [{name: main, context: {cluster: hub}}]
clusters: [{name: hub, cluster: {server: "http://127.0.0.1:9"}}]
current-context: main
"""
HASH = ("--discovery-token-ca-cert-hash", "sha256:" + "0" * 64)
TOKEN = ("--token", "abcdef.0123456789abcdef")
NAME = ("--name", "branch-a")
PRINT = ("-o", "yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(SETTINGS)
    return path


@pytest.mark.parametrize("command", ["join", "leave"])
def test_help_shows_examples(command: str) -> None:
    output = run(command, "--help").output
    assert "Examples:" in output
    assert f"karmada-vc-agent {command} " in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (NAME, "choose one of"),
        ((*NAME, *PRINT, "--apply"), "choose one of"),
        (PRINT, "give a settings file or names"),
        ((*NAME, "--apply"), "--apply needs the hub"),
        ((*NAME, *PRINT, "--wait"), "--wait: needs --apply"),
        ((*NAME, *PRINT, "--dry-run"), "--dry-run: needs --apply"),
        (
            ("hub:1", *NAME, *TOKEN, *HASH, "--apply", "--dry-run"),
            "a kubeconfig instead of a token",
        ),
        (("--name", "A.b", *PRINT), '"A.b" is not a valid Cluster name'),
        (("--name", "a" * 49, *PRINT), "at most 48 characters"),
        ((*NAME, "--name", "b", *NAME, *PRINT), '--name: "branch-a" is given twice'),
        ((*NAME, *PRINT, *TOKEN), "needs the address of the hub"),
        (("hub:1", *NAME, *PRINT), "need --token"),
        (("hub:1", *NAME, *PRINT, *TOKEN), "to skip the check"),
        (("hub:1", *NAME, *PRINT, *HASH, "--token", "x"), "is not a valid bootstrap token"),
        (
            ("hub:1", *NAME, *PRINT, *TOKEN, HASH[0], "md5:1"),
            f'{HASH[0]}: "md5:1" is not a valid hash',
        ),
        ((*NAME, *PRINT, *TOKEN, "--karmada-kubeconfig", "x"), "give either a kubeconfig"),
        ((*NAME, *PRINT, "--karmada-kubeconfig", "/nowhere"), "/nowhere: No such file"),
        ((*NAME, *PRINT, "--controllers", "*,-typo"), '"typo" is not an optional controller'),
        (("--config", "/nowhere", *PRINT), "/nowhere: No such file"),
        ((*NAME, *PRINT, "--scheduler", ""), '--scheduler: "" is empty'),
        ((*NAME, *PRINT, "--approve-api-group", "A B"), '"A B" is not an API group'),
        ((*NAME, *PRINT, "--approve-api-group", "*"), '"*" is not an API group'),
        ((*NAME, *PRINT, "--image", "a b"), '"a b" is empty or has a space'),
        ((*NAME, *PRINT, "--karmada-server", "hub"), '"hub" is not a valid http(s) URL'),
        ((*NAME, *PRINT, "--agent-name", "X Y"), '--agent-name: "X Y" is not a valid DNS label'),
        ((*NAME, *PRINT, "--agent-namespace", "../x"), '"../x" is not a valid DNS label'),
    ],
)
def test_mistakes_of_join_are_reported_in_one_line(arguments: tuple[str, ...], told: str) -> None:
    result = run("join", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("karmada-vc-agent: ")
    assert told in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name the virtual cluster"),
        (("Bad Name",), 'CLUSTER: "Bad Name" is not a valid Cluster name: at most 48'),
        (("--prune", "--force"), "cannot be combined with"),
        (("branch-a", "--all"), "--all: cannot be combined with"),
        (("--prune", "--purge"), "cannot be combined with"),
        (("--purge", "--preserve-resources"), "needs a virtual cluster"),
        (("--purge",), "/nowhere: No such file"),
        (("branch-a", "--timeout", "soon"), "is not a valid duration"),
        (("branch-a", "--agent-name", "X Y"), '--agent-name: "X Y" is not a valid DNS label'),
        (("branch-a",), "/nowhere: No such file"),
    ],
)
def test_mistakes_of_leave_are_reported_in_one_line(arguments: tuple[str, ...], told: str) -> None:
    result = run("leave", *arguments, "--karmada-kubeconfig", "/nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert told in line


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run", "--config"),
        ("join", "--config"),
        ("join", "--output-dir"),
        ("leave", "--karmada-kubeconfig"),
        ("kubeconfig", "--config"),
        ("gateway", "--config"),
    ],
)
def test_path_that_is_empty_is_not_the_working_directory(command: str, option: str) -> None:
    result = run(command, option, "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for '{option}': it is empty; give a path." in result.stderr


def test_settings_name_agent_and_clusters_and_are_installed(settings: Path) -> None:
    result = run("join", "--config", str(settings), *PRINT)
    assert result.exit_code == 0, result.output
    assert "name: system:karmada:agent:edge\n" in result.stdout
    assert "namespace: karmada-es-branch-a\n" in result.stdout
    assert "    agentName: edge\n" in result.stdout
    assert "can read the Works of every Cluster" in result.stderr


def test_rights_of_a_controller_can_be_left_out() -> None:
    with_it = run("join", *NAME, *PRINT, "--only", "hub").stdout
    without = run("join", *NAME, *PRINT, "--only", "hub", "--controllers", "*,-interpreter").stdout
    assert "resourceinterpretercustomizations" in with_it
    assert "resourceinterpretercustomizations" not in without
    assert "certificatesigningrequests" in without


def test_files_hold_no_secret_where_the_hub_is_not_given(settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for expected in ([f"wrote {out}/hub.yaml", f"wrote {out}/host.yaml"], []):
        result = run("join", "--config", str(settings), "--output-dir", str(out))
        assert result.exit_code == 0, result.output
        assert [line for line in result.stdout.splitlines() if "wrote" in line] == expected
    assert "kind: Secret" not in (out / "host.yaml").read_text()


def _spoil(folder: Path, what: str) -> tuple[Path, str]:
    """Make a directory that cannot be written to; return it and what is reported of it."""
    if what == "no place for directories":
        return Path("/proc/nowhere/out"), "/proc/nowhere: No such file or directory"
    if what == "below a file":
        (folder / "file").write_text("")
        return folder / "file" / "out", f"{folder}/file/out: Not a directory"
    (folder / "out" / "hub.yaml").mkdir(parents=True)
    return folder / "out", f"{folder}/out/hub.yaml: Is a directory"


@pytest.mark.parametrize("what", ["no place for directories", "below a file", "file is none"])
def test_unwritable_directory_is_reported(tmp_path: Path, what: str) -> None:
    out, told = _spoil(tmp_path, what)
    result = run("join", *NAME, "--output-dir", str(out))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"karmada-vc-agent: {told}\n"


def test_directory_is_created_before_the_hub_is_requested_to_sign(tmp_path: Path) -> None:
    hub = tmp_path / "hub.kubeconfig"
    hub.write_text(HUB_THAT_IS_AWAY)
    out, told = _spoil(tmp_path, "below a file")
    result = run("join", *NAME, "--karmada-kubeconfig", str(hub), "--output-dir", str(out))
    assert told in result.stderr
