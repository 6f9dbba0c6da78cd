"""Reads the checkpoint at the start of a leader, as far as it may be used."""

import base64
import binascii
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Annotated

import msgspec

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.config.settings import AgentConfig, Fields
from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    CONTACT,
    CONTACT_KEY,
    DAMAGED,
    RULES,
    RULES_KEY,
    WORKS,
    CheckpointSecrets,
    Header,
    Reason,
    UnusableError,
    cluster_of_key,
    decode,
    head_key,
    verified,
    works_key,
)
from karmada_vc_agent.features.checkpoint.writer import EVERYTHING, Outdated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import Range
from karmada_vc_agent.model.vocabulary import execution_namespace

SKEW_S = 300.0
"""How far the clocks of replicas may differ."""


class CheckpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The last state of the hub, kept on the host."""

    enabled: bool = True
    """Keep what the hub last said in Secrets of the agent's namespace ([ADR
    42](adr/0042-a-checkpoint-on-the-host.md)): an agent that starts while the hub is away repairs
    from there. An agent whose `join` was earlier works without it until `karmada-vc-agent join`
    gives it the rights. Turned off, the agent removes them."""


class CheckpointFields(Fields, frozen=True):
    """What the settings have of it."""

    offline_max_age: Annotated[Duration, Range(zero="however old")] = Duration(0)
    """How old what the checkpoint has of the hub may be for an agent that starts while the hub is
    away."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """What is kept for a start without the hub."""


def is_kept(config: AgentConfig) -> bool:
    """Return whether the agent keeps a checkpoint."""
    return config.of(CheckpointFields).checkpoint.enabled


@dataclass(frozen=True, slots=True)
class Expected:
    """The requirements on an entry.

    hub: its identity, "" = unknown. uids: Cluster -> the uid that this agent registered; None = it
    must not be served. template: that of host namespaces. times: those from before the first are
    too old, and the age of those from after the second is unknown; None = all may be used.
    is_outdated: whether a Cluster changed on the hub since, certainly or perhaps.
    """

    template: str
    uids: Mapping[str, str | None]
    hub: str = ""
    times: tuple[datetime, datetime] | None = None
    is_outdated: Callable[[str], bool] = lambda _: False


@dataclass(slots=True)
class Saved:
    """The entries by key, and what was refused: Cluster, or another key -> why.

    What was refused is as if it had not been saved: Clusters, and single entries, as some of the
    Works of one. secrets: key -> name of its Secret. contact: when the hub was last in this state,
    except for the Clusters in not_heard.
    """

    entries: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, UnusableError] = field(default_factory=dict)
    contact: Header | None = None
    not_heard: frozenset[str] = frozenset()
    _keys: dict[str, list[str]] = field(default_factory=dict)

    @property
    def clusters(self) -> list[str]:
        """Return the Clusters that may be served."""
        return sorted(cluster_of_key(key) for key in self.entries if key.startswith("cluster."))

    def head(self, name: str) -> Header | None:
        """Return the header of a Cluster."""
        content = self.entries.get(head_key(name))
        return verified(content) if content is not None else None

    def cluster(self, name: str) -> Object | None:
        """Return a Cluster."""
        return next(iter(self._read(name, head_key(name))), None)

    def works(self, name: str) -> list[Object]:
        """Return the Works of a Cluster; parts that cannot be used are missing."""
        head = self.head(name)
        if head is None:
            return []
        keys = [works_key(name, head.parts, part) for part in range(head.parts)]
        return [work for key in keys for work in self._read(name, key, head)]

    def rules(self) -> list[Object]:
        """Return customizations and webhook configurations."""
        return self._read(RULES, RULES_KEY)

    def saved_at(self, name: str) -> datetime | None:
        """Return the time of the state of a Cluster."""
        head = self.head(name)
        return self.time_of(head) if head is not None else None

    def time_of(self, head: Header) -> datetime | None:
        """Return the time of the state of a Cluster by its header; None if it has none."""
        times, contact = [head.saved], self.contact
        if contact is not None and contact.hub == head.hub and head.cluster not in self.not_heard:
            times.append(contact.saved)
        return max((at for text in times if (at := _time(text)) is not None), default=None)

    def forget(self, name: str) -> None:
        """Drop the entries of a Cluster, or another entry by its key."""
        if not self._keys:  # entries are only dropped from here on
            for key in self.entries:
                self._keys.setdefault(_owner(key), []).append(key)
        for key in self._keys.pop(name, ()):
            self.entries.pop(key, None)

    def refuse(self, name: str, reason: UnusableError) -> None:
        """Do not serve a Cluster, or use another entry, from here."""
        self.refusals[name] = reason
        self.forget(name)

    def refuse_entry(self, key: str, error: UnusableError) -> None:
        """Drop a damaged entry, and note why; the other Works stay."""
        self.entries.pop(key, None)
        where = f"{key} of Secret {self.secrets[key]}" if key in self.secrets else key
        self.refusals.setdefault(_owner(key), UnusableError(error.reason, f"{where}: {error}"))

    def _read(self, name: str, key: str, head: Header | None = None) -> list[Object]:
        """Return the objects of an entry, none where it is missing or refused."""
        if key not in self.entries:
            return []
        try:
            header, objects = decode(self.entries[key])
            _check_objects(header, objects, name, head)
        except UnusableError as error:
            self.refuse_entry(key, error)
            return []
        return objects


def _owner(key: str) -> str:
    """Return the Cluster that a key is of, or itself."""
    return cluster_of_key(key) or key


def read(
    secrets: Iterable[Mapping[str, str]], expected: Expected, names: Sequence[str] = ()
) -> Saved:
    """Return what may be used: all of it has the right checksum.

    secrets: the `data` of each. names: theirs, in the same order.
    """
    saved = Saved()
    for data, name in zip_longest(secrets, names):
        for key, text in (data or {}).items():
            if name:
                saved.secrets[key] = name
            try:
                saved.entries[key] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                saved.refuse_entry(key, UnusableError(Reason.UNREADABLE, "it is not base64"))
    _judge(saved, CONTACT_KEY, CONTACT, lambda header: _take_contact(saved, header))
    _judge(saved, RULES_KEY, RULES, lambda header: _check_hub(header, expected))
    for name in saved.clusters:
        _judge(saved, head_key(name), CLUSTER, lambda head: _check_head(saved, head, expected))
        head = saved.head(name)
        keys = [works_key(name, head.parts, part) for part in range(head.parts)] if head else []
        for key in keys:
            _judge(saved, key, WORKS, lambda _: None)
        if name in saved.refusals and saved.entries.keys().isdisjoint(keys):
            saved.refuse(name, saved.refusals[name])
    return saved


def _take_contact(saved: Saved, header: Header) -> None:
    _, objects = decode(saved.entries[CONTACT_KEY])
    _check_objects(header, objects, CONTACT, None)
    saved.contact = header
    saved.not_heard = frozenset(obj["metadata"]["name"] for obj in objects)


def _judge(saved: Saved, key: str, kind: str, check: Callable[[Header], None]) -> None:
    """Drop an entry that may not be used, and note why."""
    content = saved.entries.get(key)
    if content is None:
        return
    try:
        header = verified(content)
        if header.kind != kind:
            raise UnusableError(Reason.UNREADABLE, f"it is of kind {header.kind}")  # noqa: TRY301
        check(header)
    except UnusableError as error:
        if error.reason in DAMAGED:
            saved.refuse_entry(key, error)
        else:
            saved.refuse(_owner(key), error)


def _check_head(saved: Saved, header: Header, expected: Expected) -> None:
    _check_hub(header, expected)
    if header.template != expected.template:
        detail = f"it was saved with namespaceTemplate {header.template}"
        raise UnusableError(Reason.TEMPLATE, detail)
    uid = expected.uids.get(header.cluster, "")
    if uid is None:
        raise UnusableError(Reason.DELETED, "the Cluster was deleted, or left")
    if uid and uid != header.uid:
        raise UnusableError(Reason.CLUSTER, "another Cluster was registered under its name since")
    if expected.is_outdated(header.cluster):
        detail = "it may have changed on the hub since, which was not saved"
        raise UnusableError(Reason.OUTDATED, detail)
    if expected.times is not None:
        (oldest, newest), at = expected.times, saved.time_of(header)
        text = "an invalid time" if at is None else at.isoformat(timespec="seconds")
        if at is None or at < oldest:
            raise UnusableError(Reason.TOO_OLD, f"it is of {text}, older than offlineMaxAge")
        if at > newest:
            detail = f"it is of {text}, in the future, so its age is unknown"
            raise UnusableError(Reason.TOO_OLD, detail)


def _check_hub(header: Header, expected: Expected) -> None:
    if is_another_hub(header.hub, expected.hub):
        raise another_hub()


def _check_objects(header: Header, objects: list[Object], name: str, head: Header | None) -> None:
    """Refuse objects that do not match the headers; a checksum is no protection from a writer.

    head: that of the Cluster, for Works of it.
    """
    if head is not None and (header.hub, header.uid) != (head.hub, head.uid):
        raise UnusableError(Reason.CLUSTER, "it is of another Cluster")
    for obj in objects:
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise UnusableError(Reason.UNREADABLE, "an object in it has no name")
        if header.kind == CLUSTER and (metadata["name"], uid_of(obj)) != (name, header.uid):
            raise UnusableError(Reason.CLUSTER, "the Cluster in it is another one")
        if header.kind == WORKS and metadata.get("namespace") != execution_namespace(name):
            raise UnusableError(Reason.CLUSTER, "a Work in it is of another Cluster")
        if metadata.get("deletionTimestamp"):
            raise UnusableError(Reason.UNREADABLE, "an object in it is being deleted")


def is_another_hub(saved: str, hub: str) -> bool:
    """Return whether two hubs are certainly not the same; "" = unknown."""
    return bool(saved and hub and saved != hub)


def another_hub() -> UnusableError:
    """Return why an entry of another hub is not used."""
    return UnusableError(Reason.HUB, "it is of another hub: the uid of its kube-system differs")


def _time(text: str) -> datetime | None:
    """Return a time as the header has it; None if it is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def usable_times(now: datetime, max_age_s: float) -> tuple[datetime, datetime] | None:
    """Return the oldest and newest usable time; max_age_s: 0 = any, None is returned."""
    if not max_age_s:
        return None
    return now - timedelta(seconds=max_age_s), now + timedelta(seconds=SKEW_S)


