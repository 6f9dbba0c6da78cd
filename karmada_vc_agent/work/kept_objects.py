"""What is kept in memory of host objects: whole ones within the bound of their virtual cluster.

Of all others only the identity is kept; who needs more of them reads them (live_objects.py). So a
tenant who makes objects by the thousand, whatever marks it gives them, slows down only itself.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.bounds import HOST_BYTES, Bounds
from karmada_vc_agent.model.domain import CLUSTER_LABEL, WORK_ANNOTATION
from karmada_vc_agent.model.kinds import WITH_PODS
from karmada_vc_agent.model.memory import OBJECT_BYTES, bytes_of
from karmada_vc_agent.model.objects import (
    NAMESPACE,
    Object,
    annotations_of,
    gvk_of,
    labels_of,
    uid_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.host_wide_names import HOLDERS
from karmada_vc_agent.translation.namespace_defaults import DEFAULT_KINDS, POD_SECURITY_LABEL

SMALL = 16 * 2**10
"""Kinds that the agent adds to namespaces are kept whole up to this size, over any bound."""
SMALL_STATUS = 3 * 2**10
"""Statuses of Works are kept whole up to this size, over any bound."""
_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp"),
)
_MARKS = frozenset(
    (
        *domain.MARKS,
        domain.NODE_SELECTOR_ANNOTATION,
        karmada.MANAGED_LABEL,
        karmada.MANAGED_LABELS_ANNOTATION,
        POD_SECURITY_LABEL,
    )
)
"""Labels and annotations by which the agent finds and judges objects."""
_MARKS_LENGTH, _MARKS_LENGTH_OF_TENANTS = 4096, 1024
"""Of all marks of an object that is not whole; tenants write those of objects in namespaces."""
_OWN_KINDS = frozenset(gvk.group_kind for gvk in DEFAULT_KINDS)
_READ_KINDS = _OWN_KINDS | HOLDERS.keys() | WITH_PODS | {NAMESPACE.group_kind}
"""Kinds whose content is read of any object; of other kinds if a Work has it."""

_Key = tuple[str, str]
"""API version and uid: informers of two versions of a kind keep an object each."""
_STATUS = "status"
"""Of a Work, in place of its API version."""


@dataclass(slots=True, weakref_slot=True)
class _Account:
    """What is kept for one virtual cluster: bytes of whole objects, number of those over it.

    A new copy of an object is taken while a store still has the old one: the larger one counts.
    """

    used: int = 0
    over: int = 0
    _copies: defaultdict[_Key, list[int]] = field(default_factory=lambda: defaultdict(list))

    def used_with(self, key: _Key, size: int) -> int:
        """Return the bytes once this copy of an object has replaced the others."""
        return self.used - self._counted(key) + size

    def add(self, key: _Key, size: int) -> None:
        """Count a copy of an object."""
        counted = self._counted(key)
        self._copies[key].append(size)
        self.used += max(size - counted, 0)

    def drop(self, key: _Key, size: int) -> None:
        """Count a copy of an object no more."""
        counted = self._counted(key)
        self._copies[key].remove(size)
        left = self._counted(key)
        self.used -= counted - left
        if not left:
            del self._copies[key]

    def _counted(self, key: _Key) -> int:
        return max(self._copies.get(key, ()), default=0)


class _Whole(dict[str, Any]):
    """A complete object or status, which counts for as long as it is in memory."""

    __slots__ = ("__weakref__", "_account", "_counted")

    def __init__(self, obj: Object, account: _Account, key: _Key, size: int) -> None:
        super().__init__(obj)
        self._account, self._counted = account, (key, size)
        account.add(*self._counted)

    def __del__(self) -> None:
        """Count it no more."""
        self._account.drop(*self._counted)

    @property
    def byte_count(self) -> int:
        """What it holds in memory."""
        return self._counted[1]


class ObjectIdentity(dict[str, Any]):
    """What is kept of an object that has to be read before its content is judged.

    account: of a virtual cluster that has more than is kept.
    """

    __slots__ = ("_account",)

    def __init__(self, obj: Object, account: _Account | None = None) -> None:
        metadata = obj["metadata"]
        super().__init__({key: obj[key] for key in ("apiVersion", "kind") if key in obj})
        self["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
        most = _MARKS_LENGTH_OF_TENANTS if metadata.get("namespace") else _MARKS_LENGTH
        self["metadata"]["labels"] = _marks(labels_of(obj), most)
        self["metadata"]["annotations"] = _marks(annotations_of(obj), most)
        self._account = account or _Account()
        self._account.over += 1

    def __del__(self) -> None:
        """Count it no more."""
        self._account.over -= 1


class KeptObjects(RawCodec):
    """Decides what is kept of host objects as they are decoded, and of what Works report of them.

    cluster_on: returns the virtual cluster that has a host namespace, "" if none: what is there
    counts for it, whatever its label says. over: a virtual cluster that has more than is kept, and
    the bound in words, once each time that begins.
    """

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], cluster_on: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._virtual_clusters = virtual_clusters
        self._cluster_on = cluster_on
        # An account exists for as long as anything counts on it.
        self._accounts: WeakValueDictionary[str, _Account] = WeakValueDictionary()
        self._whole: WeakValueDictionary[_Key, _Whole] = WeakValueDictionary()
        self.over: Signal[[str, str]] = Signal()

    def trim(self, obj: Object) -> Object:
        """Return what is kept of an object; of the same version, what is kept already."""
        obj = super().trim(obj)
        label = labels_of(obj).get(CLUSTER_LABEL)
        if label is None or isinstance(obj, _Whole | ObjectIdentity):
            return obj
        cached = self._whole.get(_key(obj))
        if cached is not None and is_echo(cached, obj):
            return cached
        kind = gvk_of(obj).group_kind
        if WORK_ANNOTATION not in annotations_of(obj) and kind not in _READ_KINDS:
            return ObjectIdentity(obj)
        cluster = self._cluster_on(obj["metadata"].get("namespace") or "") or label
        bounds, account = self._account_of(cluster)
        size, key = bytes_of(obj), _key(obj)
        is_within = size <= OBJECT_BYTES and _fits(bounds, account, key, size)
        if is_within or (size <= SMALL and kind in _OWN_KINDS):
            whole = self._whole[key] = _Whole(obj, account, key, size)
            return whole
        if not account.over:
            self.over.emit(cluster, text_of(bounds))
        return ObjectIdentity(obj, account)

    def take_status(self, cluster: str, uid: str, status: Object) -> Object | None:
        """Return the status of a Work as it is kept; None = what it reflects is over the bound."""
        size = 0 if isinstance(status, _Whole) else bytes_of(status)
        if size <= SMALL_STATUS:
            return status
        bounds, account = self._account_of(cluster)
        key = (_STATUS, uid)
        if _fits(bounds, account, key, size):
            return _Whole(status, account, key, size)
        if not account.over:
            self.over.emit(cluster, text_of(bounds))
        return None

    def _account_of(self, cluster: str) -> tuple[Bounds, _Account]:
        vc = self._virtual_clusters.get(cluster)
        account = self._accounts.setdefault(cluster if vc is not None else "", _Account())
        return vc.bounds if vc is not None else Bounds(), account

    def met(self) -> Iterable[tuple[str, str]]:
        """Return (virtual cluster, bound) of those that have more than is kept."""
        for cluster, account in self._accounts.items():
            if cluster in self._virtual_clusters and account.over:
                yield cluster, HOST_BYTES


def _fits(bounds: Bounds, account: _Account, key: _Key, size: int) -> bool:
    return not bounds.bytes or account.used_with(key, size) <= bounds.bytes


def held_bytes(obj: Object) -> int:
    """Return what an object holds in memory."""
    return obj.byte_count if isinstance(obj, _Whole) else bytes_of(obj)


def text_of(bounds: Bounds) -> str:
    """Return the bound in words."""
    return (
        f"the agent keeps {bounds.bytes} bytes of its objects on the host in memory "
        "(bounds.bytes), and reads the others each time it needs them"
    )


def _key(obj: Object) -> _Key:
    return str(obj.get("apiVersion")), uid_of(obj)


def _marks(texts: Mapping[str, str], most: int) -> dict[str, str]:
    kept = {}
    for key in sorted(texts.keys() & _MARKS, key=lambda key: (len(texts[key]), key)):
        kept[key] = texts[key][:most]
        most -= len(kept[key])
    return kept
