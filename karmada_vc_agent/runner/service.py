"""All that runs while this process leads, in one task group."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from karmada_vc_agent.cluster.virtual_clusters import name_of_change
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.kube.flows import low_priority, measure_with
from karmada_vc_agent.kube.informers import not_listed_text, unlisted_paths, wait_all_synced
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import EXECUTION, VirtualCluster
from karmada_vc_agent.runner.clients import warn_of_few_files
from karmada_vc_agent.runner.collector import HUB
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.controllers import all_controllers
from karmada_vc_agent.runner.parts import Feature, Parts, Runs
from karmada_vc_agent.telemetry.endpoints import Note
from karmada_vc_agent.work.works import WorkKey, Works

_log = logging.getLogger(__name__)

LATE_S = 30.0
"""How long a key may wait for a worker: as long as one request may take."""
ALL = "*"
"""In place of all virtual clusters; no Cluster has such a name."""


def why_not_written(
    common: Common, works: Works, execution: Controller[WorkKey]
) -> Iterator[tuple[str, str]]:
    """Yield why the leader writes no Works: a virtual cluster, or ALL, with the reason."""
    if not common.lead.is_certain():
        yield ALL, "the lead is in doubt: the host does not confirm the leader Lease"
        return
    waiting, clusters = execution.queue.waiting(), common.stores.clusters
    vcs = common.virtual_clusters.items()
    served = [name for name, vc in vcs if not vc.paused and clusters.ours(name) is not None]
    unready = {name for name in served if not clusters.is_ready(name)}
    with_works = {name for name, _ in works.all()} if unready else set()
    for name in served:
        if name not in unready:
            if name in waiting and waiting[name][1] >= LATE_S:
                yield name, f"its Works wait for a worker for more than {LATE_S:g} s"
        elif name in with_works:
            judged = common.judgements.of(name)
            why = "the Cluster is not judged Ready yet: no probe of the host has ended"
            if judged is not None and judged["status"] != "True":
                why = f"the host is not ready ({judged['reason']}): {judged['message']}"
            yield name, why
    if execution.failed_by:
        yield ALL, execution.failed_by


CHANGES_SETTLE_S = 1.0
"""Many may change, one by one, and each time all nodes and pods are enqueued."""
FINISH_S = 3.0
LAST_EVENTS_S = 0.5
FOLLOW_PATIENCE_S = 3.0
"""How long a list may fail before /readyz reports it: a load balancer may switch over."""
END_S = FINISH_S + LAST_EVENTS_S + 0.5
_SHOWN = 5


class Service:
    def __init__(self, common: Common, features: tuple[Feature, ...]) -> None:
        self._parts = parts = Parts(common, features)
        self._common = common
        self._tasks: list[asyncio.Task[None]] = []
        self._changed: dict[str, None] = {}
        self._controllers: list[Controller[Any]] = all_controllers(parts)
        parts.controllers += self._controllers
        if common.config.resync_period:
            parts.keeps["resync"] = self._keep_resyncing
        for client in (common.clients.hub, common.clients.host):
            client.history.recovered.subscribe(self.retry_failed)
            client.history.settled.subscribe(self.retry_failed)
            # It was reset to an earlier state: enqueue all there is.
            resync_all = low_priority()(lambda: self._resync(common.virtual_clusters))
            client.history.settled.subscribe(resync_all)
        common.fence.offline.on_hub_answer = self.retry_failed
        common.clients.host.history.was_reset.subscribe(parts.works.host_reset)
        common.stores.claims.hold_changed.subscribe(self._hold_changed)
        common.metrics.add_source(parts.collector.samples)
        common.virtual_clusters.everywhere.changed.subscribe(self._virtual_cluster_changed)

    def checks(self) -> dict[str, str | None]:
        """Return what /readyz says of what runs here, by part; None or a Note where it passes."""
        common, stores = self._common, self._common.stores
        is_offline = common.fence.offline.is_fencing
        lists = unlisted_paths(stores.of_host if is_offline else stores.reflectors)
        missing, works = self._parts.missing_rights, self._parts.works.watches.works
        writers = [each for each in self._controllers if each.name == EXECUTION]
        reasons = [pair for each in writers for pair in why_not_written(common, works, each)]
        return {
            "lists": f"waiting for the first list of {', '.join(lists)}" if lists else None,
            "agents": self._check_other_agents(),
            "found": _note(list(common.origins.refused.values())),
            "rights": missing.of_all() or _note(missing.warnings()),
            "checkpoint": common.fence.offline.warning(),
            "writes": _note([f"{name}: {why}" for name, why in reasons]),
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

    def not_accepted(self) -> str | None:
        """Return what the hub does not accept, or None; a Note while it accepts anything else."""
        if self._parts.lease_namespace.problem:
            return self._parts.lease_namespace.problem
        contact = self._common.contact
        problem = contact.problem_of() or self._parts.credential.problem
        accepts = not contact.problem_of() or contact.accepts_others()
        return Note(problem) if problem and accepts else problem or None

    def stuck(self, hub_answers_since: float) -> dict[str, str | None]:
        """Return the liveness checks: name -> None, or a failure that only a restart can fix."""
        config = self._common.config
        interval_s = config.cluster_lease_duration * config.cluster_lease_renew_interval_fraction
        # One attempt may take a read and a write of up to 30 s each.
        limit_s = max(120.0, 6 * interval_s)
        ended = ", ".join(task.get_name() for task in self._tasks if task.done())
        late = ", ".join(self._parts.leases.late(limit_s, hub_answers_since))
        return {
            "tasks": f"ended unexpectedly: {ended}" if ended else None,
            "leases": f"no attempt to renew for {limit_s:g}s: {late}" if late else None,
        }

    def retry_failed(self) -> None:
        """After an outage try what failed at once (trap 35); what is done now and then waits."""
        for controller in self._controllers:
            controller.queue.retry_failed()

    def _hold_changed(self, _cluster: str, _namespace: str, reason: str | None) -> None:
        if reason is None:
            self.retry_failed()

    def lead_regained(self) -> None:
        """Once the lead is certain again, try what failed and report what was not reported."""
        self.retry_failed()
        self._common.signals.lead_regained.emit()

    def _resync(self, virtual_clusters: Iterable[str]) -> None:
        for controller in self._controllers:
            controller.resync(virtual_clusters)

    def _virtual_cluster_changed(
        self, old: VirtualCluster | None, new: VirtualCluster | None
    ) -> None:
        """Enqueue a virtual cluster that was added, changed or removed for every controller."""
        name = name_of_change(old, new)
        if not self._common.virtual_clusters.serves(name):
            pass  # but what is of no group is enqueued, as nodes: it may have had them
        elif old is None:
            _log.info("Serving another virtual cluster", extra={"virtual_cluster": name})
            warn_of_few_files(len(self._common.virtual_clusters))
        elif new is None and self._common.stores.clusters.store.get("", name) is None:
            _log.info("No longer serving a virtual cluster", extra={"virtual_cluster": name})
        elif new is None:
            self._report_unserved(name)
        else:
            _log.info("Using changed settings", extra={"virtual_cluster": name})
        if new is None or not self._changed:
            delay_s = CHANGES_SETTLE_S if new is not None else 0.0  # its record is removed soon
            asyncio.get_running_loop().call_later(delay_s, self._enqueue_changed)
        self._changed[name] = None

    def _enqueue_changed(self) -> None:
        changed, self._changed = self._changed, {}
        if changed:
            self._resync(tuple(filter(self._common.virtual_clusters.serves, changed)))

    async def run(self, stop: asyncio.Event) -> None:
        measure_with(self._common.loop_time)
        async with asyncio.TaskGroup() as group:
            readers = self._start_reading(group)
            stopped = group.create_task(stop.wait(), name="stop")
            synced = group.create_task(self._wait_synced(), name="sync")
            self._tasks += readers
            readers += self._start(group, self._parts.ends)  # they are not vital
            await asyncio.wait((stopped, synced), return_when=asyncio.FIRST_COMPLETED)
            workers: list[asyncio.Task[None]] = []
            if synced.done():
                workers = self._start_controllers(group)
                # What never ends by itself: the end of the service does not wait for it.
                keeping = self._start(group, self._parts.keeps)
                self._tasks += workers + keeping
                readers += keeping
                await stopped
            self._tasks.clear()
            _log.info("Stopping")
            for controller in self._controllers:
                controller.queue.close()
            if workers:
                await asyncio.wait(workers, timeout=FINISH_S)
            works = self._parts.works
            await works.recorder.drain(LAST_EVENTS_S)
            await works.scripts.close()
            await works.rules.close()
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
        return self._start(group, running) + [
            start(group, "reflector", reflector.run, f"reflector {reflector.path}")
            for reflector in stores.reflectors
        ]

    def _start(
        self, group: asyncio.TaskGroup, runs: Mapping[str, Runs]
    ) -> list[asyncio.Task[None]]:
        start = self._common.supervisor.start
        return [start(group, name, run) for name, run in runs.items()]

    async def _wait_synced(self) -> None:
        timeout_s = self._common.config.cluster_cache_sync_timeout
        stores, offline = self._common.stores, self._common.fence.offline
        listing = wait_all_synced(stores.reflectors, timeout_s)
        waits = [asyncio.ensure_future(each) for each in (listing, offline.has_begun.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        await wait_all_synced(stores.of_host, timeout_s)
        if offline.is_fencing:
            return
        await wait_all_synced(stores.reflectors, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._parts.works.rules.wait_answered()
        except TimeoutError:
            _log.warning("Serving without the interpreter rules: the hub has not sent them yet")

    def _start_controllers(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        common = self._common
        for name in common.state.clusters():
            if common.stores.clusters.store.get("", name) is not None:
                self._report_unserved(name)
        _log.info("Serving", extra={"virtual_clusters": listed([*common.virtual_clusters])})
        for controller in self._controllers:
            controller.enqueue_initial()
        start = common.supervisor.start
        return [start(group, "controller", each.run, each.name) for each in self._controllers]

    async def _keep_resyncing(self) -> None:
        period_s, works = self._common.config.resync_period, self._parts.works
        while True:
            await asyncio.sleep(period_s)
            with low_priority():
                for key in works.affected.of_clusters(self._common.virtual_clusters):
                    self._common.signals.work_due.emit(key)

    def _report_unserved(self, name: str) -> None:
        served = self._common.virtual_clusters.everywhere.values()
        if not any(name in (vc.name, *vc.former_names) for vc in served):
            _log.warning(
                "Not serving a virtual cluster that is no longer in the settings; nothing of "
                "it is deleted. To remove it run karmada-vc-agent leave",
                extra={"virtual_cluster": name},
            )


def _note(texts: list[str]) -> Note | None:
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return Note("; ".join([*texts[:_SHOWN], *more])) or None
