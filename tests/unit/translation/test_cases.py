"""Runs the YAML cases: a manifest in, the host object or refusal out.

A case holds `given` (manifest; optional namespaced, and surroundings as keyword arguments of
given.surroundings) and `expect`: either `refusal`, or `absorbed`, or top-level fields of the host
object, each compared whole. `restored` holds fields of the object given back. For each case the
input must stay as it was, and translating the restored object must give the same host object.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from karmada_vc_agent.model.objects import Object, copy_object
from karmada_vc_agent.translation.refusal import Refusal
from karmada_vc_agent.translation.restore import restore
from karmada_vc_agent.translation.translate import (
    Absorbed,
    Converted,
    HostObject,
    Surroundings,
    translate,
)
from tests.unit.translation import given

CASES = Path(__file__).parents[2] / "cases" / "translation"
FILES = sorted(CASES.glob("*.yaml"))
ODD: tuple[Any, ...] = (None, 1, "x", [], [1], [None], {}, {"a": 1}, [{"a": 1}])


def test_there_are_cases() -> None:
    assert len(FILES) >= 40


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_case(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    facts, expect = case["given"], case["expect"]
    around = given.surroundings(**facts.get("surroundings", {}))
    manifest = facts["manifest"]
    namespaced = facts.get("namespaced", True)
    before = copy_object(manifest)

    result = translate(manifest, namespaced, around)

    assert manifest == before
    if "refusal" in expect:
        metadata = manifest["metadata"]
        assert isinstance(result, Refusal), result
        wanted = expect["refusal"]
        assert {key: getattr(result, key) for key in wanted if key != "text"} == {
            key: value for key, value in wanted.items() if key != "text"
        }
        text = result.text(
            around.vc.name, manifest["kind"], metadata.get("namespace", ""), metadata["name"]
        )
        assert text == wanted.get("text", text)
        assert text.endswith(f": {result.code}: {result.detail}")
    elif "absorbed" in expect:
        assert isinstance(result, Absorbed)
    elif "converted" in expect:
        assert isinstance(result, Converted), result
        assert [each.obj for each in result.objects] == expect["converted"]
    else:
        assert isinstance(result, HostObject), result
        _check_object(result.obj, expect)
        _check_way_back(result.obj, namespaced, around, expect.get("restored", {}))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_odd_shape_anywhere_ends_in_an_answer(file: Path) -> None:
    facts = yaml.safe_load(file.read_text())["given"]
    around = given.surroundings(**facts.get("surroundings", {}))
    namespaced = facts.get("namespaced", True)
    manifest = facts["manifest"]
    sound = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}  # seen to by the hub
    for odd in _with_one_odd_value(manifest):
        manifest = {**odd, **sound}
        result = translate(manifest, namespaced, around)
        assert isinstance(result, HostObject | Converted | Refusal | Absorbed)
        if isinstance(result, HostObject):
            restore(result.obj, around)


def _with_one_odd_value(value: Any) -> Iterator[Any]:
    """Yield copies in which one value at a time, at any depth, has an odd shape."""
    keys: Iterable[Any] = value if isinstance(value, dict) else ()
    for key in range(len(value)) if isinstance(value, list) else keys:
        for odd in ODD:
            changed = copy_object(value)
            changed[key] = odd
            yield changed
        for part in _with_one_odd_value(value[key]):
            changed = copy_object(value)
            changed[key] = part
            yield changed


def _check_object(obj: Object, expect: dict[str, Any]) -> None:
    wanted = {key: value for key, value in expect.items() if key != "restored"}
    assert wanted, "a case without expectation cannot fail"
    assert {key: obj.get(key) for key in wanted} == wanted


def _check_way_back(
    obj: Object, namespaced: bool, around: Surroundings, wanted: dict[str, Any]
) -> None:
    before = copy_object(obj)
    restored = restore(obj, around)
    assert obj == before
    assert {key: restored.get(key) for key in wanted} == wanted
    again = translate(restored, namespaced, around)
    assert isinstance(again, HostObject)
    assert again.obj == obj
