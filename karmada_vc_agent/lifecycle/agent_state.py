"""What the agent must remember beyond its process: a ConfigMap on the host.

For each virtual cluster: the UID of the Cluster it registered and the settings it did so
with. A Cluster that was deleted on the hub, and finalised here, is not registered again while
these settings stay (contract trap 5), not by a restart and not by a standby that takes over. One
that vanished without that was lost, as by a backup of the hub, and is registered again.
"""

import asyncio
import logging
from dataclasses import asdict, dataclass

import msgspec
import orjson

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import one_line

_log = logging.getLogger(__name__)

_CLUSTER_PREFIX = "cluster."
_TEMPLATE_KEY = "namespaceTemplate"
RETRY_S = 1.0


class StateError(Exception):
    """The state says that this agent must not start with these settings."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What is remembered of one registration: UID of the Cluster, digest of the settings.

    has_left: `leave` removed it; whatever the settings say, it is not registered again.
    was_deleted: this agent saw the deletion mark of that Cluster, and finalised it.
    """

    uid: str
    settings: str
    has_left: bool = False
    was_deleted: bool = False


class AgentState:
    """The ConfigMap `<agentName>-state` in the agent's namespace; one writer, the leader."""

    def __init__(self, client: ApiClient, namespace: str, agent_name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = f"{agent_name}-state"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{self._name}"
        self._values: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read what an earlier process left, and create what is missing. Raises KubeError."""
        try:
            state = await self._client.get(self._path)
        except NotFoundError:
            state = await self._create()
        data = state.get("data")
        pairs = data.items() if isinstance(data, dict) else ()
        self._values = {key: value for key, value in pairs if isinstance(value, str)}
        for key, value in self._values.items():
            if key.startswith(_CLUSTER_PREFIX) and _record(value) is None:
                _log.warning(
                    "Going on without a record that cannot be read; it is written anew",
                    extra={"config_map": f"{self._namespace}/{self._name}", "key": one_line(key)},
                )

    async def follow_time(self) -> None:
        """Write all that is known whenever the host goes back in time, and this with it."""
        history = self._client.history
        epoch, is_written = history.epoch, True
        while True:
            if is_written:
                await history.moved_on(epoch)
            epoch, is_written = history.epoch, False
            try:
                await self._write_again()
                is_written = True
            except KubeError:
                await asyncio.sleep(RETRY_S)  # the client tells of an outage

    async def _write_again(self) -> None:
        async with self._lock:
            try:
                await self._client.merge_patch(self._path, {"data": self._values})
            except NotFoundError:
                await self.ensure_namespace()
                await self._create()
                await self._client.merge_patch(self._path, {"data": self._values})

    async def check_template(self, template: str) -> None:
        """Fix the namespace template at its first use. Raises StateError where it changed."""
        known = self._values.get(_TEMPLATE_KEY)
        if known is None:
            await self._write(_TEMPLATE_KEY, template)
        elif known != template:
            raise StateError(
                f'TemplateChanged: namespaceTemplate is "{template}", but namespaces were made '
                f'with "{known}"; set it back (ConfigMap {self._namespace}/{self._name})'
            )

    def clusters(self) -> dict[str, ClusterRecord]:
        """Return all records by virtual cluster, also of those no longer in the settings."""
        return {
            key.removeprefix(_CLUSTER_PREFIX): record
            for key, value in self._values.items()
            if key.startswith(_CLUSTER_PREFIX) and (record := _record(value)) is not None
        }

    def cluster(self, name: str) -> ClusterRecord | None:
        """Return the record of one virtual cluster."""
        value = self._values.get(_CLUSTER_PREFIX + name)
        return _record(value) if value else None

    async def remember(self, name: str, record: ClusterRecord) -> None:
        """Store a record; no request where it is stored already."""
        fields = {key: value for key, value in asdict(record).items() if value is not False}
        await self._write(_CLUSTER_PREFIX + name, orjson.dumps(fields).decode())

    async def remember_deleted(self, name: str, uid: str, settings: str) -> ClusterRecord:
        """Store that this agent saw its Cluster deleted; return the record.

        Read anew for it: `leave`, which has it deleted, has noted before that it left.
        """
        if (known := self.cluster(name)) and known.was_deleted and known.uid == uid:
            return known
        live = (await self._client.get(self._path)).get("data") or {}
        noted = _record(live.get(_CLUSTER_PREFIX + name) or "")
        has_left = noted is not None and noted.has_left
        record = ClusterRecord(uid, settings, has_left, was_deleted=True)
        await self.remember(name, record)
        return record

    async def forget(self, name: str) -> None:
        """Drop the record of a virtual cluster that exists no more."""
        key = _CLUSTER_PREFIX + name
        async with self._lock:
            await self._client.merge_patch(self._path, {"data": {key: None}})
            self._values.pop(key, None)

    async def _write(self, key: str, value: str) -> None:
        if self._values.get(key) == value:
            return
        async with self._lock:
            await self._client.merge_patch(self._path, {"data": {key: value}})
            self._values[key] = value

    async def ensure_namespace(self) -> None:
        """Make the agent's namespace exist."""
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
    """Return a record, None where somebody made it unreadable: it then counts as not there."""
    try:
        return msgspec.json.decode(value, type=ClusterRecord)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
