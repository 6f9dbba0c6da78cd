"""Pods on nodes that are not of their virtual cluster: reported, or evicted.

Policies keep pods on their nodes (rewriting-rules 3.5), but a host may have none, a node may move
to another group, and a namespace may be adopted with its pods. The caches select the candidates;
what the host says then, of node and pod, decides. Pods of others are out of reach: by their claims,
and by policy agent-confines (ADR 33).
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from karmada_vc_agent.cluster.host_objects import PODS_BY_NODE
from karmada_vc_agent.cluster.virtual_clusters import Claim, claim_of
from karmada_vc_agent.kube.client import evict
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import NotFoundError, TooManyRequestsError
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object, annotations_of, dig, labels_of
from karmada_vc_agent.model.virtual_cluster import EVICT, VirtualCluster
from karmada_vc_agent.runner.common import FEW_WORKERS
from karmada_vc_agent.runner.parts import Feature, Parts
from karmada_vc_agent.telemetry.metrics import Sample
from karmada_vc_agent.work.reporting import NORMAL, WARNING
from karmada_vc_agent.work.works import Owners, Place, manifest_of

PodKey = tuple[str, str]
"""Host namespace and name of a pod."""


_log = logging.getLogger(__name__)

EVICTIONS = "evictions"
FIRST_RETRY_S = 1.0
"""The first pause after an eviction that a PodDisruptionBudget forbids; doubled, up to 30 s."""
UNREGISTERED_S = 30.0
"""Before the hub lists its Clusters it is undecided whether the Cluster is ours to serve."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the pods that a node runs from its own files: they only show what runs there."""

_PODS = Resource(GroupVersionKind("", "v1", "Pod"), "pods", namespaced=True)


@dataclass(slots=True)
class _LeftPod:
    """A pod, and when its node was seen to have left. is_held: that it is kept was reported."""

    uid: str
    node: str
    since_s: float
    is_held: bool = False


def _relabelled(old: Node | None, new: Node | None) -> str:
    if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
        return ""
    node = new or old
    return node.metadata.name if node is not None else ""


def _key_of(pod: Pod) -> PodKey:
    return pod.metadata.namespace, pod.metadata.name


class Evictions:
    """Selects and evicts those that `onNodeLeave: Evict` is about; its keys are such pods.

    A pod that selects the nodes of its virtual cluster got onto one of them: where its node is none
    of them now, that one left. Pods that never selected them, as in an adopted namespace, were not
    placed like this, and a node that an older virtual cluster selects as well did not leave.
    """

    def __init__(self, parts: Parts) -> None:
        common, stores = parts.common, parts.common.stores
        self._host = common.clients.host
        self._pods, self._nodes = stores.pods, stores.nodes
        self._claims, self._clusters = stores.claims, stores.clusters
        self._virtual_clusters = common.virtual_clusters
        self._recorder = parts.works.recorder
        self._damping_s = common.config.cluster_failure_threshold
        self._clock = common.clock.monotonic
        self._seen: dict[PodKey, _LeftPod] = {}

    def evicting(self, pod: Pod) -> VirtualCluster | None:
        """Return the virtual cluster of a pod that is to be evicted, None for any other."""
        node = self._nodes.get("", pod.spec.node_name) if pod.spec.node_name else None
        return self._evicting(pod, node)

    def keys_of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[PodKey]:
        """Return the key of a pod that is bound to such a node; most are not."""
        if new is None or (old is not None and old.spec.node_name == new.spec.node_name):
            return ()
        return self.among((new,))

    def keys_of_node(self, old: Node | None, new: Node | None) -> Iterator[PodKey]:
        """Yield the pods on a node that leaves or returns."""
        for pod in self._pods.by_index(PODS_BY_NODE, _relabelled(old, new)):
            if self._evicting(pod, old) is not self._evicting(pod, new):
                yield _key_of(pod)

    def among(self, pods: Iterable[Pod]) -> Iterator[PodKey]:
        return (_key_of(pod) for pod in pods if self.evicting(pod) is not None)

    def _evicting(self, pod: Pod, node: Node | None) -> VirtualCluster | None:
        if node is None or pod.is_finished or pod.metadata.deletion_timestamp:
            return None
        vc = self._virtual_clusters.get(self._claims.cluster_on(pod.metadata.namespace))
        if vc is None or vc.on_node_leave != EVICT or vc.paused:
            return None
        if not vc.required_selector.items() <= pod.spec.node_selector.items():
            return None
        return None if vc.selects(node.metadata.name, node.metadata.labels) else vc

    async def reconcile(self, key: PodKey) -> Requeue | None:
        """Evict one pod whose node left long enough ago, and forget any other."""
        pod = self._pods.get(*key)
        vc = self.evicting(pod) if pod is not None else None
        if pod is None or vc is None:
            self._seen.pop(key, None)
            return None
        left, place = self._seen.get(key), (pod.metadata.uid, pod.spec.node_name)
        if left is None or (left.uid, left.node) != place:
            left = self._seen[key] = _LeftPod(*place, self._clock())
        wait_s = left.since_s + self._damping_s - self._clock()
        if wait_s > 0:
            return Requeue(wait_s)
        cluster = self._clusters.ours(vc.name)
        if cluster is None:
            return Requeue(UNREGISTERED_S)
        await self._evict(key, left, vc, cluster)
        self._seen.pop(key, None)
        return None

    async def _evict(
        self, key: PodKey, left: _LeftPod, vc: VirtualCluster, cluster: Object
    ) -> None:
        """Evict a pod if host and agent agree on it. Raises KubeError."""
        path, claim = _PODS.path(*key), self._claims.on(key[0])
        # Its name on the hub; that of its node is the host's own.
        name = f"{claim.namespace if claim is not None else key[0]}/{key[1]}"
        try:
            node = await self._host.get(f"/api/v1/nodes/{left.node}")
            pod = await self._host.get(path)
            if vc.selects(left.node, labels_of(node)) or not _is_evictable(pod, left):
                return
            extra = {"virtual_cluster": vc.name, "pod": "/".join(key), "node": left.node}
            _log.info("Evicting a pod from a node that left", extra=extra)
            await evict(self._host, path, pod)
        except NotFoundError:
            return
        except TooManyRequestsError as error:
            if not left.is_held:
                left.is_held = True
                text = (
                    f'cannot evict pod {name}, whose node left virtual cluster "{vc.name}": {error}'
                )
                self._recorder.record(EVICTIONS, cluster, WARNING, "PodEvictionHeld", text)
            raise
        text = f'evicted pod {name}: its node left virtual cluster "{vc.name}"'
        self._recorder.record(EVICTIONS, cluster, NORMAL, "PodEvicted", text)


