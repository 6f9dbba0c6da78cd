"""How Works of a virtual cluster are counted for its status."""

from typing import Any

from karmada_vc_agent.features.objects.status import count_works, name_of_counted
from tests.fakes import objects


def work(name: str, applied: str | None = None) -> Any:
    made = objects.work(name=name)
    if applied is not None:
        made["status"] = {"conditions": [{"type": "Applied", "status": applied}]}
    return made


def test_works_count_by_what_the_hub_has_of_them() -> None:
    works = [work("a", "False"), work("b", "True"), work("c"), work("d", "Unknown")]
    assert count_works(works) == ({"applied": 1, "failed": 1, "pending": 2}, ["a"])
    assert count_works([]) == ({"applied": 0, "failed": 0, "pending": 0}, [])


def test_few_of_many_failing_are_named() -> None:
    failing = [work(name, "False") for name in "edcba"]
    assert count_works(failing) == ({"applied": 0, "failed": 5, "pending": 0}, ["a", "b", "c"])


def test_changes_of_counts_are_notified() -> None:
    assert name_of_counted("branch-a", None, work("a")) == ("branch-a",)
    assert name_of_counted("branch-a", work("a"), work("a")) == ()
    assert name_of_counted("branch-a", work("a"), work("a", "True")) == ("branch-a",)
    assert name_of_counted("branch-a", work("a"), None) == ("branch-a",)
