"""A virtual cluster answers as a plain API server with the same objects does.

Each case is asked of both. What differs must stand in e2e/corpus/gateway_differences.yaml with its
reason; an entry that no case needs any more fails, too.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.lab.api import Api, Object, collection_of
from e2e.lab.conformance import JSON, Request, cases_of, differences
from e2e.lab.kubectl import kubectl
from e2e.lab.lone_gateway import lone_gateway
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import Pair
from e2e.lab.tenant_objects import tenant_objects

LISTED = Path(__file__).parent / "corpus" / "gateway_differences.yaml"
KUBECTL = (
    ("get", "{kind}", "-n", "shop", "-l", "app=web", "-o", "name"),
    ("get", "{kind}/{name}", "-n", "shop", "--no-headers", "-o", "custom-columns=:metadata.name"),
    ("get", "{kind}", "-n", "shop", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.labels}"),
    ("get", "{kind}/missing", "-n", "shop", "--ignore-not-found"),
    ("label", "{kind}/{name}", "-n", "shop", "k=v", "--dry-run=server", "-o", "name"),
    ("explain", "{kind}"),
)


class World(NamedTuple):
    """A plain API server, and a virtual cluster, with the same objects in namespace `shop`."""

    plain: Api
    pair: Pair

    def both(self, request: Request) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
        headers = {"Accept": request.accept}
        if request.form:
            headers["Content-Type"] = request.form
        plain = self.plain.answer(request.method, request.path, request.content, headers)
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        body = request.content or None
        answer = self.pair.ask(request.path, "a", request.method, body=body, **named)  # type: ignore[arg-type] # of headers
        return plain, (answer.status, answer.data)


@pytest.fixture(name="world", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with (
        lone_api_server(folder / "plain") as plain,
        lone_api_server(folder / "host") as host,
        lone_gateway(host, folder) as lone,
    ):
        world = World(plain, Pair(lone))
        plain.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        for obj in tenant_objects("shop"):
            for code, told in world.both(Request("POST", collection_of(obj), JSON, JSON, obj)):
                assert code == 201, told
        yield world


class Listed:
    """The differences that are allowed; used: those that were needed."""

    def __init__(self) -> None:
        self._entries: list[dict[str, str]] = yaml.safe_load(LISTED.read_text())
        self.used: set[int] = set()

    def allows(self, kind: str, case: str, path: str) -> bool:
        for number, entry in enumerate(self._entries):
            if (
                re.fullmatch(entry.get("kind", ".*"), kind)
                and re.fullmatch(entry.get("case", ".*"), case)
                and re.fullmatch(entry["path"], path)
            ):
                self.used.add(number)
                return True
        return False

    def stale(self) -> list[Any]:
        return [each for number, each in enumerate(self._entries) if number not in self.used]


def test_answers_are_those_of_a_plain_server(world: World) -> None:
    """At least 120 cases of 15 kinds."""
    listed, found, cases, kinds = Listed(), [], 0, set()
    for obj in tenant_objects("shop"):
        kinds.add(obj["kind"])
        for case, request in cases_of(obj):
            cases += 1
            for path, values in differences(*world.both(request)).items():
                if not listed.allows(obj["kind"], case, path):
                    found.append((obj["kind"], case, path, values))
    assert not found, "\n".join(map(str, found))
    assert not listed.stale()
    assert cases >= 120
    assert len(kinds) >= 15


@pytest.mark.parametrize("obj", tenant_objects("shop"), ids=lambda obj: str(obj["kind"]))
def test_kubectl_is_told_the_same(world: World, obj: Object) -> None:
    pair = world.pair
    kubeconfig = pair.gateway.kubeconfig(pair.names["a"])
    for arguments in KUBECTL:
        words = {"{kind}": obj["kind"], "{name}": obj["metadata"]["name"]}
        named = [_filled(each, words) for each in arguments]
        assert kubectl(kubeconfig, *named) == kubectl(world.plain.kubeconfig, *named), named


def _filled(argument: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        argument = argument.replace(word, value)
    return argument
