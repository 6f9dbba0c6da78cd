"""Works: their keys, manifests, conditions and statuses, and what is remembered of each.

A Work may be recreated under its name before the deletion of the first was seen. So the memory is
bound to the uid, and another Work of that name starts without any.

Objects name their Work in an annotation, and those made for them are traced up their owners. A
tenant with rights in a namespace may have written either: the Work has to be one of the same
virtual cluster, and what counts as its object has to be among its manifests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, NotRequired, TypedDict, cast

from cachetools import LRUCache

from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition, set_conditions
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import ApiError, InvalidError, UnwritableError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    ObjectKey,
    annotations_of,
    dig,
    gvk_of,
    key_of,
    labels_of,
    list_at,
    maps_at,
    parse_api_version,
    text_at,
    uid_of,
)
from karmada_vc_agent.translation.context import NAMES_ANNOTATION
from karmada_vc_agent.work.rules.apply_plan import object_id

APPLIED = "Applied"
DISPATCHING = "Dispatching"
_OURS = (APPLIED, DISPATCHING)

OUTSIDE_WINDOW = "OutsideWindow"

MESSAGE_MAX_LENGTH = 32768
"""In characters; the Work CRD rejects longer messages."""

_APPLIED_MESSAGE = "Manifest has been successfully applied"


def dispatching(*, suspended: bool) -> Condition:
    """Return the condition Dispatching (contract 5.3)."""
    if suspended:
        text = "Work dispatching is in a suspended state."
        return _condition(DISPATCHING, "False", "SuspendDispatching", text)
    text = "Work is being dispatched to member clusters."
    return _condition(DISPATCHING, "True", "Dispatching", text)


def dispatched(generation: int) -> Condition:
    """Return Dispatching where there are windows: nothing of this generation waits for one."""
    return Condition(**{**dispatching(suspended=False), "observedGeneration": generation})


def waiting(generation: int, until: str) -> Condition:
    """Return Dispatching of a Work of which something waits for a window; until: when it opens."""
    end = f"until {until}" if until else "for its maintenance window, which never opens"
    text = f"Generation {generation} waits {end}; what was applied before is kept."
    return _condition(DISPATCHING, "False", OUTSIDE_WINDOW, text)


def applied(total: int, errors: Sequence[str]) -> Condition:
    """Return Applied after all manifests were tried; errors: of each that failed (contract 5.4)."""
    if not errors:
        return _condition(APPLIED, "True", "AppliedSuccessful", _APPLIED_MESSAGE)
    count = f"({total - len(errors)}/{total})"
    text = f"Failed to apply all manifests {count}: {aggregate(errors)}"
    return _condition(APPLIED, "False", "AppliedFailed", text)


def recreated(error: str | None) -> Condition:
    """Return the condition Applied after a deleted object was recreated (contract 5.6)."""
    if error is None:
        return _condition(APPLIED, "True", "ReCreateSuccessful", _APPLIED_MESSAGE)
    return _condition(APPLIED, "False", "ReCreateFailed", error)


def aggregate(errors: Sequence[str]) -> str:
    """Join error texts as Kubernetes does: one as it is, several as `[a, b]`, no duplicates."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _condition(type_: str, status: str, reason: str, message: str) -> Condition:
    message = message[:MESSAGE_MAX_LENGTH]
    return Condition(type=type_, status=status, reason=reason, message=message)


class _ManifestIdentifier(TypedDict):
    """The manifest that an entry is about; Karmada's bindings compare all fields but `resource`."""

    ordinal: int
    group: NotRequired[str]
    version: str
    kind: str
    resource: str
    namespace: NotRequired[str]
    name: str


class ManifestStatus(TypedDict):
    """One entry of manifestStatuses; health is `Healthy`, `Unhealthy` or `Unknown`."""

    identifier: _ManifestIdentifier
    status: NotRequired[Object]
    health: str


