"""Adopts workloads that run, without restarting their pods (ADR 35)."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.features.adoption.adoptions import Adoptions
from karmada_vc_agent.kube.controller import itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature

ADOPTION_COMPLETE = ConditionType(
    "AdoptionComplete",
    "Nothing else owns the objects that the virtual cluster took over ([adopting](adopting.md)).",
    idle="SoleOwner",
    on_object=Shown.UNLESS_IDLE,
)


def adoption_complete(owned: Sequence[str]) -> Condition:
    """Return the condition; owned: adopted objects that something else owns, with what."""
    if not owned:
        return ADOPTION_COMPLETE.true("SoleOwner", "nothing else owns what it took over")
    text = (
        f"owned by others, which may change them and delete them with themselves: {listed(owned)}"
        "; delete the owner with --cascade=orphan"
    )
    return ADOPTION_COMPLETE.false("OwnedElsewhere", text)


CONDITIONS = (
    ConditionSpec(
        ADOPTION_COMPLETE,
        lambda parts, vc: adoption_complete(parts.works.owned.of(vc.name)),
        lambda parts: ((parts.works.owned.changed.subscribe, itself),),
    ),
)


def _prepare(common: Common) -> None:
    def owns_node(cluster: str, node: str) -> bool:
        return common.stores.membership.owner_of(node) == cluster

    common.hooks.placement_keeper = lambda kept: Adoptions(common.clients.host, kept, owns_node)


FEATURE = Feature("adoption", prepare=_prepare, conditions=CONDITIONS)
