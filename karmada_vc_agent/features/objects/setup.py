"""Builds what serves VirtualCluster objects, and declares the writer of their status."""

from collections.abc import Iterable
from functools import partial

from karmada_vc_agent.features.objects.definitions import Definitions
from karmada_vc_agent.features.objects.drain import Drain
from karmada_vc_agent.features.objects.object_names import is_for
from karmada_vc_agent.features.objects.operator import Operator
from karmada_vc_agent.features.objects.start import ObjectsStart
from karmada_vc_agent.features.objects.status_writer import StatusWriter
from karmada_vc_agent.features.objects.work_tally import WorkTally
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.kube.first_lists import wait_all_synced
from karmada_vc_agent.kube.keys import itself, same
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.conditions import of_objects
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.permitted import check_permitted
from karmada_vc_agent.runner.queues import FEW_WORKERS
from karmada_vc_agent.runner.removal import removal_of

SETTLES_S = 0.2
"""Changes arrive in groups; one write is enough for those of this time."""
WORKS_SETTLE_S = 2.0


def setup(parts: Parts, started: ObjectsStart) -> ControllerSpec[str]:
    """Declare the controller. started: what was read before."""
    source, common, stores, config = (
        started.source,
        parts.common,
        parts.common.stores,
        parts.common.config,
    )
    queue = common.queues.by_name()
    definitions = Definitions(
        source,
        common.live,
        partial(check_permitted, common),
        partial(queue.add_after, delay_s=SETTLES_S),
        partial(is_for, config.agent_name),
    )
    common.live.changed.subscribe(definitions.settings_changed)
    tally = WorkTally(common.signals.work, common.scopes)
    for name in started.preserved:
        if source.rival(name) is None:  # else its Works are of the one that has the name
            parts.works.finalizer.preserve(name, is_on=True)
    host = common.clients.host
    drain = Drain(host, definitions, removal_of(parts))
    operator = Operator(config.agent_name, lambda: host.credentials, definitions.seen, drain.step)

    async def operate() -> None:
        # A removal takes what is in no store for deleted.
        await wait_all_synced(stores.reflectors, config.cluster_cache_sync_timeout)
        await operator.run()

    conditions = of_objects(parts)
    writer = StatusWriter(
        host,
        definitions,
        clusters=stores.clusters,
        membership=stores.membership,
        works=tally,
        judgements=common.judgements,
        reachable=parts.reachable,
        contact=common.contact,
        trouble=common.registrations.trouble,
        stays_away=common.registrations.stays_away,
        conditions=conditions.of,
    )
    return ControllerSpec(
        "virtual-cluster-objects",
        queue,
        writer.reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(stores.membership.changed.subscribe, itself, SETTLES_S),
            Enqueues(common.judgements.changed.subscribe, itself, SETTLES_S),
            Enqueues(common.contact.changed.subscribe, itself, SETTLES_S),
            Enqueues(parts.reachable.changed.subscribe, itself, SETTLES_S),
            Enqueues(stores.clusters.store.add_handler, _name_of, SETTLES_S),
            Enqueues(tally.changed.subscribe, itself, WORKS_SETTLE_S),
            *conditions.sources(SETTLES_S),
        ),
        resync_keys=same,
        runs={"virtual cluster objects": operate},
    )


def _name_of(old: Object | None, new: Object | None) -> Iterable[str]:
    cluster = new or old
    return (cluster["metadata"]["name"],) if cluster is not None else ()
