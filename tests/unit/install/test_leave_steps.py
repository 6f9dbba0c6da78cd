"""Who cleans up, the rights that are taken back, and what is left on the host."""

import asyncio

import pytest

from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.leave_steps import Leaving, clean_host, leading
from karmada_vc_agent.install.leave_steps import _without as without
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import LEASE_HOLDER_ANNOTATION, LEASE_NAMESPACE
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

LEAVING = Leaving("branch-a", "agent", "agents", preserve=False, timeout_s=1.0)


def rule(*names: str) -> Object:
    made: Object = {"apiGroups": [""], "resources": ["x"], "verbs": ["get"]}
    return made | ({"resourceNames": list(names)} if names else {})


def test_rule_that_named_one_cluster_is_removed_and_never_matches_all() -> None:
    assert without([rule(), rule("branch-a")], "branch-a") == [rule()]
    assert without([rule("branch-a", "branch-b")], "branch-a") == [rule("branch-b")]
    assert without([rule("branch-b")], "branch-a") == [rule("branch-b")]


@pytest.fixture
def said() -> list[str]:
    return []


def marked(name: str, namespace: str, cluster_name: str = "branch-a") -> Object:
    obj = objects.config_map(name, namespace)
    obj["metadata"]["labels"] = {"virtualcluster.kubeedge.io/cluster": cluster_name}
    obj["metadata"]["annotations"] = {
        "virtualcluster.kubeedge.io/work": f"karmada-es-{cluster_name}/{name}"
    }
    return obj


def claimed(cluster_name: str, agent: str = "agent") -> Object:
    made = {"virtualcluster.kubeedge.io/created-by-agent": "true"}
    return objects.claimed(cluster_name, agent=agent, annotations=made)


async def test_only_labelled_objects_in_claimed_namespaces_are_removed(
    host: FakeApiServer, client: ApiClient, said: list[str]
) -> None:
    host.seed(
        claimed("branch-a"),
        claimed("branch-b"),
        objects.namespace("others"),
        marked("mine", "edge-v-branch-a"),
        objects.config_map("unmarked", "edge-v-branch-a"),
        marked("forged", "others"),
        marked("theirs", "edge-v-branch-b", "branch-b"),
    )
    await clean_host(client, LEAVING, said.append)
    deleted = {str(request) for request in host.writes()}
    assert deleted == {
        "DELETE /api/v1/namespaces/edge-v-branch-a/configmaps/mine",
        "DELETE /api/v1/namespaces/edge-v-branch-a",
    }


async def test_namespaces_of_another_agent_are_left_alone(
    host: FakeApiServer, client: ApiClient, said: list[str]
) -> None:
    host.seed(claimed("branch-a", "another"), marked("mine", "edge-v-branch-a"))
    await clean_host(client, LEAVING, said.append)
    assert host.writes() == []


async def test_preserved_objects_stay_without_marks(
    host: FakeApiServer, client: ApiClient, said: list[str]
) -> None:
    host.seed(claimed("branch-a"), marked("mine", "edge-v-branch-a"))
    leaving = Leaving("branch-a", "agent", "agents", preserve=True, timeout_s=1.0)
    await clean_host(client, leaving, said.append)
    live = host.live("/api/v1/namespaces/edge-v-branch-a/configmaps/mine")
    assert not live["metadata"].get("labels")
    assert not live["metadata"].get("annotations")
    namespace = host.live("/api/v1/namespaces/edge-v-branch-a")
    assert "virtualcluster.kubeedge.io/cluster" not in namespace["metadata"]["labels"]


LEASE = "/apis/coordination.k8s.io/v1/namespaces/agents/leases/agent"


def lease(name: str, namespace: str, holder: str = "", **annotations: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    held = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": objects.SINCE}
    return {**head, "spec": held}


async def renew(host: FakeApiServer) -> None:
    """Renew the leader Lease, as a running agent does."""
    await asyncio.sleep(1.5)
    host.change(
        LEASE, spec={**host.live(LEASE)["spec"], "renewTime": "2026-01-01T00:00:15.000000Z"}
    )


@pytest.mark.parametrize(
    ("process", "text"),
    [
        ("agent-0_1", "branch-a is served by a running agent, which cleans up the host"),
        ("another_1", "the running agent does not serve branch-a: cleaning up from here"),
    ],
)
async def test_agent_that_leads_serves_if_it_renews_the_lease_of_the_cluster(
    hub: FakeApiServer, host: FakeApiServer, said: list[str], process: str, text: str
) -> None:
    host.seed(objects.namespace("agents"), lease("agent", "agents", "agent-0_1"))
    marks = {LEASE_HOLDER_ANNOTATION: process}
    hub.seed(objects.cluster("branch-a", "id"), lease("branch-a", LEASE_NAMESPACE, **marks))
    renewing = asyncio.create_task(renew(host))
    async with leading(hub.client("hub"), host.client("host"), LEAVING, said.append) as is_served:
        assert is_served == (process == "agent-0_1")
    await renewing
    assert said == [text]
    assert host.live(LEASE)["spec"]["holderIdentity"] == "agent-0_1"


async def test_leave_leads_where_no_agent_runs(
    hub: FakeApiServer, host: FakeApiServer, said: list[str]
) -> None:
    host.seed(objects.namespace("agents"))
    async with leading(hub.client("hub"), host.client("host"), LEAVING, said.append) as is_served:
        assert host.live(LEASE)["spec"]["holderIdentity"].startswith("leave-")
    assert not is_served
    assert said == ["no agent is running: cleaning up from here"]
    assert host.live(LEASE)["spec"]["holderIdentity"] == "", "an agent may lead again"


async def test_agent_that_leads_while_the_hub_is_away_is_an_error(
    host: FakeApiServer, said: list[str]
) -> None:
    host.seed(objects.namespace("agents"), lease("agent", "agents", "agent-0_1"))
    with pytest.raises(CommandError, match=r"an agent is running \(agent-0_1\) and would restore"):
        async with leading(None, host.client("host"), LEAVING, said.append):
            pytest.fail("it leads")
    assert host.live(LEASE)["spec"]["holderIdentity"] == "agent-0_1"