def _is_evictable(pod: Object, left: _LeftPod) -> bool:
    metadata = pod["metadata"]
    if metadata["uid"] != left.uid or dig(pod, "spec", "nodeName") != left.node:
        return False
    owners = metadata.get("ownerReferences") or ()
    has_keeper = any(o.get("controller") and o.get("kind") == "DaemonSet" for o in owners)
    is_done = dig(pod, "status", "phase") in ("Succeeded", "Failed")
    is_ending = is_done or bool(metadata.get("deletionTimestamp"))
    return not (has_keeper or is_ending or MIRROR in annotations_of(pod))


def setup_evictions(parts: Parts) -> ControllerSpec[PodKey]:
    """Declare the controller; its keys are pods on nodes that may have left."""
    common, stores = parts.common, parts.common.stores
    controller = common.part(Evictions)
    all_keys = partial(controller.among, stores.pods)
    return ControllerSpec(
        EVICTIONS,
        common.queues.by_cluster(
            lambda pod: stores.claims.cluster_on(pod[0]), base_delay_s=FIRST_RETRY_S
        ),
        controller.reconcile,
        FEW_WORKERS,
        initial_keys=all_keys,
        sources=(
            Enqueues(stores.pods.add_handler, controller.keys_of_pod),
            Enqueues(stores.nodes.add_handler, controller.keys_of_node),
        ),
        resync_keys=lambda _: all_keys(),
    )


