"""`status`: what it makes of Clusters, Leases, Works and VirtualCluster objects."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner

from karmada_vc_agent.cli import main
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.diagnosis.servers import Server
from karmada_vc_agent.diagnosis.status import rows_of, state_of, written
from karmada_vc_agent.features.objects.definitions import API_VERSION, KIND
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.unit.diagnosis import conftest as made
from tests.unit.diagnosis.conftest import Chain

NOW = datetime.now(UTC)


async def table(chain: Chain, name: str = "") -> list[str]:
    rows, notes = await rows_of(*await chain.servers(), name)
    return written(rows, notes, "table", NOW + timedelta(seconds=3)).splitlines()


def described(**status: object) -> Object:
    metadata = {"name": "branch-a", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status}


async def test_row_has_nodes_works_by_state_and_the_age_of_the_lease(chain: Chain) -> None:
    refused = made.not_applied("no")
    refused["metadata"]["name"] = "refused"
    chain.hub.seed(refused)
    head, row = await table(chain)
    columns = "NAME READY NODES APPLIED REFUSED WAITING SUSPENDED PENDING LEASE"
    assert head.split() == columns.split()
    assert row.split()[:-2] == ["branch-a", "True", "1/1", "1", "1", "0", "0", "0"]
    assert row.endswith("s ago")


@pytest.mark.parametrize(
    ("work", "state"),
    [
        (made.work(), "applied"),
        (made.not_applied("no"), "refused"),
        (made.work(suspendDispatching=True), "suspended"),
        (made.work(objects.condition("Dispatching", "False", "OutsideWindow", "x")), "waiting"),
        (made.work(objects.condition("Dispatching", "True", "Dispatching", "x")), "pending"),
    ],
)
def test_work_has_one_state(work: Object, state: str) -> None:
    assert state_of(work) == state


async def test_why_it_is_not_ready_is_below(chain: Chain) -> None:
    conditions = [objects.ready("False"), objects.condition("NodeOverlap", "False", "x", "y")]
    cluster = chain.hub.live(made.CLUSTER_PATH)
    chain.hub.seed({**cluster, "status": {"conditions": conditions}})
    _, row, *below = await table(chain, "branch-a")
    assert row.split()[1] == "False"
    assert below == ["branch-a: Ready ClusterNotReachable: cluster is not reachable"]


async def test_lease_that_is_old_is_said(chain: Chain) -> None:
    chain.hub.seed(made.lease(NOW - timedelta(minutes=5)))
    *_, last = await table(chain)
    assert last.startswith("branch-a: Lease Overdue: no agent renews it")


async def test_objects_of_the_host_are_shown_while_the_hub_is_away(chain: Chain) -> None:
    contact = (NOW - timedelta(minutes=9)).isoformat()
    works = {"applied": 4, "failed": 0, "pending": 1}
    chain.host.seed(described(nodes={"total": 3, "ready": 2}, works=works, lastHubContact=contact))
    with chain.hub.down():
        _, row, note = await table(chain)
    assert row.split()[:4] == ["branch-a", "Unknown", "2/3", "4"]
    assert "hub reached" in row
    assert note.startswith("not seen: the hub does not answer")


async def test_hub_alone_is_enough(chain: Chain) -> None:
    with chain.host.down():
        _, row, note = await table(chain)
    assert row.split()[:3] == ["branch-a", "True", "1/1"]
    assert note.startswith("not seen: the host does not answer")


async def test_clusters_of_other_hosts_are_left_out(chain: Chain) -> None:
    cluster = chain.hub.live(made.CLUSTER_PATH)
    other = {**cluster, "metadata": {**cluster["metadata"], "name": "branch-z"}}
    chain.hub.seed(other)
    assert len(await table(chain)) == 2


async def test_misspelt_name_has_a_suggestion(chain: Chain) -> None:
    with pytest.raises(CommandError, match='no virtual cluster "brnch-a"; did you mean "branch-a"'):
        await table(chain, "brnch-a")


async def test_name_is_not_missing_alone_while_the_hub_is_away(chain: Chain) -> None:
    _, host = await chain.servers()
    with chain.hub.down():
        hub, _ = await chain.servers()
        with pytest.raises(CommandError, match=r'no virtual cluster "x"\sthe hub does not answer'):
            await rows_of(hub, host, "x")
        with pytest.raises(CommandError, match=r"^the hub does not answer"):
            await rows_of(hub, Server("host", None), "x")


async def test_neither_side_is_one_error_with_both(chain: Chain) -> None:
    with chain.hub.down(), chain.host.down(), pytest.raises(CommandError, match="the hub does not"):
        await table(chain)


async def test_json_and_yaml_have_the_same(chain: Chain) -> None:
    rows, _ = await rows_of(*await chain.servers())
    parsed = json.loads(written(rows, [], "json", NOW))
    assert parsed == yaml.safe_load(written(rows, [], "yaml", NOW))
    assert parsed[0]["works"]["applied"] == 1


def test_kubeconfig_that_is_none_is_one_line(tmp_path: object) -> None:
    path = f"{tmp_path}/nowhere"
    done = CliRunner().invoke(main, ["status", "--karmada-kubeconfig", path])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
