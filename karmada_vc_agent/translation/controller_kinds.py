"""Table: kinds whose controllers act with rights of their own, not with those of the tenant.

An object of such a kind asks a controller of the host to make others, in any namespace and
cluster-wide as far as that controller may. Nothing of what it makes is translated.
"""

from collections.abc import Mapping

_ANY = "*"

_KINDS: Mapping[str, tuple[str, ...]] = {
    "addons.cluster.x-k8s.io": (_ANY,),
    "argoproj.io": ("Application", "ApplicationSet", "AppProject", "ArgoCD"),
    "catalog.cattle.io": (_ANY,),
    "config.projectsveltos.io": (_ANY,),
    "core.oam.dev": (_ANY,),
    "fleet.cattle.io": (_ANY,),
    "helm.cattle.io": (_ANY,),
    "helm.crossplane.io": (_ANY,),
    "helm.m.crossplane.io": (_ANY,),
    "helm.toolkit.fluxcd.io": ("HelmRelease",),
    "hnc.x-k8s.io": (_ANY,),
    "infra.contrib.fluxcd.io": (_ANY,),
    "k3s.cattle.io": (_ANY,),
    "kappctrl.k14s.io": (_ANY,),
    "kro.run": (_ANY,),
    "kubernetes.crossplane.io": (_ANY,),
    "kubernetes.m.crossplane.io": (_ANY,),
    "kustomize.toolkit.fluxcd.io": ("Kustomization",),
    "kyverno.io": (_ANY,),
    "operator.cluster.x-k8s.io": (_ANY,),
    "operator.tekton.dev": (_ANY,),
    "operators.coreos.com": (_ANY,),
    "packaging.carvel.dev": (_ANY,),
    "policies.kyverno.io": (_ANY,),
    "velero.io": (_ANY,),
}
"""Group -> its kinds that count; cluster-scoped ones are refused as such unless opened."""


def has_rights_of_its_own(group: str, kind: str) -> bool:
    """Whether objects of a kind are carried out by a controller with rights of its own."""
    kinds = _KINDS.get(group, ())
    return kind in kinds or _ANY in kinds


def is_resource_of_one(group: str, resource: str) -> bool:
    """Whether a resource, or the one of a subresource, is of such a kind; plurals are regular."""
    plural = resource.partition("/")[0]
    kinds = _KINDS.get(group, ())
    return _ANY in kinds or plural in [f"{kind.lower()}s" for kind in kinds]
