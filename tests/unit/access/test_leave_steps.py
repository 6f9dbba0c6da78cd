"""Rights that are taken back, and what is left on the host."""

import pytest

from karmada_vc_agent.access.leave_cleaning import clean_host
from karmada_vc_agent.access.leave_steps import Leaving
from karmada_vc_agent.access.leave_steps import _without as without
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

LEAVING = Leaving("branch-a", "agent", "agents", preserve=False, timeout_s=1.0)


def rule(*names: str) -> Object:
    made: Object = {"apiGroups": [""], "resources": ["x"], "verbs": ["get"]}
    return made | ({"resourceNames": list(names)} if names else {})


def test_a_rule_that_named_nobody_else_goes_and_never_becomes_one_for_all() -> None:
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
