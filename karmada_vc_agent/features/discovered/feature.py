"""Virtual clusters discovered on the host: served, and removed with their source.

One virtual cluster is one key: a problem of one affects no other.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from msgspec.structs import replace

from karmada_vc_agent.cluster.registration import Origin, Origins, VirtualClusterSource
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.cluster.virtual_clusters import name_of_change
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.discovered.discovery import (
    DiscoveryStart,
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
    GroupSource,
    Making,
    making_of_groups,
    making_of_labels,
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
WARN_AGAIN_S = 1800.0
"""API servers keep events for an hour."""


class DiscoveryController:
    """Keeps a source of the registry equal to what a discovery lists.

    making: makes virtual clusters, by the current settings. check: raises ConfigError where hub or
    host forbid a virtual cluster. stays_away: whether its Cluster was deleted on the hub, or left.
    is_in_doubt: whether hub or host may be restored from a backup. warn: records an event about an
    object of the host, with a reason.
    """

    def __init__(
        self,
        discovery: GroupSource,
        source: VirtualClusterSource,
        records: DiscoveredRecords,
        making: Callable[[], Making],
        *,
        removal: Removal,
        origins: Origins,
        check: Callable[[VirtualCluster], Awaitable[None]],
        stays_away: Callable[[str], bool],
        is_in_doubt: Callable[[], bool],
        warn: Callable[[Object, str, str], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._discovery = discovery
        self._source = source
        self._records = records
        self._making = making
        self._removal = removal
        self._origins = origins
        self._check = check
        self._stays_away = stays_away
        self._is_in_doubt = is_in_doubt
        self._warn = warn
        self._now = wall_clock
        self._warned: dict[str, float] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Serve one virtual cluster, or take the next step of its removal."""
        if not self._making().is_on:
            return await self._switched_off(name)
        if not self._discovery.is_synced:
            return Requeue(SYNC_S)  # all would count as deleted
        discovered, record = self._discovery.get(name), self._records.of(name)
        if record is not None and record.is_draining:
            return await self._drain(name, record, discovered)
        if discovered is not None:
            return await self._serve(discovered, record)
        self._clear_refusal(name)
        if record is not None:
            return await self._source_deleted(name, record)
        self._stop_serving(name)
        return None

    async def _switched_off(self, name: str) -> Requeue | None:
        """Serve one no more; nothing of it is deleted, but a begun removal is completed.

        Its record stays: it is served again where the setting is switched on again.
        """
        record = self._records.of(name)
        if record is not None and record.is_draining and self._removal.has_begun(name):
            return await self._drain(name, record, None)
        self._clear_refusal(name)
        self._stop_serving(name)
        return None

    def _clear_refusal(self, name: str) -> None:
        self._origins.refuse(self._discovery.source, name, "")
        self._warned.pop(name, None)

    def _stop_serving(self, name: str) -> None:
        self._source.remove(name)
        self._origins.note(self._discovery.source, name, None)

    # --- discovered ---------------------------------------------------------------------

    async def _serve(
        self, discovered: Discovered, record: DiscoveredRecord | None
    ) -> Requeue | None:
        name = discovered.name
        try:
            vc = self._making().of(discovered)
        except ValueError as error:
            return self._refused(discovered, str(error))
        if self._source.rival(name) is not None:
            await self._records.drop(name)
            self._source.put(vc)  # it is served once the other one is given up
            self._origins.note(self._discovery.source, name, None)
            return self._refused(discovered, self._source.taken(name))
        if problem := await self._forbids(vc, record):
            return self._refused(discovered, problem)
        await self._records.keep(name, record_of(self._discovery.source, discovered))
        if record is None:
            self._log("Serving a discovered virtual cluster", name, discovered.subject)
        self._source.put(vc)
        self._origins.refuse(self._discovery.source, name, "")
        self._note(name, discovered.subject)
        return None

    async def _forbids(self, vc: VirtualCluster, record: DiscoveredRecord | None) -> str:
        """Return why a virtual cluster is not to be served, "" where nothing speaks against it."""
        if self._source.defines_nodes_of(vc):
            return ""
        limit = self._making().limit
        if record is None and limit and len(self._records) >= limit:
            return f"{self._discovery.source}.limit of {limit} virtual clusters is reached"
        try:
            await self._check(vc)
        except ConfigError as error:
            return error.problem
        return ""

    def _refused(self, discovered: Discovered, problem: str) -> Requeue:
        """Report why it is not served as it is; what was served before stays."""
        name, source = discovered.name, self._discovery.text_of(discovered.subject)
        text = f"cannot serve {source} as virtual cluster {name}: {problem}"
        is_new = self._origins.refuse(self._discovery.source, name, text)
        if is_new:
            _log.warning("Not serving a discovered virtual cluster", extra={"reason": text})
        if is_new or self._now() - self._warned.get(name, 0.0) > WARN_AGAIN_S:
            self._warned[name] = self._now()
            about = self._discovery.object_of(discovered.subject)
            if about is not None:
                self._warn(about, "NotServed", text)
        return Requeue(RECHECK_S)

    # --- deleted ------------------------------------------------------------------------

    async def _source_deleted(self, name: str, record: DiscoveredRecord) -> Requeue | None:
        if self._source.rival(name) is not None or self._stays_away(name):
            await self._forget(name)  # another source has it, or it was removed already
            return None
        if self._is_in_doubt() or not await self._discovery.is_deleted(name, record.subject):
            return Requeue(RECHECK_S)
        if name not in self._source:  # it was deleted while the setting was off
            try:
                self._source.put(self._making().of_record(name, record))
            except ValueError as error:
                text = f"the virtual cluster cannot be served: {error}"
                raise RetryError(self._stays(name, record.subject, text)) from error
        if record.gone_at is None:
            record = replace(record, gone_at=self._now())
            await self._records.keep(name, record)
            self._log("Source of a virtual cluster was deleted", name, record.subject)
        common = self._making().common
        off = f"stays registered, because {self._discovery.source}.drain is off"
        ends_at = (record.gone_at or 0.0) + common.grace_period
        if (left_s := ends_at - self._now()) > 0:
            then = "is removed" if common.drain else off
            until = timestamp(datetime.fromtimestamp(ends_at, UTC))
            waits = f"nothing changes until {until} ({format_duration(common.grace_period)})"
            self._note(name, record.subject, f"{waits}, then the virtual cluster {then}")
            return Requeue(min(left_s, RECHECK_S))
        if common.drain:
            record = replace(record, is_draining=True)
            await self._records.keep(name, record)
            self._log("Removing a virtual cluster whose source was deleted", name, record.subject)
            return await self._drain(name, record, None)
        if not self._removal.is_anywhere(name):
            await self._forget(name)
            return None
        leave = f"to remove it, run karmada-vc-agent leave {name}"
        self._stays(name, record.subject, f"the virtual cluster {off}; {leave}")
        return Requeue(RECHECK_S)

    def _stays(self, name: str, subject: str, text: str) -> str:
        noted = self._origins.of(name)
        text = self._note(name, subject, text)
        if noted is None or noted.absence != text:
            _log.warning(
                "Keeping a virtual cluster whose source was deleted",
                extra={"virtual_cluster": name, "reason": text},
            )
        return text

    async def _drain(
        self, name: str, record: DiscoveredRecord, discovered: Discovered | None
    ) -> Requeue | None:
        """Take the next step of a removal; one that has not begun ends where it is to be served."""
        vc = self._source.get(name)
        if vc is None or self._source.rival(name) is not None:
            await self._forget(name)
            return None
        is_served = discovered is not None or not self._making().common.drain
        if is_served and not self._removal.has_begun(name):
            await self._records.keep(name, replace(record, is_draining=False))
            return Requeue(0.0)
        try:
            text = await self._removal.step(vc, self._source)
        except KubeError as error:
            self._note(name, record.subject, f"removing the virtual cluster: {error}")
            raise
        if text:
            self._note(name, record.subject, f"removing the virtual cluster: {text}")
            return Requeue(STEP_S)
        self._log("Removed a virtual cluster", name, record.subject)
        await self._forget(name)
        return Requeue(0.0) if discovered is not None else None

    async def _forget(self, name: str) -> None:
        await self._records.drop(name)
        self._stop_serving(name)

    def _note(self, name: str, subject: str, absence: str = "") -> str:
        """Note what a virtual cluster is of, and what happens as that was deleted; return that."""
        source = self._discovery.text_of(subject)
        text = f"{source} was deleted; {absence}" if absence else ""
        origin = Origin(source, self._discovery.by_label, text)
        self._origins.note(self._discovery.source, name, origin)
        return text

    def _log(self, message: str, name: str, subject: str) -> None:
        source = self._discovery.text_of(subject)
        _log.info(message, extra={"virtual_cluster": name, "source": source})


