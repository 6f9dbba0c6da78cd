"""A virtual cluster answers as a plain API server with the same objects does.

Each case is asked of both. What differs must stand in e2e/corpus/gateway_differences.yaml with its
reason; an entry that no case needs any more fails, too.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.lab.api import Api, Object, collection_of
from e2e.lab.client_go import client_go
from e2e.lab.conformance import JSON, Comparison, Request, cases_of, differences, differing
from e2e.lab.kubectl import kubectl
from e2e.lab.lone_gateway import lone_gateway
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import Pair
from e2e.lab.python_client import PythonClient
from e2e.lab.tenant_objects import tenant_objects

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

    def kubeconfigs(self) -> tuple[Path, Path]:
        """Return those of the API server and of the virtual cluster."""
        return self.plain.kubeconfig, self.pair.gateway.kubeconfig(self.pair.names["a"])

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


def test_answers_are_those_of_a_plain_server(world: World) -> None:
    """At least 120 cases of 15 kinds."""
    cases = [(obj["kind"], *each) for obj in tenant_objects("shop") for each in cases_of(obj)]
    compared = Comparison("http")
    with ThreadPoolExecutor(4) as pool:  # watches wait for their end
        results = pool.map(lambda each: _differences(world, *each[1:]), cases)
        for (kind, case, _), result in zip(cases, results, strict=True):
            compared.add(kind, case, result)
    compared.check()
    assert compared.cases >= 120
    assert len(compared.kinds) >= 15


def _differences(world: World, case: str, request: Request) -> dict[str, tuple[Any, Any]]:
    answers = world.both(request)
    if case == "watch-list" and not all(b"initial-events-end" in each for _, each in answers):
        longer = request.path.replace("timeoutSeconds=1", "timeoutSeconds=15")  # for a busy server
        answers = world.both(replace(request, path=longer))
    return differences(*answers)


@pytest.mark.parametrize("by", ["watch-list", "list and watch"])
def test_controllers_of_client_go_see_the_same(world: World, by: str) -> None:
    """Informers by dynamic, typed and metadata clients, and each way to write."""
    name = by.replace(" ", "-")
    told = [
        client_go(kubeconfig, name, tenant_objects("shop"), by_watch_list=by == "watch-list")
        for kubeconfig in world.kubeconfigs()
    ]
    used, unused = ("watchLists", "lists") if by == "watch-list" else ("lists", "watchLists")
    if by == "watch-list" and told[0]["informers"]["lists"]:
        by, used, unused = "list and watch", "lists", ""  # the host serves none, as 1.33
    compared = Comparison(f"client-go by {by}")
    for each in told:
        assert each["informers"][used] >= 3 * len(tenant_objects("shop"))
        assert not each["informers"].get(unused)
    plain, virtual = (each["told"] for each in told)
    for kind in sorted({*plain, *virtual}):
        for case in sorted({*plain.get(kind, {}), *virtual.get(kind, {})}):
            both = (each.get(kind, {}).get(case, "not told") for each in (plain, virtual))
            compared.add(kind, case, differing(*both))
    compared.check()
    assert compared.cases >= 400


def test_python_client_receives_the_same(world: World, tmp_path: Path) -> None:
    compared = Comparison("python")
    clients = []
    for number, kubeconfig in enumerate(world.kubeconfigs()):
        folder = tmp_path / str(number)
        folder.mkdir()
        clients.append(PythonClient(kubeconfig, folder))
    for obj in tenant_objects("shop"):
        plain, virtual = (dict(each.cases(obj, "by-python")) for each in clients)
        assert plain.keys() == virtual.keys()
        for case, value in plain.items():
            compared.add(obj["kind"], case, differing(value, virtual[case]))
    compared.check()
    assert compared.cases >= 400


@pytest.mark.parametrize("obj", tenant_objects("shop"), ids=lambda obj: str(obj["kind"]))
def test_kubectl_prints_the_same(world: World, obj: Object) -> None:
    plain, virtual = world.kubeconfigs()
    for arguments in KUBECTL:
        words = {"{kind}": obj["kind"], "{name}": obj["metadata"]["name"]}
        named = [_filled(each, words) for each in arguments]
        assert kubectl(virtual, *named) == kubectl(plain, *named), named


def _filled(argument: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        argument = argument.replace(word, value)
    return argument
