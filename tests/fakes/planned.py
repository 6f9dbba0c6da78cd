"""Plans made with a rule that answers at once, as all but scripts and webhooks do."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.planning import apply_plan
from karmada_vc_agent.planning.apply_plan import ApplyPlan, Foreign, Keep, Replace

Rule = Callable[[Object, Object], Object]
T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that must not wait for anything."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AssertionError("it waited for something")


def plan_apply(desired: Object, live: Object | None, rule: Rule) -> ApplyPlan:
    async def retain(merged: Object, live: Object) -> Object:
        return rule(merged, live)

    return at_once(apply_plan.plan_apply(desired, live, retain, lambda obj, _live: obj))


def plan_release(desired: Object, live: Object, rule: Rule) -> Replace | Keep | Foreign:
    async def retain(merged: Object, live: Object) -> Object:
        return rule(merged, live)

    return at_once(apply_plan.plan_release(desired, live, retain))
