"""Namespaces that are created at once, by the real rules: together they keep to the bound."""

import asyncio
from pathlib import Path

import orjson
import pytest

from karmada_vc_agent.features.gateway.server import access
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH
from karmada_vc_agent.model.virtual_cluster import Bounds, LabelSelector, VirtualCluster
from tests.fakes.gateway_lab import Lab, Reply, gateway_lab

SPACES = "/api/v1/namespaces"


async def test_creations_at_once_keep_to_the_bound(tmp_path: Path) -> None:
    """One namespace is there, and three may be."""
    async with gateway_lab(tmp_path) as lab:
        selector = LabelSelector(match_labels={"branch": "a"})
        lab.state.file.replace_all((VirtualCluster("a", selector, bounds=Bounds(works=3)),))
        lab.host.answer(
            b'{"status": {"allowed": true}}', 201, path=SELF_ACCESS_REVIEWS_PATH, times=100
        )
        replies = await asyncio.gather(*(_create(lab, f"n-{number}") for number in range(4)))
        assert sorted(reply.code for reply in replies) == [201, 201, 403, 403]
        told = {reply.json["message"].rpartition(": ")[2] for reply in replies if reply.code == 403}
        assert told == {"the virtual cluster may have 3 namespaces (bounds.works)"}
        made = [request for request in lab.host.writes() if request.path == SPACES]
        assert len(made) == 2


async def _create(lab: Lab, name: str) -> Reply:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    content = ("Content-Type", "application/json")
    return await lab.ask(SPACES, content, method="POST", body=orjson.dumps(body))


async def test_creations_far_from_the_bound_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is away, so each waits as long as it may to be set up."""
    monkeypatch.setattr(access, "SET_UP_S", 3.0)
    async with gateway_lab(tmp_path) as lab:
        denied = b'{"status": {"allowed": false}}'
        lab.host.answer(denied, 201, path=SELF_ACCESS_REVIEWS_PATH, times=10_000)
        tasks = [asyncio.create_task(_create(lab, f"n-{number}")) for number in range(4)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        made = [request for request in lab.host.writes() if request.path == SPACES]
        assert len(made) == 4
        assert {(await task).code for task in tasks} == {201}
