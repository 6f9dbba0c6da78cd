"""Tells what refusals depend on when it changes, once for whoever is to know."""

from collections.abc import Callable, Container, Mapping

from karmada_vc_agent.cluster.claims import claim_of, claims_in
from karmada_vc_agent.cluster.node_groups import NODE_GROUP
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    labels_of,
)
from karmada_vc_agent.work.grounds import Ground

Tell = Callable[[Ground, str | None], None]
"""Is given what changed, and which one of its kind; None = any of them."""


class GroundChanges:
    """Handlers of the changes on the host that end refusals of the virtual clusters served."""

    def __init__(self, virtual_clusters: Container[str], tell: Tell) -> None:
        self._virtual_clusters = virtual_clusters
        self._tell = tell
        self._scopes: Mapping[GroupVersionKind, bool] = {}

    def nodes(self, cluster: str) -> None:
        """Tell that other nodes belong to a virtual cluster."""
        self._tell(Ground.OWN_NODES, cluster)

    def window(self, cluster: str) -> None:
        """Tell that the window of a virtual cluster opened or closed."""
        self._tell(Ground.WINDOW, cluster)

    def node_group(self, old: Object | None, new: Object | None) -> None:
        """Tell of a NodeGroup that is another now."""
        group = new or old
        if group is not None and dig(old, "spec") != dig(new, "spec"):
            self._tell(Ground.NODE_GROUP, group["metadata"]["name"])

    def served(self, served: ServedApis) -> None:
        """Tell of the kinds that are newly served or rescoped."""
        before = self._scopes
        self._scopes = {gvk: resource.namespaced for gvk, resource in served.by_kind.items()}
        if not before:
            self._tell(Ground.KIND, "")
        for gvk, scope in self._scopes.items():
            if before.get(gvk) != scope:
                self._tell(Ground.KIND, "/".join(gvk))
                if gvk == NODE_GROUP:
                    self._tell(Ground.NODE_GROUP, None)  # nobody watched them before

    def namespace(self, old: Object | None, new: Object | None) -> None:
        """Tell of a host namespace that came, went or is marked otherwise, and of its claim."""
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        if before != after:
            for claim in claims_in(old, new):
                if claim.cluster in self._virtual_clusters:
                    self._tell(Ground.OWN_NAMESPACES, claim.cluster)
        namespace = new or old
        if namespace is not None and (old is None or new is None or _marks(old) != _marks(new)):
            self._tell(Ground.HOST_NAMESPACE, namespace["metadata"]["name"])


def _marks(obj: Object) -> tuple[Object, Object]:
    return labels_of(obj), annotations_of(obj)
