"""Plans made with a rule that answers at once, as all but scripts and webhooks do."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.apply_plan import SharePlan

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


def plan_apply(desired: Object, live: Object | None, rule: Rule) -> Object | None:
    merged = apply_plan.merge(desired, live)
    return apply_plan.decide(merged if live is None else rule(merged, live), live)


def plan_release(desired: Object, live: Object, rule: Rule) -> Object | None:
    return apply_plan.decide_released(rule(apply_plan.merge_released(desired, live), live), live)


def plan_share(desired: Object, live: Object | None, cluster: str) -> SharePlan:
    """Plan as where no rule retains anything."""
    plan = apply_plan.plan_share(desired, live, cluster)
    if plan.obj is not None and plan.owners is not None:
        return SharePlan(apply_plan.with_owners(plan.obj, plan.owners))
    return plan
