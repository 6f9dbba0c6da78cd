"""Clusters of the hub: those that are ours, their Ready, and contact with the hub.

Ours is a Cluster that has the name of a virtual cluster *and* its id, a UUIDv5 of the
host's kube-system UID and that name: stable, distinct, never the raw host UID. Of two agents
of one host that have the same virtual cluster in their settings it is the one's that the
Cluster names, which is the first that wrote it.
"""

import hashlib
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar

import orjson
from cachetools import LRUCache

from karmada_vc_agent.cluster.rules.conditions import Condition, Observation, Thresholds, damp
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import NotReadyError, Signal
from karmada_vc_agent.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from karmada_vc_agent.kube.flows import SharedLock, retry_on
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.core import HubShape
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    decode_as,
    dig,
    is_map_of_texts,
    maps_at,
    timestamp,
    uid_of,
)
from karmada_vc_agent.model.user_text import one_line

T = TypeVar("T")

REPORTS = STATUS, LEASE = "status", "Lease"


class Judgements:
    """A condition of each virtual cluster as judged by the agent. changed: its status did."""

    def __init__(self, scopes: Scopes) -> None:
        self._conditions: dict[str, Condition] = scopes.keep()
        self._observed: dict[str, Observation] = scopes.keep()
        self.changed: Signal[[str]] = Signal()

    def of(self, name: str) -> Condition | None:
        return self._conditions.get(name)

    def is_ready(self, name: str) -> bool:
        judged = self._conditions.get(name)
        return judged is not None and judged["status"] == "True"

    def judge(
        self, name: str, observed: Condition, thresholds: Thresholds | None = None, now_s: float = 0
    ) -> Condition:
        """Store a condition, damped by thresholds; listeners are called if its status changed."""
        before, judged = self._conditions.get(name), observed
        if thresholds is not None:
            last = self._observed.get(name)
            judged, self._observed[name] = damp(last, observed, before, now_s, thresholds)
        self._conditions[name] = judged
        if before is None or before["status"] != judged["status"]:
            self.changed.emit(name)
        return judged


@dataclass(slots=True)
class _Accepted:
    """When the hub last accepted a report, or the first try of one; why not since then."""

    at: float
    is_any: bool = False
    reason: str = ""


