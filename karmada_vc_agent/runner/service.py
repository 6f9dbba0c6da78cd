"""All that runs while this process leads, in one task group."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from karmada_vc_agent.cluster.virtual_clusters import name_of_change
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.kube.flows import LogOnce, measure_with
from karmada_vc_agent.kube.informers import not_listed_text, unlisted_paths, wait_all_synced
from karmada_vc_agent.model.virtual_cluster import EXECUTION, VirtualCluster
from karmada_vc_agent.runner.clients import warn_of_few_files
from karmada_vc_agent.runner.collector import HUB
from karmada_vc_agent.runner.common import Common, Offline
from karmada_vc_agent.runner.controllers import all_controllers
from karmada_vc_agent.runner.parts import Feature, Parts
from karmada_vc_agent.telemetry.endpoints import Note
from karmada_vc_agent.work.works import WorkKey, Works

_log = logging.getLogger(__name__)

LOOK_S = 5.0
"""A reason is logged if two checks in a row have it."""
LATE_S = 30.0
"""How long a key may wait for a worker before that is a reason: as long as one request may take."""
ALL = "*"
"""In place of all virtual clusters; no Cluster has such a name."""


class WaitingWrites:
    """Determines why the leader writes no Works of a virtual cluster.

    Nothing else logs these states (of the lead, the host, workers). Logged once for as long as one
    stays, and shown by /readyz?verbose. execution: the controller of Works.
    """

    def __init__(self, common: Common, works: Works, execution: Controller[WorkKey]) -> None:
        self._common = common
        self._clusters = common.stores.clusters
        self._works = works
        self._execution = execution
        self._before: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        """Virtual cluster, or ALL -> why nothing of it is written, as of the last check."""
        self._once = LogOnce(_log)
        self._synced = 0

    async def run(self) -> None:
        """Check at intervals, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Log what has stayed since the check before, and what has ended."""
        now = dict(self._now())
        lasting = {name: why for name, why in now.items() if name in self._before}
        for name, why in lasting.items():
            self._once.warning("Writing no Works", about=name, virtual_cluster=name, reason=why)
        for name in self.reasons.keys() - now.keys():
            self._once.ended(name)
            _log.info("Writing Works", extra={"virtual_cluster": name})
        self._before, self.reasons = now, lasting

    def _now(self) -> Iterator[tuple[str, str]]:
        synced, self._synced = self._synced, self._execution.succeeded
        if not self._common.lead.is_certain():
            yield ALL, "the lead is in doubt: the host does not confirm the leader Lease"
            return
        waiting = self._execution.queue.waiting()
        for name, vc in self._common.virtual_clusters.items():
            if vc.paused or self._clusters.ours(name) is None:
                continue
            _, oldest_s = waiting.get(name, (0, 0.0))
            if not self._clusters.is_ready(name):
                if self._works.of(name):
                    yield name, self._host(name)
            elif oldest_s >= LATE_S:
                yield name, f"its Works wait for a worker for more than {LATE_S:g} s"
        if self._execution.failed_by and synced == self._execution.succeeded:
            yield ALL, self._execution.failed_by

    def _host(self, name: str) -> str:
        judged = self._common.judgements.of(name)
        if judged is None or judged["status"] == "True":
            return "the Cluster is not judged Ready yet: no probe of the host has ended"
        return f"the host is not ready ({judged['reason']}): {judged['message']}"


FINISH_S = 3.0
"""Time for reconciles in progress to end when the agent stops."""
LAST_EVENTS_S = 0.5
FOLLOW_PATIENCE_S = 3.0
"""How long a list may fail before /readyz reports it: a load balancer may switch over."""
END_S = FINISH_S + LAST_EVENTS_S + 0.5
"""Time for the whole end."""
_SHOWN = 5


class Service:
    """Everything that runs while this process leads."""

    def __init__(self, common: Common, features: tuple[Feature, ...]) -> None:
        self._parts = parts = Parts(common, features)
        self._common = common
        self._tasks: list[asyncio.Task[None]] = []
        self._changed: dict[str, None] = {}
        self._controllers: list[Controller[Any]] = all_controllers(parts)
        parts.controllers += self._controllers
        works = parts.works.watches.works
        execution = [each for each in self._controllers if each.name == EXECUTION]
        self._waiting_writes = [WaitingWrites(common, works, each) for each in execution]
        for client in (common.clients.hub, common.clients.host):
            client.history.recovered.subscribe(self.retry_failed)
            client.history.settled.subscribe(self.retry_failed)
            client.history.settled.subscribe(self._resync)
        if parts.checkpoint is not None:
            common.fence.offline = parts.checkpoint.offline
            parts.checkpoint.offline.on_hub_answer = self.retry_failed
        common.clients.host.history.was_reset.subscribe(parts.works.host_reset)
        common.stores.claims.hold_changed.subscribe(self._hold_changed)
        common.metrics.add_source(parts.collector.samples)
        common.virtual_clusters.changed.subscribe(self._virtual_cluster_changed)

    # --- checks -------------------------------------------------------------------------

    def checks(self) -> dict[str, str | None]:
        """Return what /readyz says of what runs here, by part; None or a Note where it passes."""
        common, stores = self._common, self._common.stores
        lists = unlisted_paths(
            stores.of_host if self._common.fence.is_offline() else stores.reflectors
        )
        missing, checkpoint = self._parts.missing_rights, self._parts.checkpoint
        return {
            "lists": f"waiting for the first list of {', '.join(lists)}" if lists else None,
            "agents": self._check_other_agents(),
            "found": _note(list(common.origins.refused.values())),
            "rights": missing.of_all() or _note(missing.warnings()),
            "checkpoint": checkpoint.warning() if checkpoint is not None else None,
            "writes": _note(
                [
                    f"{name}: {why}"
                    for each in self._waiting_writes
                    for name, why in each.reasons.items()
                ]
            ),
        }

    def _check_other_agents(self) -> str | None:
        """Return which virtual clusters other agents serve; one that has others is ready."""
        vcs, clusters = self._common.virtual_clusters, self._common.stores.clusters
        stepped_back = [
            f"Cluster {name} is served by agent {other}"
            for name in vcs
            if (other := clusters.other_agent(name))
        ]
        text = "; ".join(stepped_back)
        return (Note(text) if len(stepped_back) < len(vcs) else text) or None

    def not_followed(self, server: str) -> str | None:
        """Return what of hub or host is not listed for a while, and why, None if nothing is."""
        stores = self._common.stores
        for lists in (stores.of_hub,) if server == HUB else stores.of_host:
            if lists.failing_s >= FOLLOW_PATIENCE_S:
                return not_listed_text(lists.path, lists.failure)
        return None

    def serves_from_checkpoint(self) -> bool:
        """Return whether any virtual cluster is served from the checkpoint."""
        return self._parts.checkpoint is not None and self._parts.checkpoint.is_served_from()

    def hub_identified(self, hub: str) -> None:
        """Take which hub it is that answers. hub: uid of its kube-system, "" = not readable."""
        if self._parts.checkpoint is not None:
            self._parts.checkpoint.offline.hub_identified(hub)

    def not_accepted(self) -> str | None:
        """Return what the hub has not accepted for as long as it waits for a Lease, or None.

        A Note while it accepts what is reported of others, or would yet.
        """
        if self._parts.lease_namespace.problem:
            return self._parts.lease_namespace.problem
        contact = self._common.contact
        problem = contact.problem_of() or self._parts.credential.problem
        accepts = not contact.problem_of() or contact.accepts_others()
        return Note(problem) if problem and accepts else problem or None

    def stuck(self, hub_answers_since: float) -> dict[str, str | None]:
        """Return the liveness checks: name -> None, or a failure that only a restart can fix.

        hub_answers_since: monotonic time, infinite while it does not.
        """
        limit_s = stuck_after_s(self._common.config)
        ended = ", ".join(task.get_name() for task in self._tasks if task.done())
        late = ", ".join(self._parts.leases.late(limit_s, hub_answers_since))
        return {
            "tasks": f"ended unexpectedly: {ended}" if ended else None,
            "leases": f"no attempt to renew for {limit_s:g}s: {late}" if late else None,
        }

    def retry_failed(self) -> None:
        """After an outage try what failed at once, not when its back-off ends (trap 35).

        What is only done now and then waits for its time: a server that is just back has enough
        to do, the more so with many virtual clusters.
        """
        for controller in self._controllers:
            controller.queue.retry_failed()

    def _hold_changed(self, _cluster: str, _namespace: str, reason: str | None) -> None:
        if reason is None:
            self.retry_failed()

    def lead_regained(self) -> None:
        """Once the lead is certain again, try what failed and report what was not reported."""
        self.retry_failed()
        self._common.signals.lead_regained.emit()

    def _resync(self) -> None:
        """Enqueue all there is: an API server was reset to an earlier state."""
        self._enqueue_all_of(self._common.virtual_clusters)

    def _enqueue_all_of(self, virtual_clusters: Iterable[str]) -> None:
        for controller in self._controllers:
            controller.resync(virtual_clusters)

    def _virtual_cluster_changed(
        self, old: VirtualCluster | None, new: VirtualCluster | None
    ) -> None:
        """Enqueue a virtual cluster that was added, changed or removed for every controller."""
        name = name_of_change(old, new)
        if old is None:
            _log.info("Serving another virtual cluster", extra={"virtual_cluster": name})
            warn_of_few_files(len(self._common.virtual_clusters))
        elif new is None and self._common.stores.clusters.store.get("", name) is None:
            _log.info("No longer serving a virtual cluster", extra={"virtual_cluster": name})
        elif new is None:
            self._report_unserved(name)
        else:
            _log.info("Using changed settings", extra={"virtual_cluster": name})
        if not self._changed:
            # Once for all of a change.
            asyncio.get_running_loop().call_soon(self._enqueue_changed)
        self._changed[name] = None

    def _enqueue_changed(self) -> None:
        names, self._changed = tuple(self._changed), {}
        self._enqueue_all_of(names)

    # --- running ------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then let what is being done end."""
        measure_with(self._common.loop_time)
        async with asyncio.TaskGroup() as group:
            readers = self._start_reading(group)
            stopped = group.create_task(stop.wait(), name="stop")
            synced = group.create_task(self._wait_synced(), name="sync")
            self._tasks += readers
            start = self._common.supervisor.start  # they end by themselves: they are not vital
            readers += [start(group, name, run) for name, run in self._parts.ends.items()]
            await asyncio.wait((stopped, synced), return_when=asyncio.FIRST_COMPLETED)
            workers: list[asyncio.Task[None]] = []
            if synced.done():
                workers = self._start_controllers(group)
                keeping = self._start_keeping(group)
                self._tasks += workers + keeping
                readers += keeping
                await stopped
            self._tasks.clear()
            await self._finish(workers)
            await self._parts.works.scripts.close()
            await self._parts.works.rules.close()
            for task in (*readers, *workers, synced):
                task.cancel()

    def _start_reading(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start what reads and notifies; none of it changes hub or host but by events."""
        works, stores, state = self._parts.works, self._common.stores, self._common.state
        running = {
            **works.runs(),
            **self._parts.runs,
            "node trust": stores.trust.run,
            "state": state.follow_time,
        }
        for controller in self._controllers:
            running |= controller.spec.runs
        start = self._common.supervisor.start
        return [
            start(group, "reflector", reflector.run, f"reflector {reflector.path}")
            for reflector in stores.reflectors
        ] + [start(group, name, run) for name, run in running.items()]

    async def _wait_synced(self) -> None:
        timeout_s = self._common.config.cluster_cache_sync_timeout
        stores, checkpoint = self._common.stores, self._parts.checkpoint
        if checkpoint is not None:
            await self._wait_listed_or_offline(checkpoint.offline)
        if self._common.fence.is_offline():
            return
        await wait_all_synced(stores.reflectors, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._parts.works.rules.wait_answered()
        except TimeoutError:
            _log.warning("Serving without the interpreter rules: the hub has not sent them yet")

    async def _wait_listed_or_offline(self, offline: Offline) -> None:
        """Wait for all first lists; for those of the host only if the hub's are served offline."""
        stores, timeout_s = self._common.stores, self._common.config.cluster_cache_sync_timeout
        listed = asyncio.ensure_future(wait_all_synced(stores.reflectors, timeout_s))
        begun = asyncio.ensure_future(offline.has_begun.wait())
        try:
            await asyncio.wait((listed, begun), return_when=asyncio.FIRST_COMPLETED)
        finally:
            listed.cancel()
            begun.cancel()
            await asyncio.gather(listed, begun, return_exceptions=True)
        await wait_all_synced(stores.of_host, timeout_s)

    def _start_controllers(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        common = self._common
        for name in common.state.clusters():
            if common.stores.clusters.store.get("", name) is not None:
                self._report_unserved(name)
        names = ",".join(common.virtual_clusters)
        _log.info("Serving", extra={"virtual_clusters": names})
        for controller in self._controllers:
            controller.enqueue_initial()
        start = common.supervisor.start
        return [start(group, "controller", each.run, each.name) for each in self._controllers]

    def _start_keeping(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start what never ends by itself: the end of the service does not wait for it."""
        start = self._common.supervisor.start
        keeping = [start(group, "waiting writes", each.run) for each in self._waiting_writes]
        if self._common.config.resync_period:
            keeping.append(start(group, "resync", self._keep_resyncing))
        return keeping + [start(group, name, run) for name, run in self._parts.keeps.items()]

    async def _keep_resyncing(self) -> None:
        period_s, works = self._common.config.resync_period, self._parts.works
        while True:
            await asyncio.sleep(period_s)
            for key in works.affected.of_clusters(self._common.virtual_clusters):
                self._common.signals.work_due.emit(key)

    def _report_unserved(self, name: str) -> None:
        """Warn of a virtual cluster that left the settings."""
        if name not in self._common.virtual_clusters:
            _log.warning(
                "Not serving a virtual cluster that is no longer in the settings; nothing of "
                "it is deleted. To remove it run karmada-vc-agent leave",
                extra={"virtual_cluster": name},
            )

    async def _finish(self, workers: list[asyncio.Task[None]]) -> None:
        _log.info("Stopping")
        for controller in self._controllers:
            controller.queue.close()
        if workers:
            await asyncio.wait(workers, timeout=FINISH_S)
        await self._parts.works.recorder.drain(LAST_EVENTS_S)


def _note(texts: list[str]) -> Note | None:
    """Return the first few of many texts, and how many there are more."""
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return Note("; ".join([*texts[:_SHOWN], *more])) or None


def stuck_after_s(config: AgentConfig) -> float:
    """Return after how long without an attempt at a Lease something must be wrong here.

    Longer than one attempt can take with a slow hub, which is a read and a write of up to
    30 s each: two minutes, or six times the pause between two attempts.
    """
    interval_s = config.cluster_lease_duration * config.cluster_lease_renew_interval_fraction
    return max(120.0, 6 * interval_s)
