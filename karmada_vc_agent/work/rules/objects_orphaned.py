"""The condition ObjectsOrphaned: whether host objects have no Work on the hub."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.model.texts import listed

OBJECTS_ORPHANED = ConditionType(
    "ObjectsOrphaned",
    "Host objects have no Work on the hub ([autonomy](autonomy.md#objectsorphaned)).",
    normal="False",
    idle="WorksExist",
    has_event=True,
    warning="Found host objects whose Work is gone; karmada-vc-agent leave --prune lists them",
)


def objects_orphaned(count: int, first: Sequence[str]) -> Condition:
    """Return the condition; count: of such objects, first: the names of some."""
    if not count:
        return OBJECTS_ORPHANED.false("WorksExist", "each host object has a Work on the hub")
    text = (
        f"the hub has no Work for {listed(first, len(first), count)}, as after an old checkpoint "
        "or a restored backup; the agent removes none of them: karmada-vc-agent leave --prune "
        "lists them, with --yes it removes them"
    )
    return OBJECTS_ORPHANED.true("WorksMissing", text)
