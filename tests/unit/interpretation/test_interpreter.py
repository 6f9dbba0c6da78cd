"""The order of the levels, and hooks that must rest."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from karmada_vc_agent.interpretation import user_hooks
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    REMEMBERED,
    RETAIN,
    Breakers,
    DeclarativeLevel,
    Hook,
    HookError,
    HookLevel,
    InterpretationError,
    Operation,
    UnavailableError,
    index_scripts,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes.planned import at_once

SERVICE = GroupVersionKind("", "v1", "Service")
LIVE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
    "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
}


class FakeLevel:
    """Answers what it was made with, for Services."""

    def __init__(self, name: str, **answers: Any) -> None:
        self.name = name
        self._answers = answers
        self.asked: list[tuple[str, Operation]] = []

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        if kind != SERVICE or operation not in self._answers:
            return None

        async def ask(cluster: str, _objects: Sequence[Object]) -> Any:
            self.asked.append((cluster, operation))
            answer = self._answers[operation]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return Hook((self.name, operation), "the hook", ask)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def interpreter_of(clock: Clock, *levels: FakeLevel | DeclarativeLevel) -> Interpreter:
    return Interpreter(cast("Sequence[HookLevel]", levels), clock)


async def test_the_first_level_with_a_hook_answers() -> None:
    first, second = FakeLevel("declarative", InterpretHealth=False), FakeLevel("webhook")
    second._answers = {INTERPRET_HEALTH: True, INTERPRET_STATUS: {"from": "webhook"}}
    interpreter = interpreter_of(Clock(), first, second)
    assert await interpreter.interpret_health("branch-a", LIVE) == "Unhealthy"
    assert await interpreter.reflect_status("branch-a", LIVE) == {"from": "webhook"}
    assert second.asked == [("branch-a", INTERPRET_STATUS)]


def test_without_a_hook_the_rules_answer_at_once() -> None:
    interpreter = interpreter_of(Clock(), FakeLevel("declarative"), FakeLevel("webhook"))
    assert at_once(interpreter.interpret_health("branch-a", LIVE)) == "Healthy"
    assert at_once(interpreter.reflect_status("branch-a", LIVE)) == LIVE["status"]
    desired = LIVE | {"spec": {"type": "LoadBalancer"}}
    assert at_once(interpreter.retain("branch-a", desired, LIVE))["spec"]["clusterIP"] == "10.0.0.1"


@pytest.mark.parametrize("name", ["declarative", "webhook"])
async def test_an_error_ends_the_search(name: str) -> None:
    failing = FakeLevel(name, Retain=HookError("on purpose"))
    below = FakeLevel("below", Retain=LIVE)
    interpreter = interpreter_of(Clock(), failing, below)
    with pytest.raises(InterpretationError, match="on purpose") as caught:
        await interpreter.retain("branch-a", LIVE, LIVE)
    assert (caught.value.level, caught.value.operation) == (name, RETAIN)
    assert below.asked == []


async def test_a_hook_that_is_not_there_again_and_again_must_rest() -> None:
    level, clock = FakeLevel("webhook", InterpretHealth=UnavailableError("too slow")), Clock()
    interpreter = interpreter_of(clock, level)
    for _ in range(5):
        with pytest.raises(InterpretationError, match="too slow") as caught:
            await interpreter.interpret_health("branch-a", LIVE)
        assert caught.value.hook == ("webhook", INTERPRET_HEALTH)
    assert len(level.asked) == 3
    with pytest.raises(InterpretationError, match="too slow"):
        await interpreter.interpret_health("branch-b", LIVE)  # of another virtual cluster
    clock.now = 10.5
    level._answers[INTERPRET_HEALTH] = True
    assert await interpreter.interpret_health("branch-a", LIVE) == "Healthy"


def test_after_its_rest_one_question_at_a_time_tries_a_hook() -> None:
    clock = Clock()
    breakers = Breakers(clock)
    for _ in range(3):
        assert breakers.problem("hook") == ""
        breakers.failed("hook", "too slow")
    clock.now = 10.0
    assert [breakers.problem("hook") for _ in range(3)] == ["", "too slow", "too slow"]
    breakers.failed("hook", "too slow")
    assert breakers.problem("hook") == "too slow"
    clock.now = 20.0
    assert breakers.problem("hook") == ""
    breakers.ended("hook")
    assert [breakers.problem("hook") for _ in range(3)] == ["", "", ""]


def test_only_so_many_hooks_are_remembered() -> None:
    breakers = Breakers(Clock())
    for number in range(2 * REMEMBERED):
        for _ in range(3):
            breakers.failed(number, "too slow")
    assert breakers.problem(0) == ""
    assert breakers.problem(2 * REMEMBERED - 1) == "too slow"


def test_hook_in_use_is_not_forgotten() -> None:
    breakers = Breakers(Clock())
    for _ in range(3):
        breakers.failed("asked for", "too slow")
    for number in range(2 * REMEMBERED):
        breakers.failed(number, "too slow")
        assert breakers.problem("asked for") == "too slow"


async def test_a_question_that_is_given_up_lets_another_one_try_later() -> None:
    level, clock = FakeLevel("webhook", InterpretHealth=UnavailableError("too slow")), Clock()
    interpreter = interpreter_of(clock, level)
    for _ in range(3):
        with pytest.raises(InterpretationError):
            await interpreter.interpret_health("branch-a", LIVE)
    clock.now = 10.0
    level._answers[INTERPRET_HEALTH] = KeyError("a bug")
    with pytest.raises(KeyError):
        await interpreter.interpret_health("branch-a", LIVE)
    clock.now = 20.0
    level._answers[INTERPRET_HEALTH] = True
    assert await interpreter.interpret_health("branch-a", LIVE) == "Healthy"


async def test_a_hook_that_ends_in_between_does_not_rest() -> None:
    level = FakeLevel("webhook", InterpretHealth=UnavailableError("too slow"))
    interpreter = interpreter_of(Clock(), level)
    late = UnavailableError("x")
    for answer in (late, late, HookError("y"), late, True):
        level._answers[INTERPRET_HEALTH] = answer
        if answer is True:
            assert await interpreter.interpret_health("branch-a", LIVE) == "Healthy"
        else:
            with pytest.raises(InterpretationError):
                await interpreter.interpret_health("branch-a", LIVE)
    assert len(level.asked) == 5


# --- customizations --------------------------------------------------------------------------


def customization(name: str, kind: str = "Widget", **scripts: str | None) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": kind},
            "customizations": {field: {"luaScript": text} for field, text in scripts.items()},
        },
    }


WIDGET = GroupVersionKind("example.io", "v1", "Widget")


def test_the_first_script_by_name_that_is_not_empty_counts() -> None:
    scripts = index_scripts(
        [
            customization("c", retention="third", healthInterpretation="health"),
            customization("b", retention="second", statusReflection=""),
            customization("a", retention="", replicaResource="of the control plane"),
        ]
    )
    assert scripts == {
        (WIDGET, RETAIN): ("b", "second"),
        (WIDGET, INTERPRET_HEALTH): ("c", "health"),
    }


@pytest.mark.parametrize(
    "odd", [{}, {"spec": {}}, {"spec": {"target": {}, "customizations": {"retention": None}}}]
)
def test_a_customization_without_scripts_is_left_out(odd: Object) -> None:
    assert index_scripts([{"metadata": {"name": "x"}} | odd]) == {}


def test_only_kinds_with_another_script_are_changed() -> None:
    before = index_scripts(
        [customization("a", retention="1"), customization("b", kind="Gadget", retention="2")]
    )
    after = index_scripts(
        [customization("z", retention="1"), customization("b", kind="Gadget", retention="3")]
    )
    changed = user_hooks.changed_kinds(before, after)
    assert changed == {GroupVersionKind("example.io", "v1", "Gadget")}
    assert user_hooks.changed_kinds(after, {}) == {WIDGET, *changed}


@pytest.mark.parametrize("kind", [HookError, UnavailableError])
async def test_an_error_of_a_script_names_its_customization(kind: type[HookError]) -> None:
    async def run(turn: Any, script: str, operation: Operation, objects: Any) -> Any:
        assert turn == "branch-a"  # whatever the script: no cluster has all processes
        raise kind(f"{script} {operation} {len(objects)}")

    level = DeclarativeLevel(run)
    level.scripts = index_scripts([customization("own", retention="text")])
    widget = LIVE | {"apiVersion": "example.io/v1", "kind": "Widget"}
    with pytest.raises(InterpretationError, match='"own": text Retain 2') as caught:
        await interpreter_of(Clock(), level).retain("branch-a", widget, widget)
    assert type(caught.value.__cause__) is kind
    assert level.hook(WIDGET, INTERPRET_STATUS) is None
