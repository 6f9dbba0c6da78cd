"""Only what differs is written, and told."""

from karmada_vc_agent.commands.apply_objects import apply, apply_all
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces/agents/configmaps/agent"


def wanted(**data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "agent", "namespace": "agents", "labels": {"app": "agent"}},
        "data": data,
    }


async def test_what_is_missing_is_created_and_done_again_costs_no_write(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(objects.namespace("agents"))
    assert await apply_all(client, [wanted(a="1")]) == ["host: created ConfigMap agents/agent"]
    host.requests.clear()
    assert await apply_all(client, [wanted(a="1")]) == []
    assert host.writes() == []


async def test_only_the_field_that_differs_is_changed(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(objects.namespace("agents"), wanted(a="1", theirs="x"))
    assert await apply(client, wanted(a="2")) == "changed ConfigMap agents/agent (data)"
    assert host.live(PATH)["data"] == {"a": "2", "theirs": "x"}
    (written,) = host.writes()
    assert set(written.body) == {"data"}


async def test_an_object_that_appears_meanwhile_is_looked_at_again(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(objects.namespace("agents"))
    collection = PATH.rpartition("/")[0]
    host.before("POST", collection, lambda: host.seed(wanted(a="0")))
    assert await apply(client, wanted(a="1")) == "changed ConfigMap agents/agent (data)"
