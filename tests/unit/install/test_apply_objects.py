"""Only what differs is written; it is shown first, and what others tuned stays."""

import pytest

from karmada_vc_agent.access.agent_objects import HostInstall, workload_objects
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.apply_objects import MANAGER, Changes, apply_all
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces/agents/configmaps/agent"
DEPLOYMENT = "/apis/apps/v1/namespaces/agents/deployments/agent"
CONTAINER = '.spec.template.spec.containers[name="agent"]'
IMAGE = f"{CONTAINER}.image"
LIMIT = f"{CONTAINER}.resources.limits.memory"


def wanted(**data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "agent", "namespace": "agents", "labels": {"app": "agent"}},
        "data": data,
    }


def deployment(image: str = "agent:1") -> Object:
    return workload_objects(HostInstall("agent", "agents", image))[-1]


class Applier:
    """Applies objects and returns the lines that it prints."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def apply(self, *objects: Object, dry: bool = False) -> str:
        lines: list[str] = []
        await apply_all(self._client, objects, Changes(lines.append, is_dry=dry))
        return "\n".join(lines)


@pytest.fixture
def applier(host: FakeApiServer, client: ApiClient) -> Applier:
    host.seed(objects.namespace("agents"))
    return Applier(client)


async def test_what_is_missing_is_created_and_done_again_costs_no_write(
    host: FakeApiServer, applier: Applier
) -> None:
    assert await applier.apply(wanted(a="1")) == "host: create ConfigMap agents/agent"
    assert host.live(PATH)["data"] == {"a": "1"}
    host.requests.clear()
    assert await applier.apply(wanted(a="1")) == ""
    assert host.changes() == []


async def test_differing_field_is_reported_and_changed_and_others_stay(
    host: FakeApiServer, applier: Applier
) -> None:
    host.seed(wanted(a="1", theirs="x"))
    lines = await applier.apply(wanted(a="2"))
    assert lines == 'host: change ConfigMap agents/agent\n    .data.a: "1" -> "2"'
    assert host.live(PATH)["data"] == {"a": "2", "theirs": "x"}
    (written,) = host.changes()
    assert written.query["fieldManager"] == MANAGER


async def test_all_differences_are_reported_before_the_first_write(
    host: FakeApiServer, client: ApiClient, applier: Applier
) -> None:
    second = wanted(a="1")
    second["metadata"] = {"name": "second", "namespace": "agents"}
    writes: list[int] = []
    changes = Changes(lambda _: writes.append(len(host.changes())))
    await apply_all(client, [wanted(a="1"), second], changes)
    assert writes == [0, 0]
    assert len(host.changes()) == 2


async def test_dry_run_reports_the_same_and_writes_nothing(
    host: FakeApiServer, applier: Applier
) -> None:
    host.seed(wanted(a="1"))
    new = objects.namespace("other")
    dry = await applier.apply(wanted(a="2"), new, dry=True)
    assert host.changes() == []
    assert host.live(PATH)["data"] == {"a": "1"}
    assert await applier.apply(wanted(a="2"), new) == dry


async def test_object_that_is_being_deleted_is_left_to_end(
    host: FakeApiServer, applier: Applier
) -> None:
    ending = wanted(a="1")
    ending["metadata"] |= {"finalizers": ["x/y"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    host.seed(ending)
    with pytest.raises(CommandError, match="is being deleted"):
        await applier.apply(wanted(a="2"))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        (".spec.replicas", {"replicas": 5}),
        (LIMIT, {"limits": {"memory": "1Gi"}}),
    ],
)
async def test_tuned_fields_stay(
    host: FakeApiServer, applier: Applier, field: str, change: Object
) -> None:
    await applier.apply(deployment())
    _tune(host, change)
    host.set_by_another(DEPLOYMENT, field, "kubectl-edit")
    tuned = host.live(DEPLOYMENT)
    assert await applier.apply(deployment()) == ""
    assert host.live(DEPLOYMENT) == tuned
    other = deployment()
    other["spec"]["template"]["spec"]["containers"][0]["args"].append("--new")
    lines = (await applier.apply(other)).splitlines()
    assert [line.strip() for line in lines[1:]] == [f"{CONTAINER}.args:", "+ --new"]
    (container,) = host.live(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--new"
    container["args"].pop()
    was = tuned["spec"]["template"]["spec"]["containers"][0]
    assert (host.live(DEPLOYMENT)["spec"]["replicas"], container) == (
        tuned["spec"]["replicas"],
        was,
    )


async def test_image_is_set_whoever_set_it_before(host: FakeApiServer, applier: Applier) -> None:
    await applier.apply(deployment())
    _tune(host, {"image": "mirror.example/agent:1"})
    host.set_by_another(DEPLOYMENT, IMAGE, "kubectl-set")
    lines = await applier.apply(deployment("agent:2"))
    assert f'{IMAGE}: "mirror.example/agent:1" -> "agent:2"' in lines
    (container,) = host.live(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "agent:2"


async def test_what_an_earlier_join_set_is_changed(host: FakeApiServer, applier: Applier) -> None:
    await applier.apply(deployment())
    host.set_by_another(DEPLOYMENT, IMAGE, MANAGER)
    assert f'{IMAGE}: "agent:1" -> "agent:2"' in await applier.apply(deployment("agent:2"))


async def test_what_the_agent_needs_is_taken_back(host: FakeApiServer, applier: Applier) -> None:
    await applier.apply(deployment())
    live = host.live(DEPLOYMENT)
    live["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    host.change(DEPLOYMENT, spec=live["spec"])
    field = ".spec.template.spec.serviceAccountName"
    host.set_by_another(DEPLOYMENT, field, "kubectl-edit")
    assert f'{field}: "default" -> "agent"' in await applier.apply(deployment())
    assert host.live(DEPLOYMENT)["spec"] == deployment()["spec"]


def _tune(host: FakeApiServer, change: Object) -> None:
    spec = host.live(DEPLOYMENT)["spec"]
    if "replicas" in change:
        spec |= change
    elif "limits" in change:
        spec["template"]["spec"]["containers"][0]["resources"]["limits"] |= change["limits"]
    else:
        spec["template"]["spec"]["containers"][0] |= change
    host.change(DEPLOYMENT, spec=spec)
