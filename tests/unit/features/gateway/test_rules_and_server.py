"""The rules of mapping and the server together, before a fake host."""

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.fakes.gateway_lab import TOKENS, Lab, config_map, gateway_lab, read_chunk


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with gateway_lab(tmp_path) as found:
        yield found


@pytest.mark.parametrize("path", ["/api/v1/configmaps", "/api/v1/namespaces/edge/configmaps"])
@pytest.mark.parametrize("query", ["", "?limit=1", "?limit=500"])
async def test_each_lists_its_own(lab: Lab, path: str, query: str) -> None:
    for cluster in ("a", "b"):
        token = TOKENS[cluster, "access"]
        reply = await lab.ask(path + query, token=token, cluster=cluster)
        assert reply.code == 200, reply.body
        assert [item["metadata"]["namespace"] for item in reply.json["items"]] == ["edge"]
        assert b"-v-" not in reply.body


async def test_a_large_list_is_the_same_in_parts(lab: Lab) -> None:
    lab.host.seed(
        *(
            {**config_map(f"edge-v-{vc}", f"x{n:03}"), "data": {"pad": "x" * 1000}}
            for vc in ("a", "b")
            for n in range(300)
        )
    )
    reply = await lab.ask("/api/v1/configmaps")
    assert reply.headers["transfer-encoding"] == "chunked"
    assert len(reply.json["items"]) == 301
    assert b"-v-" not in reply.body


async def test_what_is_of_others_is_as_what_is_not_there(lab: Lab) -> None:
    """To the byte: fields in another order would tell that a name is taken."""
    metadata = {"name": "of-b", "labels": {"branch": "b"}}
    lab.host.seed({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    found = [await lab.ask(f"/api/v1/nodes/{name}") for name in ("of-b", "of-0")]
    assert [reply.code for reply in found] == [404, 404]
    assert found[0].body.replace(b"of-b", b"of-0") == found[1].body
    assert found[0].headers.keys() == found[1].headers.keys()


async def test_an_object_is_written_and_read_back(lab: Lab) -> None:
    path = "/api/v1/namespaces/edge/configmaps"
    body = orjson.dumps(config_map("edge", "own"))
    reply = await lab.ask(path, ("Content-Type", "application/json"), method="POST", body=body)
    assert (reply.code, reply.json["metadata"]["namespace"]) == (201, "edge")
    assert lab.host.live("/api/v1/namespaces/edge-v-a/configmaps/own")
    assert (await lab.ask(f"{path}/own")).json["metadata"]["namespace"] == "edge"
    assert (await lab.ask(f"{path}/own", method="DELETE")).code == 200
    assert lab.host.find("/api/v1/namespaces/edge-v-a/configmaps/own") is None


async def test_watch_of_all_namespaces_reports_its_own(lab: Lab) -> None:
    version = lab.host.storage.version
    path = f"/api/v1/configmaps?watch=true&resourceVersion={version}"
    reader, writer = await lab.open(path)
    await reader.readuntil(b"\r\n\r\n")
    lab.host.seed(config_map("edge-v-b", "n"), config_map("edge-v-a", "n"))
    event = orjson.loads(await read_chunk(reader))
    assert (event["type"], event["object"]["metadata"]["namespace"]) == ("ADDED", "edge")
    writer.close()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/namespaces/edge-v-b/configmaps/m", 404),
        ("/api/v1/namespaces/kube-system/configmaps/m", 404),
        ("/api/v1/namespaces/edge/../x", 400),
        ("/api/v1/namespaces/edge%2f..%2fx/configmaps", 400),
        ("/metrics", 403),
        ("/apis/none/v1/x", 404),
    ],
)
async def test_what_is_not_its_own_is_not_there(lab: Lab, path: str, code: int) -> None:
    reply = await lab.ask(path)
    assert reply.code == code, reply.body
    assert reply.json["kind"] == "Status"
    assert b"-v-" not in reply.body.replace(b"edge-v-b", b"") or "edge-v-b" in path
