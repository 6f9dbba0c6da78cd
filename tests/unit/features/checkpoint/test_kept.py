"""What is saved of an object of the hub."""

from typing import Any

import orjson
import pytest

from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import encoded, mark
from karmada_vc_agent.work.works import is_dispatched
from tests.unit.features.checkpoint.scene import work


def read(obj: dict[str, Any]) -> dict[str, Any]:
    content = encoded(obj)
    assert content is not None
    found: dict[str, Any] = orjson.loads(content)
    return found


def test_status_versions_and_managed_fields_are_left_out() -> None:
    found = read(work())
    assert found.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert found["metadata"] == {
        "name": "one", "namespace": "karmada-es-a", "uid": "uid-one", "generation": 1
    }  # fmt: skip
    assert found["spec"] == work()["spec"]


def test_what_is_being_deleted_is_not_saved() -> None:
    assert encoded(work(deletionTimestamp="2026-05-01T10:00:00Z")) is None


def test_a_suspended_work_is_saved_as_suspended() -> None:
    suspended = work()
    suspended["spec"]["suspendDispatching"] = True
    assert read(suspended)["spec"]["suspendDispatching"] is True


def test_what_cannot_be_encoded_is_not_saved() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"x": deep}
    assert encoded({**work(), "spec": deep}) is None


def test_what_is_too_large_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "LARGEST_OBJECT", 50)
    assert encoded(work()) is None


def test_input_is_not_changed() -> None:
    before = work()
    encoded(before)
    assert before == work()


@pytest.mark.parametrize(
    "change", [{"uid": "u"}, {"generation": 2}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}]
)
def test_mark_changes_with_what_is_saved(change: dict[str, Any]) -> None:
    assert mark(work(**change)) != mark(work())


def test_mark_stays_when_only_the_status_changes() -> None:
    assert mark({**work(resourceVersion="99"), "status": {"conditions": [{}]}}) == mark(work())


def test_mark_of_what_is_being_deleted_is_that_of_nothing() -> None:
    assert mark(work(deletionTimestamp="2026-05-01T10:00:00Z")) == 0


def dispatched(generation: int) -> dict[str, Any]:
    """Return a Work of whose given generation nothing waits for a window; it has generation 1."""
    condition = {"type": "Dispatching", "status": "True", "observedGeneration": generation}
    other = {"type": "Applied", "status": "True"}
    return {**work(), "status": {"conditions": [other, {**condition, "message": "m"}]}}


def test_that_nothing_waits_for_a_window_is_saved_of_the_status() -> None:
    found = read(dispatched(1))
    assert is_dispatched(found)
    assert [each["type"] for each in found["status"]["conditions"]] == ["Dispatching"]
    assert mark(dispatched(1)) != mark(work())


def test_that_nothing_waits_is_not_saved_where_something_failed() -> None:
    failing = dispatched(1)
    failing["status"]["conditions"][0] = {"type": "Applied", "status": "False"}
    assert "status" not in read(failing)


def test_that_nothing_of_another_generation_waits_is_not_saved() -> None:
    assert "status" not in read(dispatched(2))


@pytest.mark.parametrize("status", [None, [], {"conditions": None}, {"conditions": ["x", {}]}])
def test_a_status_of_another_form_is_left_out(status: Any) -> None:
    assert "status" not in read({**work(), "status": status})
