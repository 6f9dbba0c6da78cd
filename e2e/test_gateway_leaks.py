"""No answer of a virtual cluster names what is of others, whatever is asked.

Two virtual clusters have equal names and the host has objects of its own. All that a client of one
is ever sent, heads and bodies and opened `continue` tokens, is searched for what only the others
have: names of their namespaces and nodes, and the uid of each of their objects.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2e.lab.api import Api, collection_of
from e2e.lab.lone_gateway import config_map, lone_gateway
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import LETTERS, Pair
from e2e.lab.tenant_objects import tenant_objects
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
FORMS = ("application/json", TABLE, METADATA, "application/yaml")
SHARED = {
    *("storageclasses", "customresourcedefinitions", "priorityclasses", "csidrivers"),
    *("ingressclasses", "runtimeclasses"),
}
"""Kinds that a virtual cluster shares with the host."""
_EXACT = "resourceVersionMatch=NotOlderThan"
QUERIES = (
    "",
    "limit=1",
    "limit=3",
    "watch=true&timeoutSeconds=1",
    f"watch=true&sendInitialEvents=true&{_EXACT}&allowWatchBookmarks=true&timeoutSeconds=1",
    "labelSelector=app%3Dweb",
    "resourceVersion=0",
    "resourceVersion=1",
    "resourceVersion=999999999999",
    "fieldSelector=metadata.namespace%3Dshop",
    "fieldSelector=metadata.namespace!%3Dshop",
)
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Hunt:
    """Asks as "a", and remembers what it was sent. forbidden: what only others have."""

    def __init__(self, gateway: Pair) -> None:
        self.gateway = gateway
        for letter in LETTERS:
            for obj in tenant_objects("shop"):
                path = collection_of(obj)
                answer = gateway.ask(path, letter, "POST", body=obj, Content_Type=FORMS[0])
                assert answer.status == 201, (obj["kind"], answer.data)
        for namespace in ("default", "agent-home"):
            gateway.host.create(config_map(namespace, f"host-{gateway.id}", a="b"))
        self.kinds = list(_kinds(gateway.host))
        self.forbidden = self._of_others()
        self.tokens: list[str] = []
        self.asked = self.good = 0

    def _of_others(self) -> set[str]:
        """Return uids of all objects on the host but its own and the shared, and names."""
        own = {self.gateway.space(virtual) for virtual in ("edge", "shop", "vc-system")}
        found = {self.gateway.names["b"], self.gateway.node("b"), f"host-{self.gateway.id}"}
        found |= {f"-v-{self.gateway.names['a']}", f"vc:{self.gateway.names['a']}", "agent-home"}
        for path, plural in self.kinds:
            for obj in self.gateway.host.list(path) if plural not in SHARED else ():
                metadata = obj["metadata"]
                is_own = (metadata.get("namespace") or metadata["name"]) in own
                is_own |= metadata.get("labels", {}).get(CLUSTER_LABEL) == self.gateway.names["a"]
                if not is_own and metadata["name"] != self.gateway.node():
                    found |= {metadata["uid"]} if "uid" in metadata else set()
        return found

    def ask(
        self, path: str, method: str = "GET", accept: str = FORMS[0]
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, and search what comes back."""
        answer = self.gateway.ask(path, "a", method, Accept=accept)
        self.asked += 1
        self.good += answer.status < 300
        told = f"{dict(answer.headers)}\n{answer.data.decode(errors='replace')}"
        self.search(told, f"{method} {path} {accept}")
        for token in re.findall(r'"continue": ?"([^"]+)"', told):
            self.tokens.append(token)
            opened = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            self.search(opened.decode("latin-1"), f"token of {path}")
            assert b"shop" not in opened
            assert b"/registry" not in opened
        return answer

    def search(self, told: str, where: str) -> None:
        asked = where.split(" ", 1)[1]
        uids = set(_UID.findall(told))
        leaked = {each for each in self.forbidden if each in uids or each in told}
        assert not {each for each in leaked if each not in asked}, f"{where}: {leaked}"


