"""What is decoded in part is restored as what is decoded whole, and nothing else changes."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from karmada_vc_agent.features.gateway.mapping.decoding import LEVELS, PartialDecoder, TooDeepError
from karmada_vc_agent.kube.codec import BRACKETS_AT_ONCE
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    copy_object,
    gvk_of,
)
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_policy import IN_POD_SPECS, Reference, Treatment
from karmada_vc_agent.translation.own_steps import OWN_STEPS
from karmada_vc_agent.translation.restore import Restorer, restored_parts
from karmada_vc_agent.translation.translate import HostObject, translate
from tests.unit.translation import given
from tests.unit.translation.cases import Case, each_case

HOST = "edge-v-branch-a"
DNS = "virtualcluster.kubeedge.io/rewrite-dns"
ODD: tuple[Any, ...] = (None, 1, "x", [], [None], {}, {"a": 1})
ROBOT = {"group": "example.org", "kind": "Robot"}
SETTINGS = {
    "pod_templates": [{**ROBOT, "paths": ["spec.body", "spec.arms[].spec"]}],
    "namespace_references": [{**ROBOT, "paths": ["spec.home.namespace"]}],
}


def restored_whole(obj: Object, gvk: GroupVersionKind, context: TranslationContext) -> Any:
    found = copy_object(obj)
    try:
        Restorer(context).restore(found, gvk)
    except (AttributeError, TypeError, KeyError) as error:
        return type(error)
    return found


def restored_in_part(obj: Object, gvk: GroupVersionKind, context: TranslationContext) -> Any:
    sieve = PartialDecoder(restored_parts(gvk, context.settings))
    found = sieve.answer(orjson.dumps(obj))
    try:
        Restorer(context).restore(found, gvk)
    except (AttributeError, TypeError, KeyError) as error:
        return type(error)
    return orjson.loads(sieve.encoded(found))


@each_case
def test_translation_round_trips(case: Case) -> None:
    facts = case.given
    context = given.context(**facts.get("context", {}))
    result = translate(facts["manifest"], facts.get("namespaced", True), context)
    if not isinstance(result, HostObject):
        return
    gvk = gvk_of(result.obj)
    whole = restored_whole(result.obj, gvk, context)
    assert restored_in_part(result.obj, gvk, context) == whole
    for odd in _with_odd_values(result.obj, depth=4):
        sound = {**odd, "metadata": result.obj["metadata"]}
        assert restored_in_part(sound, gvk, context) == restored_whole(sound, gvk, context)


def _with_odd_values(value: Any, depth: int) -> Iterator[Any]:
    """Yield copies of which one value, anywhere, is of another form."""
    for key, inner in value.items() if isinstance(value, dict) and depth else ():
        odd = ODD[len(str(key)) % len(ODD)]
        yield {**value, key: odd}
        for changed in _with_odd_values(inner, depth - 1):
            yield {**value, key: changed}


# --- each row of the tables ----------------------------------------------------------------

_SELECTOR = {"matchLabels": {"kubernetes.io/metadata.name": HOST}}
VALUES = {
    Treatment.NAMESPACE: HOST,
    Treatment.PATTERN: HOST,
    Treatment.SELECTOR: _SELECTOR,
    Treatment.AFFINITY_TERM: {"namespaces": [HOST], "namespaceSelector": _SELECTOR},
    Treatment.NAME_LIST_SELECTOR: {"matchNames": [HOST]},
    Treatment.ROUTE_NAMESPACES: {"from": "Selector", "selector": _SELECTOR},
    Treatment.DESTINATION: {"namespace": HOST},
    Treatment.PARAMETERS: {"secretNamespace": HOST},
    Treatment.SECRET_ANNOTATIONS: {"x.io/a-secret-namespace": HOST},
    Treatment.PROXY_ANNOTATIONS: {"nginx.org/auth-secret": f"{HOST}/s"},
    Treatment.CLUSTER_SCOPED_NAME: "data-v-branch-a",
}
"""What a treatment changes on the way back; what is not here it leaves as it is."""


def rows() -> Iterator[tuple[GroupVersionKind, Reference]]:
    """Yield each place that restoring looks at, of each kind."""
    for kind, found in kind_policy.REFERENCES.items():
        for row in found:
            yield GroupVersionKind(kind.group, "v1", kind.kind), row
    configured = given.context(settings=SETTINGS).settings
    robot = GroupKind(**ROBOT)
    templates = {**kind_policy.POD_TEMPLATES, robot: configured.pod_templates}
    for kind, specs in templates.items():
        for spec in specs:
            for path in spec.paths:
                inside = kind_policy.AFFINITY if spec.selector_only else IN_POD_SPECS
                for row in inside:
                    gvk = GroupVersionKind(kind.group, spec.version or "v1", kind.kind)
                    yield gvk, Reference(f"{path}.{row.path}", row.treatment)
    for row in kind_policy.references_of(robot, configured.namespace_references):
        yield GroupVersionKind(robot.group, "v1", robot.kind), row


@pytest.mark.parametrize(("gvk", "row"), list(rows()), ids=str)
def test_each_row_of_the_tables_counts(gvk: GroupVersionKind, row: Reference) -> None:
    if row.treatment not in VALUES or GroupKind(gvk.group, gvk.kind) in OWN_STEPS:
        return
    context = given.context(settings=SETTINGS)
    obj = _object_with(row.path.split("."), VALUES[row.treatment])
    obj.setdefault("metadata", {})["name"] = "x"
    whole = restored_whole(obj, gvk, context)
    assert whole != obj, "the row changes nothing: this test could not fail"
    assert restored_in_part(obj, gvk, context) == whole


def _object_with(steps: list[str], value: Any) -> Object:
    key, rest = steps[0], steps[1:]
    inner = _object_with(rest, value) if rest else value
    if key.endswith("[]"):
        return {key[:-2]: [inner]}
    if key.endswith("{}"):
        return {key[:-2]: {"a": inner}}
    return {key: inner}


def test_names_in_texts_are_restored_wherever_an_annotation_asks_for_it() -> None:
    pod = {
        "metadata": {"name": "p", "namespace": HOST, "annotations": {DNS: "env"}},
        "spec": {"containers": [{"env": [{"name": "A", "value": f"db.{HOST}.svc"}]}]},
    }
    gvk, context = GroupVersionKind("", "v1", "Pod"), given.context()
    found = restored_in_part(pod, gvk, context)
    assert found["spec"]["containers"][0]["env"][0]["value"] == "db.edge.svc"
    assert found == restored_whole(pod, gvk, context)


# --- forms of answers ----------------------------------------------------------------------


def _decoder() -> PartialDecoder:
    return PartialDecoder(
        restored_parts(GroupVersionKind("", "v1", "Pod"), given.context().settings)
    )


def test_unread_fields_stay_byte_by_byte() -> None:
    content = (
        b'{"metadata":{"name":"p","uid":"\\u003c"},"spec":{"n":1.50,"big":12345678901234567890123}}'
    )
    assert _decoder().encoded(_decoder().answer(content)) == content


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "List", "metadata": {"continue": "x"}, "items": [{"metadata": {}, "status": 1}]},
        {"kind": "List", "items": []},
        {"kind": "Table", "rows": [{"cells": [1, "a"], "object": {"metadata": {"name": "a"}}}]},
        {"kind": "Table", "rows": [{"cells": [], "object": None}]},
        {"kind": "Status", "metadata": {}, "code": 200},
        {"metadata": None, "spec": []},
    ],
)
def test_responses_are_written_as_they_were_read(answer: Object) -> None:
    sieve = _decoder()
    assert orjson.loads(sieve.encoded(sieve.answer(orjson.dumps(answer)))) == answer
    event = {"type": "ADDED", "object": answer}
    assert orjson.loads(sieve.encoded(sieve.event(orjson.dumps(event)))) == event


@pytest.mark.parametrize("kind", ["Foo", "Table"])
@pytest.mark.parametrize("field", ["rows", "items"])
@pytest.mark.parametrize("value", ["x", 5, [1], ["a"], {"a": 1}, [{"metadata": 1}], None])
def test_an_object_of_a_watch_may_have_rows_and_items(kind: str, field: str, value: Any) -> None:
    """What one tenant writes must not end the watches of others."""
    metadata = {"name": "a", "namespace": HOST}
    obj = {"apiVersion": "e.io/v1", "kind": kind, "metadata": metadata, field: value}
    event = {"type": "ADDED", "object": obj}
    sieve = _decoder()
    found = sieve.event(orjson.dumps(event))
    assert found["object"]["metadata"]["namespace"] == HOST
    assert orjson.loads(sieve.encoded(found)) == event


def test_rows_of_a_watch_are_decoded() -> None:
    row = {"cells": ["a"], "object": {"metadata": {"name": "a", "namespace": HOST}}}
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [row]}
    found = _decoder().event(orjson.dumps({"type": "ADDED", "object": table}))
    assert found["object"]["rows"][0]["object"]["metadata"]["namespace"] == HOST


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"items":[1]}', b'{"a":}', b"null"])
def test_invalid_response_is_reported(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        _decoder().answer(content)


# --- what nests deep -----------------------------------------------------------------------


@pytest.mark.parametrize("levels", [10, LEVELS, 300, 900, 5000, 9990])
@pytest.mark.parametrize("brackets", [('{"a":', "}"), ("[", "]")])
def test_what_nests_too_deep_is_refused_to_its_owner_and_costs_no_other(
    levels: int, brackets: tuple[str, str]
) -> None:
    opening, closing = brackets
    deep = f'{opening * levels}"]}}\\"{{["{closing * levels}'
    item = f'{{"metadata":{{"name":"p","namespace":"{HOST}"}},"spec":{{"x":{deep},"y":{deep}}}}}'
    other = f'{{"metadata":{{"name":"o","namespace":"{HOST}"}}}}'
    content = f'{{"kind":"PodList","items":[{item},{other}]}}'.encode()
    sieve = _decoder()
    try:
        found = sieve.answer(content)
    except TooDeepError:
        assert levels > LEVELS
        shallow = b"".join(sieve.shallow_parts(content))
        assert len(shallow) < 10_000
        found = sieve.answer(shallow)
        with pytest.raises(TooDeepError):
            sieve.encoded(found)
        with pytest.raises(TooDeepError):
            sieve.encoded(found["items"][0])
    else:
        assert sieve.encoded(found) == content
    assert [each["metadata"]["namespace"] for each in found["items"]] == [HOST, HOST]
    assert sieve.encoded(found["items"][1]) == other.encode()


def test_deep_answer_is_cut_in_small_steps() -> None:
    content = b"[" * 100_000 + b"]" * 100_000
    parts = list(_decoder().shallow_parts(content))
    assert len(parts) >= len(content) / BRACKETS_AT_ONCE
