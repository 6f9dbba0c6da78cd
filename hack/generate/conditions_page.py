"""Writes docs/conditions.md to standard output: conditions, their reasons, refusals, events."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from karmada_vc_agent.cluster.rules.conditions import ConditionType, Shown
from karmada_vc_agent.diagnosis.faults import ADVICE
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.features.objects.status import OF_OBJECT_STATUS
from karmada_vc_agent.runner.parts import OF_CLUSTER_STATUS, Feature, declared_conditions
from karmada_vc_agent.translation.kind_policy import Code

TEXTS: Final[Mapping[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "codes.yaml").read_text(encoding="utf-8")
)
_HEAD = """\
# Conditions and codes

`hack/update-conditions` writes this page from what core and features declare, and from
`hack/generate/codes.yaml`: change it there.

What the agent reports has a short code: the reason of a condition, the code in the text of a
refusal, the reason of an event. Search this page for it.

* **Clusters** on the hub and **VirtualCluster** objects on the host have [conditions](#conditions).
* **Works** on the hub have condition `Applied`, False with reason `AppliedFailed`; its message has
  the [code of each refusal](#refusals) in front of the detail.
* **Events** of Works, templates and Clusters have the code as their reason.

## Conditions

*Absent* is the reason with which a condition is not reported, unless the same object had it before,
or the kind is marked *always*. Messages name the nodes, namespaces or objects concerned.
"""
_REFUSALS = """
## Refusals

A manifest is refused if it would reach out of its virtual cluster, or cannot be applied to it. The
others of its Work are applied. The text is `virtual cluster "branch-a" refused Deployment
bank/teller: CODE: detail`, with names of the virtual cluster only. The rules are in
[rewriting-rules](rewriting-rules.md#7); `karmada-vc-agent plan` shows refusals before anything is
applied. The agent tries again by itself once what a refusal depends on changes.
"""
_EVENTS = """
## Events

Events of type Warning about what was applied, beside those with the code of a refusal or the reason
of a condition.

| Reason | Why | What to do |
|---|---|---|
"""


def condition_types(features: Iterable[Feature] = FEATURES) -> tuple[ConditionType, ...]:
    """Return all that are declared."""
    declared = (spec.type for spec in declared_conditions(features))
    return (*OF_CLUSTER_STATUS, *OF_OBJECT_STATUS, *declared)


def page(features: Iterable[Feature] = FEATURES) -> str:
    """Return the page. Raises KeyError for a condition, code or advice without a text."""
    events = "".join(_row(name, text) for name, text in TEXTS["events"].items())
    parts = [*map(_condition, condition_types(features)), _REFUSALS, *map(_refusal, Code)]
    return "".join([_HEAD, *parts, _EVENTS, events])


def _condition(kind: ConditionType) -> str:
    shown = (("Cluster", kind.on_cluster), ("VirtualCluster", kind.on_object))
    always = {Shown.ALWAYS: " (always)"} if kind.idle else {}
    where = [f"{name}{always.get(how, '')}" for name, how in shown if how is not Shown.NEVER]
    absent = f" Absent: `{kind.idle}`." if kind.idle else ""
    rows = "".join(_row(name, text) for name, text in TEXTS["conditions"][kind.name].items())
    facts = f"Normal: {kind.normal}. On: {', '.join(where)}.{absent}"
    return (
        f"\n### {kind.name}\n\n{kind.help}\n\n{facts}\n\n| Reason | Why | What to do |\n"
        f"|---|---|---|\n{rows}"
    )


def _refusal(code: Code) -> str:
    text, advice = TEXTS["refusals"][code], ADVICE[code]
    advice = advice[0].upper() + advice[1:]
    return (
        f"\n### {code}\n\n* **What:** {text['what']}\n* **Why:** {text['why']}\n"
        f"* **What to do:** {advice}.\n"
    )


def _row(name: str, text: Mapping[str, str]) -> str:
    return f"| `{name}` | {text['why']} | {text['do']} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
