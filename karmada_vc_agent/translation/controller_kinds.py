"""Table: kinds whose controllers act with rights of their own, not with those of the tenant.

An object of such a kind makes a controller of the host create others, in any namespace and
cluster-wide as far as that controller's rights go. None of them is translated.
"""

from collections.abc import Mapping

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import ANY
from karmada_vc_agent.model.objects import GroupKind

_BY_GROUP: Mapping[str, tuple[str, ...]] = {
    "addons.cluster.x-k8s.io": (ANY,),
    "argoproj.io": ("Application", "ApplicationSet", "AppProject", "ArgoCD"),
    "catalog.cattle.io": (ANY,),
    "config.projectsveltos.io": (ANY,),
    "core.oam.dev": (ANY,),
    "fleet.cattle.io": (ANY,),
    "gateway.envoyproxy.io": ("EnvoyPatchPolicy", "EnvoyProxy"),
    "helm.cattle.io": (ANY,),
    "helm.crossplane.io": (ANY,),
    "helm.m.crossplane.io": (ANY,),
    "helm.toolkit.fluxcd.io": ("HelmRelease",),
    "hnc.x-k8s.io": (ANY,),
    "infra.contrib.fluxcd.io": (ANY,),
    "k3s.cattle.io": (ANY,),
    "kappctrl.k14s.io": (ANY,),
    "kro.run": (ANY,),
    "kubernetes.crossplane.io": (ANY,),
    "kubernetes.m.crossplane.io": (ANY,),
    "kustomize.toolkit.fluxcd.io": ("Kustomization",),
    "kyverno.io": (ANY,),
    "operator.cluster.x-k8s.io": (ANY,),
    "operator.tekton.dev": (ANY,),
    "operators.coreos.com": (ANY,),
    "packaging.carvel.dev": (ANY,),
    "policies.kyverno.io": (ANY,),
    "velero.io": (ANY,),
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