SharedName = tuple[str, str, str]
"""Group, kind and name of an object that virtual clusters share."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The size of a Work; byte_count: what its manifests hold in memory."""

    byte_count: int
    manifest_count: int
    kinds: tuple[GroupVersionKind, ...]
    shared: tuple[SharedName, ...]


ALWAYS_WITH_STATUS = frozenset((GroupVersionKind("", "v1", "ResourceQuota"),))
"""Without a status Karmada's quota controller panics (contract 6.3, trap 22)."""


def manifest_status(
    ordinal: int, manifest: Object, status: Object | None, health: str
) -> ManifestStatus:
    """Return the entry for one manifest, the original one of the Work (trap 20)."""
    if status is None and gvk_of(manifest) in ALWAYS_WITH_STATUS:
        status = {}
    entry = ManifestStatus(identifier=_identifier(ordinal, key_of(manifest)), health=health)
    if status is not None:
        entry["status"] = status
    return entry


def ordinals(manifests: Sequence[Object]) -> list[int]:
    """Return for each manifest the index of the first for its object; Karmada reads that (6.1)."""
    paths = (("apiVersion",), ("kind",), ("metadata", "namespace"), ("metadata", "name"))
    first: dict[str, int] = {}
    # Malformed ones are not hashable.
    named = (repr([dig(manifest, *path) for path in paths]) for manifest in manifests)
    return [first.setdefault(name, place) for place, name in enumerate(named)]


def merge_entries(
    entries: Sequence[ManifestStatus] | None,
    read: Sequence[ManifestStatus],
    manifests: Sequence[Object],
) -> list[ManifestStatus]:
    """Return the entries sorted, those just read replaced, those without manifest removed."""
    latest = {entry["identifier"]["ordinal"]: entry for entry in read}
    kept = []
    for entry in entries or ():
        named, ordinal = {**entry["identifier"], "resource": ""}, entry["identifier"]["ordinal"]
        if (
            ordinal not in latest
            and 0 <= ordinal < len(manifests)
            and _identifier(ordinal, key_of(manifests[ordinal])) == named
        ):
            kept.append(entry)
    return sorted([*kept, *latest.values()], key=lambda entry: entry["identifier"]["ordinal"])


def _identifier(ordinal: int, key: ObjectKey) -> _ManifestIdentifier:
    identifier = _ManifestIdentifier(
        ordinal=ordinal,
        version=key.gvk.version,
        kind=key.gvk.kind,
        resource="",  # Karmada never sets it, but the CRD requires it
        name=key.name,
    )
    if key.gvk.group:
        identifier["group"] = key.gvk.group
    if key.namespace:
        identifier["namespace"] = key.namespace
    return identifier


def applied_condition(
    before: Condition | None,
    total: int,
    errors: Sequence[str],
    *,
    was_recreated: bool,
    is_new: bool,
) -> Condition:
    """Return Applied; that of a recreation stays until the Work changes (contract 5.6)."""
    if was_recreated and not is_new:
        return recreated(aggregate(errors) if errors else None)
    condition = applied(total, errors)
    if before is not None and not is_new and before["status"] == condition["status"] == "True":
        return before
    return condition


def compose_work_status(
    live_status: Object | None,
    conditions: Sequence[Condition],
    entries: Sequence[ManifestStatus],
    manifests: Sequence[Object],
    now: str,
) -> Object:
    """Return the status to PUT: the live one overlaid with conditions and entries."""
    status = dict(live_status) if isinstance(live_status, dict) else {}
    merged: Sequence[Condition] = _conditions_of(status)
    for condition in conditions:
        merged = set_conditions(merged, [condition], condition.get("lastTransitionTime", now))
    status["conditions"] = merged
    # The hub validates only what it wrote itself.
    live_entries = [
        entry
        for entry in maps_at(status, "manifestStatuses")
        if isinstance(dig(entry, "identifier", "ordinal"), int)
    ]
    merged_entries = merge_entries(cast("list[ManifestStatus]", live_entries), entries, manifests)
    if merged_entries or "manifestStatuses" in status:
        status["manifestStatuses"] = merged_entries
    return status


