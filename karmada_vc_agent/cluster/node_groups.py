"""KubeEdge's NodeGroups of the host, watched once an EdgeApplication refers to one."""

from collections.abc import Callable, Collection

from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig

NODE_GROUP = GroupVersionKind("apps.kubeedge.io", "v1alpha1", "NodeGroup")


class NodeGroups:
    """The nodes of NodeGroups.

    find: returns the resource of NodeGroups, None if the host does not serve them. store_of: the
    informer store of a resource; its changes let refused Works be retried.
    """

    def __init__(
        self,
        find: Callable[[GroupVersionKind], Resource | None],
        store_of: Callable[[Resource], Store[Object] | None],
        membership: Membership,
    ) -> None:
        self._find = find
        self._store_of = store_of
        self._membership = membership

    def nodes_of(self, name: str) -> Collection[str] | None:
        """Return the names of the nodes in a group, None if there is no such group.

        Raises UnreachableError until the host has listed its groups.
        """
        resource = self._find(NODE_GROUP)
        store = self._store_of(resource) if resource is not None else None
        if store is not None and not store.is_synced:
            raise UnreachableError("the host has not listed its NodeGroups yet")
        group = store.get("", name) if store is not None else None
        if group is None:
            return None
        labels, names = dig(group, "spec", "matchLabels"), dig(group, "spec", "nodes")
        return self._membership.selected_by(labels, names or ())
