"""Writes docs/conditions.md to standard output, from the declared conditions."""

import sys
from collections.abc import Iterable

from karmada_vc_agent.cluster.rules.conditions import ConditionType, Shown
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.features.objects.status import OF_OBJECT_STATUS
from karmada_vc_agent.runner.parts import OF_CLUSTER_STATUS, Feature, declared_conditions

_HEAD = """\
# Conditions

`hack/update-conditions` writes this page from what core and features declare: change
it there.

The agent reports these conditions in the status of each Cluster on the hub and of each
VirtualCluster object on the host. *Absent* is the reason with which a condition is not reported,
unless the same object had it before. Reason and message of a condition that is not normal say what
to do.

| Condition | Normal | Cluster | VirtualCluster | Absent | What it says when True |
|---|---|---|---|---|---|
"""
_SHOWN = {Shown.NEVER: "", Shown.UNLESS_IDLE: "yes", Shown.ALWAYS: "always"}


def page(features: Iterable[Feature] = FEATURES) -> str:
    """Return the page."""
    types = (
        *OF_CLUSTER_STATUS,
        *OF_OBJECT_STATUS,
        *(spec.type for spec in declared_conditions(features)),
    )
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
