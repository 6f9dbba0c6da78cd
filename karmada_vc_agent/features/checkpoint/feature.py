"""The state of the hub, saved on the host for a start without it.

What is saved is put into the stores that the reflectors feed, so all readers serve from it. The
first complete list replaces it, store by store: until then a store is not synced, and deletions and
writes to the hub wait for that.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint import entries, reader
from karmada_vc_agent.features.checkpoint.entries import CheckpointSecrets, UnusableError
from karmada_vc_agent.features.checkpoint.reader import Checkpoint, CheckpointFields, Saved, is_kept
from karmada_vc_agent.features.checkpoint.writer import CONTACT_S, CheckpointWriter
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, Need, NotFoundError
from karmada_vc_agent.kube.flows import LogOnce, retry_until_done
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import CHECKPOINT_ANNOTATION, secret_names
from karmada_vc_agent.runner.common import Common, Offline
from karmada_vc_agent.runner.hub_presence import PATIENCE_S, HubStart
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts, Say
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.telemetry.endpoints import Note
from karmada_vc_agent.telemetry.metrics import Sample
from karmada_vc_agent.work.works import Works

_log = logging.getLogger(__name__)

CHECK_S, CHECK_CLUSTER_S = 0.2, 0.001
_KINDS = ("ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration")
"""Of the stores of rules, in their order."""
LISTS_S, ALL_LISTS_S = 30.0, 300.0
"""How long a hub that answers may take for the next first list, and for all: it is newer."""


@dataclass(eq=False)
class OfflineServing(Offline):
    """Fills stores from what was saved.

    rules: stores of customizations and webhook configurations. is_away: whether the hub did not
    answer when this process began to serve. answered_at: when it did last, None while it is away.
    failing_s: for how long no response listed Clusters ("") or the Works of a Cluster.
    """

    saved: Saved
    clusters: Store[Object]
    works: Works
    rules: tuple[Store[Object], ...]
    answered_at: Callable[[], float | None]
    is_away: bool
    failing_s: Callable[[str], float] = lambda _: 0.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        super().__init__()
        self._began_at = self._listed_at = self.clock()
        self._since: dict[str, float] = {}
        self._logged: set[str] = set()
        self._heads = {n: head for n in self.saved.clusters if (head := self.saved.head(n))}
        self._times: dict[str, datetime] = {}
        self._log_refusals()

    def as_of(self, name: str) -> datetime | None:
        """Return the time of the saved state of a virtual cluster; None once the hub listed it."""
        store = self.works.store(name)
        is_listed = self.clusters.is_synced and (store is None or store.is_synced)
        return None if is_listed else self._times.get(name)

    async def run(self) -> None:
        """Fill stores whose first list is overdue, until all lists are complete."""
        while not self.clusters.is_synced or self.saved.clusters or self.is_fencing:
            if not self.clusters.is_synced and not self.has_begun.is_set():
                self._fill_clusters()
            for name in self.saved.clusters if self.clusters.is_synced else ():
                if self.works.store(name) is None:
                    self.saved.forget(name)
                elif uid_of(self.clusters.get("", name)) != self._heads[name].uid:
                    detail = "the hub has another Cluster of this name"
                    self.saved.refuse(name, UnusableError(entries.Reason.CLUSTER, detail))
            for name in self.saved.clusters:
                self._fill_works(name)
            self._log_refusals()
            await asyncio.sleep(CHECK_S + CHECK_CLUSTER_S * len(self.saved.clusters))
            if self.is_fencing and self.clusters.is_synced:
                self.is_fencing = False
                _log.info("The hub listed its Clusters; serving its state")
                self.on_hub_answer()

    def _log_refusals(self) -> None:
        for name in self.saved.refusals.keys() - self._logged:
            of = "entry" if name in (entries.RULES_KEY, entries.CONTACT_KEY) else "virtual_cluster"
            extra = {of: name, "reason": str(self.saved.refusals[name])}
            _log.warning("Not using the checkpoint", extra=extra)
            self._logged.add(name)

    def hub_identified(self, hub: str) -> None:
        for name, head in self._heads.items():
            if refusal := reader.hub_refusal(head.hub, hub):
                self.saved.refuse(name, refusal)
                self.clusters.unseed("", name)

    def _is_overdue(self, what: str) -> bool:
        at = self.answered_at() if not self.failing_s("") else None  # only a good list counts
        answers = at is not None and at > self._began_at  # before this process was a standby
        if (self.is_away and not answers) or self.failing_s(what) >= PATIENCE_S:
            return True
        now = self.clock()
        since = self._since.setdefault(what, now)
        return now - max(since, self._listed_at) >= LISTS_S or now - since >= ALL_LISTS_S

    def _fill_clusters(self) -> None:
        names = self.saved.clusters
        if not names or not self._is_overdue(""):
            return
        clusters, rules = [self.saved.cluster(name) for name in names], self.saved.rules()
        for store, kind in zip(self.rules, _KINDS, strict=False):
            if not store.is_synced:
                store.seed([rule for rule in rules if rule.get("kind") == kind])
        self.has_begun.set()
        self.is_fencing = True
        self._times |= {name: at for name in names if (at := self.saved.saved_at(name))}
        oldest = min((self._times[name] for name in names if name in self._times), default=None)
        extra = {
            "virtual_clusters": listed(names),
            "as_of": oldest.isoformat(timespec="seconds") if oldest is not None else "?",
        }
        _log.warning("Serving from the checkpoint: the hub does not answer", extra=extra)
        self.clusters.seed([cluster for cluster in clusters if cluster is not None])

    def _fill_works(self, name: str) -> None:
        store = self.works.store(name)
        if store is None:
            return
        if store.is_synced:
            self.saved.forget(name)
            self._listed_at = self.clock()
        elif self._is_overdue(name):
            self._times |= {name: at} if (at := self.saved.saved_at(name)) else {}
            store.seed(self.saved.works(name))
            self.saved.forget(name)


CHECKPOINT_KEPT = ConditionType(
    "CheckpointKept",
    "After a start without the hub all its Works would be served ([autonomy](autonomy.md)).",
    idle="Kept",
)


class CheckpointParts:
    """writer: keeps the checkpoint. offline: serves from that of an earlier process."""

    def __init__(self, checkpoint: Checkpoint, common: Common, works: WorkParts) -> None:
        clusters, vcs, rules = common.stores.clusters, common.virtual_clusters, works.rules.stores
        hub = common.clients.hub_urgent

        def failing_s(name: str) -> float:
            return works.watches.failing_s(name) if name else common.stores.of_hub.failing_s

        self.writer = CheckpointWriter(
            checkpoint.secrets,
            checkpoint.outdated,
            clusters,
            works.watches.works,
            rules,
            vcs,
            common.config.namespace_template,
            common.hub_uid,
            lambda name: common.clients.hub.is_reachable and not failing_s(name),
            common.clock.now,
            common.clock.monotonic,
            contact_s=contact_s(common.config),
        )
        self.offline = OfflineServing(
            checkpoint.saved,
            clusters.store,
            works.watches.works,
            rules,
            lambda: hub.answered_at if hub.is_reachable else None,
            checkpoint.is_hub_away,
            failing_s,
            common.clock.monotonic,
        )
        self.offline.warning = lambda: Note("; ".join(self._messages())) or None
        works.rules.were_seen = bool(checkpoint.saved.rules())
        # It may have answered while the agent's state was read, which is not notified again.
        self.offline.hub_identified(common.hub_uid())
        common.signals.work.subscribe(self.writer.work_changed)
        vcs.changed.subscribe(self.writer.clusters_changed)
        clusters.store.add_handler(self.writer.clusters_changed)
        for store in rules:
            store.add_handler(self.writer.rules_changed)
        works.finalizer.before_removal.append(
            lambda cluster, work: self.writer.strike(cluster, work["metadata"]["name"])
        )
        common.clients.host.history.was_reset.subscribe(self.writer.host_restored)
        common.clients.hub.history.settled.subscribe(self.writer.hub_restored)

    def problem_of(self, name: str) -> tuple[str, str] | None:
        """Return why a virtual cluster is not in the checkpoint: reason and text, None = it is."""
        if name in self.writer.secrets.too_large:
            return "TooLarge", "its Works do not fit into the checkpoint"
        if error := self.writer.problem_of(name):
            return _not_written(error)
        refusal = self.offline.saved.refusals.get(name)
        is_written = self.writer.has(name) and not self.writer.outdated.has(name)
        if refusal is None or is_written:
            return None
        return str(refusal.reason), f"its entries are not used: {refusal}"

    def samples(self) -> Iterator[Sample]:
        """Return the age of the saved state that virtual clusters are served from."""
        for name in self.writer.served:
            at = self.offline.as_of(name)
            if at is None and self.writer.clusters.ours(name) is None:
                continue  # it was deleted on the hub, or is not registered yet
            age_s = (datetime.now(UTC) - at).total_seconds() if at is not None else 0.0
            yield Sample("checkpoint_age_seconds", (name,), max(age_s, 0.0))

    def _messages(self) -> Iterator[str]:
        for name in self.writer.served:
            if (at := self.offline.as_of(name)) is not None:
                yield f"{name} is served as the hub said at {at.isoformat(timespec='seconds')}"
            if problem := self.problem_of(name):
                yield f"{name}: {problem[1]}"


def _not_written(error: KubeError) -> tuple[str, str]:
    if isinstance(error, ForbiddenError) and error.need is not None:
        what = "the agent has no rights to the Secrets of its checkpoint, so a start without the "
        return "NoRights", what + "hub would repair nothing; run karmada-vc-agent join"
    return "NotWritten", "the checkpoint cannot be written; the agent's log says why"


def contact_s(config: AgentConfig) -> float:
    """Return how often the contact is noted: what may soon be too old is noted more often."""
    max_age_s = config.of(CheckpointFields).offline_max_age
    return min(CONTACT_S, max_age_s / 4 or CONTACT_S)


def is_of_checkpoint(agent: str, need: Need) -> bool:
    """Return whether a right in the agent's namespace is to its checkpoint, which is optional."""
    # Only these Secrets are created by the agent itself, which RBAC cannot confine by name.
    is_named = need.verb == "create" or need.name in secret_names(agent)
    return (need.group, need.resource) == ("", "secrets") and is_named