_log = logging.getLogger(__name__)

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint at the start, and whether the hub was away then.

    outdated: the notes of what must not be served.
    """

    secrets: CheckpointSecrets
    saved: Saved
    outdated: Outdated
    is_hub_away: bool = False

    @property
    def is_usable(self) -> bool:
        """Return whether anything can be served from it."""
        return bool(self.saved.clusters)


async def read_checkpoint(
    host: ApiClient,
    config: AgentConfig,
    state: AgentState,
    hub: str,
    *,
    is_continued: bool = True,
) -> Checkpoint:
    """Return the checkpoint, an empty one without the right to it. Raises KubeError.

    is_continued: whether the last leader kept it; an earlier version of the agent, or one whose
    settings have it off, did not, and may have seen another state of the hub.
    """
    secrets = CheckpointSecrets(host, config.agent_namespace, config.agent_name)
    outdated = Outdated(state)
    if not is_continued:
        await outdated.note(EVERYTHING)
    try:
        data = await secrets.load()
    except ForbiddenError:  # the writer logs it
        secrets.doubt_all()
        return Checkpoint(secrets, Saved(), outdated)
    for name, why in secrets.unread.items():
        extra = {"secret": name, "reason": why}
        _log.warning("Cannot read a part of the checkpoint; delete the Secret", extra=extra)
    saved = read(data, _expected(config, state, hub), secrets.names)
    for name, refusal in saved.refusals.items():
        log_refusal(name, refusal)
    return Checkpoint(secrets, saved, outdated)


def log_refusal(name: str, refusal: UnusableError) -> None:
    """Log that something of the checkpoint is not used. name: Cluster, or another entry's key."""
    of = "entry" if name in (RULES_KEY, CONTACT_KEY) else "virtual_cluster"
    _log.warning("Not using the checkpoint", extra={of: name, "reason": str(refusal)})


async def why_unusable(host: ApiClient, config: AgentConfig, hub: str) -> str:
    """Return why nothing can be served from the checkpoint now, "" if something can.

    Gauge before this process leads; changes nothing. Raises KubeError.
    """
    state = AgentState(host, config.agent_namespace, config.agent_name)
    with suppress(NotFoundError):
        await state.look()
    secrets = CheckpointSecrets(host, config.agent_namespace, config.agent_name)
    saved = read(await secrets.load(attempts=1), _expected(config, state, hub), secrets.names)
    if saved.clusters:
        return ""
    reasons = [f"{name}: {refusal}" for name, refusal in sorted(saved.refusals.items())]
    reasons += [f"Secret {name} cannot be read: {why}" for name, why in secrets.unread.items()]
    return listed(reasons, _SHOWN) or "there is no checkpoint"


def _expected(config: AgentConfig, state: AgentState, hub: str) -> Expected:
    registered = {
        name: None if record.has_left or record.was_deleted else record.uid
        for name, record in state.clusters().items()
    }
    return Expected(
        template=config.namespace_template,
        uids=registered,
        hub=hub,
        times=usable_times(datetime.now(UTC), config.of(CheckpointFields).offline_max_age),
        is_outdated=Outdated(state).has,
    )
