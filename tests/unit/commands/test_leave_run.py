"""What `leave` says before it acts, and what `leave --prune` says of what it finds."""

from collections.abc import AsyncIterator

import pytest

from karmada_vc_agent.commands.leave_run import LeavePlan, run_prune, warn
from karmada_vc_agent.commands.leave_steps import HubFacts, Leaving
from karmada_vc_agent.kube.credentials import Credentials
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served

BINDINGS = "work.karmada.io/v1alpha2"
HUB = (
    *served.HUB,
    Served(BINDINGS, "resourcebindings", "ResourceBinding", is_custom=True),
    Served(
        BINDINGS,
        "clusterresourcebindings",
        "ClusterResourceBinding",
        namespaced=False,
        is_custom=True,
    ),
)
NOBODY = Credentials("https://nobody", None, "a test")


@pytest.fixture
async def hub() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(HUB) as server:
        yield server


def leaving(*, preserve: bool = False) -> Leaving:
    return Leaving("branch-a", "agent", "agents", preserve, timeout_s=1.0)


@pytest.mark.parametrize(("preserve", "fate"), [(False, "ends"), (True, "stays")])
def test_warning_tells_what_becomes_of_what_bindings_run(
    capsys: pytest.CaptureFixture[str], *, preserve: bool, fate: str
) -> None:
    plan = LeavePlan(leaving(preserve=preserve), NOBODY, NOBODY, is_sure=True, is_forced=False)
    warn(plan, HubFacts({}, ("resourcebinding bank/teller",), ""))
    first, second = capsys.readouterr().out.splitlines()
    assert f"what they run there {fate}" in first
    assert second == "  resourcebinding bank/teller"


@pytest.mark.parametrize(
    ("is_there", "told"),
    [
        (False, "its Cluster is not on the hub; karmada-vc-agent leave branch-a removes"),
        (True, "its Cluster is being deleted on the hub, and what it has goes with it"),
    ],
)
async def test_prune_passes_over_a_cluster_that_is_gone_or_goes(
    capsys: pytest.CaptureFixture[str],
    hub: FakeApiServer,
    host: FakeApiServer,
    *,
    is_there: bool,
    told: str,
) -> None:
    if is_there:
        cluster = objects.cluster("branch-a", "some-id")
        cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        hub.seed(cluster)
    ends = [Credentials(server.url, None, "a test") for server in (hub, host)]
    await run_prune(LeavePlan(leaving(), ends[0], ends[1], is_sure=True, is_forced=False))
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"branch-a: {told}")
    assert last == "nothing to remove"
    assert host.writes() == []
