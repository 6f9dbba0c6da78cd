"""Conditions about host objects: which others own, and which have no Work."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.conditions.spec import ConditionSpec
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.runner.keys import itself

ADOPTION_COMPLETE = ConditionType(
    "AdoptionComplete",
    "Nothing else owns the objects that the virtual cluster took over ([adopting](adopting.md)).",
    idle="SoleOwner",
    on_object=Shown.UNLESS_IDLE,
)
OBJECTS_ORPHANED = ConditionType(
    "ObjectsOrphaned",
    "Host objects have no Work on the hub ([autonomy](autonomy.md#objectsorphaned)).",
    normal="False",
    idle="WorksExist",
    has_event=True,
    warning="Found host objects whose Work is gone; karmada-vc-agent leave --prune lists them",
)


def adoption_complete(owned: Sequence[str]) -> Condition:
    """Return the condition; owned: adopted objects that something else owns, with what."""
    if not owned:
        return ADOPTION_COMPLETE.true("SoleOwner", "nothing else owns what it took over")
    text = (
        f"owned by others, which may change them and take them along when they go: {listed(owned)}"
        "; delete the owner with --cascade=orphan"
    )
    return ADOPTION_COMPLETE.false("OwnedElsewhere", text)


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


CONDITIONS = (
    ConditionSpec(
        ADOPTION_COMPLETE,
        lambda parts, vc: adoption_complete(parts.works.owned.of(vc.name)),
        lambda parts: ((parts.works.owned.changed.subscribe, itself),),
    ),
    ConditionSpec(
        OBJECTS_ORPHANED,
        lambda parts, vc: objects_orphaned(*parts.orphaned.of(vc.name)),
        lambda parts: ((parts.orphaned.changed.subscribe, itself),),
    ),
)