def reported_over(live: Object | None, reported: Object, manifests: Sequence[Object]) -> Object:
    """Return a live status overlaid with the conditions and entries of one composed before."""
    conditions = [each for each in _conditions_of(reported) if each["type"] in _OURS]
    entries = cast("list[ManifestStatus]", maps_at(reported, "manifestStatuses"))
    return compose_work_status(live, conditions, entries, manifests, "")


def applied_of(status: Object | None) -> Condition | None:
    return find_condition(_conditions_of(status), APPLIED)


def dispatching_of(status: Object | None) -> Condition | None:
    return find_condition(_conditions_of(status), DISPATCHING)


def is_dispatched(work: Object) -> bool:
    """Return whether the hub has that nothing of this generation of a Work waits for a window."""
    condition, generation = dispatching_of(work.get("status")), work["metadata"].get("generation")
    expected = {"status": "True", "observedGeneration": generation}
    return condition is not None and bool(generation) and expected.items() <= condition.items()


def were_dispatched(work: Object, ordinals: Iterable[int]) -> frozenset[int]:
    """Return the ordinals of manifests that are not new; where some failed, those with an entry."""
    applied = applied_of(work.get("status"))
    if applied is not None and applied["status"] != "True":
        entries = maps_at(work, "status", "manifestStatuses")
        ordinals = (n for e in entries if isinstance(n := dig(e, "identifier", "ordinal"), int))
    return frozenset(ordinals if is_dispatched(work) else ())


def is_waiting(work: Object) -> bool:
    """Return whether the hub has that something of a Work waits for a window."""
    condition = dispatching_of(work.get("status"))
    return condition is not None and condition.get("reason") == OUTSIDE_WINDOW


def _conditions_of(status: Object | None) -> list[Condition]:
    """Return the well-formed conditions; the hub validates only their type and status."""
    well_formed = (c for c in maps_at(status, "conditions") if {"type", "status"} <= c.keys())
    return [cast("Condition", condition) for condition in well_formed]


WorkKey = tuple[str, str]
"""Virtual cluster and name of a Work."""


def work_path(namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the URL path of Works, of one, or of its subresource."""
    parts = ["/apis/work.karmada.io/v1alpha1/namespaces", namespace, "works", name, subresource]
    return "/".join(part for part in parts if part)


def key_of_work(work: Object) -> WorkKey:
    """Return the key of a Work in an execution namespace."""
    metadata = work["metadata"]
    return vocabulary.cluster_of_execution_namespace(metadata["namespace"]) or "", metadata["name"]


def id_of_work(work: Object) -> str:
    """Return `<execution namespace>/<name>`."""
    return f"{work['metadata']['namespace']}/{work['metadata']['name']}"


def manifests_of(work: Object) -> list[Object]:
    """Return the manifests of a Work from the hub; {} for a malformed one."""
    manifests = list_at(work, "spec", "workload", "manifests")
    return [manifest if isinstance(manifest, dict) else {} for manifest in manifests]


def is_suspended(work: Object) -> bool:
    """Return whether nothing of this Work may be written to the host."""
    return bool(dig(work, "spec", "suspendDispatching"))


def is_applied(work: Object) -> bool:
    condition = applied_of(work.get("status"))
    return condition is not None and condition["status"] == "True"


def is_listed(work: Object) -> bool:
    """Return whether the hub listed a Work: one of a checkpoint has no version."""
    return bool(work["metadata"].get("resourceVersion"))


def is_of_cluster(work: Object | None, cluster: Object | None) -> bool:
    """Return whether a Work is of a Cluster itself, not of a binding (contract 10.6)."""
    if work is None or cluster is None or labels_of(work).keys() & set(vocabulary.BINDING_LABELS):
        return False
    owners = maps_at(work, "metadata", "ownerReferences")
    owned = ("Cluster", cluster["metadata"]["uid"])
    return any((owner.get("kind"), owner.get("uid")) == owned for owner in owners)


def binding_namespace(work: Object | None) -> str | None:
    """Return the namespace of a Work's binding: "" if cluster-scoped, None without one."""
    annotations = annotations_of(work or {})
    if vocabulary.CLUSTER_BINDING_NAME_ANNOTATION in annotations:
        return ""
    return annotations.get(vocabulary.BINDING_NAMESPACE_ANNOTATION)


def is_preserved(work: Object) -> bool:
    """Return whether host objects stay when this Work is deleted."""
    return bool(dig(work, "spec", "preserveResourcesOnDeletion"))


def namespaces_used(work: Object) -> Iterable[str]:
    """Return the virtual namespaces of the manifests of a Work."""
    return {text_at(m, "metadata", "namespace") for m in manifests_of(work)} - {""}


_TRIMMED = "trimmed"
_KEPT_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "finalizers", "ownerReferences"),
)