def checkpoint_kept(parts: Parts, vc: VirtualCluster) -> Condition | None:
    """Return the condition; None where none is kept, or the next start would not use it yet."""
    made = parts.common.find(CheckpointParts)
    if made is not None and (problem := made.problem_of(vc.name)):
        return CHECKPOINT_KEPT.false(*problem)
    if made is None or made.writer.outdated.has(vc.name):
        return None
    return CHECKPOINT_KEPT.true("Kept", "the state of the hub is kept on the host")


async def remove_checkpoint(host: ApiClient, namespace: str, agent: str) -> list[str]:
    """Delete an agent's Secrets; return names of those that existed. Raises KubeError."""
    deleted = []
    for name in secret_names(agent):
        with suppress(NotFoundError):
            await host.delete(f"/api/v1/namespaces/{namespace}/secrets/{name}")
            deleted.append(name)
    return deleted


async def remove_disabled(host: ApiClient, namespace: str, agent: str) -> None:
    """Remove what was kept before the setting was turned off, and log what a denial leaves."""
    extra = {"namespace": namespace}

    async def remove() -> None:
        try:
            if await remove_checkpoint(host, namespace, agent):
                _log.info("Removed the checkpoint: it is turned off", extra=extra)
        except ForbiddenError:
            text = "Not removing what an earlier checkpoint may have left: run karmada-vc-agent "
            _log.info(f"{text}join, or delete Secrets {agent}-checkpoint-*", extra=extra)

    await retry_until_done("remove the checkpoint on the host", remove)


