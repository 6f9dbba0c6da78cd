"""Level 1, declarative: the scripts of ResourceInterpreterCustomizations, by kind.

Source: contract 7.1, 7.6; karmada pkg/resourceinterpreter/customized/declarative.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.interpretation.hooks import Hook
from karmada_vc_agent.interpretation.operations import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    Operation,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of

RunScript = Callable[[Hashable, str, Operation, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, script, operation, objects) -> the result of the script."""

# The others (replicas, dependencies, …) run in the control plane.
_FIELDS: dict[Operation, str] = {
    RETAIN: "retention",
    INTERPRET_STATUS: "statusReflection",
    INTERPRET_HEALTH: "healthInterpretation",
}


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name of its customization."""

    customization: str
    text: str


Scripts = dict[tuple[GroupVersionKind, Operation], Script]


def index_scripts(customizations: Iterable[Object]) -> Scripts:
    """Return the script of each kind and operation: the first non-empty one, sorted by name."""
    scripts: Scripts = {}
    for customization in sorted(customizations, key=lambda obj: str(obj["metadata"]["name"])):
        kind = gvk_of(dig(customization, "spec", "target"))
        for operation, field in _FIELDS.items():
            text = dig(customization, "spec", "customizations", field, "luaScript")
            if text and isinstance(text, str):
                script = Script(customization["metadata"]["name"], text)
                scripts.setdefault((kind, operation), script)
    return scripts


def changed_kinds(before: Scripts, after: Scripts) -> frozenset[GroupVersionKind]:
    """Return the kinds whose scripts differ."""
    texts = ({(key, script.text) for key, script in each.items()} for each in (before, after))
    return frozenset(key[0] for key, _ in set.symmetric_difference(*texts))


class DeclarativeLevel:
    """Interprets objects with scripts; `scripts` are the current ones."""

    name = "declarative"

    def __init__(self, run: RunScript) -> None:
        self._run = run
        self.scripts: Scripts = {}

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        """Return the hook for a kind and operation, if there is one."""
        script = self.scripts.get((kind, operation))
        if script is None:
            return None

        async def call(cluster: str, objects: Sequence[Object]) -> Any:
            return await self._run(cluster, script.text, operation, objects)

        return Hook(script.text, f'ResourceInterpreterCustomization "{script.customization}"', call)