SETTLES_S = 0.2
"""A NodeGroup that is recreated, and a label that moves, are two changes."""


def setup_node_groups(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller of NodeGroups."""
    started, live = parts.common.find(DiscoveryStart), parts.common.live
    if started is None:
        return None
    settings = live.config.of(DiscoveredFields).node_groups
    discovery = NodeGroupDiscovery(parts.common.clients.host, settings)
    live.changed.subscribe(lambda: discovery.use(live.config.of(DiscoveredFields).node_groups))
    source, making = started.node_groups, making_of_groups
    return _setup("node-groups", parts, discovery, source, making, FEW_WORKERS, discovery.run)


def setup_node_labels(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller of the values of a node label."""
    common, live = parts.common, parts.common.live
    started = common.find(DiscoveryStart)
    if started is None:
        return None
    settings = live.config.of(DiscoveredFields).discover
    discovery = NodeLabelDiscovery(common.clients.host, common.stores.nodes, settings)
    live.changed.subscribe(lambda: discovery.use(live.config.of(DiscoveredFields).discover))
    return _setup("node-label-values", parts, discovery, started.labels, making_of_labels)


def _setup(
    name: str,
    parts: Parts,
    discovery: GroupSource,
    source: VirtualClusterSource,
    making: Callable[[AgentConfig], Making],
    workers: int = 1,
    run: Callable[[], Awaitable[None]] | None = None,
) -> ControllerSpec[str]:
    """Declare the controller of one source. run: the watch of the source, if it has its own."""
    common, live = parts.common, parts.common.live
    servers = (common.clients.hub, common.clients.host)
    recorder = EventRecorder(common.clients.host)
    records = DiscoveredRecords(common.state, discovery.source)

    def warn(about: Object, reason: str, text: str) -> None:
        recorder.record(common.config.agent_name, about, WARNING, reason, text)

    controller = DiscoveryController(
        discovery,
        source,
        records,
        lambda: making(live.config),
        removal=removal_of(parts),
        origins=common.origins,
        check=partial(check_permitted, common),
        stays_away=common.registrations.stays_away,
        is_in_doubt=lambda: any(server.history.is_in_doubt for server in servers),
        warn=warn,
    )
    runs = {f"events of {name}": recorder.run}
    return ControllerSpec(
        name,
        common.queues.by_name(),
        controller.reconcile,
        workers,
        initial_keys=lambda: (*discovery.names(), *records),
        sources=(
            Enqueues(discovery.changed.subscribe, itself, SETTLES_S),
            Enqueues(live.changed.subscribe, lambda: tuple(records), SETTLES_S),
            Enqueues(common.virtual_clusters.changed.subscribe, _names_of, SETTLES_S),
        ),
        resync_keys=same,
        runs=runs if run is None else {f"watch of {name}": run} | runs,
    )


def _names_of(old: VirtualCluster | None, new: VirtualCluster | None) -> Iterable[str]:
    return (name_of_change(old, new),)


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


def _present(parts: Parts, vc: VirtualCluster) -> Condition:
    return group_present(parts.common.origins.of(vc.name))


CONDITIONS = (ConditionSpec(GROUP_PRESENT, _present),)


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    own = config.of(DiscoveredFields)
    is_used = own.node_groups.is_used or own.discover.is_used
    return ("features/discovered/roles.yaml",) if is_used else ()


FEATURE = Feature(
    "discovered",
    settings=DiscoveredFields,
    controllers=(setup_node_groups, setup_node_labels),
    conditions=CONDITIONS,
    start=start,
    describe=describe,
    host_roles=_host_roles,
)
