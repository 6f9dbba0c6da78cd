"""Objects to ask about: the samples in the Karmada module, and variants made of them.

The samples are read where the module lies; none is kept here. Variants are made the same way
each time: a field is taken away or given another value, nothing is random.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.lab.interpret import Operation

Object = dict[str, Any]

OPERATIONS: tuple[Operation, ...] = ("Retain", "InterpretStatus", "InterpretHealth")
GENERATION = "resourcetemplate.karmada.io/generation"
_MAX_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """One question. desired: the manifest, for Retain alone."""

    name: str
    operation: Operation
    observed: Object = field(repr=False)
    desired: Object | None = field(repr=False, default=None)

    @property
    def kind(self) -> str:
        return str(self.observed["kind"])


def shipped_samples(customization: Path) -> list[Sample]:
    """Return the samples beside a customization file of the module, of an agent's operations."""
    samples = []
    for path in sorted((customization.parent / "testdata").glob("*.yaml")):
        for case in yaml.safe_load_all(path.read_text()):
            operation = next((o for o in OPERATIONS if o == (case or {}).get("operation")), None)
            if operation == "Retain":
                desired = _as_served(case["desiredObj"])
                observed = _as_served(case["observedObj"])
                samples.append(Sample(case["name"], operation, observed, desired))
            elif operation is not None:
                observed = _as_served(case.get("observedObj") or case["desiredObj"])
                samples.append(Sample(case["name"], operation, observed))
    return samples


def variants(samples: list[Sample], operation: Operation) -> list[Sample]:
    """Return variants, for an operation, of the sample that tells the most.

    Where the module has no sample of the operation, one of another operation serves.
    """
    own = [sample for sample in samples if sample.operation == operation]
    base = max(own or samples, key=lambda sample: len(str(sample.observed)))
    if operation == "Retain":
        base = replace(base, operation=operation, desired=base.desired or base.observed)
        return list(_retain_variants(base))
    base = replace(base, operation=operation, desired=None)
    return list(_live_variants(base))


def with_values(sample: Sample, path: tuple[str, ...], values: tuple[str, ...]) -> list[Sample]:
    """Return a sample with each of these texts at a path of the live object in turn."""
    return [
        _changed(sample, f"{'.'.join(path)} = {value!r}", path, value, put=True) for value in values
    ]


def _as_served(obj: Object) -> Object:
    """Return a sample as an API server could serve it: an annotation is a text."""
    metadata = obj.get("metadata") or {}
    if "annotations" not in metadata:
        return obj
    texts = {key: str(value) for key, value in metadata["annotations"].items()}
    return {**obj, "metadata": {**metadata, "annotations": texts}}


def _retain_variants(base: Sample) -> Iterator[Sample]:
    desired = base.desired or {}
    suspends: tuple[Any, ...] = (None, True, False, "text", {})
    for wanted in suspends[:3]:
        for live in suspends:
            yield replace(
                base,
                name=f"suspend is {live!r}, wanted {wanted!r}",
                desired=_with(desired, ("spec", "suspend"), wanted),
                observed=_with(base.observed, ("spec", "suspend"), live),
            )
    labels = ("spec", "template", "metadata", "labels")
    for depth in range(1, len(labels) + 1):
        path = labels[:depth]
        name = ".".join(path)
        yield _changed(base, f"live without {name}", path)
        yield replace(base, name=f"desired without {name}", desired=_without(desired, path))
        yield _changed(base, f"live {name} is empty", path, {}, put=True)
    statuses: tuple[Any, ...] = ({"a": "b"}, {}, [], "text")
    for value in statuses:
        yield _changed(base, f"live status is {value!r}", ("status",), value, put=True)
    empties: Object = {
        "object": {},
        "list": [],
        "null": None,
        "nulls": {"a": None},
        "nested": {"object": {"object": {}}, "list": [[], {}, None, {"list": []}]},
        "numbers": [1, 1.0, 1.5, -3, 2**53 + 1, 1e21, 1e-9],
    }
    yield replace(base, name="empty fields", desired=_with(desired, ("spec", "x"), empties))
    for first, second in (({}, []), ([], {}), ({"a": None}, {}), ([None], [])):
        yield replace(
            base,
            name=f"desired has {first!r} where live has {second!r}",
            desired=_with(desired, ("spec", "x"), first),
            observed=_with(base.observed, ("spec", "x"), second),
        )


def _live_variants(base: Sample) -> Iterator[Sample]:
    yield _changed(base, "without status", ("status",))
    statuses: tuple[Any, ...] = ({}, [], "text", 1, False)
    for value in statuses:
        yield _changed(base, f"status is {value!r}", ("status",), value, put=True)
    annotation = ("metadata", "annotations", GENERATION)
    for path in (("spec",), ("metadata", "generation"), annotation[:2], annotation):
        yield _changed(base, f"without {path[-1]}", path)
    for value in ("text", "", "7", " 8 ", "1.5", "0x10", "-3", "9223372036854775808"):
        yield _changed(base, f"template generation is {value!r}", annotation, value, put=True)
    yield _changed(base, "another generation", ("metadata", "generation"), 99, put=True)
    for path, value in _walk(base.observed.get("status") or {}, ("status",)):
        yield _changed(base, f"without {_dotted(path)}", path)
        for other in _others(value, is_element=isinstance(path[-1], int)):
            yield _changed(base, f"{_dotted(path)} = {other!r}", path, other, put=True)


def _walk(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the fields below a value; of a list the first and the last element."""
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = [(i, value[i]) for i in sorted({0, len(value) - 1}) if value]
    else:
        return
    for key, child in inner:
        yield (*path, key), child
        yield from _walk(child, (*path, key))


def _others(value: Any, *, is_element: bool) -> tuple[Any, ...]:
    """Return values that may stand in the place of one.

    is_element: of a list. No empty object then: Karmada leaves it out before or after what is
    empty in those behind it, as it happens, and takes the wrong one where it was before.
    """
    match value:
        case bool():
            return (not value,)
        case int() | float():
            return (0, value + 1)
        case "True":
            return ("False", True)
        case str():
            return ("Other",)
        case dict():
            return ("text",) if is_element else ({}, "text")
        case _:
            return ([],)


def _changed(
    base: Sample, name: str, path: tuple[Any, ...], value: Any = None, *, put: bool = False
) -> Sample:
    """Return a sample with one field of the live object set, or taken away."""
    observed = _with(base.observed, path, value) if put else _without(base.observed, path)
    return replace(base, name=name, observed=observed)


def _with(obj: Object, path: tuple[Any, ...], value: Any) -> Object:
    """Return a copy with a value at a path; None takes the field away."""
    if value is None:
        return _without(obj, path)
    changed = part = copy.deepcopy(obj)
    for key in path[:-1]:
        part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
    part[path[-1]] = value
    return changed


def _without(obj: Object, path: tuple[Any, ...]) -> Object:
    changed = part = copy.deepcopy(obj)
    for key in path[:-1]:
        part = part.get(key) or {} if isinstance(part, dict) else part[key]
    if isinstance(part, list):
        del part[path[-1]]
    else:
        part.pop(path[-1], None)
    return changed


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
