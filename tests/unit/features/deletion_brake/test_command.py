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


async def decide(
    host: FakeApiServer, *names: str, is_sure: bool = True, **flags: bool
) -> dict[str, str]:
    """Run the command; return what is confirmed, by virtual cluster."""
    credentials = Credentials(host.url, None, "a test")
    options = {"names": names, "is_sure": is_sure, "is_all": False, "keeps": False, **flags}
    await _decide(credentials, "agents", "agent", options)
    annotations = annotations_of(host.live(PATH)).items()
    return {key.removeprefix(CONFIRM_PREFIX): value for key, value in annotations}


@pytest.mark.parametrize(("keeps", "value"), [(False, "d1"), (True, "keep d1")])
async def test_list_is_shown_and_confirmed(
    *, keeps: bool, value: str, host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **{"deletions.branch-a": RECORD, "deletions.branch-b": RECORD})
    assert await decide(host, "branch-a", keeps=keeps) == {"branch-a": value}
    shown = capsys.readouterr().out
    assert "the hub deletes 23 of 40 objects at once; the agent holds 20 deletions" in shown
    assert "one, two" in shown


async def test_several_are_confirmed_by_name(host: FakeApiServer) -> None:
    seed(host, **{f"deletions.branch-{name}": RECORD for name in "abc"})
    confirmed = {"branch-a": "keep d1", "branch-c": "keep d1"}
    assert await decide(host, "branch-a", "branch-c", "branch-d", keeps=True) == confirmed


async def test_all_are_shown_and_confirmed(
    host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = RECORD.replace("d1", "d2")
    records = {"deletions.branch-b": other, "deletions.branch-a": RECORD, "deletions.c": "{"}
    seed(host, **records, **{"cluster.branch-d": "{}"})
    assert await decide(host, is_all=True) == {"branch-a": "d1", "branch-b": "d2"}
    *shown, end = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in shown] == ["branch-a", "branch-b", "c"]
    assert end.startswith("branch-a, branch-b: confirmed")
    assert [each.method for each in host.requests] == ["GET", "PATCH"]


async def test_record_without_space_for_names_is_shown_by_its_numbers(
    host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **{"deletions.branch-a": RECORD.replace('"one","two"', "")})
    assert await decide(host, is_all=True) == {"branch-a": "d1"}
    shown = capsys.readouterr().out
    assert shown.startswith(
        "branch-a: the hub deletes 23 of 40 objects at once; the agent holds 20 deletions\n"
    )


@pytest.mark.parametrize("data", [{}, {"deletions.branch-b": RECORD}, {"deletions.branch-a": "{"}])
async def test_nothing_is_confirmed_where_nothing_is_held(
    data: dict[str, str], host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **data)
    assert await decide(host, "branch-a") == {}
    assert capsys.readouterr().out == "branch-a: no deletion waits for a confirmation\n"


async def test_nothing_is_held_in_any(
    host: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    seed(host, **{"cluster.branch-a": "{}"})
    assert await decide(host, is_all=True) == {}
    assert capsys.readouterr().out == "no deletion waits for a confirmation\n"


async def test_nothing_is_confirmed_without_an_answer(host: FakeApiServer) -> None:
    seed(host, **{"deletions.branch-a": RECORD})
    with pytest.raises(CommandError, match="use --yes"):
        await decide(host, "branch-a", is_sure=False)
    assert annotations_of(host.live(PATH)) == {}


async def test_missing_agent_is_one_line(host: FakeApiServer) -> None:
    with pytest.raises(CommandError, match="give --agent-name and --agent-namespace"):
        await decide(host)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["branch-a", "--all"], "NAME: give names of virtual clusters, or --all"),
        (["--yes"], "NAME: give names of virtual clusters, or --all"),
        (["branch-a", "Branch_B"], "NAME"),
    ],
)
def test_wrong_flags_are_refused(args: list[str], text: str) -> None:
    result = CliRunner().invoke(main, ["confirm-deletions", *args])
    assert result.exit_code == 2
    assert text in result.output
