"""Virtual clusters discovered on the host: served, and removed with their source.

One virtual cluster is one key: a problem of one affects no other.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from karmada_vc_agent.cluster.registration import Origin, Origins, VirtualClusterSource
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.cluster.virtual_clusters import name_of_change
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.discovered.discovery import (
    DiscoveryStart,
    GroupSource,
    NodeGroupDiscovery,
    NodeLabelDiscovery,
    describe,
    start,
)
from karmada_vc_agent.features.discovered.records import (
    Discovered,
    DiscoveredFields,
    DiscoveredRecord,
    DiscoveredRecords,
    made,
    made_of_record,
    record_of,
)
from karmada_vc_agent.kube.controller import (
    ControllerSpec,
    Enqueues,
    Requeue,
    RetryError,
    itself,
    same,
)
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.events import WARNING, EventRecorder
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.model.objects import Object, timestamp
from karmada_vc_agent.model.quantity import format_duration
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import FEW_WORKERS
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts, check_permitted, removal_of
from karmada_vc_agent.work.removal import Removal

_log = logging.getLogger(__name__)

RECHECK_S = 20.0
"""How often one is checked that waits for something without an event, such as rights."""
STEP_S = 1.0
SYNC_S = 1.0


@dataclass(eq=False)
class DiscoveryController:
    """Keeps a source of the registry equal to what a discovery lists.

    check: raises ConfigError where hub or host forbid one. stays_away: whether its Cluster was
    deleted on the hub, or left. is_in_doubt: whether hub or host may be restored from a backup.
    """

    discovery: GroupSource[Any]
    source: VirtualClusterSource
    records: DiscoveredRecords
    config: Callable[[], AgentConfig]
    removal: Removal
    origins: Origins
    check: Callable[[VirtualCluster], Awaitable[None]]
    stays_away: Callable[[str], bool]
    is_in_doubt: Callable[[], bool]
    warn: Callable[[Object, str], object]
    wall_clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._once = LogOnce(_log)

    async def reconcile(self, name: str) -> Requeue | None:
        record = self.records.of(name)
        is_on, discovered = self.discovery.settings.is_used, None
        if is_on:
            if not self.discovery.is_synced:
                return Requeue(SYNC_S)  # all would count as deleted
            discovered = self.discovery.get(name)
        if not self.source.serves(name):
            return self._follow(name, discovered, is_on=is_on)
        # Switched off nothing is deleted, but a begun removal is completed.
        if record and record.is_draining and (is_on or self.removal.has_begun(name)):
            return await self._drain(name, record, is_there=discovered is not None)
        if discovered is not None:
            return await self._serve(discovered, is_new=record is None)
        if record and is_on:
            return await self._source_deleted(name, record)
        self._stop_serving(name)
        return None

    def _follow(self, name: str, discovered: Discovered | None, *, is_on: bool) -> Requeue | None:
        """Have what another process serves: as it was if invalid, until its Cluster is removed."""
        if discovered is not None:
            with suppress(ValueError):
                self.source.put(made(self.config(), self.discovery.settings, discovered))
        elif is_on and self.removal.clusters.created_at(name):
            return Requeue(RECHECK_S)
        else:
            self.source.remove(name)
        return None

    def _stop_serving(self, name: str) -> None:
        self.source.remove(name)
        self.origins.refuse(self.discovery.settings.source, name, "")
        self.origins.note(self.discovery.settings.source, name, None)

    async def _serve(self, discovered: Discovered, *, is_new: bool) -> Requeue | None:
        name, source = discovered.name, self.discovery.settings.source
        try:
            vc = made(self.config(), self.discovery.settings, discovered)
        except ValueError as error:
            return self._refused(discovered, str(error))
        if self.source.rival(name) is not None:
            await self.records.drop(name)
            self.source.put(vc)  # it is served once the other one is given up
            self.origins.note(source, name, None)
            return self._refused(discovered, self.source.taken(name))
        limit = self.discovery.settings.limit
        if not self.source.defines_nodes_of(vc):
            if is_new and limit and len([*self.records]) >= limit:
                text = f"{source}.limit of {limit} virtual clusters is reached"
                return self._refused(discovered, text)
            try:
                await self.check(vc)
            except ConfigError as error:
                return self._refused(discovered, error.problem)
        await self.records.keep(name, record_of(source, discovered))
        if is_new:
            self._log("Serving a discovered virtual cluster", name, discovered.subject)
        self.source.put(vc)
        self.origins.refuse(source, name, "")
        self._note(name, discovered.subject)
        return None

    def _refused(self, discovered: Discovered, problem: str) -> Requeue:
        """Report why it is not served as it is; what was served before stays."""
        name, subject = discovered.name, discovered.subject
        source = self.discovery.text_of(subject)
        text = f"cannot serve {source} as virtual cluster {name}: {problem}"
        if self.origins.refuse(self.discovery.settings.source, name, text):
            _log.warning("Not serving a discovered virtual cluster", extra={"reason": text})
            about = self.discovery.object_of(subject)
            if about is not None:
                self.warn(about, text)
        return Requeue(RECHECK_S)

    async def _source_deleted(self, name: str, record: DiscoveredRecord) -> Requeue | None:
        settings, subject = self.discovery.settings, record.subject
        self.origins.refuse(settings.source, name, "")
        if self.source.rival(name) is not None or self.stays_away(name):
            await self._forget(name)  # another source has it, or it was removed already
            return None
        if self.is_in_doubt() or not await self.discovery.is_deleted(name, subject):
            return Requeue(RECHECK_S)
        if name not in self.source:  # it was deleted while the setting was off
            try:
                self.source.put(made_of_record(self.config(), settings, name, record))
            except ValueError as error:
                text = f"the virtual cluster cannot be served: {error}"
                raise RetryError(self._stays(name, subject, text)) from error
        if record.gone_at is None:
            record = replace(record, gone_at=self.wall_clock())
            await self.records.keep(name, record)
            self._log("Source of a virtual cluster was deleted", name, subject)
        off = f"stays registered, because {settings.source}.drain is off"
        ends_at = (record.gone_at or 0.0) + settings.grace_period
        if (left_s := ends_at - self.wall_clock()) > 0:
            then = "is removed" if settings.drain else off
            until = timestamp(datetime.fromtimestamp(ends_at, UTC))
            waits = f"nothing changes until {until} ({format_duration(settings.grace_period)})"
            self._note(name, subject, f"{waits}, then the virtual cluster {then}")
            return Requeue(min(left_s, RECHECK_S))
        if settings.drain:
            record = replace(record, is_draining=True)
            await self.records.keep(name, record)
            self._log("Removing a virtual cluster whose source was deleted", name, subject)
            return await self._drain(name, record, is_there=False)
        if not self.removal.is_anywhere(name):
            await self._forget(name)
            return None
        leave = f"to remove it, run karmada-vc-agent leave {name}"
        self._stays(name, subject, f"the virtual cluster {off}; {leave}")
        return Requeue(RECHECK_S)

    def _stays(self, name: str, subject: str, text: str) -> str:
        text = self._note(name, subject, text)
        message = "Keeping a virtual cluster whose source was deleted"
        self._once.warning(message, about=name, virtual_cluster=name, reason=text)
        return text

    async def _drain(
        self, name: str, record: DiscoveredRecord, *, is_there: bool
    ) -> Requeue | None:
        """Take the next step of a removal; one that has not begun ends where it is to be served."""
        vc = self.source.get(name)
        if vc is None or self.source.rival(name) is not None:
            await self._forget(name)
            return None
        if (is_there or not self.discovery.settings.drain) and not self.removal.has_begun(name):
            await self.records.keep(name, replace(record, is_draining=False))
            return Requeue(0.0)
        try:
            text = await self.removal.step(vc, self.source)
        except KubeError as error:
            self._note(name, record.subject, f"removing the virtual cluster: {error}")
            raise
        if text:
            self._note(name, record.subject, f"removing the virtual cluster: {text}")
            return Requeue(STEP_S)
        self._log("Removed a virtual cluster", name, record.subject)
        await self._forget(name)
        return Requeue(0.0) if is_there else None

    async def _forget(self, name: str) -> None:
        await self.records.drop(name)
        self._stop_serving(name)
        self._once.ended(name)

    def _note(self, name: str, subject: str, absence: str = "") -> str:
        """Note what a virtual cluster is of, and what happens as that was deleted; return that."""
        source = self.discovery.text_of(subject)
        text = f"{source} was deleted; {absence}" if absence else ""
        origin = Origin(source, self.discovery.by_label, text)
        self.origins.note(self.discovery.settings.source, name, origin)
        return text

    def _log(self, message: str, name: str, subject: str) -> None:
        source = self.discovery.text_of(subject)
        _log.info(message, extra={"virtual_cluster": name, "source": source})


SETTLES_S = 0.2
"""A NodeGroup that is recreated, and a label that moves, are two changes."""


def setup_node_groups(parts: Parts) -> ControllerSpec[str] | None:
    common, started = parts.common, parts.common.find(DiscoveryStart)
    if started is None:
        return None
    settings = common.live.config.of(DiscoveredFields).node_groups
    discovery = NodeGroupDiscovery(common.clients.host, settings)
    watch = {"watch of node-groups": discovery.run}
    return _setup("node-groups", parts, discovery, started.node_groups, FEW_WORKERS, watch)


def setup_node_labels(parts: Parts) -> ControllerSpec[str] | None:
    common, started = parts.common, parts.common.find(DiscoveryStart)
    if started is None:
        return None
    settings = common.live.config.of(DiscoveredFields).discover
    discovery = NodeLabelDiscovery(common.clients.host, common.stores.nodes, settings)
    return _setup("node-label-values", parts, discovery, started.labels, 1, {})


def _setup(
    name: str,
    parts: Parts,
    discovery: GroupSource[Any],
    source: VirtualClusterSource,
    workers: int,
    runs: Mapping[str, Callable[[], Awaitable[None]]],
) -> ControllerSpec[str]:
    """Declare the controller of one source. runs: its own watch, by name."""
    common, live, key = parts.common, parts.common.live, discovery.settings.source
    live.changed.subscribe(lambda: discovery.use(live.config.sources[key]))
    servers = (common.clients.hub, common.clients.host)
    recorder = EventRecorder(common.clients.host)
    records = DiscoveredRecords(common.state, key)
    controller = DiscoveryController(
        discovery,
        source,
        records,
        lambda: live.config,
        removal=removal_of(parts),
        origins=common.origins,
        check=partial(check_permitted, common),
        stays_away=common.registrations.stays_away,
        is_in_doubt=lambda: any(server.history.is_in_doubt for server in servers),
        warn=lambda about, text: recorder.record(
            common.config.agent_name, about, WARNING, "NotServed", text
        ),
    )
    return ControllerSpec(
        name,
        common.queues.by_name(),
        controller.reconcile,
        workers,
        of_all=True,
        initial_keys=lambda: (*discovery.subjects, *records),
        sources=(
            Enqueues(discovery.changed.subscribe, itself, SETTLES_S),
            Enqueues(live.changed.subscribe, lambda: tuple(records), SETTLES_S),
            Enqueues(
                common.virtual_clusters.everywhere.changed.subscribe,
                lambda old, new: (name_of_change(old, new),),
                SETTLES_S,
            ),
        ),
        resync_keys=same,
        runs={**runs, f"events of {name}": recorder.run},
    )


GROUP_PRESENT = ConditionType(
    "GroupPresent",
    "The NodeGroup or label value that defines the virtual cluster exists.",
    idle="Defined",
)


def group_present(origin: Origin | None) -> Condition:
    """Return the condition; origin: None where settings or an object define a virtual cluster."""
    if origin is None:
        text = "the settings or a VirtualCluster object define it now"
        return GROUP_PRESENT.true("Defined", text)
    if origin.absence:
        return GROUP_PRESENT.false("Gone", origin.absence)
    return GROUP_PRESENT.true("Found", f"defined by {origin.text}")


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    own = config.of(DiscoveredFields)
    is_used = own.node_groups.is_used or own.discover.is_used
    return ("features/discovered/roles.yaml",) if is_used else ()


FEATURE = Feature(
    "discovered",
    settings=DiscoveredFields,
    controllers=(setup_node_groups, setup_node_labels),
    conditions=(
        ConditionSpec(
            GROUP_PRESENT, lambda parts, vc: group_present(parts.common.origins.of(vc.name))
        ),
    ),
    start=start,
    describe=describe,
    host_roles=_host_roles,
)
