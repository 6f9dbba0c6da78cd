"""put_status: the conditions of a Work get through, whatever else of it does not."""

from typing import Any

import pytest

from karmada_vc_agent.kube.errors import ApiError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.works import put_status
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
CONDITIONS = [{"type": "Applied", "status": "False", "reason": "AppliedFailed"}]


def status(reflected: Any) -> Object:
    entry = {"identifier": {"ordinal": 0}, "health": "Healthy", "status": reflected}
    return {"conditions": CONDITIONS, "manifestStatuses": [entry]}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("code", "message"), [(413, ""), (500, "etcdserver: request is too large"), (422, "no")]
)
async def test_conditions_are_written_where_the_hub_refuses_what_was_reflected(
    hub: FakeApiServer, code: int, message: str
) -> None:
    work = hub.seed(objects.work(objects.config_map()))
    hub.fail(code, "Reason", path=f"{WORK}/status", message=message)
    async with hub.client("hub") as client:
        await put_status(client, work, status({"a": 1}))
    written = hub.live(WORK)["status"]
    assert written["conditions"] == CONDITIONS
    assert written["manifestStatuses"] == [{"identifier": {"ordinal": 0}, "health": "Healthy"}]


async def test_other_refusals_are_not_met_with_less(hub: FakeApiServer) -> None:
    work = hub.seed(objects.work(objects.config_map()))
    hub.fail(403, "Forbidden", path=f"{WORK}/status")
    async with hub.client("hub") as client:
        with pytest.raises(ApiError):
            await put_status(client, work, status({"a": 1}))
    assert len(hub.writes()) == 1


@pytest.mark.parametrize("reflected", [{"a": 1}, nested(300)])
async def test_status_gets_through_though_manifests_are_nested_too_deep(
    hub: FakeApiServer, reflected: Any
) -> None:
    deep = objects.config_map() | {"data": nested(300)}
    work = hub.seed(objects.work(deep))
    async with hub.client("hub") as client:
        await put_status(client, work, status(reflected))
    assert hub.live(WORK)["status"]["conditions"] == CONDITIONS
    assert hub.live(WORK)["spec"] == work["spec"]


async def test_status_is_sent_alone_and_the_work_is_returned_whole(hub: FakeApiServer) -> None:
    work = hub.seed(objects.work(objects.config_map()))
    async with hub.client("hub") as client:
        answer = await put_status(client, work, status({"a": 1}))
    (request,) = hub.writes()
    assert request.body.keys() == {"apiVersion", "kind", "metadata", "status"}
    assert request.body["metadata"].keys() <= {"name", "namespace", "uid", "resourceVersion"}
    live = hub.live(WORK)
    assert answer["spec"] == live["spec"]
    assert answer["status"] == live["status"]
    assert answer["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
