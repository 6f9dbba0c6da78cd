"""What runs while this process leads: made from AgentConfig here, in one task group."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from karmada_vc_agent.apply.held_changes import HeldChanges
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.controllers.placement_guard import IN_EFFECT_WITHIN_S
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.reflector import unlisted, wait_all_synced
from karmada_vc_agent.kube.supervisor import Supervisor
from karmada_vc_agent.lifecycle.agent_state import AgentState
from karmada_vc_agent.lifecycle.lead import Lead
from karmada_vc_agent.lifecycle.progress import vital_checks
from karmada_vc_agent.lifecycle.resync import resync
from karmada_vc_agent.model.switches import CLUSTER_STATUS, enabled_controllers, feature_gates
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.service.clients import Clients
from karmada_vc_agent.service.common import Common, Discoveries
from karmada_vc_agent.service.controllers import all_controllers
from karmada_vc_agent.service.leases import Leases
from karmada_vc_agent.service.placement_parts import PlacementParts
from karmada_vc_agent.service.queues import Queues
from karmada_vc_agent.service.signals import Signals
from karmada_vc_agent.service.stores import Stores
from karmada_vc_agent.service.translation_contexts import translation_settings
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.telemetry.collector import MetricsCollector, Sources, controller_label
from karmada_vc_agent.telemetry.metrics import ControllerMeter, Metrics
from karmada_vc_agent.views.agent_node import AgentNode
from karmada_vc_agent.views.divisions import Divisions
from karmada_vc_agent.views.judgements import HubContact, Judgements

_log = logging.getLogger(__name__)

FINISH_S = 3.0
"""What is being done may end within this time when the agent is told to stop."""
LAST_EVENTS_S = 0.5
UNKNOWN_ON_HUB_FOR_S = 30.0
"""It only says more of kinds that the host does not serve, and it is far away."""


class Service:
    """Everything that runs while this process leads."""

    def __init__(
        self,
        config: AgentConfig,
        clients: Clients,
        state: AgentState,
        host_uid: str,
        virtual_clusters: Mapping[str, VirtualCluster],
        reregister: frozenset[str],
        lead: Lead,
        metrics: Metrics,
        node: str = "",
    ) -> None:
        stores = Stores(config, clients, host_uid)
        queues, signals = Queues(config, stores.claims), Signals()
        self._common = common = Common(
            config=config,
            clients=clients,
            state=state,
            lead=lead,
            metrics=metrics,
            virtual_clusters=virtual_clusters,
            settings=translation_settings(config),
            switches=enabled_controllers(config.controllers),
            gates=feature_gates(config.feature_gates),
            stores=stores,
            queues=queues,
            signals=signals,
            held_changes=HeldChanges(signals.work_due.emit),
            discoveries=Discoveries(
                hub=Discovery(clients.hub, unknown_for_s=UNKNOWN_ON_HUB_FOR_S),
                host=Discovery(clients.host_urgent),
            ),
            judgements=Judgements(),
            contact=HubContact(config.cluster_lease_duration),
            divisions=Divisions(),
            agent_node=AgentNode(node, stores.nodes, stores.membership),
            supervisor=Supervisor(metrics.part_restarted),
        )
        if CLUSTER_STATUS in common.switches:
            stores.clusters.judge = common.judgements
        self._tasks: list[asyncio.Task[None]] = []
        self._leases = Leases(common.queues.leases)
        self._works = works = WorkParts(common)
        works.registered.gone.subscribe(self._leases.forget)
        registration = RegistrationController(
            clients.hub, stores.clusters, state, virtual_clusters, reregister
        )
        self._placement = placement = PlacementParts(
            common, works.watches.works, works.events, registration
        )
        collector = self._new_collector()
        self._controllers: list[Controller[Any]] = all_controllers(
            common, works, placement, self._leases, collector, registration
        )
        for client in (clients.hub, clients.host):
            client.on_recovery(self.retry_failed)
            client.history.on_settled(self.retry_failed)
            client.history.on_settled(self._resync)
        clients.host.history.on_back(works.host_went_back)
        for controller in self._controllers:
            meter = ControllerMeter(metrics, controller_label(controller))
            controller.instrument = controller.queue.instrument = meter
            controller.supervisor = common.supervisor
            controller.connect()
        metrics.add_source(collector.samples)

    def _new_collector(self) -> MetricsCollector:
        stores, works = self._common.stores, self._works
        return MetricsCollector(
            self._common.virtual_clusters,
            Sources(
                clusters=stores.clusters,
                works=works.watches.works,
                membership=stores.membership,
                host_objects=lambda: (stores.namespaces, *works.informers.stores()),
                refused=works.execution.refusals,
                escaped=self._placement.escapes.escaped,
                controllers=lambda: self._controllers,
                events_dropped=lambda: works.recorder.dropped,
                is_accepted=self._common.contact.is_accepted,
                quota_stalled=self._common.divisions.all,
            ),
        )

    # --- what others ask ----------------------------------------------------------------

    def unlisted(self) -> list[str]:
        """Return the paths whose first list has not come yet."""
        return unlisted(self._common.stores.reflectors)

    def stepped_back(self) -> list[str]:
        """Return which virtual clusters are not served here since another agent does."""
        clusters = self._common.stores.clusters
        return [
            f"Cluster {name} is served by agent {other}"
            for name in self._common.virtual_clusters
            if (other := clusters.other_agent(name))
        ]

    def not_accepted(self) -> str | None:
        """Return what the hub has not accepted for as long as it waits for a Lease, or None."""
        return self._common.contact.trouble()

    def stuck(self, hub_answers_since: float) -> dict[str, str | None]:
        """Return the liveness checks of what runs here: name -> None or what is wrong.

        hub_answers_since: monotonic time, infinite while it does not.
        """
        late_after_s = stuck_after_s(self._common.config)
        return vital_checks(self._tasks, self._leases.progress, late_after_s, hub_answers_since)

    def _resync(self) -> None:
        """Enqueue all there is: an API server went back in time, and nothing is as it was told."""
        for controller in self._controllers:
            controller.resync()

    def retry_failed(self) -> None:
        """After an outage try what failed at once, not when its back-off ends (trap 35).

        What is only done now and then waits for its time: a server that is just back has enough
        to do, the more so with many virtual clusters.
        """
        for controller in self._controllers:
            controller.queue.retry_failed()

    def lead_regained(self) -> None:
        """Once the lead is certain again, try what failed and report what was not reported."""
        self.retry_failed()
        for name in self._common.virtual_clusters:
            self._common.queues.leases.add(name)
            self._common.queues.status.add(name)

    # --- running ------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then let what is being done end."""
        common = self._common
        async with asyncio.TaskGroup() as group:
            readers = self._start_reading(group)
            stopped = group.create_task(stop.wait(), name="stop")
            synced = group.create_task(self._wait_synced(), name="sync")
            self._tasks += readers
            await asyncio.wait((stopped, synced), return_when=asyncio.FIRST_COMPLETED)
            workers: list[asyncio.Task[None]] = []
            if synced.done():
                self._report_unserved()
                names = ",".join(common.virtual_clusters)
                _log.info("Serving", extra={"virtual_clusters": names})
                for controller in self._controllers:
                    controller.enqueue_initial()
                workers = [
                    common.supervisor.start(
                        group, "controller", partial(self._work, controller), controller.name
                    )
                    for controller in self._controllers
                ]
                self._tasks += workers
                readers += self._start_resync(group)
                await stopped
            self._tasks.clear()
            await self._finish(workers)
            await self._works.scripts.close()
            await self._works.interpreter_rules.close()
            for task in (*readers, *workers, synced):
                task.cancel()

    def _start_reading(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start what reads and what tells; nothing here changes hub or host but events."""
        works, start = self._works, self._common.supervisor.start
        running: dict[str, Callable[[], Awaitable[None]]] = {
            "informers": works.informers.run,
            "informers of shared objects": works.shared_informers.run,
            "informers of node groups": works.group_informers.run,
            "work watches": works.watches.run,
            "events": works.recorder.run,
            "policies": self._placement.policies.run,
            "node trust": self._common.stores.trust.run,
            "interpreter rules": works.interpreter_rules.run,
            "hook probes": works.hook_probes.run,
            "served kinds": works.served_kinds.run,
        }
        running["state"] = self._common.state.follow_time
        if works.endpoint_slices is not None:
            running["slices"] = works.endpoint_slices.run
        return [
            start(group, "reflector", reflector.run, f"reflector {reflector.path}")
            for reflector in self._common.stores.reflectors
        ] + [start(group, name, run) for name, run in running.items()]

    async def _wait_synced(self) -> None:
        timeout_s = self._common.config.cluster_cache_sync_timeout
        await wait_all_synced(self._common.stores.reflectors, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._works.interpreter_rules.wait_answered()
        except TimeoutError:
            _log.warning("Serving without the interpreter rules: the hub has not sent them yet")

    def _start_resync(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        common = self._common
        if not common.config.resync_period:
            return []
        again = partial(
            resync,
            common.config.resync_period,
            common.virtual_clusters,
            self._works.watches.works,
            common.queues.works.add,
        )
        return [common.supervisor.start(group, "resync", again)]

    async def _work(self, controller: Controller[Any]) -> None:
        if controller.queue is self._common.queues.works:
            # No workload comes before what keeps its pods in place, or before it is known why not.
            await self._placement.guard.wait_settled(IN_EFFECT_WITHIN_S)
        await controller.run()

    def _report_unserved(self) -> None:
        """Warn of virtual clusters that left the settings."""
        common = self._common
        for name in common.state.clusters():
            is_there = common.stores.clusters.store.get("", name) is not None
            if name not in common.virtual_clusters and is_there:
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
        await self._works.recorder.drain(LAST_EVENTS_S)


def stuck_after_s(config: AgentConfig) -> float:
    """Return after how long without an attempt at a Lease something must be wrong here.

    Longer than one attempt can take with a slow hub, which is a read and a write of up to
    30 s each: two minutes, or six times the pause between two attempts.
    """
    interval_s = config.cluster_lease_duration * config.cluster_lease_renew_interval_fraction
    return max(120.0, 6 * interval_s)
