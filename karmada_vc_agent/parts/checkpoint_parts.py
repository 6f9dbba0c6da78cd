"""What keeps the checkpoint, and who tells it of what the hub says."""

from karmada_vc_agent.lifecycle.checkpoint_entries import Knowledge
from karmada_vc_agent.lifecycle.checkpoint_writer import CheckpointWriter
from karmada_vc_agent.parts.common import Common
from karmada_vc_agent.parts.work_parts import WorkParts


def checkpoint_parts(common: Common, works: WorkParts) -> CheckpointWriter | None:
    """Return what writes the checkpoint, None where none is kept."""
    if common.checkpoint is None:
        return None
    clusters, rules = common.stores.clusters, works.interpreting.rules.stores
    writer = CheckpointWriter(
        common.checkpoint,
        Knowledge(
            clusters=clusters,
            works=works.watches.works,
            rules=rules,
            served=common.virtual_clusters,
            template=common.config.namespace_template,
            hub=lambda: common.hub.uid,
            is_in_contact=lambda: common.clients.hub.is_reachable,
            now=common.clock.now,
        ),
        common.clock.monotonic,
    )
    common.signals.work.subscribe(writer.work_changed)
    common.virtual_clusters.changed.subscribe(lambda *_: writer.clusters_changed())
    clusters.store.add_handler(lambda *_: writer.clusters_changed())
    for store in rules:
        store.add_handler(lambda *_: writer.rules_changed())
    works.finalizer.strike = writer.strike
    return writer
