"""The built-in rules of the interpreter without hooks of users, each as one call."""

from karmada_vc_agent.interpretation.interpreter import Health, apply_rule
from karmada_vc_agent.interpretation.user_hooks import INTERPRET_HEALTH, INTERPRET_STATUS, RETAIN
from karmada_vc_agent.model.objects import Object


def retain(desired: Object, live: Object) -> Object:
    retained: Object = apply_rule(RETAIN, desired, live)
    return retained


def reflect_status(live: Object) -> Object | None:
    status: Object | None = apply_rule(INTERPRET_STATUS, live)
    return status


def interpret_health(live: Object) -> Health:
    return "Healthy" if apply_rule(INTERPRET_HEALTH, live) is True else "Unhealthy"
