"""G-34: names of namespaces in selectors are mapped, the rest passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    FieldTerm,
    Query,
    field_terms,
    map_field_selector,
    map_label_selector,
)
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import map_selectors
from tests.fakes.gateway_view import two_branches

FIELDS = {"metadata.namespace": str.upper}


@pytest.mark.parametrize(
    ("selector", "mapped"),
    [
        ("", ""),
        ("metadata.namespace=edge", "metadata.namespace=EDGE"),
        ("metadata.namespace==edge", "metadata.namespace==EDGE"),
        ("metadata.namespace!=edge", "metadata.namespace!=EDGE"),
        ("spec.nodeName=n,metadata.namespace=edge", "spec.nodeName=n,metadata.namespace=EDGE"),
        ("status.phase!=Failed", "status.phase!=Failed"),
        ("a=b\\,metadata.namespace=edge", "a=b\\,metadata.namespace\\=edge"),
        (",,metadata.namespace=edge,", "metadata.namespace=EDGE"),
        ("metadata.namespace=", "metadata.namespace="),
    ],
)
def test_fields_are_mapped(selector: str, mapped: str) -> None:
    assert map_field_selector(selector, FIELDS) == mapped


@pytest.mark.parametrize("selector", ["metadata.namespace", "x", "a=b,c"])
def test_a_term_without_operator_is_refused(selector: str) -> None:
    with pytest.raises(RefusalError):
        map_field_selector(selector, FIELDS)


NAME = "kubernetes.io/metadata.name"


@pytest.mark.parametrize(
    ("selector", "mapped"),
    [
        ("app=web", "app=web"),
        ("app in (a, b),tier", "app in (a, b),tier"),
        (f"{NAME}=edge", f"{NAME}=EDGE"),
        (f"{NAME} == edge , app=web", f"{NAME} == EDGE , app=web"),
        (f"{NAME}!=edge", f"{NAME}!=EDGE"),
        (f"{NAME} in (edge,shop)", f"{NAME} in (EDGE,SHOP)"),
        (f"{NAME} notin ( edge , shop ),x", f"{NAME} notin (EDGE,SHOP),x"),
        (f"{NAME}", f"{NAME}"),
        (f"!{NAME}", f"!{NAME}"),
        (f"x={NAME}", f"x={NAME}"),
    ],
)
def test_label_with_the_namespace_is_mapped(selector: str, mapped: str) -> None:
    assert map_label_selector(selector, str.upper) == mapped


@pytest.mark.parametrize("selector", [f"{NAME} near edge", f"{NAME} in edge", f"{NAME} > (a"])
def test_a_label_term_that_cannot_be_read_is_left_to_the_host(selector: str) -> None:
    assert map_label_selector(selector, str.upper) == selector


@pytest.mark.parametrize(
    "selector",
    ["{gap}{name}{gap}={gap}~{gap}!", "{name}{gap}in{gap}(a){gap}!", "{name}{gap}in{gap}"],
)
def test_a_label_term_is_read_in_one_go(selector: str) -> None:
    """To try where each gap might end took the square of its length: here, minutes."""
    given = selector.format(gap=" " * 200_000, name=NAME)
    assert map_label_selector(given, str) == given


def test_a_name_in_a_selector_is_mapped_once() -> None:
    """The facts about the cluster are put together once, too, however many names there are."""
    view, _ = two_branches()
    made, context = [], view.context
    view.context = lambda: made.append(1) or context()  # type: ignore[func-returns-value, method-assign]
    terms = ",".join(f"n{number}" for number in range(1000))
    query = Query((("labelSelector", f"{NAME} in ({terms},{terms})"),))
    mapped = map_selectors(query, view).first("labelSelector")
    assert mapped is not None
    assert mapped.count("-v-branch-a") == 2000
    assert len(made) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("watch=true", True),
        ("watch=1", True),
        ("watch=", True),
        ("watch", True),
        ("watch=false", False),
        ("watch=FALSE", False),
        ("watch=0", False),
        ("", False),
        ("watch=false&watch=true", False),
        ("%77atch=true", True),
    ],
)
def test_a_flag_is_read_as_an_api_server_does(query: str, expected: bool) -> None:
    assert Query.parse(query).is_true("watch") is expected


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(RefusalError):
        Query.parse("a=%ff")


@pytest.mark.parametrize("query", ["a;watch=true", "a=b;watch=1", "a=%0&w", "a=%00", "a&&b"])
def test_what_is_sent_is_what_was_read(query: str) -> None:
    parsed = Query.parse(query)
    assert not parsed.is_true("watch")
    assert Query.parse(parsed.encoded()) == parsed
    assert ";" not in parsed.encoded()


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=4))
def test_a_query_survives_encoding(pairs: list[tuple[str, str]]) -> None:
    query = Query(tuple(pairs))
    if any(char in key + value for key, value in pairs for char in ";\x00"):
        return
    assert Query.parse(query.encoded()) == query


@given(st.text(min_size=1, alphabet="ab,=\\!"))
def test_a_field_value_survives_escapes(value: str) -> None:
    term = FieldTerm("metadata.name", "=", value)
    assert field_terms(str(term)) == [term]
