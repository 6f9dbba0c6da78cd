"""One script, one object: Karmada's own interpreter and ours answer the same.

Compared is the value, and whether there is one; the wording of an error is each one's own.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab.interpret import Answer, Interpreter, Operation, Outcome, ScriptError
from karmada_vc_agent.interpretation.script_runner import ScriptRunner
from karmada_vc_agent.interpretation.user_hooks import HookError

GENEROUS_S = 5.0
"""A deadline for scripts of a machine that runs three stories at once."""

_CORPUS = Path(__file__).parent / "corpus" / "interpreter_scripts.yaml"
_CASES: list[dict[str, Any]] = yaml.safe_load(_CORPUS.read_text())
_LISTS = {
    "Retain": "retention",
    "InterpretStatus": "statusReflection",
    "InterpretHealth": "healthInterpretation",
}
_TEMPLATE = {
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "serviceAccountName": "runner",
        "tolerations": [{"key": "edge", "operator": "Exists", "tolerationSeconds": 30}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [
            {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "8Mi"}}}
        ],
        "containers": [
            {
                "name": "a",
                "image": "a",
                "resources": {
                    "requests": {"cpu": "250m"},
                    "limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2G"},
                },
                "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "key"}}],
            },
            {
                "name": "b",
                "image": "b",
                "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1", "odd": "3"}},
                "env": [
                    {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}}
                ],
            },
        ],
        "overhead": {"memory": "64Mi"},
        "volumes": [
            {"name": "c", "configMap": {"name": "files"}},
            {"name": "s", "secret": {"secretName": "tls"}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "store"}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "token"}}]}},
        ],
    }
}
_LIVE = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"b": "2", "a": "1"}},
    "spec": {
        "replicas": 3,
        "ratio": 0.5,
        "big": 9007199254740991,
        "text": "snow ☃ and \u0001",
        "emptyMap": {},
        "emptyList": [],
        "fromLive": {},
        "template": _TEMPLATE,
    },
    "status": {
        "ready": 2,
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Stalled", "status": "False"},
        ],
        "nothing": {},
    },
}
_DESIRED = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"from": "hub"}},
    "spec": {
        "replicas": 1,
        "map": {},
        "emptyList": [],
        "tags": ["x", "y"],
        "items": [{"inner": {}}, {"inner": {}}],
        "deep": {"a.b": {}, "c": [{"d": []}]},
    },
}


@pytest.fixture(scope="module")
def time_zone() -> Iterator[None]:
    """Let both sides know the same zone; the one that kubectl-karmada is started with."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    yield
    del os.environ["TZ"]
    if before is not None:
        os.environ["TZ"] = before


def test_the_names_of_the_cases_are_unique_and_all_operations_occur() -> None:
    names = [case["name"] for case in _CASES]
    assert len(set(names)) == len(names) >= 25
    assert {case.get("operation", "InterpretStatus") for case in _CASES} == set(_LISTS)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: str(case["name"]).replace(" ", "-"))
def test_a_script_means_the_same_to_karmada_and_to_us(
    case: dict[str, Any], interpreter: Interpreter, time_zone: None
) -> None:
    operation: Operation = case.get("operation", "InterpretStatus")
    script = case["script"]
    if "operation" not in case:
        script = f"function ReflectStatus(o) {script} end"
    objects = [_DESIRED, _LIVE] if operation == "Retain" else [_LIVE]
    theirs = _theirs(interpreter, operation, script)
    ours = asyncio.run(_ours(operation, script, objects))
    if isinstance(theirs, ScriptError):
        assert isinstance(ours, ScriptError), f"Karmada says: {theirs.text}"
    else:
        assert _typed(ours) == _typed(theirs)


def _theirs(interpreter: Interpreter, operation: Operation, script: str) -> Outcome:
    customization = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "case"},
        "spec": {
            "target": {"apiVersion": _LIVE["apiVersion"], "kind": _LIVE["kind"]},
            "customizations": {_LISTS[operation]: {"luaScript": script}},
        },
    }
    desired = _DESIRED if operation == "Retain" else None
    return interpreter.ask(operation, customization, _LIVE, desired)


async def _ours(operation: Operation, script: str, objects: list[dict[str, Any]]) -> Outcome:
    runner = ScriptRunner(processes=1, deadline_s=GENEROUS_S)
    try:
        return Answer(await runner.run("case", script, operation, objects))
    except HookError as error:
        return ScriptError(str(error))
    finally:
        await runner.close()


def _typed(outcome: Outcome) -> Outcome:
    """Return an outcome in which true is not 1; 2.0 and 2 are the same number of JSON."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return (type(value).__name__ if isinstance(value, bool) else "", value)

    return Answer(walk(outcome.value)) if isinstance(outcome, Answer) else outcome
