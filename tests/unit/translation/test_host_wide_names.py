"""Which names objects take that all virtual clusters share."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.context import NoticeCode, shared_name
from karmada_vc_agent.translation.guards import shared_names

GATEWAY_API = "gateway.networking.k8s.io/v1"


def named(api_version: str, kind: str, **spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


HOLDERS = [
    named("networking.k8s.io/v1", "Ingress", rules=[{"host": "A.example.com"}]),
    named(GATEWAY_API, "HTTPRoute", hostnames=["a.example.com"]),
    named(GATEWAY_API, "GRPCRoute", hostnames=["a.example.com", "A.EXAMPLE.com"]),
    named("gateway.networking.k8s.io/v1alpha2", "TLSRoute", hostnames=["a.example.com"]),
    named(GATEWAY_API, "Gateway", listeners=[{"hostname": "a.example.com"}, {"port": 80}]),
]


@pytest.mark.parametrize("obj", HOLDERS, ids=lambda obj: obj["kind"])
def test_host_is_the_same_name_for_any_owner(obj: Object) -> None:
    assert shared_names(obj).keys() == {"a.example.com"}


def test_path_is_where_the_name_is_first() -> None:
    ingress = named(
        "networking.k8s.io/v1", "Ingress", rules=[{}, {"host": "b"}, {"host": "c"}, {"host": "b"}]
    )
    assert shared_names(ingress) == {
        "b": "spec.rules[1].host",
        "c": "spec.rules[2].host",
    }


def test_other_kinds_take_nothing() -> None:
    assert shared_names(named("example.com/v1", "Ingress", rules=[{"host": "b"}])) == {}
    assert shared_names({}) == {}


@pytest.mark.parametrize("rules", [None, "x", [None], [{"host": 1}], [{"host": ""}], {}])
def test_odd_shapes_take_nothing(rules: Any) -> None:
    assert shared_names(named("networking.k8s.io/v1", "Ingress", rules=rules)) == {}


def test_notice_names_what_is_shared_and_no_owner() -> None:
    notice = shared_name("a.example.com")
    assert notice.code is NoticeCode.HOST_SHARED
    assert notice.detail == (
        "host a.example.com is also used by another virtual cluster; the host's gateway or "
        "ingress controller decides which of the two gets requests"
    )