def trim(work: Object, measure: Measure, namespaces_at_most: int | None = None) -> None:
    """Reduce a Work, in place, to its identity and the namespaces it uses; never write it then.

    namespaces_at_most: None for one that is stored already, whose index has all of them.
    """
    if is_trimmed(work):
        return
    metadata, spec = work["metadata"], work.get("spec")
    namespaces = sorted(namespaces_used(work))[:namespaces_at_most]
    labels = {key: text for key, text in labels_of(work).items() if vocabulary.is_karmada_key(key)}
    work["metadata"] = {key: metadata[key] for key in _KEPT_METADATA if key in metadata}
    work["metadata"]["labels"] = labels
    flags = {k: v for k, v in spec.items() if v is True} if isinstance(spec, dict) else {}
    manifests = [{"metadata": {"namespace": namespace}} for namespace in namespaces]
    work["spec"] = {**flags, "workload": {"manifests": manifests, _TRIMMED: measure}}
    applied = [c for c in (applied_of(work.get("status")),) if c is not None]
    work["status"] = {"conditions": applied}


def is_trimmed(work: Object) -> Measure | None:
    """Return the measure of a Work before it was trimmed; None if it is complete."""
    measure = dig(work, "spec", "workload", _TRIMMED)
    return measure if isinstance(measure, Measure) else None


_INDEX = "execution namespace/manifest namespace"


def new_store(codec: Codec[Object]) -> Store[Object]:
    """Return a store of Works, of one virtual cluster or of all."""

    def values(work: Object) -> Iterable[str]:
        return (f"{work['metadata'].get('namespace')}/{n}" for n in ("", *namespaces_used(work)))

    return Store(codec, {_INDEX: values})


class Works:
    """Finds Works; stores: virtual cluster -> the store of its Works, or of all."""

    def __init__(self, stores: Mapping[str, Store[Object]]) -> None:
        self._stores = stores

    def get(self, cluster: str, name: str) -> Object | None:
        store, namespace = self._stores.get(cluster), vocabulary.execution_namespace(cluster)
        return store.get(namespace, name) if store is not None else None

    def by_id(self, work_id: str) -> Object | None:
        """Return the Work `<execution namespace>/<name>`."""
        return self.get(vocabulary.cluster_of_work(work_id), work_id.partition("/")[2])

    def store(self, cluster: str) -> Store[Object] | None:
        return self._stores.get(cluster)

    def store_of_namespace(self, namespace: str) -> Store[Object] | None:
        """Return the store with the Works of an execution namespace."""
        cluster = vocabulary.cluster_of_execution_namespace(namespace)
        return self._stores.get(cluster) if cluster else None

    def of(self, cluster: str, namespace: str = "") -> list[Object]:
        """Return the Works of a virtual cluster; namespace: those with a manifest in it only."""
        store, own = self._stores.get(cluster), vocabulary.execution_namespace(cluster)
        return store.by_index(_INDEX, f"{own}/{namespace}") if store else []

    def all(self) -> Iterator[tuple[str, Object]]:
        """Yield all Works and their virtual clusters in one pass: a store may be that of many."""
        for store in dict.fromkeys(self._stores.values()):
            for work in store:
                cluster = key_of_work(work)[0]
                if cluster and self._stores.get(cluster) is store:
                    yield cluster, work

    def names(self, cluster: str) -> list[str]:
        return [work["metadata"]["name"] for work in self.of(cluster)]

    def unreadable(self, cluster: str) -> list[str]:
        """Return the names of Works that exist but cannot be read; "" for one without a name."""
        store = self._stores.get(cluster)
        own = vocabulary.execution_namespace(cluster)
        names = []
        for key in store.unreadable if store is not None else ():
            if key is None:
                names.append("")
            elif key[0] == own and self.get(cluster, key[1]) is None:
                names.append(key[1])
        return names