def _kinds(host: Api) -> Iterator[tuple[str, str]]:
    """Yield path and plural of all that can be listed."""
    roots = ["/api/v1"]
    for group in host.get("/apis")["groups"]:
        roots += [f"/apis/{each['groupVersion']}" for each in group["versions"]]
    for root in roots:
        for entry in host.get(root)["resources"]:
            if "list" in entry["verbs"] and "/" not in entry["name"]:
                yield f"{root}/{entry['name']}", entry["name"]


@pytest.fixture(name="hunt", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hunt]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with lone_api_server(folder / "host") as host, lone_gateway(host, folder) as lone:
        yield Hunt(Pair(lone))


def test_no_list_of_any_kind_in_any_form_names_others(hunt: Hunt) -> None:
    before = hunt.good
    for path, plural in hunt.kinds:
        root = path.removesuffix(f"/{plural}")
        for each in (path, f"{root}/namespaces/shop/{plural}", f"{path}/web"):
            for form in FORMS:
                hunt.ask(each, accept=form)
    assert hunt.good - before > 100


@pytest.mark.parametrize("query", [each for each in QUERIES if each])
def test_no_query_brings_what_is_of_others(hunt: Hunt, query: str) -> None:
    for path in ("/api/v1/configmaps", "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"):
        hunt.ask(f"{path}?{query}", accept=FORMS[0])
        hunt.ask(f"{path}?{query}", accept=TABLE)


def test_no_page_and_no_token_names_others(hunt: Hunt) -> None:
    for path, least in (
        ("/api/v1/configmaps", 2),
        ("/api/v1/namespaces/shop/configmaps", 1),
        ("/api/v1/pods", 2),
    ):
        token, pages = "", 0
        while True:
            query = f"?limit=1&continue={token}" if token else "?limit=1"
            answer = hunt.ask(f"{path}{query}").json()
            pages += 1
            token = answer["metadata"].get("continue", "")
            if not token:
                break
        assert pages >= least, path
    assert hunt.tokens


def test_no_discovery_version_or_schema_names_others(hunt: Hunt) -> None:
    for path in ("/version", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/healthz", "/readyz"):
        hunt.ask(path)
    for path in hunt.ask("/openapi/v3").json()["paths"]:
        hunt.ask(f"/openapi/v3/{path}")


_NAMES = st.sampled_from(
    ["shop", "edge", "web", "settings", "default", "kube-system", "none", "node-x", "a b", "%00"]
)
_WORDS = st.one_of(_NAMES, st.text(max_size=8).map(lambda text: quote(text, safe="")))
_KEYS = st.sampled_from(
    ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch", "pretty"]
)


@pytest.mark.nightly  # at random, what the stories before it ask by tables
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_random_requests_name_no_others(hunt: Hunt, data: st.DataObject) -> None:
    path, plural = data.draw(st.sampled_from(hunt.kinds))
    root = path.removesuffix(f"/{plural}")
    scope = data.draw(st.one_of(st.just(""), _WORDS.map(lambda name: f"/namespaces/{name}")))
    name = data.draw(st.one_of(st.just(""), _WORDS.map(lambda name: f"/{name}")))
    sub = data.draw(st.sampled_from(["", "", "/status", "/scale", "/log", "/exec", "/x"]))
    query = "&".join(
        f"{data.draw(_KEYS)}={data.draw(_WORDS)}" for _ in range(data.draw(st.integers(0, 2)))
    )
    method = data.draw(st.sampled_from(["GET", "GET", "GET", "POST", "PUT", "PATCH", "OPTIONS"]))
    query += "&timeoutSeconds=1" if "watch" in query else ""
    hunt.ask(
        f"{root}{scope}/{plural}{name}{sub if name else ''}?{query}",
        method,
        accept=data.draw(st.sampled_from(FORMS)),
    )


def test_hunt_finds_what_a_neighbour_is_sent(hunt: Hunt) -> None:
    """The search itself: what "b" sees is what "a" must not."""
    told = hunt.gateway.ask("/api/v1/pods", "b").data.decode()
    with pytest.raises(AssertionError, match="GET /of-b"):
        hunt.search(told, "GET /of-b")
    uids = {item["metadata"]["uid"] for item in json.loads(told)["items"]}
    assert uids
    assert uids <= hunt.forbidden
