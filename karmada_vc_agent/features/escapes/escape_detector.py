"""Reports pods of virtual clusters that run on foreign nodes; changes nothing.

Policies keep pods on their nodes (rewriting-rules 3.5), but a host may have none, a node may move
to another group, and a namespace may be adopted with its pods. Every change of a pod passes
`keys_of_pod`, so that reads memory only; the rest is for the few suspects.
"""

import logging
from collections.abc import Iterable, Iterator

from karmada_vc_agent.cluster.claims import Claim, claim_of
from karmada_vc_agent.cluster.host_nodes import PODS_BY_NODE
from karmada_vc_agent.features.escapes.evictions import Evictions, PodKey
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.runner.common import FEW_WORKERS
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.work.owners import Owners, Place, manifest_of

_log = logging.getLogger(__name__)

COMPONENT = "escape-detector"
SETTLES_S = 1.0
"""A kubelet rejects a pod at once if its selector does not match the node.

A new label may arrive after the pod; what remains after this time has escaped. Reported within 5 s.
"""
_LEFT_ALONE = "the agent leaves it alone: delete the pod, or return its node to the group"
_PODS = Resource(GroupVersionKind("", "v1", "Pod"), "pods", namespaced=True)


class EscapeDetector:
    """Reports escaped pods on Work and template, else the Cluster, once for each pod and node.

    Its keys are suspects, to be checked after SETTLES_S.
    """

    def __init__(self, parts: Parts, evictions: Evictions) -> None:
        common, works = parts.common, parts.works
        self._owners = Owners(common.clients.host, common.discoveries.host, works.watches.works)
        self._stores = common.stores
        self._virtual_clusters = common.virtual_clusters
        self._events = works.events
        self._evictions = evictions
        self.escapes: dict[PodKey, tuple[str, str, str]] = {}
        """Virtual cluster, uid and node of each reported pod that still runs there."""

    # --- suspects ---------------------------------------------------------------------------

    def keys_of_pod(self, old: Pod | None, new: Pod | None) -> list[PodKey]:
        """Return the suspects of a change of a pod; most are not."""
        if old is not None and new is not None:
            is_settled = old.spec.node_name == new.spec.node_name
            if is_settled and old.is_finished == new.is_finished:
                return []
        pod = new or old
        if pod is None:
            return []
        key = (pod.metadata.namespace, pod.metadata.name)
        is_foreign = new is not None and self._foreign(new) is not None
        return [key] if key in self.escapes or is_foreign else []

    def keys_of_node(self, old: Node | None, new: Node | None) -> Iterable[PodKey]:
        """Return the suspects on a node that may have moved to another group."""
        node = new or old
        if node is None:
            return ()
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return ()
        return self.keys_on_node(node.metadata.name)

    def keys_on_node(self, node: str) -> Iterator[PodKey]:
        """Yield the suspects on a node."""
        return self._suspects(self._stores.pods.by_index(PODS_BY_NODE, node))

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterable[PodKey]:
        """Return the suspects in a namespace that existed before its claim."""
        if old is None or new is None or claim_of(old) == claim_of(new):
            return ()
        name = new["metadata"]["name"]
        return self._suspects(pod for pod in self._stores.pods if pod.metadata.namespace == name)

    def all_keys(self) -> Iterator[PodKey]:
        """Yield all suspects; there are none before all lists are complete."""
        return self._suspects(self._stores.pods)

    def _suspects(self, pods: Iterable[Pod]) -> Iterator[PodKey]:
        for pod in pods:
            key = (pod.metadata.namespace, pod.metadata.name)
            if key in self.escapes or self._foreign(pod) is not None:
                yield key

    def _foreign(self, pod: Pod) -> Claim | None:
        """Return the claim that a pod belongs to if it runs on a foreign node."""
        node = pod.spec.node_name
        if not node or pod.is_finished:
            return None
        claim = self._stores.claims.on(pod.metadata.namespace)
        if claim is None or claim.cluster not in self._virtual_clusters:
            return None
        return None if self._stores.membership.owner_of(node) == claim.cluster else claim

    # --- reports ----------------------------------------------------------------------------

    async def reconcile(self, key: PodKey) -> None:
        """Report a pod if it has escaped, and forget it otherwise."""
        pod = self._stores.pods.get(*key)
        claim = self._foreign(pod) if pod is not None else None
        if pod is None or claim is None or not self._is_running(pod, key):
            self.escapes.pop(key, None)
            return
        escape = claim.cluster, pod.metadata.uid, pod.spec.node_name
        if self.escapes.get(key) == escape:
            return
        place = Place(claim.cluster, key[0], claim.namespace)
        origin = await self._owners.origin(place, _PODS, key[1])
        work = self._owners.work(claim.cluster, origin) if origin else None
        self.escapes[key] = escape
        _log.warning(
            "Pod runs on a foreign node",
            extra={
                "virtual_cluster": claim.cluster,
                "pod": "/".join(key),
                "node": pod.spec.node_name,
                "work": work["metadata"]["name"] if work else "",
            },
        )
        outcome = "the agent evicts it" if self._evictions.evicting(pod) else _LEFT_ALONE
        text = (
            f"pod {claim.namespace}/{key[1]} runs on a node outside of virtual cluster "
            f'"{claim.cluster}"; {outcome}'
        )
        cluster = self._stores.clusters.ours(claim.cluster)
        if work is not None and origin is not None:
            manifest = manifest_of(work, origin.root, claim.namespace)
            self._events.warn(COMPONENT, work, manifest, claim.cluster, "PodEscaped", text)
        elif cluster is not None:
            self._events.warn(COMPONENT, cluster, None, claim.cluster, "PodEscaped", text)

    def _is_running(self, pod: Pod, key: PodKey) -> bool:
        """Return whether it runs and is not being deleted; a reported one counts until it ends."""
        if self._stores.nodes.get("", pod.spec.node_name) is None:
            return False  # a deleted node runs nothing
        return key in self.escapes or pod.metadata.deletion_timestamp is None


def setup(parts: Parts) -> ControllerSpec[PodKey]:
    """Declare the controller; its keys are pods that may be out."""
    common, stores = parts.common, parts.common.stores
    detector = common.part(EscapeDetector)
    disputed = parts.works.registered.disputed.subscribe
    return ControllerSpec(
        COMPONENT,
        common.queues.by_cluster(lambda pod: stores.claims.cluster_on(pod[0])),
        detector.reconcile,
        FEW_WORKERS,
        initial_keys=detector.all_keys,
        settles_s=SETTLES_S,
        sources=(
            Enqueues(stores.pods.add_handler, detector.keys_of_pod, SETTLES_S),
            Enqueues(stores.nodes.add_handler, detector.keys_of_node, SETTLES_S),
            Enqueues(stores.namespaces.add_handler, detector.keys_of_namespace, SETTLES_S),
            Enqueues(disputed, detector.keys_on_node, SETTLES_S),
        ),
        resync_keys=lambda _: detector.all_keys(),
    )
