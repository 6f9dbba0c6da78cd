"""The writer of the checkpoint and what serves from it, connected to the agent."""

from collections.abc import Iterator
from datetime import UTC, datetime

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint.entry_source import EntrySource
from karmada_vc_agent.features.checkpoint.offline_serving import OfflineServing
from karmada_vc_agent.features.checkpoint.reader import Checkpoint
from karmada_vc_agent.features.checkpoint.writer import CONTACT_S, CheckpointWriter
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.domain import secret_names
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.telemetry.families import CLUSTER, Families, Gauge
from karmada_vc_agent.telemetry.health import Remark
from karmada_vc_agent.telemetry.metrics import Sample

AGE = "checkpoint_age_seconds"
METRICS = Families(
    {
        AGE: Gauge(
            "Age of what the hub said that a virtual cluster is served from; "
            "0 while it is the hub's.",
            (CLUSTER,),
        )
    }
)


class CheckpointParts:
    """writer: keeps the checkpoint. offline: serves from that of an earlier process."""

    def __init__(self, checkpoint: Checkpoint, common: Common, works: WorkParts) -> None:
        clusters, rules = common.stores.clusters, works.rules.stores
        hub = common.clients.hub_urgent

        def failing_s(name: str) -> float:
            return works.watches.failing_s(name) if name else common.stores.of_hub.failing_s

        self._names, self._clusters = common.virtual_clusters, clusters
        self._outdated, self._secrets = checkpoint.outdated, checkpoint.secrets
        self.writer = CheckpointWriter(
            checkpoint.secrets,
            EntrySource(
                clusters=clusters,
                works=works.watches.works,
                rules=rules,
                served=common.virtual_clusters,
                template=common.config.namespace_template,
                hub=lambda: common.hub.uid,
                is_in_contact=lambda name: (
                    common.clients.hub.is_reachable and not failing_s("") and not failing_s(name)
                ),
                now=common.clock.now,
            ),
            checkpoint.outdated,
            common.clock.monotonic,
            contact_s=contact_s(common.config),
        )
        self.offline = OfflineServing(
            checkpoint.saved,
            clusters.store,
            works.watches.works,
            rules,
            lambda: hub.answered_at if hub.is_reachable else None,
            is_away=checkpoint.is_hub_away,
            failing_s=failing_s,
            clock=common.clock.monotonic,
        )
        works.rules.were_seen = bool(checkpoint.saved.rules())
        # It may have answered while the agent's state was read, which is not notified again.
        self.offline.hub_known(common.hub.uid)
        common.signals.work.subscribe(self.writer.work_changed)
        common.virtual_clusters.changed.subscribe(lambda *_: self.writer.clusters_changed())
        clusters.store.add_handler(lambda *_: self.writer.clusters_changed())
        for store in rules:
            store.add_handler(lambda *_: self.writer.rules_changed())
        works.finalizer.before_removal.append(
            lambda cluster, work: self.writer.strike(cluster, work["metadata"]["name"])
        )
        common.clients.host.history.on_back(self.writer.host_restored)
        common.clients.hub.history.on_settled(self.writer.hub_restored)

    def remark(self) -> str | None:
        """Return what is served from the checkpoint, and what of it is not, None = nothing."""
        return Remark("; ".join(self._messages())) or None

    def is_served_from(self) -> bool:
        """Return whether any virtual cluster is served from the checkpoint."""
        return any(self.offline.as_of(name) is not None for name in self._names)

    def problem_of(self, name: str) -> tuple[str, str] | None:
        """Return why a virtual cluster is not in the checkpoint: reason and text, None = it is."""
        if name in self._secrets.too_large:
            return "TooLarge", "its Works do not fit into the checkpoint"
        error = self.writer.problem_of(name)
        if error is not None:
            return _not_written(error)
        refusal = self.offline.refusals.get(name)
        is_written = self.writer.has(name) and not self._outdated.has(name)
        if refusal is None or is_written:
            return None
        return str(refusal.reason), f"its entries are not used: {refusal}"

    def is_outdated(self, name: str) -> bool:
        """Return whether the next start would not use yet the entries of a virtual cluster."""
        return self._outdated.has(name)

    def samples(self) -> Iterator[Sample]:
        """Return the age of the saved state that virtual clusters are served from."""
        for name in self._names:
            at = self.offline.as_of(name)
            if at is None and self._clusters.ours(name) is None:
                continue  # it was deleted on the hub, or is not registered yet
            age_s = (datetime.now(UTC) - at).total_seconds() if at is not None else 0.0
            yield Sample(AGE, (name,), max(age_s, 0.0))

    def _messages(self) -> Iterator[str]:
        for name in self._names:
            at = self.offline.as_of(name)
            if at is not None:
                yield f"{name} is served as the hub said at {at.isoformat(timespec='seconds')}"
            problem = self.problem_of(name)
            if problem is not None:
                yield f"{name}: {problem[1]}"


def _not_written(error: KubeError) -> tuple[str, str]:
    if isinstance(error, ForbiddenError) and error.need is not None:
        what = "the agent has no rights to the Secrets of its checkpoint, so a start without the "
        return "NoRights", what + "hub would repair nothing; run karmada-vc-agent join"
    return "NotWritten", "the checkpoint cannot be written; the agent's log says why"


def contact_s(config: AgentConfig) -> float:
    """Return how often the contact is noted: what may soon be too old is noted more often."""
    return min(CONTACT_S, config.offline_max_age / 4 or CONTACT_S)


def is_of_checkpoint(agent: str, need: Need) -> bool:
    """Return whether a right in the agent's namespace is to its checkpoint, which is optional."""
    # Only these Secrets are created by the agent itself, which RBAC cannot confine by name.
    is_named = need.verb == "create" or need.name in secret_names(agent)
    return (need.group, need.resource) == ("", "secrets") and is_named
