"""Keeps the Works of each virtual cluster within its bounds, and those that are out small.

Of a Work that is out as a whole only its identity is kept in memory. It is measured as it is
decoded, so that not even a first list holds more than a page of what is over the bound.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from karmada_vc_agent.cluster.shapes import WorkShape
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model.bounds import BYTES, KINDS, MANIFESTS, SHARED_OBJECTS, WORKS, Bounds
from karmada_vc_agent.model.memory import bytes_of
from karmada_vc_agent.model.objects import GroupVersionKind, Object, maps_at, uid_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.refusal import Code, Refusal
from karmada_vc_agent.work.rules.bounded_works import (
    BoundedWorks,
    Measure,
    kind_of,
    measure,
    shared_name,
)
from karmada_vc_agent.work.work_statuses import without_reflected
from karmada_vc_agent.work.works import WorkKey, is_trimmed, key_of_work, manifests_of, trim

NAMESPACES_KEPT = 50
"""Of a Work that is out from the beginning."""
NOT_MEASURED = Measure(0, 0, (), ())
"""Of a Work that is not read."""

IsShared = Callable[[GroupVersionKind], bool]
KeepStatus = Callable[[str, str, Object], Object | None]
"""See KeptObjects.take_status()."""
_CUT = "cut"
"""Marks an entry that has more on the hub: it differs from every one that is to be written."""


def keep_all(_cluster: str, _uid: str, status: Object) -> Object:
    """Keep any status as it is."""
    return status


_AMOUNTS: Mapping[str, Callable[[Bounds], str]] = {
    WORKS: lambda bounds: f"{bounds.works} Works",
    BYTES: lambda bounds: f"{bounds.bytes} bytes of memory for the manifests of its Works",
    MANIFESTS: lambda bounds: f"{bounds.manifests_per_work} manifests in one Work",
    KINDS: lambda bounds: f"{bounds.kinds} kinds",
    SHARED_OBJECTS: lambda bounds: f"{bounds.shared_objects} shared objects",
}
_HELP = {MANIFESTS: "divide it, or have"}
_HELP_OF_OTHERS = "delete what is not needed, or have"


class WorkBounds:
    """Which Works, and which manifests in them, are out.

    kept: what is kept of a status. is_shared: whether objects of a kind are shared between virtual
    clusters. on_change: called with
    a Work that was admitted or evicted because of another one. on_met: called with a virtual
    cluster and what it has too much of, once each time that begins.
    """

    def __init__(
        self,
        virtual_clusters: Mapping[str, VirtualCluster],
        is_shared: IsShared = lambda _: False,
        on_change: Callable[[WorkKey], None] = lambda _: None,
        on_met: Callable[[str, str], None] = lambda *_: None,
        kept: KeepStatus = keep_all,
    ) -> None:
        self._kept = kept
        self._virtual_clusters = virtual_clusters
        self._is_shared = is_shared
        self._on_change = on_change
        self._on_met = on_met
        self._lines: dict[str, BoundedWorks] = {}
        self._whole: dict[WorkKey, Object] = {}
        self._met: dict[str, frozenset[str]] = {}

    def cached(self, work: Object) -> Object | None:
        """Return a Work as it is kept already, if that is whole and of the same version."""
        cached = self._whole.get(key_of_work(work))
        is_same = cached is not None and uid_of(cached) == uid_of(work) and is_echo(cached, work)
        return cached if is_same else None

    def observe(self, work: Object) -> None:
        """Take a Work as it is now; trim it, and others, where they are out by that.

        One of a virtual cluster that is not served here is trimmed, too: it is not read.
        """
        key = cluster, name = key_of_work(work)
        if self._whole.get(key) is work:
            return  # taken as it was decoded, and in since
        vc = self._virtual_clusters.get(cluster)
        if vc is None:
            trim(work, NOT_MEASURED, 0)
            return
        line = self._lines.setdefault(cluster, BoundedWorks(vc.bounds))
        metadata = work["metadata"]
        created = str(metadata.get("creationTimestamp") or "")
        uid, generation = uid_of(work), metadata.get("generation") or 0
        measured = is_trimmed(work) or line.measured(name, uid, generation)
        if measured is None:
            measured = measure(manifests_of(work), self._is_shared)
        changed = line.put(name, created, uid, generation, measured)
        if line.problem(name):
            trim(work, measured, NAMESPACES_KEPT)
            self._whole.pop(key, None)
        elif not is_trimmed(work):
            self._whole[key] = work
            self._trim_status(cluster, work)
        self._moved(cluster, line, changed)

    def _trim_status(self, cluster: str, work: Object) -> None:
        entries = maps_at(work, "status", "manifestStatuses")
        if not any("status" in entry for entry in entries):
            return
        kept = self._kept(cluster, uid_of(work), work["status"])
        if kept is None:
            kept = without_reflected(work["status"])
            for entry in kept["manifestStatuses"]:
                entry[_CUT] = True
        work["status"] = kept

    def remove(self, work: Object) -> None:
        """Forget a deleted Work."""
        self._remove(key_of_work(work), uid_of(work))

    def _remove(self, key: WorkKey, uid: str) -> None:
        cluster, name = key
        line = self._lines.get(cluster)
        if line is None:
            return
        changed = line.remove(name, uid)
        if self._whole.get(key) is not None and uid_of(self._whole[key]) == uid:
            del self._whole[key]
        self._moved(cluster, line, changed)

    def listed(self, works: Iterable[Object], clusters: Iterable[str]) -> None:
        """Take all Works that some virtual clusters have, as they are stored.

        Other Works in a line are deleted: a list that started over, since it grew too old
        between two pages, had Works whose deletion is never reported.
        """
        read = frozenset(clusters)
        stored = {
            (key, uid_of(work)): work for work in works if (key := key_of_work(work))[0] in read
        }
        for each in read:
            line = self._lines.get(each)
            for name, uid in line.works() if line is not None else ():
                if ((each, name), uid) not in stored:
                    self._remove((each, name), uid)
        for work in stored.values():
            self.observe(work)

    def forget_cluster(self, cluster: str) -> None:
        """Forget the Works of a deleted Cluster."""
        self._lines.pop(cluster, None)
        self._met.pop(cluster, None)
        self._whole = {key: work for key, work in self._whole.items() if key[0] != cluster}

    def refusal(self, work: Object) -> Refusal | None:
        """Return why a Work is out as a whole; None where it is in."""
        cluster, name = key_of_work(work)
        line = self._lines.get(cluster)
        bound = line.problem(name) if line is not None else ""
        return _refusal(line.bounds, bound) if line is not None and bound else None

    def byte_count(self, work: Object) -> int:
        """Return what the manifests of a Work hold in memory."""
        cluster, name = key_of_work(work)
        line = self._lines.get(cluster)
        measured = line.measure_of(name) if line is not None else None
        return bytes_of(manifests_of(work)) if measured is None else measured.byte_count

    def refusal_of(self, cluster: str, manifest: Object) -> Refusal | None:
        """Return why a manifest of a Work that is in is out; None where it is in, too."""
        line, kind = self._lines.get(cluster), kind_of(manifest)
        if line is None or kind is None:
            return None
        if line.bounds.kinds and not line.kinds.is_in(kind):
            return _refusal(line.bounds, KINDS)
        name = shared_name(manifest, kind) if self._is_shared(kind) else None
        if name is not None and line.bounds.shared_objects and not line.shared.is_in(name):
            return _refusal(line.bounds, SHARED_OBJECTS)
        return None

    def met(self) -> Iterable[tuple[str, str]]:
        """Return (virtual cluster, bound) of each bound for which something is out now."""
        for cluster, bounds in self._met.items():
            for bound in sorted(bounds):
                yield cluster, bound

    def _moved(self, cluster: str, line: BoundedWorks, names: Iterable[str]) -> None:
        for name in names:
            key = (cluster, name)
            measured = line.measure_of(name)
            if measured is not None and line.problem(name):
                whole = self._whole.pop(key, None)
                if whole is not None:
                    trim(whole, measured)
            self._on_change(key)
        before, now = self._met.get(cluster, frozenset()), frozenset(line.met())
        self._met[cluster] = now
        for bound in sorted(now - before):
            self._on_met(cluster, _text(line.bounds, bound))


class WorkCodec(RawCodec):
    """Works, measured as they are decoded.

    read: the virtual clusters whose Works are, None = all; those of others are not read.
    """

    def __init__(
        self, bounds: WorkBounds, read: Callable[[], Container[str]] | None = None
    ) -> None:
        super().__init__(WorkShape)
        self._bounds = bounds
        self._read = read

    def trim(self, obj: Object) -> Object:
        """Return what is kept of a Work."""
        work = super().trim(obj)
        if (cached := self._bounds.cached(work)) is not None:
            return cached
        if self._read is None or key_of_work(work)[0] in self._read():
            self._bounds.observe(work)
        else:
            trim(work, NOT_MEASURED, 0)
        return work


def _text(bounds: Bounds, bound: str) -> str:
    return f"the virtual cluster may have {_AMOUNTS[bound](bounds)} (bounds.{bound})"


def _refusal(bounds: Bounds, bound: str) -> Refusal:
    which = "it has more" if bound == MANIFESTS else "older Works have them"
    help_text = _HELP.get(bound, _HELP_OF_OTHERS)
    detail = f"{_text(bounds, bound)}, and {which}; {help_text} bounds.{bound} raised"
    return Refusal(Code.BOUND_EXCEEDED, "", detail)
