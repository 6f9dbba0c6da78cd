"""Table: kind -> additional translation steps of that kind.

The docstring of each step is also the text about the kind in docs/kinds.md.
"""

from collections.abc import Mapping

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind
from karmada_vc_agent.translation import (
    edge_application,
    placement,
    rbac,
    services,
    tenant_metadata,
)
from karmada_vc_agent.translation.draft import OwnSteps
from karmada_vc_agent.translation.notices import immediate_binding, rules_cut

_BINDING = OwnSteps(rewrite=rbac.confine_subjects, restore=rbac.restore_subjects)
OWN_STEPS: Mapping[GroupKind, OwnSteps] = {
    kinds.NAMESPACE: OwnSteps(
        metadata=tenant_metadata.confine_namespace, restore=tenant_metadata.restore_namespace
    ),
    kinds.CLUSTER_ROLE: OwnSteps(
        metadata=tenant_metadata.confine_cluster_role,
        rewrite=rbac.confine_rules,
        notices=rules_cut,
        restore=rbac.restore_rules,
    ),
    kinds.ROLE: OwnSteps(rewrite=rbac.confine_rules, notices=rules_cut, restore=rbac.restore_rules),
    kinds.CLUSTER_ROLE_BINDING: _BINDING,
    kinds.ROLE_BINDING: _BINDING,
    kinds.SERVICE: OwnSteps(
        rewrite=services.rewrite_service,
        place=services.keep_to_pool,
        restore=services.restore_service,
    ),
    kinds.PERSISTENT_VOLUME_CLAIM: OwnSteps(place=placement.drop_selected_node),
    kinds.PERSISTENT_VOLUME: OwnSteps(place=placement.tie_volume),
    kinds.STORAGE_CLASS: OwnSteps(notices=immediate_binding),
    kinds.IMAGE_PRE_PULL_JOB: OwnSteps(place=placement.confine_image_pull),
    kinds.EDGE_APPLICATION: OwnSteps(
        strip=edge_application.drop_controllers_annotations,
        inside=edge_application.rewrite_inside,
        restore=edge_application.restore_inside,
    ),
}

_NONE = OwnSteps()


def own_steps(gvk: GroupVersionKind) -> OwnSteps:
    """Return the additional steps of a kind, whatever its version."""
    return OWN_STEPS.get(gvk.group_kind, _NONE)