class HubContact:
    """The times at which the hub last accepted Lease and status of each Cluster.

    An answer is not enough: an expired certificate is answered by 401, while open watches live on.
    patience_s: how long it may accept nothing; after that it considers the agent dead. changed: a
    Cluster of which it accepted the first report, or one again after it was late.
    """

    def __init__(
        self, patience_s: float, scopes: Scopes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        scopes.ended.subscribe(self.forget)
        self._patience_s = patience_s
        self._clock = clock
        self._accepted: dict[tuple[str, str], _Accepted] = {}
        self.changed: Signal[[str]] = Signal()

    def accepted(self, name: str, what: str) -> None:
        """Record that the hub has accepted STATUS or LEASE of a Cluster."""
        before = (self.silent_s(name) is None, self.problem_of(name))
        self._accepted[name, what] = _Accepted(self._clock(), is_any=True)
        if before != (False, self.problem_of(name)):
            self.changed.emit(name)

    def forget(self, name: str) -> None:
        for what in REPORTS:
            self._accepted.pop((name, what), None)

    async def track(self, name: str, what: str, write: Awaitable[T]) -> T:
        """Await a write; record the error if the hub rejects it. Raises what `write` raises."""
        accepted = self._accepted.setdefault((name, what), _Accepted(self._clock()))
        try:
            return await write
        except KubeError as error:
            accepted.reason = f": {error}"
            raise

    def is_accepted(self, name: str) -> bool:
        return self.problem_of(name) is None

    def silent_s(self, name: str) -> float | None:
        """Return the seconds since the hub last accepted a report of a Cluster; None if never."""
        both = (self._accepted.get((name, what)) for what in REPORTS)
        times = [each.at for each in both if each is not None and each.is_any]
        return self._clock() - max(times) if times else None

    def problem_of(self, name: str = "") -> str | None:
        """Return, for a status, what the hub has not accepted of a Cluster, or any, and why."""
        late = self._late([(name, what) for what in REPORTS] if name else self._accepted)
        if not late:
            return None
        others = len({each[1] for each in late}) - 1
        more = f" (and {others} more)" if others else ""
        return f"the hub accepts no {late[0][2]} of Cluster {late[0][1]}{more}{late[0][3]}"

    def accepts_others(self) -> bool:
        """Return True if the hub accepts all of some Clusters, beside those that are late."""
        late = {name for _, name, _, _ in self._late(self._accepted)}
        return any(name not in late for name, _ in self._accepted)

    def _late(self, keys: Iterable[tuple[str, str]]) -> list[tuple[float, str, str, str]]:
        """Return (since when, Cluster, what, `: <why>` or "") of what is late, longest first."""
        limit = self._clock() - self._patience_s
        pairs = ((key, self._accepted.get(key)) for key in keys)
        late = [(each.at, *key, each.reason) for key, each in pairs if each and each.at < limit]
        return sorted(late, key=itemgetter(0))


REMEMBERED = 16384
"""Virtual clusters, served or not, whose id and deletion are cached."""
CLUSTERS_PATH = "/apis/cluster.karmada.io/v1alpha1/clusters"


@lru_cache(REMEMBERED)
def cluster_id(host_uid: str, name: str) -> str:
    return str(uuid.uuid5(uuid.UUID(host_uid), name))


def host_id(host_uid: str) -> str:
    """Return the id of a host on the hub, derived from its UID, which the hub never sees."""
    return str(uuid.uuid5(uuid.UUID(host_uid), "host"))


def agent_id(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def agent_of(cluster: Object | None) -> str:
    """Return the agent that serves a Cluster, or "" where it does not say."""
    return annotations_of(cluster or {}).get(vocabulary.AGENT_ANNOTATION, "")


def version_of(cluster: Object) -> str:
    """Return the version to change a Cluster by. Raises NotReadyError for one of the checkpoint."""
    version = cluster["metadata"].get("resourceVersion")
    if not version:
        raise NotReadyError("the hub has not listed its Clusters yet")
    return str(version)


def digest(value: object) -> str:
    content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:32]


_BY_ID = "id"


def cluster_store() -> Store[Object]:
    return Store(ClusterCodec(), {_BY_ID: lambda cluster: (str(dig(cluster, "spec", "id")),)})


async def find_cluster(hub: ApiClient, name: str) -> Object | None:
    """Return the Cluster of a name, None if the hub lists none. Raises KubeError.

    By a list: `leave` removes the right to get a Cluster by its name, and a denial is no absence.
    """
    answer = await hub.get(CLUSTERS_PATH, {"fieldSelector": f"{vocabulary.NAME_FIELD}={name}"})
    clusters = maps_at(answer, "items")
    return next((each for each in clusters if each["metadata"]["name"] == name), None)


class ClusterCodec(RawCodec):
    """Clusters with `status.apiEnablements` as a digest: the list is large and only compared."""

    shape = HubShape

    def trim(self, obj: Object) -> Object:
        enablements = dig(obj, "status", "apiEnablements")
        if isinstance(enablements, list):
            obj["status"]["apiEnablements"] = digest(enablements)
        return super().trim(obj)


class HubClusters:
    """Reads the watched Clusters of the hub.

    store: from `cluster_store`. judgements: which Clusters are Ready; None = another judges, and
    the hub has it.
    """

    def __init__(
        self,
        store: Store[Object],
        host_uid: str,
        names: Container[str],
        agent: str = "",
        judgements: Judgements | None = None,
    ) -> None:
        self.store = store
        self.agent = agent
        self.host = host_id(host_uid)
        self._judgements = judgements
        self._host_uid = host_uid
        self._names = names
        self.marked: LRUCache[str, str] = LRUCache(REMEMBERED)
        """Virtual cluster -> uid of its Cluster that was last seen with a deletion mark, which may
        be deleted before its reconciliation."""
        self.has_listed: Callable[[str], bool] = lambda _: True
        """Returns True once the hub has reported whether there is a Cluster of a name."""
        store.add_handler(self._changed)

    def id_of(self, name: str) -> str:
        return cluster_id(self._host_uid, name)

    def ours(self, name: str) -> Object | None:
        """Return the Cluster of a virtual cluster, or None where it is absent or another's."""
        cluster = self.store.get("", name)
        return cluster if name in self._names and self.is_ours(cluster) else None

    def is_ours(self, cluster: Object | None) -> bool:
        return self._is_of_this_host(cluster) and (
            not self.agent or agent_of(cluster) in ("", self.agent)
        )

    def other_agent(self, name: str) -> str | None:
        """Return the other agent of this host that serves a virtual cluster, if one does."""
        cluster = self.store.get("", name)
        is_listed = name in self._names and self._is_of_this_host(cluster)
        return agent_of(cluster) if is_listed and not self.is_ours(cluster) else None

    def _is_of_this_host(self, cluster: Object | None) -> bool:
        name = dig(cluster, "metadata", "name")
        return cluster is not None and bool(dig(cluster, "spec", "id") == self.id_of(name))

    def conflicting_cluster(self, name: str) -> Object | None:
        """Return a Cluster that has our name with another id, or our id with another name."""
        own_id, namesake = self.id_of(name), self.store.get("", name)
        if namesake is not None and dig(namesake, "spec", "id") != own_id:
            return namesake
        doubles = self.store.by_index(_BY_ID, own_id)
        return next((each for each in doubles if each["metadata"]["name"] != name), None)

    def created_at(self, name: str) -> str:
        """Return when the Cluster of this agent was created, also of another of its processes."""
        cluster = self.store.get("", name)
        at = dig(cluster, "metadata", "creationTimestamp") if self.is_ours(cluster) else ""
        return str(at or "")

    def is_ready(self, name: str) -> bool:
        """Return True if our Cluster is Ready: by our own judgement, if it is ours to judge."""
        cluster = self.ours(name)
        if self._judgements is not None:
            return cluster is not None and self._judgements.is_ready(name)
        conditions = dig(cluster, "status", "conditions") or []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        name = dig(new, "metadata", "name")
        is_marked = bool(dig(new, "metadata", "deletionTimestamp"))
        if is_marked and name in self._names and self._is_of_this_host(new):
            self.marked[name] = uid_of(new)

    def preserves(self, name: str) -> bool:
        """Return True if what the Works of our Cluster made is to stay when they are deleted."""
        return annotations_of(self.ours(name) or {}).get(vocabulary.PRESERVE_ANNOTATION) == "true"

    def is_deleting(self, name: str) -> bool:
        return bool(dig(self.ours(name), "metadata", "deletionTimestamp"))


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic seconds, and the time as Kubernetes writes it."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], str] = lambda: timestamp(datetime.now(UTC))


_log = logging.getLogger(__name__)

_CLUSTER_PREFIX = "cluster."
_LABEL_PREFIX = "label."
_TEMPLATE_KEY = "namespaceTemplate"
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The record of one registration: UID of the Cluster, digest of the settings.

    has_left: `leave` removed it; whatever the settings, it is not registered again. was_deleted:
    this agent saw its deletionTimestamp; it is not registered again while the settings stay
    (contract trap 5). One that disappeared otherwise was lost, and is registered again.
    """

    uid: str
    settings: str
    has_left: bool = False
    was_deleted: bool = False


class AgentState:
    """The ConfigMap `<agentName>-state` in the agent's namespace; only leaders write it."""

    def __init__(self, client: ApiClient, namespace: str, agent_name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = f"{agent_name}-state"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{self._name}"
        self._values: dict[str, str] = {}
        self.live: Object = {}
        """The ConfigMap as it was last read again, with what was written since."""
        self._extra = {"config_map": f"{namespace}/{self._name}"}
        self._lock = SharedLock()
        self._batch: dict[str, str | None] = {}
        """What is written by the next request, key by key."""

    @classmethod
    async def recorded(cls, client: ApiClient, namespace: str, agent_name: str) -> "AgentState":
        """Return what an agent recorded: nothing if there is no such agent. Raises KubeError."""
        state = cls(client, namespace, agent_name)
        with suppress(NotFoundError):
            await state.look()
        return state

    async def load(self) -> None:
        """Load the state of an earlier process, and create what is missing. Raises KubeError."""
        try:
            await self.look()
        except NotFoundError:
            await self._create()
            await self.look()
        for key in self.values(_CLUSTER_PREFIX):
            if self.cluster(key) is None:
                _log.warning(
                    "Ignoring an unreadable record; it is written again",
                    extra={**self._extra, "key": one_line(_CLUSTER_PREFIX + key)},
                )

    async def look(self) -> None:
        """Load the state as it is, and change nothing. Raises KubeError."""
        data = dig(await self._client.get(self._path), "data")
        self._values = data if is_map_of_texts(data) else {}

    async def follow_time(self) -> None:
        """Write the whole state whenever the host goes back in time."""
        history = self._client.history
        epoch = history.epoch
        while True:
            await history.wait_new_epoch(epoch)
            epoch = await retry_on(KubeError, math.inf, self._write_again, RETRY_S)

    async def _write_again(self) -> int:
        """Return the epoch of the host in which the write began. Raises KubeError."""
        epoch = self._client.history.epoch
        async with self._lock:
            await self._patch(self._own())
        return epoch

    def _own(self) -> Mapping[str, str]:
        return self._values

    async def _patch(self, values: Mapping[str, str | None]) -> None:
        """Write values; all others, too, where the ConfigMap was deleted. Raises KubeError."""
        try:
            await self._client.merge_patch(self._path, {"data": values}, is_terse=True)
        except NotFoundError:
            _log.warning(
                "Writing the agent's state again: its ConfigMap was deleted", extra=self._extra
            )
            await self.ensure_namespace()
            await self._create()
            await self._client.merge_patch(self._path, {"data": {**self._own(), **values}})

    async def check_template(self, template: str) -> None:
        """Record the namespace template at its first use. Raises ConfigError if it changed."""
        recorded = self._values.get(_TEMPLATE_KEY)
        if recorded is None:
            await self.write(_TEMPLATE_KEY, template)
        elif recorded != template:
            where = f"set it back (ConfigMap {self._namespace}/{self._name})"
            problem = f'it is "{template}", but namespaces were created with "{recorded}"; {where}'
            raise ConfigError("settings", "namespaceTemplate", f"TemplateChanged: {problem}")

    def clusters(self) -> dict[str, ClusterRecord]:
        """Return all records by virtual cluster, also of those no longer in the settings."""
        return {n: record for n in self.values(_CLUSTER_PREFIX) if (record := self.cluster(n))}

    def cluster(self, name: str) -> ClusterRecord | None:
        return decode_as(ClusterRecord, self._values.get(_CLUSTER_PREFIX + name, ""))

    async def remember(self, name: str, record: ClusterRecord) -> None:
        """Store a record; sends no request if it is unchanged."""
        fields = {key: value for key, value in asdict(record).items() if value is not False}
        await self.write(_CLUSTER_PREFIX + name, orjson.dumps(fields).decode())

    async def read_again(self, name: str, *, is_recent: bool = False) -> ClusterRecord | None:
        """Return a record as it is on the host, where `leave` writes, too. Raises KubeError.

        is_recent: what was read again last is recent enough.
        """
        key = _CLUSTER_PREFIX + name
        async with self._lock:
            try:
                if not (is_recent and self.live):
                    self.live = await self._client.get(self._path)
            except NotFoundError:
                await self._patch(self._own())
                self.live = {}
            if isinstance(value := dig(self.live, "data", key), str):
                self._values[key] = value
        return self.cluster(name)

    async def remember_deleted(self, name: str, uid: str, settings: str) -> ClusterRecord:
        """Record that the Cluster was deleted; read first, as `leave` records before that."""
        if (recorded := self.cluster(name)) and recorded.was_deleted and recorded.uid == uid:
            return recorded
        stored = await self.read_again(name)
        has_left = stored is not None and stored.has_left
        record = ClusterRecord(uid, settings, has_left, was_deleted=True)
        await self.remember(name, record)
        return record

    async def forget(self, name: str) -> None:
        await self._put(_CLUSTER_PREFIX + name, None)  # `leave` may have written one meanwhile

    async def remember_label(self, value: str, name: str) -> None:
        """Record a former name that nodes are labelled by, unless it is. Raises KubeError."""
        if value != name:
            await self.write(_LABEL_PREFIX + value, name)

    def labels(self) -> dict[str, str]:
        """Return former names that nodes were labelled by -> their virtual clusters."""
        return self.values(_LABEL_PREFIX)

    def values(self, prefix: str) -> dict[str, str]:
        """Return what else is stored under keys that begin so, by the rest of the key."""
        pairs = self._values.items()
        return {key.removeprefix(prefix): text for key, text in pairs if key.startswith(prefix)}

    def value(self, key: str) -> str:
        """Return what else is stored under a key, "" if nothing."""
        return self._values.get(key, "")

    async def write(self, key: str, value: str | None) -> None:
        """Store a value, None = drop it; sends no request if it is unchanged. Raises KubeError."""
        if self._values.get(key) != value:
            await self._put(key, value)

    async def _put(self, key: str, value: str | None) -> None:
        """Store a value, by one request with all that wait for the one before. Raises KubeError."""
        batch = self._batch
        batch[key] = value
        async with self._lock:
            if batch is self._batch:
                self._batch = {}
                await self._store(batch)
                batch.clear()
            elif key in batch:  # that request failed, maybe for the value of another
                await self._store({key: value})

    async def _store(self, values: Mapping[str, str | None]) -> None:
        await self._patch(values)
        data = dig(self.live, "data") or {}
        self.live = self.live and {**self.live, "data": {**data, **values}}
        merged = {**self._values, **values}
        self._values = {key: value for key, value in merged.items() if value is not None}

    async def annotate(self, values: Mapping[str, str | None]) -> None:
        """Write annotations of the ConfigMap, None = remove it. Raises KubeError."""
        body = {"metadata": {"annotations": values}}
        await self._client.merge_patch(self._path, body, is_terse=True)

    async def ensure_namespace(self) -> None:
        if await self._client.find(f"/api/v1/namespaces/{self._namespace}") is None:
            metadata = {"name": self._namespace}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            with suppress(AlreadyExistsError):
                await self._client.create("/api/v1/namespaces", body)

    async def _create(self) -> None:
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
        with suppress(AlreadyExistsError):
            await self._client.create(self._collection, body)
