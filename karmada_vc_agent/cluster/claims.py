"""Claims on host namespaces: the virtual cluster and virtual namespace of each."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.domain import (
    AGENT_LABEL,
    CLUSTER_LABEL,
    HOLD_ANNOTATION,
    NAMESPACE_LABEL,
    NODE_SELECTOR_ANNOTATION,
    RELEASING_ANNOTATION,
    is_ours,
)
from karmada_vc_agent.model.objects import NAMESPACE, Object, annotations_of, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import (
    ClaimedNamespaces,
    HostNamespace,
    VirtualNamespace,
)
from karmada_vc_agent.translation.namespace_defaults import POD_SECURITY_LABEL, has_our_pod_security


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
    return Phase.RELEASING if RELEASING_ANNOTATION in annotations_of(live) else Phase.CLAIMED


def claim_of(host_namespace: Object) -> Claim | None:
    """Return the claim on a host Namespace object, or None."""
    labels = labels_of(host_namespace)
    if CLUSTER_LABEL not in labels or NAMESPACE_LABEL not in labels:
        return None
    return Claim(
        labels[CLUSTER_LABEL],
        VirtualNamespace(labels[NAMESPACE_LABEL]),
        labels.get(AGENT_LABEL, ""),
    )


def unclaim(live: Object) -> Object:
    """Return the merge patch that removes everything that we and Karmada set on a namespace."""
    has_our_level = has_our_pod_security(live)

    def is_removed(key: str) -> bool:
        is_level = key == POD_SECURITY_LABEL and has_our_level
        is_selector = key == NODE_SELECTOR_ANNOTATION
        return is_ours(key) or karmada.is_karmada_key(key) or is_selector or is_level

    return {
        "metadata": {
            "labels": {key: None for key in labels_of(live) if is_removed(key)},
            "annotations": {key: None for key in annotations_of(live) if is_removed(key)},
        }
    }


def claims_in(old: Object | None, new: Object | None) -> list[Claim]:
    """Return the claims on a host namespace before and after a change, each once."""
    claims = (claim_of(obj) for obj in (old, new) if obj is not None)
    return list(dict.fromkeys(claim for claim in claims if claim is not None))


_PLACE = re.compile(r"/namespaces/([^/]+)")
_OFF = frozenset(("", "false"))
REASON_AT_MOST = 200


class HeldError(ForbiddenError):
    """An administrator stopped the agent in this namespace; nothing was sent.

    namespace: its name on the host. hold: why, as the administrator says.
    """

    is_intended = True

    def __init__(self, namespace: str, hold: str) -> None:
        super().__init__(403, "Held", f"an administrator holds the namespace: {hold}")
        self.namespace = namespace
        self.hold = hold


def hold_of(namespace: Object | None) -> str | None:
    """Return why a host namespace is held, None if it is not."""
    text = annotations_of(namespace or {}).get(HOLD_ANNOTATION, "")
    if text in _OFF:
        return None
    return text[:REASON_AT_MOST]


class Claims:
    """An index of the watched host namespaces; only this agent's own claims count.

    Their labels are the source of truth (rewriting-rules 1.2), also of the phase of a claim (ADR
    59) and of a hold by an administrator (ADR 43); names are never parsed.
    hold_changed: a virtual cluster, its namespace, and why that is held; None = held no more.
    """

    def __init__(self, host_namespaces: Store[Object], agent: str) -> None:
        self.store = host_namespaces
        self._agent = agent
        self._by_cluster: defaultdict[str, ClaimedNamespaces] = defaultdict(ClaimedNamespaces)
        self._duplicates: dict[tuple[str, VirtualNamespace], set[HostNamespace]] = {}
        self.hold_changed: Signal[[str, str, str | None]] = Signal()
        host_namespaces.add_handler(self._changed)

    def of(self, cluster: str) -> Mapping[VirtualNamespace, HostNamespace]:
        """Return the claims of one virtual cluster."""
        return self._by_cluster.get(cluster, {})

    def left_by(self, former: Iterable[str]) -> Mapping[VirtualNamespace, HostNamespace]:
        """Return what earlier names of a virtual cluster claim, which is its own by now."""
        return {namespace: host for name in former for namespace, host in self.of(name).items()}

    def clusters(self) -> list[str]:
        """Return the virtual clusters that have claims, in the settings or not."""
        return list(self._by_cluster)

    def is_empty(self) -> bool:
        """Return True if there is no claim, including virtual clusters not in the settings."""
        return not self._by_cluster

    def phase(self, host_namespace: str) -> Phase:
        """Return the phase of a host namespace, as far as is cached."""
        return phase_of(self.store.get("", host_namespace), self._agent)

    def phase_of(self, live: Object) -> Phase:
        """Return the phase of a host Namespace object."""
        return phase_of(live, self._agent)

    def on(self, host_namespace: str) -> Claim | None:
        """Return our claim on a host namespace, effective or not, or None."""
        return self._own(self.store.get("", host_namespace))

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
        if gvk_of(obj) == NAMESPACE:
            claim = self._own(obj)
        else:
            namespace = obj["metadata"].get("namespace") or ""
            if not namespace or self.store.get("", namespace) is None:
                return True
            claim = self.on(namespace)
        return claim is not None and claim.cluster == cluster

    def is_claimed_twice(self, cluster: str, namespace: VirtualNamespace) -> bool:
        """Return True if two host namespaces have the claim for a virtual one."""
        return len(self._duplicates.get((cluster, namespace), ())) > 1

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
        before = self._own(old)
        after = self._own(new)
        if before and old is not None and before != after:
            self._withdraw(before, HostNamespace(old["metadata"]["name"]))
        if after and new is not None:
            # Even if nothing changed: what was observed after a write was not reported before.
            self._enter(after, HostNamespace(new["metadata"]["name"]))
        held, claim = hold_of(new), claim_of(new or old or {})
        if held != hold_of(old) and claim is not None:
            self.hold_changed.emit(claim.cluster, claim.namespace, held)

    def _own(self, obj: Object | None) -> Claim | None:
        claim = claim_of(obj) if obj is not None else None
        return claim if claim and claim.agent == self._agent else None

    def _enter(self, claim: Claim, host_namespace: HostNamespace) -> None:
        pair = (claim.cluster, claim.namespace)
        self._duplicates.setdefault(pair, set()).add(host_namespace)
        claims = self._by_cluster[claim.cluster]
        if claim.namespace not in claims:
            claims[claim.namespace] = host_namespace

    def _withdraw(self, claim: Claim, host_namespace: HostNamespace) -> None:
        pair = (claim.cluster, claim.namespace)
        others = self._duplicates.get(pair, set())
        others.discard(host_namespace)
        if others:
            self._by_cluster[claim.cluster][claim.namespace] = min(others)
        else:
            self._duplicates.pop(pair, None)
            claims = self._by_cluster[claim.cluster]
            claims.pop(claim.namespace, None)
            if not claims:
                del self._by_cluster[claim.cluster]


CLUSTER_INDEX = "virtual cluster"


def labelled_cluster(obj: Object) -> Iterable[str]:
    """Return the virtual cluster in the label of a host object, nothing without that label."""
    name = labels_of(obj).get(CLUSTER_LABEL)
    return (name,) if name else ()
