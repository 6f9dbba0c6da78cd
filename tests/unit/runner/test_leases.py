"""Leases: which are late, for as long as attempts could end."""

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.runner.parts import Leases

LONG_AGO = 0.0


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_none_is_late_that_was_tried_in_time() -> None:
    clock = Clock()
    leases = Leases(Scopes(), clock)
    leases.start("a")
    leases.start("b")
    clock.time += 50
    leases.tried("b")
    clock.time += 11
    assert leases.late(60.0, LONG_AGO) == ["a"]
    leases.end("a")
    assert leases.late(60.0, LONG_AGO) == []


def test_time_of_an_outage_does_not_count() -> None:
    clock = Clock()
    leases = Leases(Scopes(), clock)
    leases.start("a")
    clock.time += 600
    assert leases.late(60.0, float("inf")) == []
    assert leases.late(60.0, clock.time - 59) == []
    assert leases.late(60.0, clock.time - 61) == ["a"]


def test_one_is_due_when_it_starts_and_after_an_end() -> None:
    leases = Leases(Scopes())
    due: list[str] = []
    leases.due.subscribe(due.append)
    leases.start("a")
    leases.start("a")
    assert due == ["a"]
    leases.end("a")
    leases.start("a")
    assert due == ["a", "a"]
