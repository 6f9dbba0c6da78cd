"""HostCleaner: what a virtual cluster shares with others is given up, not taken from them."""

import json

from karmada_vc_agent.commands.host_cleaning import HostCleaner
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.domain import OWNERS_ANNOTATION, SHARED_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.planning.share_plan import owners_of
from tests.fakes.api_server import FakeApiServer

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_class(name: str, *owners: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {
            "name": name,
            "labels": {SHARED_LABEL: "true"},
            "annotations": {OWNERS_ANNOTATION: json.dumps(dict.fromkeys(owners, "hash"))},
        },
        "value": 1,
    }


async def test_shared_objects_stay_with_their_other_owners(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(
        priority_class("common", "branch-a", "branch-b"),
        priority_class("own", "branch-a"),
        priority_class("foreign", "branch-b"),
    )
    said: list[str] = []
    await HostCleaner(client, "karmada-vc-agent", "branch-a", said.append).clean(preserve=False)
    assert owners_of(host.live(f"{PATH}/common")) == {"branch-b": "hash"}
    assert host.find(f"{PATH}/own") is None
    assert owners_of(host.live(f"{PATH}/foreign")) == {"branch-b": "hash"}
    assert said == [
        "host: PriorityClass common is shared: given up",
        "host: PriorityClass own is shared: given up",
    ]