ESCAPES = "escape-detector"
SETTLES_S = 1.0
"""A new label may arrive after the pod, and kubelets reject pods whose selector does not match."""
_LEFT_ALONE = "the agent leaves it alone: delete the pod, or return its node to the group"


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

    def keys_of_pod(self, old: Pod | None, new: Pod | None) -> list[PodKey]:
        """Return the suspects of a change of a pod; most are not."""
        if old is not None and new is not None:
            is_settled = old.spec.node_name == new.spec.node_name
            if is_settled and old.is_finished == new.is_finished:
                return []
        is_foreign = new is not None and self._foreign(new) is not None
        keys = [_key_of(pod) for pod in (new or old,) if pod is not None]
        return [key for key in keys if is_foreign or key in self.escapes]

    def keys_of_node(self, old: Node | None, new: Node | None) -> Iterator[PodKey]:
        """Yield the suspects on a node that may have moved to another group."""
        return self.keys_on_node(_relabelled(old, new))

    def keys_on_node(self, node: str) -> Iterator[PodKey]:
        return self.suspects(self._stores.pods.by_index(PODS_BY_NODE, node))

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterable[PodKey]:
        """Return the suspects in a namespace that existed before its claim."""
        if old is None or new is None or claim_of(old) == claim_of(new):
            return ()
        name = new["metadata"]["name"]
        return self.suspects(pod for pod in self._stores.pods if pod.metadata.namespace == name)

    def suspects(self, pods: Iterable[Pod]) -> Iterator[PodKey]:
        """Yield the suspects among some pods; there are none before all lists are complete."""
        for pod in pods:
            if _key_of(pod) in self.escapes or self._foreign(pod) is not None:
                yield _key_of(pod)

    def _foreign(self, pod: Pod) -> Claim | None:
        node = pod.spec.node_name
        if not node or pod.is_finished:
            return None
        claim = self._stores.claims.on(pod.metadata.namespace)
        if claim is None or claim.cluster not in self._virtual_clusters:
            return None
        return None if self._stores.membership.owner_of(node) == claim.cluster else claim

    async def reconcile(self, key: PodKey) -> None:
        """Report a pod if it has escaped, and forget it otherwise."""
        pod = self._stores.pods.get(*key)
        claim = self._foreign(pod) if pod is not None else None
        if pod is None or claim is None or self._is_ending(pod):
            self.escapes.pop(key, None)
            return
        escape = claim.cluster, pod.metadata.uid, pod.spec.node_name
        if self.escapes.get(key) == escape:
            return
        place = Place(claim.cluster, key[0], claim.namespace)
        origin = await self._owners.origin(place, _PODS, key[1])
        work = self._owners.work(claim.cluster, origin) if origin else None
        self.escapes[key] = escape
        extra = {"virtual_cluster": claim.cluster, "pod": "/".join(key), "node": escape[2]}
        named = work["metadata"]["name"] if work else ""
        _log.warning("Pod runs on a foreign node", extra=extra | {"work": named})
        outcome = "the agent evicts it" if self._evictions.evicting(pod) else _LEFT_ALONE
        text = (
            f"pod {claim.namespace}/{key[1]} runs on a node outside of virtual cluster "
            f'"{claim.cluster}"; {outcome}'
        )
        about, manifest = self._stores.clusters.ours(claim.cluster), None
        if work is not None and origin is not None:
            about, manifest = work, manifest_of(work, origin.root, claim.namespace)
        if about is not None:
            self._events.warn(ESCAPES, about, manifest, claim.cluster, "PodEscaped", text)

    def _is_ending(self, pod: Pod) -> bool:
        """Return whether it runs no more, or is being deleted; a reported one counts until then."""
        if self._stores.nodes.get("", pod.spec.node_name) is None:
            return True  # a deleted node runs nothing
        return pod.metadata.deletion_timestamp is not None and _key_of(pod) not in self.escapes


def setup_detector(parts: Parts) -> ControllerSpec[PodKey]:
    """Declare the controller; its keys are pods that may be out."""
    common, stores = parts.common, parts.common.stores
    detector = common.part(EscapeDetector)
    all_keys = partial(detector.suspects, stores.pods)
    disputed = parts.works.registered.disputed.subscribe
    return ControllerSpec(
        ESCAPES,
        common.queues.by_cluster(lambda pod: stores.claims.cluster_on(pod[0])),
        detector.reconcile,
        FEW_WORKERS,
        initial_keys=all_keys,
        settles_s=SETTLES_S,
        sources=(
            Enqueues(stores.pods.add_handler, detector.keys_of_pod, SETTLES_S),
            Enqueues(stores.nodes.add_handler, detector.keys_of_node, SETTLES_S),
            Enqueues(stores.namespaces.add_handler, detector.keys_of_namespace, SETTLES_S),
            Enqueues(disputed, detector.keys_on_node, SETTLES_S),
        ),
        resync_keys=lambda _: all_keys(),
    )


def _connect(parts: Parts) -> None:
    common = parts.common
    evictions = Evictions(parts)
    detector = EscapeDetector(parts, evictions)

    def samples() -> Iterator[Sample]:
        escaped = Counter(cluster for cluster, _, _ in detector.escapes.values())
        for name in filter(common.stores.clusters.ours, common.virtual_clusters):
            yield Sample("virtual_cluster_escaped_pods", (name,), escaped[name])

    common.provide(evictions)
    common.provide(detector)
    common.metrics.add_source(samples)


FEATURE = Feature(
    "escapes",
    connect=_connect,
    controllers=(setup_detector, setup_evictions),
    metrics="features/escapes/metrics.yaml",
)
