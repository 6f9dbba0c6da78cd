"""What `leave` says before it acts, and what `leave --prune` says of what it finds."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState, ClusterRecord
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.leave import run_all, run_leave, run_prune, run_purge, warn
from karmada_vc_agent.install.leave_steps import Leaving, wait_deleted
from karmada_vc_agent.kube.errors import NotServedError
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_ROLES_PATH
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served

BINDINGS = "work.karmada.io/v1alpha2"
RBAC = "rbac.authorization.k8s.io/v1"
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
    *(each for each in served.HOST if each.api_version == RBAC),
)


@pytest.fixture
async def hub() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(HUB) as server:
        yield server


def leaving(*, preserve: bool = False) -> Leaving:
    return Leaving("branch-a", "agent", "agents", preserve, timeout_s=1.0, is_sure=True)


@pytest.mark.parametrize(("preserve", "fate"), [(False, "ends"), (True, "stays")])
def test_warning_says_what_becomes_of_what_bindings_run(
    capsys: pytest.CaptureFixture[str], *, preserve: bool, fate: str
) -> None:
    warn(leaving(preserve=preserve), ["resourcebinding bank/teller"], is_on_hub=True)
    first, second = capsys.readouterr().out.splitlines()
    assert f"what they run there {fate}" in first
    assert second == "  resourcebinding bank/teller"


@pytest.mark.parametrize("is_there", [False, True])
async def test_prune_skips_a_missing_or_terminating_cluster(
    capsys: pytest.CaptureFixture[str],
    hub: FakeApiServer,
    host: FakeApiServer,
    *,
    is_there: bool,
) -> None:
    if is_there:
        cluster = objects.cluster("branch-a", "some-id")
        cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        hub.seed(cluster)
    ends = ends_of(hub, host)
    await run_prune(leaving(), *ends)
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("branch-a: its Cluster is not on the hub, or ends")
    assert last == "nothing to remove"
    assert host.writes() == []


async def running_agent_that_left(host: FakeApiServer) -> None:
    """Let an agent lead on the host whose only virtual cluster has left."""
    held = {"holderIdentity": "agent-0_1", "leaseDurationSeconds": 15, "renewTime": objects.SINCE}
    metadata = {"name": "agent", "namespace": "agents"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    host.seed(objects.namespace("kube-system"), objects.namespace("agents"))
    host.seed({**lease, "spec": held})
    state = AgentState(host.client("host"), "agents", "agent")
    await state.load()
    await state.remember("branch-a", ClusterRecord("uid", "settings", has_left=True))


async def test_rights_are_removed_with_the_last_virtual_cluster_though_an_agent_runs(
    capsys: pytest.CaptureFixture[str], hub: FakeApiServer, host: FakeApiServer
) -> None:
    await running_agent_that_left(host)
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "vc-agent:agent"},
    }
    host.seed(binding)
    ends = ends_of(hub, host)
    await run_leave(leaving(), *ends)
    said = capsys.readouterr().out.splitlines()
    assert "the running agent does not serve branch-a: cleaning up from here" in said
    assert "host: agent agent has no virtual cluster left: removing all its rights" in said
    assert host.listed(f"/apis/{RBAC}/clusterrolebindings") == []


async def test_leave_of_what_has_left_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str], hub: FakeApiServer, host: FakeApiServer
) -> None:
    await running_agent_that_left(host)
    ends = ends_of(hub, host)

    left = asyncio.create_task(run_leave(leaving(), *ends))
    await asyncio.sleep(2)
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "Cluster branch-a is not on the hub; removing what remains of it"
    ]
    assert told.err == "waiting up to 25 s for leadership, now held by agent-0_1\n"
    await left
    first, last = capsys.readouterr().out.splitlines()
    assert first == "the running agent does not serve branch-a: cleaning up from here"
    assert last == "branch-a has left"


async def test_no_cluster_counts_as_deleted_while_karmada_serves_none(hub: FakeApiServer) -> None:
    """Its API servers go on listing everything else, as during an upgrade."""
    hub.seed(objects.cluster("branch-a", "some-id"))
    serves_all = list(hub.storage.served)
    hub.storage.served = [r for r in serves_all if "cluster.karmada.io" not in r.api_version]
    client = hub.client("hub")
    with pytest.raises(NotServedError):
        await wait_deleted(client, leaving(), print, releases=True)
    hub.storage.served = serves_all


def purging(cluster: str = "") -> Leaving:
    return replace(leaving(), cluster=cluster, purges=True)


def ends_of(*servers: FakeApiServer) -> list[Credentials]:
    return [Credentials(server.url, None, "a test") for server in servers]


async def test_agent_with_a_virtual_cluster_is_not_purged(
    hub: FakeApiServer, host: FakeApiServer
) -> None:
    host.seed(objects.namespace("kube-system"), objects.claimed("branch-b", agent="agent"))
    with pytest.raises(CommandError, match="other virtual clusters: branch-b"):
        await run_purge(purging(), *ends_of(hub, host))
    with pytest.raises(CommandError, match="other virtual clusters: branch-b"):
        await run_leave(purging("branch-a"), *ends_of(hub, host))
    assert host.writes() == hub.writes() == []


async def test_last_virtual_cluster_takes_the_agent_along(
    capsys: pytest.CaptureFixture[str], hub: FakeApiServer, host: FakeApiServer
) -> None:
    host.storage.served += [
        Served("v1", "serviceaccounts", "ServiceAccount"),
        Served("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "vc-agent:agent", "labels": {AGENT_LABEL: "agent"}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "agent", "namespace": "agents"},
    }
    host.seed(objects.namespace("kube-system"), objects.namespace("agents"), role, deployment)
    host.seed(objects.claimed("branch-a", agent="agent"))
    be_oneself(host)
    await run_leave(purging("branch-a"), *ends_of(hub, host))
    said = capsys.readouterr().out.splitlines()
    assert "branch-a has left" in said
    assert said[-1].startswith("agent agent is removed")
    assert host.find("/api/v1/namespaces/agents") is None
    assert host.listed(CLUSTER_ROLES_PATH) == []


def be_oneself(host: FakeApiServer) -> None:
    """Let the host say who we are."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    host.answer(b'{"status": {"userInfo": {"username": "admin"}}}', 201, path=path)


async def test_all_virtual_clusters_leave_one_after_the_other(
    capsys: pytest.CaptureFixture[str], hub: FakeApiServer, host: FakeApiServer
) -> None:
    claims = [objects.claimed(name, agent="agent") for name in ("branch-a", "branch-b")]
    host.seed(objects.namespace("kube-system"), objects.namespace("agents"), *claims)
    for _ in claims:
        be_oneself(host)
    everything = replace(leaving(), cluster="")
    await run_all(everything, *ends_of(hub, host))
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.endswith("has left")] == [
        "branch-a has left",
        "branch-b has left",
    ]
    await run_all(everything, *ends_of(hub, host))
    assert capsys.readouterr().out.splitlines() == ["agent agent has no virtual cluster"]
