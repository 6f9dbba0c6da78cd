"""The registry of virtual clusters, their nodes, and what is kept of each.

Sources, such as the settings file, define virtual clusters; all others read the registry as a
mapping and keep no copy. A node that several virtual clusters select counts for the oldest of them:
first by the creation of its Cluster on the hub, then by name (rewriting-rules 3.1).
"""

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ForbiddenError, UnreachableError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import objects, vocabulary
from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.objects import GroupVersionKind, Object, annotations_of, dig, labels_of
from karmada_vc_agent.model.virtual_cluster import (
    ClaimedNamespaces,
    HostNamespace,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.translation.namespace_defaults import POD_SECURITY_LABEL, has_our_pod_security
from karmada_vc_agent.translation.placement import common_taints

_log = logging.getLogger(__name__)


class VirtualClusters(Mapping[str, VirtualCluster]):
    """Virtual clusters by name, as they are now.

    everywhere: those of all processes of the agent, these and others: who has which node.
    changed: (old, new) of each that was added, changed or removed; None = was or is not there.
    Emitted once all of a change is in place, so that listeners see the same as all others.
    """

    def __init__(self, virtual_clusters: Iterable[VirtualCluster] = ()) -> None:
        self._by_name = {vc.name: vc for vc in virtual_clusters}
        self.changed: Signal[[VirtualCluster | None, VirtualCluster | None]] = Signal()
        self.everywhere: VirtualClusters = self

    def __getitem__(self, name: str) -> VirtualCluster:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over a copy of the names, so that the registry may change meanwhile."""
        return iter(tuple(self._by_name))

    def __len__(self) -> int:
        return len(self._by_name)

    def serves(self, name: str) -> bool:  # noqa: ARG002
        """Return whether this process serves what has this name, not another one of the agent."""
        return True

    def are_several(self) -> bool:
        return len(self._by_name) > 1

    def loop_share(self, name: Hashable) -> float | None:
        """Return the share of the event loop that a virtual cluster may use; None: not served."""
        vc = self._by_name.get(str(name))
        return vc.bounds.loop_milliseconds / 1000 if vc is not None else None

    def put(self, vc: VirtualCluster) -> None:
        self.replace_all({**self._by_name, vc.name: vc}.values())

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have exactly these from now on; listeners are notified of the differences only."""
        before, self._by_name = self._by_name, {vc.name: vc for vc in virtual_clusters}
        for name in dict.fromkeys((*before, *self._by_name)):
            old, new = before.get(name), self._by_name.get(name)
            if old is new or old == new:  # of many, most are the same
                continue
            try:
                self.changed.emit(old, new)
            except Exception:  # noqa: BLE001 - one virtual cluster must not cost the others
                _log.exception(
                    "Failed to handle a changed virtual cluster", extra={"virtual_cluster": name}
                )


def former_names(virtual_clusters: Mapping[str, VirtualCluster], cluster: str) -> tuple[str, ...]:
    """Return the earlier names of a virtual cluster that are free: none of them is served."""
    vc = virtual_clusters.get(cluster)
    names = vc.former_names if vc is not None else ()
    return tuple(name for name in names if name not in virtual_clusters)


def name_of_change(old: VirtualCluster | None, new: VirtualCluster | None) -> str:
    vc = new or old
    return vc.name if vc is not None else ""


NODE_GROUP = GroupVersionKind("apps.kubeedge.io", "v1alpha1", "NodeGroup")


class Membership:
    """Nodes by virtual cluster, and the taints that their pods tolerate.

    created_at: returns the creation time of a virtual cluster's Cluster, RFC 3339, or "".
    changed: a virtual cluster one of whose nodes was added, removed or changed.
    """

    def __init__(
        self,
        virtual_clusters: VirtualClusters,
        nodes: Store[Node],
        created_at: Callable[[str], str],
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._nodes = nodes
        self._created_at = created_at
        self._by_key: dict[object, list[VirtualCluster]] = {}
        self._claimants: dict[str, tuple[str, ...]] = {}
        self._selected: dict[str, set[str]] = defaultdict(set)
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self.changed: Signal[[str]] = Signal()
        nodes.add_handler(self._node_changed)
        virtual_clusters.changed.subscribe(self._selector_changed)

    def reconsider(self) -> list[str]:
        """Notify all that share a node, as the oldest Cluster may be another; return the nodes."""
        shared = sorted(name for name, of in self._claimants.items() if len(of) > 1)
        for cluster in dict.fromkeys(each for node in shared for each in self._claimants[node]):
            self.changed.emit(cluster)
        return shared

    def owner_of(self, node_name: str) -> str | None:
        claimants = self._claimants.get(node_name, ())
        if len(claimants) < 2:
            return claimants[0] if claimants else None
        return min(claimants, key=lambda cluster: (self._created_at(cluster) or "~", cluster))

    def nodes_of(self, cluster: str) -> list[Node]:
        names = sorted(n for n in self._selected[cluster] if self.owner_of(n) == cluster)
        nodes = (self._nodes.get("", name) for name in names)
        return [node for node in nodes if node is not None]

    def taints_of(self, cluster: str) -> tuple[Taint, ...]:
        """Return the taints that its pods tolerate, the same ones until `refresh_taints`."""
        vc = self._virtual_clusters.get(cluster)
        if vc is None or not vc.tolerate_node_taints:
            return ()
        if cluster not in self._taints:
            self._taints[cluster] = common_taints(self.nodes_of(cluster))
        return self._taints[cluster]

    def refresh_taints(self, cluster: str) -> bool:
        """Read the nodes again; return whether pods have to tolerate others than before."""
        before = self._taints.pop(cluster, None)
        return before is not None and before != self.taints_of(cluster)

    def nodes_of_group(
        self,
        find: Callable[[GroupVersionKind], Resource | None],
        store_of: Callable[[Resource], Store[Object] | None],
        name: str,
    ) -> Collection[str] | None:
        """Return the names of the nodes in a NodeGroup, None if there is no such group.

        By labels, of which none select none, and by name (kubeedge 3). find, store_of: the resource
        of NodeGroups and its store, if served. Raises UnreachableError until that is synced.
        """
        resource = find(NODE_GROUP)
        store = store_of(resource) if resource is not None else None
        if store is not None and not store.is_synced:
            raise UnreachableError("the host has not listed its NodeGroups yet")
        group = store.get("", name) if store is not None else None
        if group is None:
            return None
        names, labels = dig(group, "spec", "nodes") or (), dig(group, "spec", "matchLabels")
        metadata = (node.metadata for node in self._nodes if labels is not None)
        return {*names, *(each.name for each in metadata if labels.items() <= each.labels.items())}

    def overlaps(self, cluster: str) -> list[tuple[str, str]]:
        """Return (node, owner or other claimant) of each node that others select too."""
        overlaps = []
        for name in sorted(self._selected[cluster]):
            others = [each for each in self._claimants.get(name, ()) if each != cluster]
            if others:
                owner = self.owner_of(name) or ""
                overlaps.append((name, owner if owner != cluster else others[0]))
        return overlaps

    def lost_node(self, cluster: str) -> str | None:
        """Return a node that this virtual cluster selects but an older one owns."""
        names = sorted(self._selected[cluster])
        return next((name for name in names if self.owner_of(name) != cluster), None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        name, labels = node.metadata.name, node.metadata.labels
        before = after = self._claimants.get(name, ())
        if old is None or new is None or old.metadata.labels != labels:
            after = self._selecting(name, labels) if new is not None else ()
            self._claim(name, before, after)
        elif old.status == new.status and old.spec == new.spec:
            return  # most updates are heartbeats, which change nothing that is reported
        for cluster in dict.fromkeys((*before, *after)):
            self.changed.emit(cluster)

    def _selecting(self, node: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return who selects a node; tried is who names it or one of its labels, or no label."""
        if not self._by_key:
            for vc in self._virtual_clusters.values():
                label = next(iter(vc.node_selector.match_labels.items()), None)
                for key in (*vc.node_names, label) if vc.node_selector else vc.node_names:
                    self._by_key.setdefault(key, []).append(vc)
        likely = {v.name: v for k in (None, node, *labels.items()) for v in self._by_key.get(k, ())}
        return tuple(name for name, vc in likely.items() if vc.selects(node, labels))

    def _selector_changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        """Release the nodes that a virtual cluster selects no longer, and add the others."""
        cluster = name_of_change(old, new)
        self._taints.pop(cluster, None)
        self._by_key.clear()
        concerned = {cluster: None}
        is_moved = old is None or new is None or not selects_the_same(old, new)
        for node in self._nodes if is_moved else ():
            name = node.metadata.name
            before = self._claimants.get(name, ())
            after = tuple(other for other in before if other != cluster)
            if new is not None and new.selects(name, node.metadata.labels):
                after = (*after, cluster)
            if set(before) != set(after):
                self._claim(name, before, after)
                concerned |= dict.fromkeys((*before, *after))
        if new is None:
            self._selected.pop(cluster, None)
        for each in concerned:
            self.changed.emit(each)

    def _claim(self, node: str, before: Iterable[str], after: tuple[str, ...]) -> None:
        self._claimants.pop(node, None)
        if after:
            self._claimants[node] = after
        for cluster in before:
            self._selected[cluster].discard(node)
        for cluster in after:
            self._selected[cluster].add(node)


def selects_the_same(old: VirtualCluster, new: VirtualCluster) -> bool:
    """Return True if no node moves; many may change at once, and nodes are many."""
    return (old.node_selector, old.node_names) == (new.node_selector, new.node_names)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Scopes:
    """The scopes of all virtual clusters: the end of one drops all that is kept in it.

    ended: a virtual cluster whose scope, empty or not, ended, for what is not kept by its name.
    """

    def __init__(self) -> None:
        self.ended: Signal[[str]] = Signal()

    def end(self, cluster: str) -> None:
        """Drop all that is kept of a virtual cluster; what is kept later is in a new scope."""
        self.ended.emit(cluster)

    def keep(self) -> dict[str, V]:
        kept: dict[str, V] = {}
        self.ended.subscribe(lambda cluster: kept.pop(cluster, None))
        return kept

    def keep_each(self, factory: Callable[[], V]) -> defaultdict[str, V]:
        """Return a mapping by virtual cluster in which each has a value from the start."""
        kept: defaultdict[str, V] = defaultdict(factory)
        self.ended.subscribe(lambda cluster: kept.pop(cluster, None))
        return kept

    def keep_by(self, cluster_of: Callable[[K], str]) -> dict[K, V]:
        kept: dict[K, V] = {}

        def drop(cluster: str) -> None:
            for key in [key for key in kept if cluster_of(key) == cluster]:
                del kept[key]

        self.ended.subscribe(drop)
        return kept


class Claim(NamedTuple):
    """The claim in the labels of a host namespace."""

    cluster: str
    namespace: VirtualNamespace
    agent: str


class Phase(Enum):
    """The life of a host namespace under one agent; each writer acts by it (ADR 59).

    UNCLAIMED -> CLAIMED -> RELEASING -> UNCLAIMED for one that stays, else -> TERMINATING.
    """

    UNCLAIMED = "the agent has no rights in it, and nothing of its own"
    CLAIMED = "all may be written"
    RELEASING = "what the agent made is being removed, then the claim; nothing is added"
    TERMINATING = "the host removes everything; nothing is added, nothing else is to be removed"


def phase_of(live: Object | None, agent: str) -> Phase:
    """Return the phase of a host Namespace object; None = it does not exist."""
    claim = claim_of(live) if live is not None else None
    if live is None or claim is None or claim.agent != agent:
        return Phase.UNCLAIMED
    if live["metadata"].get("deletionTimestamp"):
        return Phase.TERMINATING
    is_releasing = vocabulary.RELEASING_ANNOTATION in annotations_of(live)
    return Phase.RELEASING if is_releasing else Phase.CLAIMED


def claim_of(host_namespace: Object) -> Claim | None:
    labels = labels_of(host_namespace)
    if CLUSTER_LABEL not in labels or NAMESPACE_LABEL not in labels:
        return None
    namespace = VirtualNamespace(labels[NAMESPACE_LABEL])
    return Claim(labels[CLUSTER_LABEL], namespace, labels.get(AGENT_LABEL, ""))


def unclaim(live: Object) -> Object:
    """Return the merge patch that removes everything that we and Karmada set on a namespace."""
    also = {vocabulary.NODE_SELECTOR_ANNOTATION}
    if has_our_pod_security(live):
        also.add(POD_SECURITY_LABEL)

    def is_removed(key: str) -> bool:
        return vocabulary.is_ours(key) or vocabulary.is_karmada_key(key) or key in also

    of = {"labels": labels_of(live), "annotations": annotations_of(live)}
    return {
        "metadata": {name: dict.fromkeys(filter(is_removed, keys)) for name, keys in of.items()}
    }


def claims_in(old: Object | None, new: Object | None) -> list[Claim]:
    claims = (claim_of(obj) for obj in (old, new) if obj is not None)
    return list(dict.fromkeys(claim for claim in claims if claim is not None))


_PLACE = re.compile(r"/namespaces/([^/]+)")
REASON_AT_MOST = 200


class HeldError(ForbiddenError):
    """An administrator holds a namespace, by its name on the host; nothing was sent. hold: why."""

    is_intended = True

    def __init__(self, namespace: str, hold: str) -> None:
        super().__init__(403, "Held", f"an administrator holds the namespace: {hold}")
        self.namespace = namespace
        self.hold = hold


def hold_of(namespace: Object | None) -> str | None:
    text = annotations_of(namespace or {}).get(vocabulary.HOLD_ANNOTATION, "")
    return None if text in ("", "false") else text[:REASON_AT_MOST]


class Claims:
    """An index of the watched host namespaces; only this agent's own claims count.

    Their labels are the source of truth (rewriting-rules 1.2); names are never parsed.
    hold_changed: a virtual cluster, its namespace, and why that is held; None = held no more.
    """

    def __init__(self, host_namespaces: Store[Object], agent: str) -> None:
        self.store = host_namespaces
        self._agent = agent
        self._by_cluster: defaultdict[str, ClaimedNamespaces] = defaultdict(ClaimedNamespaces)
        self._hosts: dict[tuple[str, VirtualNamespace], dict[HostNamespace, None]] = {}
        """All that have a claim; the first is the one that counts."""
        self.hold_changed: Signal[[str, str, str | None]] = Signal()
        host_namespaces.add_handler(self._changed)

    def of(self, cluster: str) -> Mapping[VirtualNamespace, HostNamespace]:
        return self._by_cluster.get(cluster, {})

    def left_by(self, former: Iterable[str]) -> Mapping[VirtualNamespace, HostNamespace]:
        """Return what earlier names of a virtual cluster claim, which is its own by now."""
        return {namespace: host for name in former for namespace, host in self.of(name).items()}

    def clusters(self) -> list[str]:
        return list(self._by_cluster)

    def phase(self, host_namespace: str, live: Object | None = None) -> Phase:
        """Return the phase of a host namespace, by its live object or as far as is cached."""
        return phase_of(live or self.store.get("", host_namespace), self._agent)

    def on(self, host_namespace: str) -> Claim | None:
        """Return our claim on a host namespace, effective or not, or None."""
        return self.own(self.store.get("", host_namespace))

    def cluster_on(self, host_namespace: str) -> str:
        """Return the virtual cluster that a host namespace is claimed for, "" if none."""
        claim = self.on(host_namespace)
        return claim.cluster if claim is not None else ""

    def holder_of(self, host_namespace: str) -> Claim | None:
        """Return the effective claim on a host namespace, or None."""
        claim = self.on(host_namespace)
        if claim is None or self.of(claim.cluster).get(claim.namespace) != host_namespace:
            return None
        return claim

    def may_speak_for(self, obj: Object, cluster: str) -> bool:
        """Return True if the marks of an object count that names a virtual cluster as its own.

        They do in that one's namespaces only: a tenant that may write elsewhere is not to keep a
        neighbour busy. A deleted namespace may have been one; what is in none is written by
        administrators.
        """
        namespace = obj["metadata"].get("namespace") or ""
        live = obj if objects.gvk_of(obj) == objects.NAMESPACE else self.store.get("", namespace)
        claim = self.own(live)
        return live is None or (claim is not None and claim.cluster == cluster)

    def is_claimed_twice(self, cluster: str, namespace: VirtualNamespace) -> bool:
        return len(self._hosts.get((cluster, namespace), ())) > 1

    def refusal(self, path: str) -> HeldError | None:
        """Return the error of a write to a path of the host in a held namespace, else None."""
        match = _PLACE.search(path)
        if match is None or self.on(match[1]) is None:
            return None
        reason = hold_of(self.store.get("", match[1]))
        return None if reason is None else HeldError(match[1], reason)

    def held_in(self, cluster: str) -> list[str]:
        """Return the held namespaces of a virtual cluster by their virtual names, and why."""
        return [
            f"{virtual} ({reason})"
            for virtual, host in sorted(self.of(cluster).items())
            if (reason := hold_of(self.store.get("", host))) is not None
        ]

    def _changed(self, old: Object | None, new: Object | None) -> None:
        before, after = self.own(old), self.own(new)
        if before and old is not None and before != after:
            self._index(before, HostNamespace(old["metadata"]["name"]), is_claimed=False)
        if after and new is not None:
            # Even if nothing changed: what was observed after a write was not reported before.
            self._index(after, HostNamespace(new["metadata"]["name"]), is_claimed=True)
        held, claim = hold_of(new), claim_of(new or old or {})
        if held != hold_of(old) and claim is not None:
            self.hold_changed.emit(claim.cluster, claim.namespace, held)

    def own(self, obj: Object | None) -> Claim | None:
        """Return the claim in the labels of a namespace if it is of this agent."""
        claim = claim_of(obj) if obj is not None else None
        return claim if claim and claim.agent == self._agent else None

    def _index(self, claim: Claim, host: HostNamespace, *, is_claimed: bool) -> None:
        pair = (claim.cluster, claim.namespace)
        hosts = self._hosts.setdefault(pair, {})
        if is_claimed:
            hosts.setdefault(host)
        else:
            hosts.pop(host, None)
        claims = self._by_cluster[claim.cluster]
        first = next(iter(hosts), None)
        if first is None:
            del self._hosts[pair]
            claims.pop(claim.namespace, None)
        elif claims.get(claim.namespace) != first:
            claims[claim.namespace] = first
        if not claims:
            del self._by_cluster[claim.cluster]


CLUSTER_INDEX = "virtual cluster"


def labelled_cluster(obj: Object) -> Iterable[str]:
    """Return the virtual cluster in the label of a host object, nothing without that label."""
    name = labels_of(obj).get(CLUSTER_LABEL)
    return (name,) if name else ()
