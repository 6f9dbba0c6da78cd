"""Reports what failed manifests depend on when it changes."""

from collections.abc import Callable, Iterable, Mapping

from karmada_vc_agent.cluster.claims import claim_of, claims_in
from karmada_vc_agent.cluster.node_groups import NODE_GROUP
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
)
from karmada_vc_agent.work.dependencies import Dependency, Named, kind_of


class DependencyChanges:
    """Handlers of changes; emit: receives the dependencies that changed."""

    def __init__(
        self, virtual_clusters: Iterable[str], emit: Callable[[set[Dependency]], None]
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._emit = emit
        self._scopes: Mapping[GroupVersionKind, bool] = {}

    def cluster(self, cluster: str) -> None:
        """Report a virtual cluster: its readiness, nodes or window changed."""
        self._emit({cluster})

    def namespace(self, old: Object | None, new: Object | None) -> None:
        """Report a host namespace, and the virtual clusters whose claim on it changed."""
        changed: set[Dependency] = set()
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        if before != after:
            changed.update(claim.cluster for claim in claims_in(old, new))
        namespace = new or old
        if namespace is not None and (old is None or new is None or _marks(old) != _marks(new)):
            changed.add(Named(namespace["metadata"]["name"]))
        self._emit(changed)

    def node_group(self, old: Object | None, new: Object | None) -> None:
        """Report a NodeGroup whose spec changed."""
        group = new or old
        if group is not None and dig(old, "spec") != dig(new, "spec"):
            self._emit({Named(group["metadata"]["name"])})

    def served(self, served: ServedApis) -> None:
        """Report kinds that are newly served or rescoped.

        All kinds of the first call, and NodeGroups, concern every virtual cluster.
        """
        before = self._scopes
        self._scopes = {gvk: resource.namespaced for gvk, resource in served.by_kind.items()}
        kinds = [gvk for gvk, scope in self._scopes.items() if before.get(gvk) != scope]
        of_all = not before or NODE_GROUP in kinds
        self._emit({*map(kind_of, kinds), *(self._virtual_clusters if of_all else ())})

    def own_object(self, old: Object | None, new: Object | None) -> None:
        """Report the kind of a deleted object; its definition may wait for the last one."""
        if old is not None and new is None:
            gvk = gvk_of(old)
            self._emit({Named(f"{gvk.group}/{gvk.kind}")})


def _marks(obj: Object) -> tuple[Object, Object]:
    return labels_of(obj), annotations_of(obj)
