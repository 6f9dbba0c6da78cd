"""The rules of the gateway between a test and a real API server, without the gateway's server.

Requests are planned, sent with the rights of an administrator, and the answers mapped.
"""

import base64
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from e2e.lab.api import Api, ApiError, Object
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ResponseKind,
    UnknownNamespacesError,
    VirtualRequest,
)
from karmada_vc_agent.features.gateway.mapping.plan import plan
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import PAGES_MAX, Forward
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import parse_api_version
from tests.fakes.gateway_view import FakeHost, FakeView


@dataclass(frozen=True)
class Answered:
    """What a client gets: the code, and the decoded body."""

    code: int
    body: Any


class RealView(FakeView):
    """The View of one virtual cluster on a real host, as the host is at this moment."""

    api: Api
    served: dict[tuple[str, str, str], KindInfo]

    @classmethod
    def of(cls, api: Api, name: str) -> "RealView":
        """Look at a host."""
        view = cls(FakeHost(), name)
        view.api = api
        view.served = _served(api)
        view.look()
        return view

    def look(self) -> None:
        """Read the namespaces anew."""
        found = self.api.list("/api/v1/namespaces")
        self.host.namespaces = {obj["metadata"]["name"]: obj for obj in found}

    def resource(self, group: str, version: str, plural: str) -> KindInfo | None:
        return self.served.get((group, version, plural))

    def resources(self, group: str) -> list[KindInfo]:
        return [info for info in self.served.values() if info.group == group]


def _served(api: Api) -> dict[tuple[str, str, str], KindInfo]:
    versions = ["/api/v1"]
    for group in api.get("/apis")["groups"]:
        versions += [f"/apis/{each['groupVersion']}" for each in group["versions"]]
    found = {}
    for path in versions:
        try:
            answer = api.get(path)
        except ApiError as error:
            if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE):
                raise
            continue  # a group of another story, which is added or removed
        group, version, _ = parse_api_version(answer["groupVersion"], "")
        for entry in answer["resources"]:
            plural = entry["name"]
            if "/" not in plural:
                info = KindInfo(group, version, plural, entry["kind"], entry["namespaced"])
                found[group, version, plural] = info
    return found


@dataclass
class Rules:
    """Asks a virtual cluster; seen: all that a client was ever given, as text."""

    api: Api
    view: RealView
    seen: list[str] = field(default_factory=list)

    def ask(self, request: VirtualRequest) -> Answered:
        """Plan a request, send it, and map the answer."""
        answered = self._ask(request)
        self.seen.append(json.dumps(answered.body))
        return answered

    def events(self, request: VirtualRequest) -> list[Object]:
        """Return the events of a watch that ends by itself (`timeoutSeconds`)."""
        planned = plan(request, self.view)
        assert isinstance(planned, Forward), planned
        assert planned.response.kind is ResponseKind.WATCH
        _, content = self._send(planned, planned.query)
        found = []
        for line in content.splitlines():
            event = self._known(planned.response.map, json.loads(line))
            if event is not None:
                found.append(event)
        self.seen.append(json.dumps(found))
        return found

    def _ask(self, request: VirtualRequest) -> Answered:
        planned = plan(request, self.view)
        if isinstance(planned, RefusalError):
            return Answered(planned.code, planned.status())
        return self._forward(planned)

    def _forward(self, planned: Forward) -> Answered:
        response = planned.response
        if planned.pages is not None:
            return self._pages(planned)
        code, content = self._send(planned, planned.query)
        if code == 404 and planned.otherwise is not None:
            return self._forward(planned.otherwise)
        if response.kind is ResponseKind.OPAQUE and code < 300:
            return Answered(code, content.decode(errors="replace"))
        decoded = json.loads(content)
        if code >= 300:
            return Answered(code, response.map_status(decoded, self.view))
        found = self._known(response.map, decoded)
        if found is None:
            refused = response.not_found()
            return Answered(refused.code, refused.status())
        return Answered(code, found)

    def _pages(self, planned: Forward) -> Answered:
        assert planned.pages is not None
        query: str | None = planned.query
        for _ in range(PAGES_MAX):
            assert query is not None
            code, content = self._send(planned, query)
            decoded = json.loads(content)
            if code >= 300:
                return Answered(code, planned.response.map_status(decoded, self.view))
            query = self._known(planned.pages.add, decoded)
            if query is None:
                break
        pages = planned.pages
        return Answered(200, {**pages.head(), pages.field: pages.taken()})

    def _known(self, change: Any, value: Object) -> Any:
        try:
            return change(value, self.view)
        except UnknownNamespacesError:
            self.view.look()
            return change(value, self.view)

    def _send(self, planned: Forward, query: str) -> tuple[int, bytes]:
        path = f"{planned.path}?{query}" if query else planned.path
        headers = {"Accept": planned.accept or "*/*"}
        if planned.content_type:
            headers["Content-Type"] = planned.content_type
        return self.api.answer(planned.method, path, planned.body, headers)


def claim(api: Api, cluster: str, virtual: str) -> str:
    """Make a host namespace that a virtual cluster claims, as an agent of a test would."""
    host = FakeHost()
    name = host.claim(cluster, virtual)
    namespace = host.namespaces[name]
    labels = namespace["metadata"]["labels"]
    labels[vocabulary.AGENT_LABEL] = f"nobody-{cluster}"  # no agent that runs looks after it
    del namespace["metadata"]["annotations"][vocabulary.NODE_SELECTOR_ANNOTATION]
    api.create(namespace)
    return name


def shown_in(token: str) -> bytes:
    """Return what a `continue` token shows to whoever decodes it."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
