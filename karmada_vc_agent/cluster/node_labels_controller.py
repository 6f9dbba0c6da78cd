"""Maintains the membership label of nodes selected by expressions or names."""

import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping

from karmada_vc_agent.cluster.hub_clusters import agent_of
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)


def keys_of_node(old: Node | None, new: Node | None) -> Iterator[str]:
    """Yield a node that changed."""
    node = new or old
    if node is not None:
        yield node.metadata.name


def keys_of_cluster(
    virtual_clusters: Container[str], nodes: Iterable[Node], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield all nodes if another agent starts or stops serving a virtual cluster of ours."""
    cluster = new or old
    if cluster is None or cluster["metadata"]["name"] not in virtual_clusters:
        return
    if agent_of(old) != agent_of(new):
        for node in nodes:
            yield node.metadata.name


class NodeLabelsController:
    """Writes one label, on Nodes; pods can select by equality only (rewriting-rules 3.1).

    is_anothers: True for a virtual cluster that another agent serves; then the label is that one's.
    remember: called with each label that is a former name, which is recorded nowhere else.
    """

    def __init__(
        self,
        host: ApiClient,
        nodes: Store[Node],
        membership: Membership,
        virtual_clusters: Mapping[str, VirtualCluster],
        is_anothers: Callable[[str], bool] = lambda _: False,
        remember: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        self._host = host
        self._nodes = nodes
        self._membership = membership
        self._virtual_clusters = virtual_clusters
        self._is_anothers = is_anothers
        self._remember = remember

    async def reconcile(self, node_name: str) -> None:
        """Set the label of one node, or remove it if no virtual cluster needs it."""
        node = self._nodes.get("", node_name)
        if node is None:
            return
        owner = self._virtual_clusters.get(self._membership.owner_of(node_name) or "")
        is_needed = owner is not None and owner.needs_membership_label
        desired = owner.name_on_host if owner is not None and is_needed else None
        live = node.metadata.labels.get(MEMBERSHIP_LABEL)
        if self._remember is not None and desired is not None and owner is not None:
            await self._remember(desired, owner.name)
        if desired == live:
            return
        named = {vc.name_on_host: vc.name for vc in self._virtual_clusters.values()}
        if desired is None and live not in named:
            return  # another agent's
        if any(name and self._is_anothers(named.get(name, name)) for name in (desired, live)):
            return
        try:
            await self._host.merge_patch(
                f"/api/v1/nodes/{node_name}", {"metadata": {"labels": {MEMBERSHIP_LABEL: desired}}}
            )
        except NotFoundError:
            return
        extra = {"node": node_name, "label": MEMBERSHIP_LABEL}
        if desired is None:
            _log.info("Removed label of node", extra=extra)
        else:
            _log.info("Labelled node", extra={**extra, "value": desired})
