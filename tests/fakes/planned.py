"""Plans made with a rule that answers at once, as all but scripts and webhooks do."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.apply_plan import Change, Create, Differs, Foreign, Keep, Replace

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


def plan_apply(
    desired: Object, live: Object | None, rule: Rule
) -> Create | Replace | Keep | Foreign:
    merged = apply_plan.merge(desired, live)
    if isinstance(merged, Foreign):
        return merged
    return apply_plan.decide(merged if live is None else rule(merged, live), live)


def plan_release(desired: Object, live: Object, rule: Rule) -> Replace | Keep | Foreign:
    merged = apply_plan.merge_released(desired, live)
    if isinstance(merged, Foreign):
        return merged
    return apply_plan.decide_released(rule(merged, live), live)


def plan_share(
    desired: Object, live: Object | None, cluster: str
) -> Create | Replace | Keep | Differs:
    """Plan as where no rule retains anything."""
    plan = apply_plan.plan_share(desired, live, cluster)
    if isinstance(plan, Change):
        return Replace(apply_plan.with_owners(plan.merged, plan.owners))
    return plan
