"""Cluster objects exist on the hub and fit the settings; deleted ones stay deleted.

Deleted is what this agent saw marked and finalised. A Cluster that is simply not there any more,
as after a restore of the hub, was lost: it is registered again.
"""

import logging
from collections.abc import Container, Iterator, Mapping

import msgspec

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import AlreadyExistsError, InvalidError, NotFoundError
from karmada_vc_agent.lifecycle.agent_state import AgentState, ClusterRecord
from karmada_vc_agent.model.durations import Duration
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import ApplyAs, VirtualCluster
from karmada_vc_agent.status.cluster_registration import (
    cluster_changes,
    new_cluster,
    served_by_another,
)
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH, ClusterCodec, HubClusters, digest

_log = logging.getLogger(__name__)

REFUSED_RETRY = Requeue(30.0)
"""A name that is taken or a Cluster that the hub refuses: tried again now and then, quietly."""

_LEFT = (
    "Not registering a virtual cluster that has left; to have it again run "
    "karmada-vc-agent join and restart the agent, or start it with --reregister"
)
_DELETED = (
    "Not registering again a Cluster that was deleted on the hub; to have it back "
    "change its settings or start with --reregister"
)


def keys_of_cluster(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield the virtual cluster of a Cluster that changed, if it is served."""
    cluster = new or old
    if cluster is not None and cluster["metadata"]["name"] in virtual_clusters:
        yield cluster["metadata"]["name"]


def settings_digest(vc: VirtualCluster) -> str:
    """Return a text that changes when any setting of a virtual cluster does.

    Settings at their default do not count, so that a new one in a later version changes nothing.
    """
    defaults = VirtualCluster(vc.name)
    given = {
        name: getattr(vc, name)
        for name in vc.__struct_fields__
        if getattr(vc, name) != getattr(defaults, name)
    }
    return digest(_plain({"name": vc.name, **given}))


def _plain(value: object) -> object:
    if isinstance(value, ApplyAs):
        return {**msgspec.structs.asdict(value), "is_default": value.is_default}
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return float(value) if isinstance(value, Duration) else value


class RegistrationController:
    """Registers each virtual cluster once, and keeps what it registered up to date.

    reregister: names that are to be registered again although they were deleted on the hub.
    """

    def __init__(
        self,
        hub: ApiClient,
        clusters: HubClusters,
        state: AgentState,
        virtual_clusters: Mapping[str, VirtualCluster],
        reregister: frozenset[str] = frozenset(),
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._state = state
        self._virtual_clusters = virtual_clusters
        self._reregister = set(reregister)
        self._said: dict[str, str] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Make the Cluster of one virtual cluster exist and fit."""
        vc = self._virtual_clusters[name]
        cluster = self._clusters.ours(name)
        other = self._clusters.conflicting_cluster(name)
        record = await self._note_deletion(name)
        settings = settings_digest(vc)
        rival = self._clusters.other_agent(name)

        if rival is not None:
            return self._refused(name, served_by_another(name, rival))
        if cluster is not None:
            return await self._maintain(vc, cluster, record, settings)
        if other is not None:
            text = (
                f"the cluster ID {self._clusters.id_of(name)} or the cluster name {name} "
                "has been registered"
            )
            return self._refused(name, text)
        if self.stays_away(name):
            self._say(name, _LEFT if record and record.has_left else _DELETED, logging.WARNING)
            return None
        if record is not None and not record.was_deleted:
            _log.warning(
                "Registering again a Cluster that vanished without being deleted",
                extra={"virtual_cluster": name},
            )
        return await self._register(vc, settings)

    async def _note_deletion(self, name: str) -> ClusterRecord | None:
        """Remember, beyond this process, that our Cluster was deleted; return what is known."""
        record, marked = self._state.cluster(name), self._clusters.marked(name)
        if marked and record is not None and record.uid == marked and not record.was_deleted:
            return await self._state.remember_deleted(name, marked, record.settings)
        return record

    def stays_away(self, name: str) -> bool:
        """Whether a virtual cluster of the settings is not registered, and is not going to be."""
        record = self._state.cluster(name)
        if record is None or name in self._reregister or self._clusters.ours(name) is not None:
            return False
        is_same = record.settings == settings_digest(self._virtual_clusters[name])
        return record.has_left or (record.was_deleted and is_same)

    async def _register(self, vc: VirtualCluster, settings: str) -> Requeue | None:
        _log.info("Registering", extra={"virtual_cluster": vc.name})
        try:
            created = await self._hub.create(
                CLUSTERS_PATH,
                new_cluster(vc, self._clusters.id_of(vc.name), self._clusters.agent),
            )
        except InvalidError as error:
            return self._refused(vc.name, str(error))
        except AlreadyExistsError:
            # The watch is about to show it; then it is ours or a conflict.
            return Requeue(0.5)
        self._reregister.discard(vc.name)
        self._said.pop(vc.name, None)
        await self._state.remember(vc.name, ClusterRecord(created["metadata"]["uid"], settings))
        self._clusters.store.observe(ClusterCodec().trim(created))
        return await self._maintain(vc, created, self._state.cluster(vc.name), settings)

    async def _maintain(
        self, vc: VirtualCluster, cluster: Object, record: ClusterRecord | None, settings: str
    ) -> Requeue | None:
        if cluster["metadata"].get("deletionTimestamp"):
            uid = cluster["metadata"]["uid"]
            await self._state.remember_deleted(vc.name, uid, settings)
            return None
        self._said.pop(vc.name, None)
        self._reregister.discard(vc.name)  # it is there: what comes later is not meant
        settings_changed = record is None or record.settings != settings
        changes = cluster_changes(
            cluster, vc, self._clusters.agent, settings_changed=settings_changed
        )
        if changes:
            version = {"resourceVersion": cluster["metadata"]["resourceVersion"]}
            changes["metadata"] = {**changes.get("metadata", {}), **version}
            try:
                answer = await self._hub.merge_patch(f"{CLUSTERS_PATH}/{vc.name}", changes)
            except InvalidError as error:
                return self._refused(vc.name, str(error))
            except NotFoundError:
                return Requeue(0.5)
            self._clusters.store.observe(ClusterCodec().trim(answer))
        await self._state.remember(vc.name, ClusterRecord(cluster["metadata"]["uid"], settings))
        return None

    def _refused(self, name: str, text: str) -> Requeue:
        self._say(name, "Not registered", logging.ERROR, text)
        return REFUSED_RETRY

    def _say(self, name: str, message: str, level: int, reason: str = "") -> None:
        """Log a lasting state once, not at every retry."""
        if self._said.get(name) == message + reason:
            return
        self._said[name] = message + reason
        extra = {"virtual_cluster": name} | ({"reason": reason} if reason else {})
        _log.log(level, message, extra=extra)