_NOT_DONE = -1
"""No generation: the Work is new still once the rest of it is applied."""
_Outcome = tuple[str, int, tuple[str, ...]]
"""Uid and generation of a Work when it was synced, and the codes of refusals."""


class WorkMemory:
    """How the last sync of each Work ended."""

    def __init__(self, scopes: Scopes) -> None:
        self._outcomes: dict[WorkKey, _Outcome] = scopes.keep_by(itemgetter(0))

    def note(self, work: Object, codes: tuple[str, ...] = (), *, is_done: bool = True) -> None:
        """Record the result of a sync of a Work; is_done: none of this generation waits."""
        generation = work["metadata"].get("generation") or 0 if is_done else _NOT_DONE
        self._outcomes[key_of_work(work)] = uid_of(work), generation, codes

    def knows(self, key: WorkKey) -> bool:
        """Return whether this process synced a Work of this name."""
        return key in self._outcomes

    def is_new(self, work: Object) -> bool:
        """Return whether a Work changed since its last sync, or never was synced."""
        outcome = self._outcomes.get(key_of_work(work))
        version = uid_of(work), work["metadata"].get("generation") or 0
        return outcome is None or outcome[:2] != version

    def forget_predecessor(self, work: Object) -> None:
        """Forget another Work of this name, which is deleted."""
        outcome = self._outcomes.get(key_of_work(work))
        if outcome is not None and outcome[0] != uid_of(work):
            self.forget(key_of_work(work))

    def forget(self, key: WorkKey) -> None:
        """Forget a Work that is deleted or being deleted."""
        self._outcomes.pop(key, None)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Return (virtual cluster, code) of each refused manifest."""
        for (cluster, _), (_, _, codes) in self._outcomes.items():
            for code in codes:
                yield cluster, code


_TOO_LARGE = "too large"
"""Messages of an API server, and of etcd, that reject a body."""
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")


async def put_status(hub: ApiClient, work: Object, status: Object) -> Object:
    """PUT a status, if rejected without reflected ones; return the Work then. Raises KubeError."""
    path = work_path(work["metadata"]["namespace"], work["metadata"]["name"], "status")
    metadata = {key: work["metadata"][key] for key in _IDENTITY if key in work["metadata"]}
    named = {"apiVersion": work["apiVersion"], "kind": work["kind"], "metadata": metadata}
    try:
        answer = await hub.replace(path, {**named, "status": status}, is_terse=True)
    except (UnwritableError, ApiError) as error:
        is_too_large = isinstance(error, ApiError) and error.status == 413
        is_invalid = isinstance(error, UnwritableError | InvalidError)
        if not (is_too_large or is_invalid or _TOO_LARGE in str(error)):
            raise
        status = without_reflected(status)
        answer = await hub.replace(path, {**named, "status": status}, is_terse=True)
    return {**work, "metadata": answer["metadata"], "status": status}


def without_reflected(status: Object) -> Object:
    """Return a status with only the health of each manifest."""
    entries = [
        {key: value for key, value in entry.items() if key != "status"}
        for entry in maps_at(status, "manifestStatuses")
    ]
    return {**status, "manifestStatuses": entries} if entries else status


OWNERS_AT_MOST = 6
"""How far up a chain of owners to search for a Work; Pod, ReplicaSet, Deployment are three."""
REMEMBERED = 4096
NAMES_AT_MOST = 8192
"""Characters of recorded names that are remembered of an object: a tenant may write many."""


class Place(NamedTuple):
    """A namespace of a virtual cluster, by its names on host and hub."""

    cluster: str
    host: str
    virtual: str


class _ObjectOrigin(NamedTuple):
    """The Work of an object; root: identity and recorded names of what it was made into."""

    work: str
    root: Object


_Id = tuple[Place, str, str]
"""Where an object is, its name and UID: who asks by a UID alone may have invented it."""


@dataclass(eq=False)
class Owners:
    """Finds the Work of host objects; the result is remembered by their UIDs."""

    host: ApiClient
    discovery: Discovery
    works: Works

    def __post_init__(self) -> None:
        self._origins: LRUCache[_Id, _ObjectOrigin] = LRUCache(REMEMBERED)

    async def origin(
        self, place: Place, resource: Resource, name: str, uid: str = ""
    ) -> _ObjectOrigin | None:
        """Return the Work up the owners that has the object, else one that is only named."""
        cached = self._origins.get((place, name, uid)) if uid else None
        if cached is not None:
            return cached
        walked: list[_Id] = []
        named: _ObjectOrigin | None = None
        obj = await self.host.look_up(resource.path(place.host, name))
        if obj is not None and uid and uid_of(obj) != uid:
            return None
        for _ in range(OWNERS_AT_MOST):
            if obj is None:
                break
            walked.append((place, obj["metadata"]["name"], uid_of(obj)))
            origin = self._origins.get(walked[-1]) or self._named(place.cluster, obj)
            work = self.work(place.cluster, origin) if origin is not None else None
            if origin and work and manifest_of(work, origin.root, place.virtual) is not None:
                self._origins.update(dict.fromkeys(walked, origin))
                return origin
            named = named or origin
            obj = await self._owner_of(obj, place.host)
        return named

    def work(self, cluster: str, origin: _ObjectOrigin) -> Object | None:
        """Return the Work of an origin, if it is still there."""
        return self.works.get(cluster, origin.work)

    def _named(self, cluster: str, obj: Object) -> _ObjectOrigin | None:
        """Return the Work that an object names; a tenant may have written that of another."""
        namespace, _, name = annotations_of(obj).get(vocabulary.WORK_ANNOTATION, "").partition("/")
        is_own = namespace == vocabulary.execution_namespace(cluster)
        if not is_own or self.works.get(cluster, name) is None:
            return None
        recorded = annotations_of(obj).get(NAMES_ANNOTATION, "")
        metadata = {key: obj["metadata"][key] for key in ("namespace", "name")}
        is_kept = 0 < len(recorded) <= NAMES_AT_MOST
        metadata["annotations"] = {NAMES_ANNOTATION: recorded} if is_kept else {}
        kept = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
        return _ObjectOrigin(name, kept)

    async def _owner_of(self, obj: Object, namespace: str) -> Object | None:
        references = obj["metadata"].get("ownerReferences") or []
        reference = next((r for r in references if r.get("controller")), None)
        if reference is None:
            return None
        kind = parse_api_version(reference["apiVersion"], reference["kind"])
        resource = await self.discovery.find(kind)
        if resource is None or not resource.namespaced:
            return None
        owner = await self.host.look_up(resource.path(namespace, reference["name"]))
        return owner if owner and uid_of(owner) == reference["uid"] else None


def manifest_of(work: Object, root: Object, namespace: str) -> Object | None:
    """Return the manifest of a Work that an object in a virtual namespace was made from."""
    desired = gvk_of(root).group_kind, namespace, key_of(root).name
    return next((each for each in manifests_of(work) if object_id(each) == desired), None)
