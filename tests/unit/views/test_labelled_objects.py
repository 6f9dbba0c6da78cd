"""labelled_objects: which kinds may be passed over."""

import pytest

from karmada_vc_agent.kube.errors import ApiError
from karmada_vc_agent.model.domain import SHARED_LABEL
from karmada_vc_agent.views.labelled_objects import labelled_objects
from tests.fakes.world import World


async def listed(world: World) -> list[str]:
    served = await world.host_discovery.refresh()
    shared = labelled_objects(world.host_client, served, SHARED_LABEL)
    return [found["metadata"]["name"] async for _, found in shared]


def seed(world: World) -> None:
    metadata = {"name": "urgent", "labels": {SHARED_LABEL: "true"}}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1}
    world.host.seed({**kind, "metadata": metadata})


async def test_kind_whose_own_server_is_away_is_passed_over(world: World) -> None:
    seed(world)
    world.host.fail(503, method="GET", path="/apis/example.com/v1/widgets", times=9)
    assert await listed(world) == ["urgent"]


async def test_kind_of_kubernetes_that_is_away_is_told(world: World) -> None:
    seed(world)
    world.host.fail(503, method="GET", path="/apis/batch/v1/jobs", times=9)
    with pytest.raises(ApiError):
        await listed(world)
