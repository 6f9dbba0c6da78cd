"""Our rules for well-known custom kinds answer as the scripts that Karmada ships.

Karmada's own program runs its scripts on the samples of its module and on variants of them;
our rules answer the same questions.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.interpreter.batch import ask_all
from e2e.interpreter.samples import OPERATIONS, Sample, shipped_samples, variants, with_values
from e2e.lab.interpret import (
    Answer,
    Interpreter,
    NoScript,
    Operation,
    Outcome,
    ScriptError,
    customization_files,
    shipped_directory,
)
from karmada_vc_agent.interpretation import third_party
from karmada_vc_agent.interpretation.interpreter import SHAPE_ERRORS
from karmada_vc_agent.model.objects import GroupVersionKind

MAX_SHOWN = 5
# Its scripts are for the control plane alone.
WITHOUT_RULES = {("apps.kruise.io/v1alpha1", "AdvancedCronJob")}
KINDS = sorted(
    {
        (f"{kind.group}/{kind.version}", kind.kind)
        for rules in (
            third_party.RETAIN_RULES,
            third_party.REFLECT_RULES,
            third_party.HEALTH_RULES,
        )
        for kind in rules
    }
    | WITHOUT_RULES
)
# States that no sample has.
STATES = {
    "Workflow": (("status", "phase"), ("", "Pending", "Running", "Succeeded", "Failed", "Error")),
    "Job": (
        ("status", "state", "phase"),
        (
            *("", "Pending", "Aborting", "Aborted", "Running", "Restarting", "Completing"),
            *("Completed", "Terminating", "Terminated", "Failed"),
        ),
    ),
    "FlinkDeployment": (
        ("status", "jobStatus", "state"),
        (
            *("", "RUNNING", "FINISHED", "FAILED", "CANCELED", "SUSPENDED", "CANCELLING"),
            *("FAILING", "RESTARTING", "CREATED", "INITIALIZING", "RECONCILING"),
        ),
    ),
    "SparkApplication": (
        ("status", "applicationState", "state"),
        ("", "SUBMITTED", "RUNNING", "COMPLETED", "FAILED", "SUBMISSION_FAILED", "UNKNOWN"),
    ),
    "RayJob": (
        ("status", "jobDeploymentStatus"),
        ("", "Initializing", "Running", "Complete", "Failed", "ValidationFailed", "Suspended"),
    ),
}


@pytest.fixture(scope="session")
def files() -> dict[tuple[str, str], Path]:
    return customization_files(shipped_directory())


def test_every_kind_of_the_module_has_its_rules(files: dict[tuple[str, str], Path]) -> None:
    assert sorted(files) == KINDS


@pytest.mark.parametrize("kind", KINDS, ids="/".join)
def test_rules_answer_as_the_scripts(
    kind: tuple[str, str],
    interpreter: Interpreter,
    files: dict[tuple[str, str], Path],
    record_property: Callable[[str, object], None],
) -> None:
    shipped = shipped_samples(files[kind]) or [_bare(kind)]
    differences, count = [], 0
    for operation in OPERATIONS:
        for sample, theirs in _questions(interpreter, files[kind], shipped, operation):
            ours = _ours(sample)
            count += 1
            if not _is_same(theirs, ours):
                differences.append(
                    f"{operation}, {sample.name}:\n  Karmada: {theirs}\n  ours:    {ours}"
                )
    record_property("comparisons", count)
    record_property("differences", len(differences))
    shown = "\n".join(differences[:MAX_SHOWN])
    assert not differences, f"{len(differences)} of {count} answers differ:\n{shown}"


def _questions(
    interpreter: Interpreter, customization: Path, shipped: list[Sample], operation: Operation
) -> Iterator[tuple[Sample, Outcome]]:
    """Yield what is asked, with Karmada's answer."""
    own = [sample for sample in shipped if sample.operation == operation]
    others = variants(shipped, operation)
    if operation == "InterpretHealth" and shipped[0].kind in STATES:
        others += with_values(others[0], *STATES[shipped[0].kind])
    singles = own or others[:1]
    for sample in singles:
        theirs = interpreter.ask(operation, customization, sample.observed, sample.desired)
        yield sample, theirs
    if not isinstance(theirs, NoScript):  # with no script the answer is the same for all
        yield from zip(others, ask_all(interpreter, customization, others), strict=True)


def _bare(kind: tuple[str, str]) -> Sample:
    obj = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x"}}
    return Sample("bare", "InterpretStatus", obj)


def _ours(sample: Sample) -> Outcome:
    rule = _rules(sample.operation).get(
        _gvk((sample.observed["apiVersion"], sample.observed["kind"]))
    )
    if rule is None:
        return NoScript()
    try:
        if sample.desired is not None:
            return Answer(rule(sample.desired, sample.observed))
        return Answer(rule(sample.observed))
    except SHAPE_ERRORS as error:
        return ScriptError(str(error))


def _rules(operation: Operation) -> dict[GroupVersionKind, Callable[..., object]]:
    rules: dict[Operation, dict[GroupVersionKind, Callable[..., object]]] = {
        "Retain": dict(third_party.RETAIN_RULES),
        "InterpretStatus": dict(third_party.REFLECT_RULES),
        "InterpretHealth": dict(third_party.HEALTH_RULES),
    }
    return rules[operation]


def _gvk(kind: tuple[str, str]) -> GroupVersionKind:
    group, _, version = kind[0].partition("/")
    return GroupVersionKind(group, version, kind[1])


def _is_same(theirs: Outcome, ours: Outcome) -> bool:
    """Compare what was answered; of an error only that it is one."""
    match theirs, ours:
        case Answer(), Answer():
            return bool(theirs == ours) and type(theirs.value) is type(ours.value)
        case _:
            return type(theirs) is type(ours)
