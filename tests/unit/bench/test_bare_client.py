"""What an agent wrote is sent again under other names."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.audit import Sent, kinds
from bench.bare_client import Request, copy, named
from bench.fleet import waves_of
from bench.leases import gaps
from e2e.lab.audit import Target, Written

NOW = datetime(2026, 11, 26, tzinfo=UTC)
LIVE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "web", "namespace": "shop-v-a", "uid": "1", "resourceVersion": "7"},
    "data": {"of": "shop-v-a"},
    "status": {"phase": "Active"},
}


def sent(
    verb: str, path: str, target: Target, sub: str = "", server: str = "host", at: datetime = NOW
) -> Sent:
    return Sent(server, Written(at, "u", "", "karmada-vc-agent", verb, path, target, sub, 200))


def rename(text: str) -> str:
    return text.replace("shop-v-a", "shop-v-bare")


def body(request: Request) -> Any:
    return json.loads(bytes(request.body))


MAPS = "/api/v1/namespaces/shop-v-a/configmaps"
TARGET = Target("configmaps", "shop-v-a", "web")


def test_creation_has_the_content_of_the_object_and_none_of_the_server() -> None:
    request = copy(sent("create", f"{MAPS}?fieldManager=x", TARGET), LIVE, rename)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop-v-bare/configmaps")
    assert body(request) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": "shop-v-bare"},
        "data": {"of": "shop-v-bare"},
    }


def test_creation_on_another_server_keeps_its_name() -> None:
    request = copy(sent("create", MAPS, TARGET), LIVE, None)
    assert (request.path, body(request)["metadata"]["name"]) == (MAPS, "web")


def test_creation_where_nothing_is_renamed_gets_a_name_of_its_own() -> None:
    request = copy(sent("create", MAPS, TARGET), LIVE, str)
    assert body(request)["metadata"]["name"] == "bare-web"


def test_status_is_patched() -> None:
    request = copy(sent("update", f"{MAPS}/web/status", TARGET, "status"), LIVE, rename)
    assert request.method == "PATCH"
    assert request.path == "/api/v1/namespaces/shop-v-bare/configmaps/web/status"
    assert body(request) == {"status": {"phase": "Active"}}


@pytest.mark.parametrize("verb", ["update", "patch"])
def test_change_is_a_patch_that_changes_something(verb: str) -> None:
    request = copy(sent(verb, f"{MAPS}/web", TARGET), LIVE, rename)
    assert request.method == "PATCH"
    assert body(request) == {"metadata": {"annotations": {"bench-bare": NOW.isoformat()}}}


def test_each_object_is_made_once_and_what_it_is_in_first() -> None:
    space = sent("create", "/api/v1/namespaces", Target("namespaces", "shop-v-a", "shop-v-a"))
    inner = sent("create", MAPS, TARGET)
    change = sent("patch", f"{MAPS}/web", TARGET)
    copies = [(each, copy(each, LIVE, rename)) for each in (inner, change, change, space)]
    found = waves_of(copies)
    assert [[chain[0].method for chain in wave] for wave in found] == [
        ["POST"],
        ["POST"],
        ["PATCH"],
    ]
    assert found[0][0][0].path == "/api/v1/namespaces"


def test_writes_are_counted_by_server_verb_and_kind() -> None:
    status = sent("update", f"{MAPS}/web/status", TARGET, "status")
    assert kinds([status, status]) == {"host update configmaps status": 2}


def test_gaps_are_between_renewals_of_one_lease() -> None:
    def renewal(name: str, second: int) -> Sent:
        target = Target("leases", "karmada-cluster", name)
        return sent("update", "/leases", target, server="hub", at=NOW.replace(second=second))

    assert gaps([renewal("a", 1), renewal("b", 2), renewal("a", 11), renewal("b", 5)]) == [10, 3]


def test_creation_without_a_name_gets_one_that_was_written_later() -> None:
    path, plural = "/apis/cluster.karmada.io/v1alpha1/clusters", "clusters"
    made = [sent("create", path, Target(plural, "", "")) for _ in range(3)]
    later = [sent("patch", f"{path}/{name}", Target(plural, "", name)) for name in ("a", "b", "a")]
    names = [(each.write.verb, each.write.target.name) for each in named([*made, *later])]
    assert names == [
        ("create", "a"),
        ("create", "b"),
        ("patch", "a"),
        ("patch", "b"),
        ("patch", "a"),
    ]
