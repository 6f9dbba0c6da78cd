"""Texts in which names of Services are rewritten; what becomes of them stands in the cases."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object, gvk_of
from karmada_vc_agent.model.vocabulary import REWRITE_DNS_ANNOTATION
from karmada_vc_agent.translation.placement import places_of, rewrite_texts
from tests.unit.translation import given


def config_map(places: str | None, data: Any = None) -> Object:
    annotations = {} if places is None else {REWRITE_DNS_ANNOTATION: places}
    metadata = {"name": "c", "namespace": "edge", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize(
    ("text", "places"), [("", ()), (" env ,args", ("env", "args")), ("data,,x", ("data", "x"))]
)
def test_places_are_read(text: str, places: tuple[str, ...]) -> None:
    assert places_of(config_map(text)) == places


@pytest.mark.parametrize(("places", "rests"), [(None, False), ("files", False), ("data", True)])
def test_result_depends_on_claims_where_it_uses_them(places: str | None, rests: bool) -> None:
    assert given.translated(config_map(places)).depends_on_claims is rests


def test_nothing_is_replaced_while_nothing_is_claimed() -> None:
    obj = config_map("data", {"host": "db.edge.svc"})
    assert rewrite_texts(obj, gvk_of(obj), ())
    assert obj["data"] == {"host": "db.edge.svc"}


@pytest.mark.parametrize("data", ["x", [], [1], {"a": None}, {"a": ["db.edge.svc"]}])
def test_odd_data_stays(data: Any) -> None:
    obj = config_map("data", data)
    assert rewrite_texts(obj, gvk_of(obj), [("edge", "x")])
    assert obj["data"] == data
