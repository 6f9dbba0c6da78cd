"""Adoptions: what the host is asked, what is written, and what is told of it."""

from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.features.adoption.feature import PAGES_AT_MOST, Adoptions
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.model.objects import Object, annotations_of, copy_object, dig, gvk_of
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    KEPT_PLACEMENT_ANNOTATION,
    NAMESPACE_LABEL,
)
from karmada_vc_agent.work.manifests import ReportedObjects
from tests.fakes import objects

RESOURCE = Resource(gvk_of(objects.deployment()), "deployments", namespaced=True)
SELECTOR = ("spec", "template", "spec", "nodeSelector")


def pod(node: str) -> Object:
    found = objects.pod(f"web-{node}", "shop", node)
    found["metadata"]["labels"] = {"app": "web"}
    return found


class Host:
    """Answers a dry run with what it was sent, and what it would fill in."""

    def __init__(self, *nodes: str) -> None:
        self.client: Any = AsyncMock()
        self._pods = [pod(node) for node in nodes]
        self.client.read_page.side_effect = self._page
        self.client.replace.side_effect = self._replace
        self.scopes = Scopes()
        self.kept = ReportedObjects(self.scopes)
        self.told: list[str] = []
        self.kept.changed.subscribe(self.told.append)
        self.adoptions = Adoptions(self.client, self.kept, lambda _, node: node.startswith("own"))

    async def _page(self, path: str, query: dict[str, str]) -> bytes:
        """Answer with one pod a page."""
        assert path == "/api/v1/namespaces/shop/pods"
        number = int(query.get("continue", 0))
        more = str(number + 1) if number + 1 < len(self._pods) else ""
        items = self._pods[number : number + 1]
        return msgspec.json.encode(
            {"items": items, "metadata": {"continue": more, "resourceVersion": "7"}}
        )

    async def _replace(self, _path: str, obj: Object, _user: str, query: object) -> Object:
        assert query == {"dryRun": "All"}
        answer: Object = copy_object(obj)
        dig(answer, "spec", "template", "spec")["restartPolicy"] = "Always"
        return answer

    async def settle(self, wanted: Object, found: Object) -> tuple[Object, bool]:
        return await self.adoptions.settle(RESOURCE, wanted, found, "")


def live(**pod_spec: Any) -> Object:
    found = objects.deployment(ns="shop", restartPolicy="Always", **pod_spec)
    found["metadata"]["labels"] = {}
    return found


def wanted(**pod_spec: Any) -> Object:
    found = objects.deployment(ns="shop", nodeSelector={"branch": "a"}, **pod_spec)
    found["metadata"]["labels"] |= {CLUSTER_LABEL: "branch-a", NAMESPACE_LABEL: "edge"}
    return found


async def test_workload_that_runs_in_place_keeps_its_placement_and_is_named() -> None:
    host = Host("own-1", "own-2")
    written, is_kept = await host.settle(wanted(), live())
    assert is_kept
    assert dig(written, *SELECTOR) is None
    assert annotations_of(written)[KEPT_PLACEMENT_ANNOTATION] == "true"
    assert host.kept.of("branch-a") == ["Deployment edge/web"]
    assert host.told == ["branch-a"]

    # Once it is as it is to be, nothing is written and nothing is told any more.
    now = await host._replace("", written, "", {"dryRun": "All"})
    assert await host.settle(wanted() | {"metadata": now["metadata"]}, now) == (now, True)
    assert host.told == ["branch-a"]


@pytest.mark.parametrize("nodes", [("own-1",), ("own-1", "other")], ids=["lost", "elsewhere"])
async def test_workload_that_makes_pods_anyway_is_placed(nodes: tuple[str, ...]) -> None:
    host = Host(*nodes)
    written, is_kept = await host.settle(wanted(), live())
    assert not is_kept
    assert dig(written, *SELECTOR) == {"branch": "a"}
    host.client.replace.assert_not_called()
    assert host.kept.of("branch-a") == []


async def test_more_pods_than_are_checked_are_recreated() -> None:
    host = Host(*["own-1"] * (PAGES_AT_MOST + 1))
    _, is_kept = await host.settle(wanted(), live())
    assert not is_kept
    assert host.client.read_page.await_count == PAGES_AT_MOST


async def test_other_template_is_placed_and_no_longer_named() -> None:
    host = Host("own-1", "own-2")
    kept, _ = await host.settle(wanted(), live())
    written, is_kept = await host.settle(
        wanted(hostNetwork=True) | {"metadata": kept["metadata"]}, kept
    )
    assert not is_kept
    assert dig(written, *SELECTOR) == {"branch": "a"}
    assert KEPT_PLACEMENT_ANNOTATION not in annotations_of(written)
    assert host.kept.of("branch-a") == []
    assert host.told == ["branch-a"] * 2


async def test_update_the_host_refuses_is_written_as_desired_and_refused() -> None:
    host = Host("own-1", "own-2")
    host.client.replace.side_effect = InvalidError(422, "Invalid", "no")
    written, is_kept = await host.settle(wanted(), live())
    assert not is_kept
    assert dig(written, *SELECTOR) == {"branch": "a"}


async def test_pods_placed_by_the_agent_are_not_requested() -> None:
    host = Host("own-1", "own-2")
    found = live()
    found["metadata"]["labels"] = {CLUSTER_LABEL: "branch-a"}
    assert (await host.settle(wanted(), found))[1] is False
    assert host.client.mock_calls == []


async def test_deleted_object_is_forgotten() -> None:
    host = Host("own-1", "own-2")
    await host.settle(wanted(), live())
    host.adoptions.gone(wanted())
    assert host.kept.of("branch-a") == []
    await host.settle(wanted(), live())
    host.scopes.end("branch-a")
    assert host.kept.of("branch-a") == []
