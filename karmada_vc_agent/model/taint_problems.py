"""Validation of taints of a Cluster and tolerations of its pods."""

from collections.abc import Iterator
from typing import Any

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.selectors import label_key_problem, label_value_problem
from karmada_vc_agent.model.texts import did_you_mean, either, text_problem

_TAINT_EFFECTS = ("NoSchedule", "NoExecute")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal")
_TAINT_FIELDS = ("key", "value", "effect")
_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")

Problems = Iterator[tuple[str, str | None]]


def taint_problems(taints: tuple[Object, ...]) -> Problems:
    """Yield (path, problem or None) of taints (contract 1.1)."""
    seen = set()
    for index, taint in enumerate(taints):
        where = f"taints[{index}]"
        yield from _field_problems(taint, _TAINT_FIELDS, where)
        key, effect = taint.get("key"), taint.get("effect")
        yield f"{where}.key", label_key_problem(str(key or ""))
        yield f"{where}.value", label_value_problem(str(taint.get("value") or ""))
        yield f"{where}.effect", _choice_problem(effect, _TAINT_EFFECTS)
        if (key, effect) in seen:
            yield where, f"key and effect are used twice: {key}:{effect}"
        seen.add((key, effect))


def toleration_problems(tolerations: tuple[Object, ...]) -> Problems:
    """Yield (path, problem or None) of tolerations, as validation of a pod would report."""
    for index, toleration in enumerate(tolerations):
        where = f"tolerations[{index}]"
        yield from _field_problems(toleration, _FIELDS, where)
        key, value = toleration.get("key") or "", toleration.get("value") or ""
        operator = toleration.get("operator") or "Equal"
        yield f"{where}.operator", _choice_problem(operator, _OPERATORS)
        if key:
            yield f"{where}.key", label_key_problem(key)
        elif operator != "Exists":
            yield f"{where}.key", "is not set; only operator Exists tolerates every key"
        yield f"{where}.value", label_value_problem(value)
        if value and operator == "Exists":
            yield f"{where}.value", "must not be set with operator Exists"
        effect, seconds = toleration.get("effect"), toleration.get("tolerationSeconds")
        if effect:
            yield f"{where}.effect", _choice_problem(effect, _EFFECTS)
        if seconds is None:
            continue
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            shown = f'"{seconds}"'
            yield f"{where}.tolerationSeconds", f"is {shown}, must be an integer"
        elif effect != "NoExecute":
            yield f"{where}.tolerationSeconds", "needs effect NoExecute"


def _field_problems(obj: Object, allowed: tuple[str, ...], where: str) -> Problems:
    """Yield unknown fields, and fields that are not strings."""
    for field, value in obj.items():
        if field not in allowed:
            hint = did_you_mean(field, allowed)
            yield f"{where}.{field}", f"is unknown{hint or f', must be {either(allowed)}'}"
        elif field != "tolerationSeconds":
            yield f"{where}.{field}", text_problem(value)


def _choice_problem(value: Any, choices: tuple[str, ...]) -> str | None:
    if value in choices:
        return None
    given = f'is "{value}"' if value else "is not set"
    return f"{given}, must be {either(choices)}"
