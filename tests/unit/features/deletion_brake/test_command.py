"""`confirm-deletions`: what it shows, and what it annotates."""

import pytest
from click.testing import CliRunner

from karmada_vc_agent.cli import main
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.features.deletion_brake.command import _decide
from karmada_vc_agent.features.deletion_brake.feature import CONFIRM_PREFIX
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import annotations_of
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces/agents/configmaps/agent-state"
RECORD = '{"digest":"d1","removed":3,"objects":20,"total":40,"works":["one","two"]}'


def seed(host: FakeApiServer, **data: str) -> None:
    metadata = {"namespace": "agents", "name": "agent-state"}
    host.seed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def decide(host: FakeApiServer, *, keeps: bool = False, is_sure: bool = True) -> str:
    """Run the command for branch-a; return what is confirmed."""
    credentials = Credentials(host.url, None, "a test")
    await _decide(credentials, "agents", "agent", "branch-a", keeps=keeps, is_sure=is_sure)
    key = f"{CONFIRM_PREFIX}branch-a"
    return annotations_of(host.live(PATH)).get(key, "")


@pytest.mark.parametrize(("keeps", "value"), [(False, "d1"), (True, "keep d1")])
async def test_list_is_shown_and_confirmed(
    *, keeps: bool, value: str, host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **{"deletions.branch-a": RECORD})
    assert await decide(host, keeps=keeps) == value
    shown = capsys.readouterr().out
    assert "deletes 23 of 40 objects; 3 are deleted, 20 are held" in shown
    assert "one, two" in shown


async def test_record_without_space_for_names_is_shown_by_its_numbers(
    host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **{"deletions.branch-a": RECORD.replace('"one","two"', "")})
    assert await decide(host) == "d1"
    shown = capsys.readouterr().out
    assert "20 are held" in shown
    assert "Works" not in shown


@pytest.mark.parametrize("data", [{}, {"deletions.branch-b": RECORD}, {"deletions.branch-a": "{"}])
async def test_nothing_is_confirmed_where_nothing_is_held(
    data: dict[str, str], host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **data)
    assert await decide(host) == ""
    assert capsys.readouterr().out == "branch-a: no deletion is held\n"


async def test_nothing_is_confirmed_without_an_answer(host: FakeApiServer) -> None:
    seed(host, **{"deletions.branch-a": RECORD})
    with pytest.raises(CommandError, match="use --yes"):
        await decide(host, is_sure=False)
    assert annotations_of(host.live(PATH)) == {}


async def test_missing_agent_is_one_line(host: FakeApiServer) -> None:
    with pytest.raises(CommandError, match="give --agent-name and --agent-namespace"):
        await decide(host)


def test_wrong_name_is_refused() -> None:
    result = CliRunner().invoke(main, ["confirm-deletions", "Branch_A"])
    assert result.exit_code == 2
    assert "NAME" in result.output
