"""Runs the YAML cases: a manifest in, the host object or refusal out.

A file holds one case, or one for each manifest of an application (folder `stacks`). A case holds
`given` (manifest; optional namespaced, and context as keyword arguments of
given.context) and `expect`: either `refusal`, or `absorbed`, or `converted`, or top-level
fields of the host object, each compared whole. `host` is its `namespace/name`, `unchanged` lists
fields that stay as the manifest has them, `notices` the codes of its notices, and `restored`
holds fields of the object given back. For each case the input must stay as it was, and
translating the restored object must give the same host object.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from karmada_vc_agent.model.objects import Object, copy_object, namespaced_name
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_policy import Refusal
from karmada_vc_agent.translation.restore import restore
from karmada_vc_agent.translation.translate import (
    Converted,
    HostObject,
    Skipped,
    translate,
)
from tests.unit.translation import given
from tests.unit.translation.cases import CASES, Case, each_case

ABOUT = ("host", "unchanged", "notices", "restored")
ODD: tuple[Any, ...] = (None, 1, "x", [], [1], [None], {}, {"a": 1}, [{"a": 1}])


def test_there_are_cases() -> None:
    assert len(CASES) >= 155


@each_case
def test_case(case: Case) -> None:
    facts, expect = case.given, case.expect
    context = given.context(**facts.get("context", {}))
    manifest = facts["manifest"]
    namespaced = facts.get("namespaced", True)
    before = copy_object(manifest)

    result = translate(manifest, namespaced, context)

    assert manifest == before
    if "refusal" in expect:
        metadata = manifest["metadata"]
        assert isinstance(result, Refusal), result
        wanted = expect["refusal"]
        assert {key: getattr(result, key) for key in wanted if key != "text"} == {
            key: value for key, value in wanted.items() if key != "text"
        }
        text = result.text(
            context.vc.name, manifest["kind"], metadata.get("namespace", ""), metadata["name"]
        )
        assert text == wanted.get("text", text)
        assert text.endswith(f": {result.code}: {result.detail}")
    elif "absorbed" in expect:
        assert isinstance(result, Skipped)
    elif "converted" in expect:
        assert isinstance(result, Converted), result
        assert [each.obj for each in result.objects] == expect["converted"]
    else:
        assert isinstance(result, HostObject), f"`expect` has no `refusal`, but: {result}"
        _check_object(result, manifest, expect)
        _check_way_back(result.obj, namespaced, context, expect.get("restored", {}))


@each_case
def test_odd_shape_anywhere_ends_in_an_answer(case: Case) -> None:
    facts = case.given
    context = given.context(**facts.get("context", {}))
    namespaced = facts.get("namespaced", True)
    manifest = copy_object(facts["manifest"])
    sound = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}  # seen to by the hub
    content = {key: value for key, value in manifest.items() if key not in sound}
    for odd in _with_one_odd_value(content, content):
        result = translate({**odd, **sound}, namespaced, context)
        assert isinstance(result, HostObject | Converted | Refusal | Skipped)
        if isinstance(result, HostObject):
            restore(result.obj, context)


def _with_one_odd_value(whole: Any, part: Any) -> Iterator[Any]:
    """Yield `whole` with one value at a time, at any depth of `part`, of an odd shape."""
    keys: Iterable[Any] = part if isinstance(part, dict) else ()
    for key in range(len(part)) if isinstance(part, list) else list(keys):
        sound = part[key]
        for odd in ODD:
            part[key] = odd
            yield whole
        part[key] = sound
        yield from _with_one_odd_value(whole, sound)


def _check_object(result: HostObject, manifest: Object, expect: dict[str, Any]) -> None:
    obj, host = result.obj, result.host_key
    wanted = {key: value for key, value in expect.items() if key not in ABOUT}
    wanted |= {key: manifest[key] for key in expect.get("unchanged", ())}
    assert wanted or "host" in expect, "a case without expectation cannot fail"
    assert {key: obj.get(key) for key in wanted} == wanted
    where = namespaced_name(host.namespace, host.name)
    assert where == expect.get("host", where)
    assert [notice.code for notice in result.notices] == expect.get("notices", [])


def _check_way_back(
    obj: Object, namespaced: bool, context: TranslationContext, wanted: dict[str, Any]
) -> None:
    before = copy_object(obj)
    restored = restore(obj, context)
    assert obj == before
    assert {key: restored.get(key) for key in wanted} == wanted
    again = translate(restored, namespaced, context)
    assert isinstance(again, HostObject)
    assert again.obj == obj
