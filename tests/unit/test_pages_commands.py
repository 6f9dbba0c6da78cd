"""Commands and files of README and pages for users are as the commands take them."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from _pytest.mark.structures import ParameterSet
from click.testing import CliRunner

from karmada_vc_agent.cli import main

ROOT = Path(__file__).parents[2]
PAGES = (
    *("README.md", "docs/install.md", "docs/plan.md", "docs/operations.md", "docs/index.md"),
    *("docs/tutorial.md", "docs/adopting.md", "docs/autonomy.md"),
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_OURS = re.compile(r"(?:manifests|hack|docs)/[\w./-]+")


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall((ROOT / page).read_text()) if kind == language]


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the page and the words of each command behind a `$`, without its comment."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    for part in re.split(r"\s(?:&&|\|\|?|;)\s", line[2:]):
                        words = shlex.split(part, comments=True)
                        yield page, tuple(word for word in words if word != "...")


COMMANDS = list(dict.fromkeys(commands()))


def of(*programs: str) -> list[ParameterSet]:
    """Return the commands of some programs, each with its page as its name."""
    return [
        pytest.param(words, id=f"{page}: {' '.join(words)[:60]}")
        for page, words in COMMANDS
        if words and words[0].startswith(programs)
    ]


def test_there_are_commands_on_each_page_that_has_some() -> None:
    assert {page for page, _ in COMMANDS} >= {"README.md", "docs/install.md", "docs/plan.md"}


@pytest.mark.parametrize("words", of("karmada-vc-agent"))
def test_a_command_of_the_agent_has_these_arguments(words: tuple[str, ...]) -> None:
    with main.make_context("karmada-vc-agent", list(words[1:])) as context:
        name, command, rest = main.resolve_command(context, list(words[1:]))
        assert command is not None, name
        with command.make_context(name, rest, parent=context):
            pass  # UsageError is the failure


@pytest.mark.parametrize("words", of("hack/"))
def test_a_script_of_the_repository_has_these_options(words: tuple[str, ...]) -> None:
    script = ROOT / words[0]
    assert script.stat().st_mode & 0o100, f"{words[0]} cannot be executed"
    text = script.read_text()
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    sources = text + "".join(
        path.read_text() for path in (ROOT / "hack").glob(f"{script.name.replace('-', '_')}/*.py")
    )
    assert [option for option in options if option not in sources] == []


@pytest.mark.parametrize("words", of("kubectl", "helm"))
def test_files_of_the_repository_that_a_command_names_exist(words: tuple[str, ...]) -> None:
    for name in _OURS.findall(" ".join(words)):
        assert (ROOT / name).exists(), name


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    "words", [each for each in of("kubectl") if "-k" in str(each.values[0]).split("'")]
)
def test_a_folder_that_is_applied_can_be_built(words: tuple[str, ...]) -> None:
    folder = ROOT / words[words.index("-k") + 1]
    command = (shutil.which("kubectl") or "", "kustomize", str(folder))
    done = subprocess.run(  # noqa: S603 - a page of ours names it
        command, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert list(yaml.safe_load_all(done.stdout))


SETTINGS = [
    pytest.param(block, id=f"{page} {number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "yaml"), 1)
    if "kind: AgentConfig" in block or "kind: VirtualCluster\n" in block
]


@pytest.mark.parametrize("block", SETTINGS)
def test_settings_of_a_page_have_no_mistakes(tmp_path: Path, block: str) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(block)
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 0, result.stderr


def test_every_command_is_explained_by_its_help() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0, name
