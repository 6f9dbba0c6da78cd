"""State of the agent across restarts: a ConfigMap on the host."""

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import msgspec
import orjson

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from karmada_vc_agent.kube.flows import SharedLock
from karmada_vc_agent.kube.tasks import retry_on
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import one_line

_log = logging.getLogger(__name__)

_CLUSTER_PREFIX = "cluster."
_LABEL_PREFIX = "label."
_TEMPLATE_KEY = "namespaceTemplate"
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The record of one registration: UID of the Cluster, digest of the settings.

    has_left: `leave` removed it; whatever the settings, it is not registered again. was_deleted:
    this agent saw the deletionTimestamp of that Cluster, and finalised it; it is not registered
    again while the settings stay (contract trap 5), neither after a restart nor by a standby. One
    that disappeared otherwise was lost, as by a restore of the hub, and is registered again.
    """

    uid: str
    settings: str
    has_left: bool = False
    was_deleted: bool = False


class AgentState:
    """The ConfigMap `<agentName>-state` in the agent's namespace; its only writer is the leader."""

    def __init__(self, client: ApiClient, namespace: str, agent_name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = f"{agent_name}-state"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{self._name}"
        self._values: dict[str, str] = {}
        self._extra = {"config_map": f"{namespace}/{self._name}"}
        self._lock = SharedLock()

    async def load(self) -> None:
        """Load the state of an earlier process, and create what is missing. Raises KubeError."""
        try:
            await self.look()
        except NotFoundError:
            self._take(await self._create())
        for key, value in self.values(_CLUSTER_PREFIX).items():
            if _record(value) is None:
                _log.warning(
                    "Ignoring an unreadable record; it is written again",
                    extra={**self._extra, "key": one_line(_CLUSTER_PREFIX + key)},
                )

    async def look(self) -> None:
        """Load the state as it is, and change nothing. Raises KubeError."""
        self._take(await self._client.get(self._path))

    def _take(self, state: Object) -> None:
        data = state.get("data")
        pairs = data.items() if isinstance(data, dict) else ()
        self._values = {key: value for key, value in pairs if isinstance(value, str)}

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
            await self._patch(self._values)
        return epoch

    async def _patch(self, values: Mapping[str, str | None]) -> None:
        """Write values; all others, too, where the ConfigMap was deleted. Raises KubeError."""
        try:
            await self._client.merge_patch(self._path, {"data": values})
        except NotFoundError:
            _log.warning(
                "Writing the agent's state again: its ConfigMap was deleted", extra=self._extra
            )
            await self.ensure_namespace()
            await self._create()
            await self._client.merge_patch(self._path, {"data": {**self._values, **values}})

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
        records = {name: _record(value) for name, value in self.values(_CLUSTER_PREFIX).items()}
        return {name: record for name, record in records.items() if record is not None}

    def cluster(self, name: str) -> ClusterRecord | None:
        """Return the record of one virtual cluster."""
        return _record(self._values.get(_CLUSTER_PREFIX + name, ""))

    async def remember(self, name: str, record: ClusterRecord) -> None:
        """Store a record; sends no request if it is unchanged."""
        fields = {key: value for key, value in asdict(record).items() if value is not False}
        await self.write(_CLUSTER_PREFIX + name, orjson.dumps(fields).decode())

    async def read_again(self, name: str) -> ClusterRecord | None:
        """Return the record of one virtual cluster as it is on the host; `leave` writes there, too.

        Raises KubeError.
        """
        if value := await self._stored(name):
            self._values[_CLUSTER_PREFIX + name] = value
        return self.cluster(name)

    async def remember_deleted(self, name: str, uid: str, settings: str) -> ClusterRecord:
        """Record that this agent saw the deletion of the Cluster; return the record.

        Reads the state first: `leave`, which deletes Clusters, records before that it left.
        """
        if (recorded := self.cluster(name)) and recorded.was_deleted and recorded.uid == uid:
            return recorded
        stored = _record(await self._stored(name))
        has_left = stored is not None and stored.has_left
        record = ClusterRecord(uid, settings, has_left, was_deleted=True)
        await self.remember(name, record)
        return record

    async def _stored(self, name: str) -> str:
        """Return a record on the host, written again if the ConfigMap was deleted."""
        try:
            data = (await self._client.get(self._path)).get("data") or {}
        except NotFoundError:
            await self._write_again()
            data = self._values
        value = data.get(_CLUSTER_PREFIX + name)
        return value if isinstance(value, str) else ""

    async def forget(self, name: str) -> None:
        """Drop the record of a virtual cluster that no longer exists."""
        await self._put(_CLUSTER_PREFIX + name, None)  # `leave` may have written one meanwhile

    async def remember_label(self, value: str, name: str) -> None:
        """Record that nodes of a virtual cluster are labelled by a former name of it.

        Sends no request where the label is its name, or was recorded. Raises KubeError.
        """
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

    async def write(self, key: str, value: str) -> None:
        """Store a value; sends no request if it is unchanged. Raises KubeError."""
        if self._values.get(key) != value:
            await self._put(key, value)

    async def erase(self, key: str) -> None:
        """Drop a value; sends no request if there is none. Raises KubeError."""
        if key in self._values:
            await self._put(key, None)

    async def _put(self, key: str, value: str | None) -> None:
        """Store a value, None = drop it."""
        async with self._lock:
            await self._patch({key: value})
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value

    async def ensure_namespace(self) -> None:
        """Create the agent's namespace if it does not exist."""
        try:
            await self._client.get(f"/api/v1/namespaces/{self._namespace}")
        except NotFoundError:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
            try:
                await self._client.create("/api/v1/namespaces", body)
            except AlreadyExistsError:
                return

    async def _create(self) -> Object:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "data": {},
        }
        try:
            return await self._client.create(self._collection, body)
        except AlreadyExistsError:
            return await self._client.get(self._path)


def _record(value: str) -> ClusterRecord | None:
    """Return a record; None if malformed, as if it did not exist."""
    try:
        return msgspec.json.decode(value, type=ClusterRecord)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