async def forget_saved(host: ApiClient, namespace: str, agent: str, cluster: str, say: Say) -> None:
    """Remove a virtual cluster from an agent's Secrets, with the last one these, too."""
    secrets = CheckpointSecrets(host, namespace, agent)
    try:
        await secrets.load()
        if {entries.cluster_of_key(key) for _, key in secrets} <= {"", cluster}:
            if secrets.exist and await remove_checkpoint(host, namespace, agent):
                say(f"host: removed the checkpoint of {agent}")
        elif await secrets.remove(cluster):
            say(f"host: removed {cluster} from the checkpoint of {agent}")
    except ForbiddenError as error:
        say(f"host: the checkpoint of {agent} may still have {cluster}: {error}")


async def purge(host: ApiClient, namespace: str, agent: str, say: Say) -> None:
    if await remove_checkpoint(host, namespace, agent):
        say(f"host: removed the checkpoint of {agent}")


CHECK_PATIENCE_S = 3.0
"""How long a start waits for the hub before it checks for a checkpoint."""
_SHOWN = 3
PEEK_S = 10.0


class CheckpointStart(HubStart):
    def __post_init__(self) -> None:
        super().__post_init__()
        if is_kept(self.config):
            self.line, self.patience_s = CHECKPOINT_ANNOTATION, CHECK_PATIENCE_S

    async def wait_for_either(
        self, checking: asyncio.Task[None], host: ApiClient, election: LeaderElection
    ) -> None:
        """Wait until the hub was checked, or there is a checkpoint that can be served from."""
        if not is_kept(self.config):
            return
        once = LogOnce(_log)
        while not checking.done():
            self.lack = await self._lack(host, election)
            if not self.lack:
                return
            once.warning("Waiting for the hub: nothing can be served without it", reason=self.lack)
            await asyncio.wait((checking,), timeout=PEEK_S)

    async def _lack(self, host: ApiClient, election: LeaderElection) -> str:
        """Return why nothing can be served from the checkpoint, "" if something can."""
        try:
            if not await election.is_lineage_unbroken():
                return "the last leader kept no checkpoint"
            config = self.config
            state = await AgentState.recorded(host, config.agent_namespace, config.agent_name)
            read = await reader.read_checkpoint(host, config, state, self.uid, attempts=1)
        except KubeError as error:
            return str(error)
        if read.saved.clusters:
            return ""
        refusals, unread = sorted(read.saved.refusals.items()), read.secrets.unread.items()
        reasons = [f"{name}: {why}" for name, why in refusals]
        reasons += [f"Secret {name} cannot be read: {why}" for name, why in unread]
        return listed(reasons, _SHOWN) or "there is no checkpoint"

    async def read(
        self, host: ApiClient, state: AgentState, election: LeaderElection | None
    ) -> None:
        """Read the checkpoint; without the right to it there is none."""
        if not is_kept(self.config):
            return
        is_continued = election is None or election.continues_lineage
        answers = self.is_checked and await self.is_there()

        async def read() -> Checkpoint:
            return await reader.read_checkpoint(
                host, self.config, state, self.uid, is_continued=is_continued
            )

        checkpoint = await retry_until_done("read the checkpoint on the host", read)
        for name, why in checkpoint.secrets.unread.items():
            extra = {"secret": name, "reason": why}
            _log.warning("Cannot read a part of the checkpoint; delete the Secret", extra=extra)
        self.provided = (replace(checkpoint, is_hub_away=not answers),)
        self.is_needed = not checkpoint.saved.clusters
        if election is not None:
            election.begin_lineage()


def _connect(parts: Parts) -> None:
    config, host = parts.common.config, parts.common.clients.host
    parts.spared_rights.append(partial(is_of_checkpoint, config.agent_name))
    if not is_kept(config):
        remove = partial(remove_disabled, host, config.agent_namespace, config.agent_name)
        parts.ends["remove the checkpoint"] = remove
    checkpoint = parts.common.find(Checkpoint)
    if checkpoint is not None:
        made = CheckpointParts(checkpoint, parts.common, parts.works)
        parts.common.fence.offline = made.offline
        parts.common.provide(made)
        parts.common.metrics.add_source(made.samples)
        parts.keeps["checkpoint"] = made.writer.run
        parts.ends["offline"] = made.offline.run


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    file = "roles" if is_kept(config) else "roles-off"
    return (f"features/checkpoint/{file}.yaml",)


FEATURE = Feature(
    "checkpoint",
    settings=CheckpointFields,
    hub_start=CheckpointStart,
    connect=_connect,
    conditions=(ConditionSpec(CHECKPOINT_KEPT, checkpoint_kept),),
    metrics="features/checkpoint/metrics.yaml",
    host_roles=_host_roles,
    leave=forget_saved,
    purge=purge,
)
