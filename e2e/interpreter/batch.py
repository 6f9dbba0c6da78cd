"""Ask Karmada's interpreter about many objects at once: a process for each takes too long.

A script of the module gets a few lines of ours behind it, which call it for each object of a
batch. Karmada runs the script and makes JSON of the answers as it does for one object; the
objects are fields of one object, so what is empty in one does not tell about another.
"""

from pathlib import Path
from typing import Any

import yaml

from e2e.interpreter.samples import Sample
from e2e.lab.interpret import Answer, Interpreter, Operation, Outcome, ScriptError

SIZE = 60
_FIELDS: dict[Operation, str] = {
    "Retain": "retention",
    "InterpretStatus": "statusReflection",
    "InterpretHealth": "healthInterpretation",
}
# A text in the place of an answer is an error. A batch answers by the operation that returns
# an object, for health too.
_RETAIN = """
local single = Retain
function Retain(desired, observed)
  for name, case in pairs(desired.cases) do
    local ok, answer = pcall(single, case, observed.cases[name])
    desired.cases[name] = (not ok or type(answer) ~= "table") and tostring(answer) or answer
  end
  return desired
end
"""
_REFLECT = """
local single = %s
function ReflectStatus(observed)
  local answers = {}
  for name, case in pairs(observed.cases) do
    local ok, answer = pcall(single, case)
    if not ok or type(answer) ~= "%s" then answer = tostring(answer) end
    answers[name] = answer
  end
  return {answers = answers}
end
"""


def ask_all(interpreter: Interpreter, customization: Path, samples: list[Sample]) -> list[Outcome]:
    """Return Karmada's answers to samples of one kind and operation, which has a script."""
    outcomes: list[Outcome] = []
    for start in range(0, len(samples), SIZE):
        batch = samples[start : start + SIZE]
        answer = _ask_batch(interpreter, customization, batch)
        outcomes += answer or [
            interpreter.ask(sample.operation, customization, sample.observed, sample.desired)
            for sample in batch
        ]
    return outcomes


def _ask_batch(
    interpreter: Interpreter, customization: Path, samples: list[Sample]
) -> list[Outcome] | None:
    """Return None where one object spoils the answer for all, e.g. as it makes no JSON."""
    first = samples[0]
    names = [f"case{number}" for number in range(len(samples))]
    observed = _wrapped(first, {n: s.observed for n, s in zip(names, samples, strict=True)})
    script = _script(customization, first.operation)
    if first.operation == "Retain":
        desired = _wrapped(first, {n: s.desired for n, s in zip(names, samples, strict=True)})
        rules = {"retention": {"luaScript": script + _RETAIN}}
        outcome = interpreter.ask("Retain", _customization(first, rules), observed, desired)
    else:
        call = {
            "InterpretStatus": ("ReflectStatus", "table"),
            "InterpretHealth": ("InterpretHealth", "boolean"),
        }[first.operation]
        rules = {"statusReflection": {"luaScript": script + _REFLECT % call}}
        outcome = interpreter.ask("InterpretStatus", _customization(first, rules), observed)
    if not isinstance(outcome, Answer):
        return None
    answers = outcome.value.get("cases" if first.operation == "Retain" else "answers") or {}
    return [_single(answers.get(name, {})) for name in names]  # an empty answer is left out


def _single(answer: Any) -> Outcome:
    return ScriptError(answer) if isinstance(answer, str) else Answer(answer)


def _script(customization: Path, operation: Operation) -> str:
    rules = yaml.safe_load(customization.read_text())["spec"]["customizations"]
    return str(rules[_FIELDS[operation]]["luaScript"])


def _wrapped(sample: Sample, cases: dict[str, Any]) -> dict[str, Any]:
    identity = {key: sample.observed[key] for key in ("apiVersion", "kind")}
    return {**identity, "metadata": {"name": "batch"}, "cases": cases}


def _customization(sample: Sample, rules: dict[str, Any]) -> dict[str, Any]:
    target = {key: sample.observed[key] for key in ("apiVersion", "kind")}
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "batch"},
        "spec": {"target": target, "customizations": rules},
    }
