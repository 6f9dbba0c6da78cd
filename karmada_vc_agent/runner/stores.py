"""The stores that are filled from the start on: Clusters, nodes, pods, namespaces."""

import os
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.cluster_index import CLUSTER_INDEX, labelled_cluster
from karmada_vc_agent.cluster.host_addresses import ADDRESS_INDEX, HostAddresses, addresses_of
from karmada_vc_agent.cluster.host_pods import pod_indexes
from karmada_vc_agent.cluster.hub_clusters import (
    CLUSTERS_PATH,
    HubClusters,
    agent_id,
    cluster_store,
)
from karmada_vc_agent.cluster.judgements import Judgements
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.node_trust import NodeTrust
from karmada_vc_agent.cluster.tolerated_taints import NodeTaints
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import StructCodec
from karmada_vc_agent.kube.first_lists import Lists
from karmada_vc_agent.kube.named_reflector import NamedReflector
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.clients import Clients
from karmada_vc_agent.work.kept_objects import KeptObjects

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""The variable that has the address of the Service `kubernetes` in a pod."""
HOST_OBJECT_INDEXES = {CLUSTER_INDEX: labelled_cluster}


class Stores:
    """The stores that no controller can do without, and what is read from them.

    judgements: the agent's own of its Clusters, None where it makes none. registered: returns the
    names of all Clusters that the agent ever registered and has not forgotten.
    """

    def __init__(
        self,
        config: AgentConfig,
        virtual_clusters: VirtualClusters,
        clients: Clients,
        host_uid: str,
        judgements: Judgements | None,
        registered: Callable[[], Iterable[str]],
    ) -> None:
        node_codec: StructCodec[Node] = StructCodec(Node)
        pod_codec: StructCodec[Pod] = StructCodec(Pod)
        clusters = cluster_store()
        self.nodes: Store[Node] = Store(node_codec, {ADDRESS_INDEX: addresses_of})
        self.pods: Store[Pod] = Store(pod_codec, pod_indexes())
        self.kept = KeptObjects(virtual_clusters, self._cluster_on)
        self.namespaces: Store[Object] = Store(self.kept, HOST_OBJECT_INDEXES)
        agent = agent_id(config.agent_namespace, config.agent_name)
        self.clusters = HubClusters(clusters, host_uid, virtual_clusters, agent, judgements)
        self.membership = Membership(virtual_clusters, self.nodes, self.clusters.created_at)
        self.addresses = HostAddresses(
            self.nodes,
            (urlsplit(clients.host.credentials.server).hostname, os.environ.get(IN_CLUSTER)),
            self.membership.owner_of,
        )
        self.trust = NodeTrust(clients.host_urgent, self.nodes)
        self.taints = NodeTaints(self.membership, virtual_clusters)
        self.claims = Claims(self.namespaces, config.agent_name)
        hub, host = clients.hub, clients.host
        self.of_host: tuple[Lists, ...] = (
            Reflector(host, "/api/v1/nodes", node_codec, self.nodes),
            Reflector(host, "/api/v1/namespaces", self.kept, self.namespaces),
            Reflector(host, "/api/v1/pods", pod_codec, self.pods),
        )
        of_hub = (
            self._by_name(hub, virtual_clusters, registered)
            if config.clusters_by_name
            else Reflector(hub, CLUSTERS_PATH, clusters.codec, clusters)
        )
        self.of_hub: Lists = of_hub
        self.reflectors: tuple[Lists, ...] = (of_hub, *self.of_host)

    def _cluster_on(self, namespace: str) -> str:
        return self.claims.cluster_on(namespace)

    def _by_name(
        self,
        hub: ApiClient,
        virtual_clusters: VirtualClusters,
        registered: Callable[[], Iterable[str]],
    ) -> NamedReflector[Object]:
        """Return what follows our own Clusters only."""
        store = self.clusters.store
        reflector = NamedReflector(
            hub, CLUSTERS_PATH, store.codec, store, lambda: {*virtual_clusters, *registered()}
        )
        virtual_clusters.changed.subscribe(lambda *_: reflector.names_changed())
        self.clusters.has_told = reflector.has_told
        return reflector
