"""Writes docs/conditions.md to standard output, from the declared conditions."""

import sys
from collections.abc import Iterable

from karmada_vc_agent.cluster.rules.conditions import ConditionType, Shown
from karmada_vc_agent.conditions.registry import DECLARED, OF_CONTROLLERS
from karmada_vc_agent.conditions.spec import ConditionSpec

_HEAD = """\
# Conditions

`hack/update-conditions` writes this page from what `karmada_vc_agent/conditions` declares: change
it there.

The agent reports these conditions in the status of each Cluster on the hub and of each
VirtualCluster object on the host. *Absent* is the reason with which a condition is not reported,
unless the same object had it before. Reason and message of a condition that is not normal say what
to do.

| Condition | Normal | Cluster | VirtualCluster | Absent | What it says when True |
|---|---|---|---|---|---|
"""
_SHOWN = {Shown.NEVER: "", Shown.UNLESS_IDLE: "yes", Shown.ALWAYS: "always"}


def page(declared: Iterable[ConditionSpec] = DECLARED) -> str:
    """Return the page."""
    types = (*OF_CONTROLLERS, *(spec.type for spec in declared))
    return _HEAD + "".join(map(_row, types))


def _row(kind: ConditionType) -> str:
    absent = f"`{kind.idle}`" if kind.idle else ""
    cells = (
        f"`{kind.name}`",
        kind.normal,
        _SHOWN[kind.on_cluster],
        _SHOWN[kind.on_object],
        absent,
        kind.help,
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
