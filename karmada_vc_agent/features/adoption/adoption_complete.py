"""The condition AdoptionComplete: whether what a virtual cluster took over is its own alone."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.objects import Object, maps_at

ADOPTION_COMPLETE = "AdoptionComplete"
NAMED = 10
"""Objects that the condition names."""


def owners_of(live: Object) -> str:
    """Return what owns an object of the host, `EdgeApplication web`, "" if nothing does.

    A Work never makes an object with owners: they are of who made it before.
    """
    owners = maps_at(live, "metadata", "ownerReferences")
    named = (f"{owner.get('kind', '?')} {owner.get('name', '?')}" for owner in owners)
    return ", ".join(named)


def adoption_complete(owned: Sequence[str]) -> Condition:
    """Return the condition; owned: adopted objects that something else owns, with what."""
    if not owned:
        text = "nothing else owns what it took over"
        return Condition(type=ADOPTION_COMPLETE, status="True", reason="SoleOwner", message=text)
    more = f" and {len(owned) - NAMED} more" if len(owned) > NAMED else ""
    text = (
        f"owned by others, which may change them and take them along when they go: "
        f"{', '.join(owned[:NAMED])}{more}; delete the owner with --cascade=orphan"
    )
    return Condition(type=ADOPTION_COMPLETE, status="False", reason="OwnedElsewhere", message=text)
