"""Conditions about what the agent needs, and about host objects without a Work."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.agent_condition import AgentCondition
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.kube.keys import itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.condition_spec import ConditionSpec
from karmada_vc_agent.runner.parts import Parts

_OF_HUB = "[autonomy](autonomy.md#credentialrenewed-leasenamespaceexists)"
RIGHTS_GRANTED = ConditionType(
    "RightsGranted",
    "Hub and host refused no right that the agent needs for this virtual cluster.",
    idle="NothingRefused",
    on_object=Shown.UNLESS_IDLE,
    warning="Lacking rights for a virtual cluster; run karmada-vc-agent join",
)
CREDENTIAL_RENEWED = ConditionType(
    "CredentialRenewed",
    f"The agent's credential is renewed in time ({_OF_HUB}).",
    idle="Succeeded",
    for_all=True,
    has_event=True,
)
LEASE_NAMESPACE_EXISTS = ConditionType(
    "LeaseNamespaceExists",
    f"The hub has the namespace of Leases ({_OF_HUB}).",
    idle="Succeeded",
    for_all=True,
    has_event=True,
)

OBJECTS_ORPHANED = ConditionType(
    "ObjectsOrphaned",
    "Host objects have no Work on the hub ([autonomy](autonomy.md#objectsorphaned)).",
    normal="False",
    idle="WorksExist",
    has_event=True,
    warning="Host objects have no Work on the hub; karmada-vc-agent leave --prune lists them",
)


def rights_granted(parts: Parts, vc: VirtualCluster) -> Condition:
    """Return the condition; its message has one of the rights that are missing."""
    texts = parts.missing_rights.by_cluster().get(vc.name)
    if not texts:
        return RIGHTS_GRANTED.true("NothingRefused", "no right was refused lately")
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return RIGHTS_GRANTED.false("RightsMissing", f"{texts[0]}{more}")


def succeeded(kind: ConditionType, state: AgentCondition) -> Condition:
    """Return the condition of what may fail for all virtual clusters."""
    return (
        kind.false(state.reason, state.problem)
        if state.problem
        else kind.true("Succeeded", "it succeeds again")
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


CONDITIONS = (
    ConditionSpec(RIGHTS_GRANTED, rights_granted),
    ConditionSpec(
        CREDENTIAL_RENEWED,
        lambda parts, _: succeeded(CREDENTIAL_RENEWED, parts.credential),
        lambda parts: ((parts.credential.changed.subscribe, parts.names),),
    ),
    ConditionSpec(
        LEASE_NAMESPACE_EXISTS,
        lambda parts, _: succeeded(LEASE_NAMESPACE_EXISTS, parts.lease_namespace),
        lambda parts: ((parts.lease_namespace.changed.subscribe, parts.names),),
    ),
    ConditionSpec(
        OBJECTS_ORPHANED,
        lambda parts, vc: objects_orphaned(*parts.orphaned.of(vc.name)),
        lambda parts: ((parts.orphaned.changed.subscribe, itself),),
    ),
)
