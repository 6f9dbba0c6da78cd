"""G-40, G-40a: pages of a filtered list are those of one list, and their tokens show nothing."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping.responses import PAGES_MAX, Forward
from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_view import FakeView, forwarded, refused, two_branches

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OWN, OTHERS = "edge-v-branch-a", "edge-v-branch-b"
HOSTS = (OWN, OTHERS, "shop-v-branch-a", "default", "vc-system-v-branch-a")


@dataclass
class PagedHost:
    """A list of the host, page by page, as the store of an API server has it.

    is_table: as rows. page_max: entries of a page at most, whatever is asked for. at: the version;
    each list without a version is one of its own.
    """

    hosts: Sequence[str]
    is_table: bool = False
    page_max: int = 500
    at: int = 100
    asked: list[str] = field(default_factory=list)

    def answer(self, query: str) -> Object:
        values = {key: found[0] for key, found in parse_qs(query).items()}
        self.asked.append(query)
        start, version = 0, self.at
        if "continue" in values:
            assert "resourceVersion" not in values
            place = orjson.loads(base64.b64decode(values["continue"]))
            start, version = place["start"], place["rv"]
        size = min(int(values["limit"]), self.page_max)
        self.at += 1
        entries = [self._entry(number) for number in range(len(self.hosts))][start : start + size]
        metadata: Object = {"resourceVersion": str(version)}
        if start + size < len(self.hosts):
            place = {"start": start + size, "rv": version, "key": self.hosts[start + size]}
            metadata["continue"] = base64.b64encode(orjson.dumps(place)).decode()
            metadata["remainingItemCount"] = len(self.hosts) - start - size
        if self.is_table:
            columns = [{"name": "Name"}]
            kind = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns}
            return {**kind, "metadata": metadata, "rows": entries}
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": entries}

    def _entry(self, number: int) -> Object:
        metadata = {"name": f"pod-{number}", "namespace": self.hosts[number]}
        row = {"cells": [f"pod-{number}"], "object": {"metadata": metadata}}
        return row if self.is_table else {"metadata": metadata}


def one_answer(
    host: PagedHost, planned: Forward, view: FakeView, rounds: int = PAGES_MAX
) -> Object:
    """Carry out a request with pages as the server does."""
    pages = planned.pages
    assert pages is not None
    query: object = planned.query
    for _ in range(rounds):
        assert isinstance(query, str)
        query = pages.add(host.answer(query), view)
        if query is None:
            break
    return {**pages.head(), pages.field: pages.taken()}


def names(answer: Object) -> list[str]:
    found = answer["rows"] if "rows" in answer else answer["items"]
    return [entry.get("object", entry)["metadata"]["name"] for entry in found]


def all_of(host: PagedHost, view: FakeView, limit: int, rounds: int = PAGES_MAX) -> list[list[str]]:
    """List page by page as a client does; return the names of each page."""
    pages: list[list[str]] = []
    token = ""
    versions = set()
    for _ in range(1000):
        query = f"limit={limit}" + (f"&continue={token}" if token else "")
        accept = TABLE if host.is_table else "application/json"
        planned = forwarded(view, "GET", "/api/v1/pods", query=query, accept=accept)
        answer = one_answer(host, planned, view, rounds)
        versions.add(answer["metadata"]["resourceVersion"])
        assert "remainingItemCount" not in answer["metadata"]
        pages.append(names(answer))
        token = answer["metadata"].get("continue", "")
        shown = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        assert not any(name.encode() in shown for name in HOSTS)
        if not token:
            assert len(versions) == 1
            return pages
    raise AssertionError("the list has no end")


@given(
    hosts=st.lists(st.sampled_from(HOSTS), max_size=40),
    limit=st.integers(min_value=1, max_value=7),
    page_max=st.integers(min_value=1, max_value=9),
    rounds=st.integers(min_value=1, max_value=3),
    is_table=st.booleans(),
)
def test_pages_joined_are_the_whole_list(
    hosts: list[str], limit: int, page_max: int, rounds: int, is_table: bool
) -> None:
    branch, _ = two_branches()
    host = PagedHost(hosts, is_table, page_max)
    pages = all_of(host, branch, limit, rounds)
    own = [f"pod-{number}" for number, name in enumerate(hosts) if name in (OWN, HOSTS[2])]
    assert [name for page in pages for name in page] == own
    assert all(len(page) <= limit for page in pages)


def test_pages_are_full_where_the_host_has_enough() -> None:
    branch, _ = two_branches()
    host = PagedHost([OTHERS] * 1200 + [OWN] * 3)
    assert all_of(host, branch, 2) == [["pod-1200", "pod-1201"], ["pod-1202"]]
    assert len(host.asked) == 9  # from 2 to 500 entries; the one that yields too much twice


def test_pages_end_after_some_of_the_host() -> None:
    """They may be empty then; clients go on."""
    branch, _ = two_branches()
    host = PagedHost([OTHERS] * 25 + [OWN], page_max=1)
    assert all_of(host, branch, 1) == [[], [], ["pod-25"]]


def test_a_first_page_is_no_larger_than_the_limit() -> None:
    """Read again it could have another version than those that follow."""
    branch, _ = two_branches()
    host = PagedHost([OWN] * 4)
    assert all_of(host, branch, 2) == [["pod-0", "pod-1"], ["pod-2", "pod-3"]]
    assert [query.partition("&continue")[0] for query in host.asked] == ["limit=2"] * 2


def test_a_list_without_version_is_not_cut() -> None:
    """G-50: metrics are of no version, so no page of theirs could be read again."""
    branch, _ = two_branches()
    path = "/apis/metrics.k8s.io/v1beta1/pods"
    planned = forwarded(branch, "GET", path, query="limit=1")
    assert planned.pages is not None
    items = [{"metadata": {"name": name, "namespace": OWN}} for name in "ab"]
    given_page = {"kind": "PodMetricsList", "metadata": {}, "items": items}
    assert planned.pages.add(given_page, branch) is None
    assert names({"items": planned.pages.taken()}) == ["a", "b"]
    assert planned.pages.head()["metadata"] == {}


def test_a_token_is_enough_to_go_on_without_limit() -> None:
    branch, _ = two_branches()
    host = PagedHost([OWN] * 5, page_max=500)
    first = one_answer(host, forwarded(branch, "GET", "/api/v1/pods", query="limit=2"), branch)
    token = first["metadata"]["continue"]
    planned = forwarded(branch, "GET", "/api/v1/pods", query=f"continue={token}")
    assert names(one_answer(host, planned, branch)) == ["pod-2", "pod-3", "pod-4"]


@pytest.mark.parametrize("query", ["", "limit=0", "limit=-1", "limit=", "resourceVersion=0"])
def test_full_list_arrives_page_by_page(query: str) -> None:
    branch, _ = two_branches()
    planned = forwarded(branch, "GET", "/api/v1/pods", query=query)
    assert planned.pages is not None
    assert (planned.pages.is_whole, planned.query) == (True, "limit=500")


@pytest.mark.parametrize("limit", ["x", "%2B9999999", "1e9"])
def test_a_limit_that_is_no_number_is_refused(limit: str) -> None:
    branch, _ = two_branches()
    assert refused(branch, "GET", "/api/v1/pods", query=f"limit={limit}").code == 400


def test_a_page_is_not_as_large_as_a_client_likes() -> None:
    branch, _ = two_branches()
    planned = forwarded(branch, "GET", "/api/v1/pods", query="limit=100000000")
    assert planned.query == "limit=500"


def test_pages_become_smaller() -> None:
    branch, _ = two_branches()
    pages = forwarded(branch, "GET", "/api/v1/pods").pages
    assert pages is not None
    assert [pages.smaller() for _ in range(4)] == ["limit=50", "limit=5", "limit=1", None]


def test_host_that_sends_more_than_requested_gets_no_further_request() -> None:
    branch, _ = two_branches()
    planned = forwarded(branch, "GET", "/api/v1/pods", query="limit=1")
    assert planned.pages is not None
    page = PagedHost([OWN] * 3).answer("limit=2")
    assert planned.pages.add(page, branch) is None
    assert names({"items": planned.pages.taken()}) == ["pod-0", "pod-1"]
    assert planned.pages.head()["metadata"]["continue"]
