"""Table: kind -> additional translation steps of that kind.

Each function is one step; its docstring is also the text about the kind in docs/kinds.md.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation import (
    edge_application,
    notices,
    placement,
    rbac,
    services,
    tenant_metadata,
)
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.draft import Draft, OwnSteps, Returning
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Refusal

# --- Namespace, ClusterRole ---------------------------------------------------------------


def _confine_namespace(draft: Draft) -> None:
    """Drop labels and annotations that are not known to be harmless (ADR 23)."""
    context = draft.context
    (draft.obj["metadata"].get("labels") or {}).pop(NAMESPACE_NAME_LABEL, None)
    draft.notices += tenant_metadata.confine_namespace(
        draft.obj,
        context.settings.tenancy,
        context.settings.namespace_keys,
        context.vc.pod_security,
    )


def _restore_namespace(returning: Returning) -> None:
    """Restore the virtual name in label `kubernetes.io/metadata.name`."""
    metadata = returning.obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if NAMESPACE_NAME_LABEL in labels and metadata.get("name"):
        labels[NAMESPACE_NAME_LABEL] = metadata["name"]


def _confine_cluster_role(draft: Draft) -> None:
    """Drop all labels but Karmada's and ours: others aggregate it into host roles (ADR 23)."""
    draft.notices += tenant_metadata.confine_cluster_role(draft.obj)


# --- RBAC ---------------------------------------------------------------------------------


def _confine_rules(draft: Draft) -> None:
    """Expand `*`, and cut rules to what `virtual-cluster-admin` may (rewriting-rules 5.2)."""
    context = draft.context
    is_strict = context.settings.is_strict
    rbac.confine_rules(draft.obj, context.admin_rules, draft.direction, is_strict=is_strict)


def _restore_rules(returning: Returning) -> None:
    """Restore the virtual names in rules on namespaces."""
    rbac.restore_rules(returning.obj, returning.direction)


def _report_cut_rules(manifest: Object, context: TranslationContext) -> Iterable[Notice]:
    """Report the rules that were cut (`RuleCut`)."""
    return notices.rules_cut(manifest, is_strict=context.settings.is_strict)


def _confine_subjects(draft: Draft) -> None:
    """Map subjects to names of the virtual cluster, and the ClusterRole (rewriting-rules 5.2)."""
    if rbac.confine_binding(draft.obj, draft.context.vc.name, draft.direction):
        draft.depends_on_claims = True


def _restore_subjects(returning: Returning) -> None:
    """Restore the virtual names of subjects and of the ClusterRole."""
    rbac.restore_binding(returning.obj, returning.context.vc.name, returning.direction)


# --- Services, volumes --------------------------------------------------------------------


def _rewrite_service(draft: Draft) -> None:
    """Drop what the host allocates, map the namespace in `externalName` (rewriting-rules 4.3)."""
    services.drop_addresses(draft.obj)
    domain_name = draft.context.settings.cluster_domain
    services.rewrite_external_name(draft.obj, domain_name, draft.direction)


def _keep_to_pool(draft: Draft) -> None:
    """Have K3s balance a Service on own nodes, if they are a pool (rewriting-rules 4.3)."""
    services.keep_to_pool(draft.obj, draft.context.vc.required_selector)


def _restore_service(returning: Returning) -> None:
    """Restore the virtual name of the namespace in `externalName`."""
    domain_name = returning.context.settings.cluster_domain
    services.rewrite_external_name(returning.obj, domain_name, returning.direction)


def _drop_selected_node(draft: Draft) -> None:
    """Drop the annotation `volume.kubernetes.io/selected-node` (rewriting-rules 3.4)."""
    placement.drop_selected_node(draft.obj)


def _tie_volume(draft: Draft) -> None:
    """Pin a `local` or `hostPath` volume to own nodes (rewriting-rules 3.4)."""
    placement.tie_volume(draft.obj, draft.context.vc.required_selector)


def _report_immediate_binding(manifest: Object, _context: TranslationContext) -> Iterable[Notice]:
    """Report volumes that are provisioned before a pod is scheduled (`ImmediateBinding`)."""
    return notices.immediate_binding(manifest)


# --- KubeEdge -----------------------------------------------------------------------------


def _confine_image_pull(draft: Draft) -> None:
    """Require own nodes by labels, if it lists none by name (rewriting-rules 5.1)."""
    placement.confine_image_pull(draft.obj, draft.context.vc.required_selector)


def _drop_controllers_annotations(draft: Draft) -> None:
    """Drop annotations `apps.kubeedge.io/*`: the controller deletes what they list."""
    edge_application.drop_controllers_annotations(draft.obj)


def _rewrite_inside(draft: Draft) -> None:
    """Rewrite each embedded manifest by all steps; node groups and labels must be its own."""

    def rewrite(manifest: Object) -> Object | Refusal:
        result = draft.translate_inside(manifest, draft)
        if not isinstance(result, Refusal):
            edge_application.drop_controllers_annotations(result)
        return result

    edge_application.rewrite_manifests(draft.obj, draft.virtual_namespace, rewrite, draft.context)
    edge_application.confine_scope(draft.obj, draft.context)


def _restore_inside(returning: Returning) -> None:
    """Restore each embedded manifest, and the node groups."""
    edge_application.restore_manifests(returning.obj, returning.restore_inside)
    edge_application.restore_scope(returning.obj, returning.context.vc.required_selector)


_BINDING = OwnSteps(rewrite=_confine_subjects, restore=_restore_subjects)
OWN_STEPS: Mapping[GroupKind, OwnSteps] = {
    kinds.NAMESPACE: OwnSteps(metadata=_confine_namespace, restore=_restore_namespace),
    kinds.CLUSTER_ROLE: OwnSteps(
        metadata=_confine_cluster_role,
        rewrite=_confine_rules,
        notices=_report_cut_rules,
        restore=_restore_rules,
    ),
    kinds.ROLE: OwnSteps(rewrite=_confine_rules, notices=_report_cut_rules, restore=_restore_rules),
    kinds.CLUSTER_ROLE_BINDING: _BINDING,
    kinds.ROLE_BINDING: _BINDING,
    kinds.SERVICE: OwnSteps(
        rewrite=_rewrite_service, place=_keep_to_pool, restore=_restore_service
    ),
    kinds.PERSISTENT_VOLUME_CLAIM: OwnSteps(place=_drop_selected_node),
    kinds.PERSISTENT_VOLUME: OwnSteps(place=_tie_volume),
    kinds.STORAGE_CLASS: OwnSteps(notices=_report_immediate_binding),
    kinds.IMAGE_PRE_PULL_JOB: OwnSteps(place=_confine_image_pull),
    kinds.EDGE_APPLICATION: OwnSteps(
        strip=_drop_controllers_annotations, inside=_rewrite_inside, restore=_restore_inside
    ),
}

_NONE = OwnSteps()


@lru_cache(maxsize=1024)  # tenants name kinds
def own_steps(gvk: GroupVersionKind) -> OwnSteps:
    """Return the additional steps of a kind, whatever its version."""
    return OWN_STEPS.get(gvk.group_kind, _NONE)
