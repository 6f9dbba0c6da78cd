"""Table: kinds whose controllers act with rights of their own, not with those of the tenant.

An object of such a kind makes a controller of the host create others, in any namespace and
cluster-wide as far as that controller's rights go. None of them is translated.
"""

from collections.abc import Mapping

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import ANY
from karmada_vc_agent.model.objects import GroupKind

_WHOLE_GROUPS = (
    *("addons.cluster.x-k8s.io", "catalog.cattle.io", "config.projectsveltos.io", "core.oam.dev"),
    *("fleet.cattle.io", "helm.cattle.io", "helm.crossplane.io", "helm.m.crossplane.io"),
    *("hnc.x-k8s.io", "infra.contrib.fluxcd.io", "k3s.cattle.io", "kappctrl.k14s.io", "kro.run"),
    *("kubernetes.crossplane.io", "kubernetes.m.crossplane.io", "kyverno.io"),
    *("operator.cluster.x-k8s.io", "operator.tekton.dev", "operators.coreos.com"),
    *("packaging.carvel.dev", "policies.kyverno.io", "velero.io"),
)
_BY_GROUP: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_WHOLE_GROUPS, (ANY,)),
    "argoproj.io": ("Application", "ApplicationSet", "AppProject", "ArgoCD"),
    "gateway.envoyproxy.io": ("EnvoyPatchPolicy", "EnvoyProxy"),
    "helm.toolkit.fluxcd.io": ("HelmRelease",),
    "kustomize.toolkit.fluxcd.io": ("Kustomization",),
}
"""Group -> its kinds; cluster-scoped ones are refused anyway unless opened by a setting."""


CONTROLLER_KINDS = frozenset(
    GroupKind(group, kind) for group, names in _BY_GROUP.items() for kind in names
)


def has_rights_of_its_own(kind: GroupKind) -> bool:
    """Return whether a controller with rights of its own reconciles objects of this kind."""
    return kinds.is_among(kind, CONTROLLER_KINDS)


def is_resource_of_one(group: str, resource: str) -> bool:
    """Return whether a (sub)resource belongs to such a kind; plurals are assumed regular."""
    plural = resource.partition("/")[0]
    names = _BY_GROUP.get(group, ())
    return ANY in names or plural in [f"{kind.lower()}s" for kind in names]
