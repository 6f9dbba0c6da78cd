"""Namespaces of a virtual cluster are read and written as at a plain API server.

Each case is asked of both; what differs must stand in e2e/corpus/gateway_differences.yaml.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e.lab.api import Api, Object
from e2e.lab.conformance import JSON, Comparison, Request, cases_of, differences
from e2e.lab.lab import Lab
from e2e.lab.lone_server import lone_api_server
from e2e.lab.operated_site import OperatedSite

SPACES = "/api/v1/namespaces"
TEAM: Object = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"app": "web"}},
}
UNCONFINED = ("list", "list as a table", "list metadata", "list a page", "watch-list")
"""They tell of the Namespaces that each cluster has of its own."""


@pytest.fixture(name="site", scope="module")
def serve(new_lab: Callable[[], Lab]) -> Iterator[OperatedSite]:
    with OperatedSite(new_lab()) as site:
        yield site


@pytest.fixture(name="plain", scope="module")
def plain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with lone_api_server(
        tmp_path_factory.mktemp("plain"), controllers="namespace-controller"
    ) as api:
        yield api


def test_namespaces_are_those_of_a_plain_server(site: OperatedSite, plain: Api) -> None:
    compared = Comparison("namespaces")
    for case, request in (("create", Request("POST", SPACES, JSON, JSON, TEAM)), *_cases()):
        headers = {"Accept": request.accept}
        if request.form:
            headers["Content-Type"] = request.form
        arguments = (request.method, request.path, request.content, headers)
        told = site.answer(*arguments)
        found = differences(plain.answer(*arguments), (told.status, told.data))
        compared.add("Namespace", case, found)
    compared.check()
    assert compared.cases >= 25


def _cases() -> Iterator[tuple[str, Request]]:
    """Yield what a generic client asks of the Namespace, and then what writes it."""
    for case, request in cases_of(TEAM):
        if case not in UNCONFINED:
            yield case, request
    one, dry = f"{SPACES}/team", "dryRun=All"
    unknown = {**TEAM, "metadata": {**TEAM["metadata"], "uid": "0"}}
    wrong_uid = {"preconditions": {"uid": "0"}}
    policy = {"propagationPolicy": "Nonsense"}
    new = {**TEAM, "metadata": {"name": "other"}}
    nameless = {**TEAM, "metadata": {"labels": {"app": "web"}}}
    generated = {**TEAM, "metadata": {"generateName": "Not-"}}
    yield "create dry", Request("POST", f"{SPACES}?{dry}", JSON, JSON, new)
    yield "create by a wrong beginning", Request("POST", f"{SPACES}?{dry}", JSON, JSON, generated)
    yield "create without a name", Request("POST", f"{SPACES}?{dry}", JSON, JSON, nameless)
    yield "update of another", Request("PUT", f"{one}?{dry}", JSON, JSON, unknown)
    yield "update by another name", Request("PUT", f"{one}?{dry}", JSON, JSON, new)
    yield "delete by a wrong uid", Request("DELETE", one, JSON, JSON, wrong_uid)
    yield "delete by a wrong policy", Request("DELETE", one, JSON, JSON, policy)
    yield "delete dry", Request("DELETE", f"{one}?{dry}")
    yield "delete all", Request("DELETE", SPACES)
    yield "read status", Request("GET", f"{one}/status")
