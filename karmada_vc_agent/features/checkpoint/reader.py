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

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.config.settings import AgentConfig, Fields
from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    CONTACT,
    CONTACT_KEY,
    DAMAGED,
    RULES,
    RULES_KEY,
    WORKS,
    Entry,
    Header,
    Reason,
    UnusableError,
    cluster_of_key,
    decode,
    head_key,
    header_of,
    verified,
    works_key,
)
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.writer import EVERYTHING, Outdated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.setting import Range
from karmada_vc_agent.model.texts import listed

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
    """The entries by key, and which of them were refused: Cluster, or another key -> why.

    What was refused is as if it had not been saved: a Cluster that is in `unusable`, and single
    entries, as some of the Works of one. secrets: key -> name of its Secret. contact: when the hub
    was last in this state, except for the Clusters in not_heard.
    """

    entries: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, UnusableError] = field(default_factory=dict)
    unusable: set[str] = field(default_factory=set)
    contact: Header | None = None
    not_heard: frozenset[str] = frozenset()

    @property
    def clusters(self) -> list[str]:
        """Return the Clusters that may be served."""
        names = (cluster_of_key(key) for key in self.entries if key.startswith("cluster."))
        return sorted(name for name in names if name not in self.unusable)

    def head(self, name: str) -> Header | None:
        """Return the header of a Cluster."""
        entry = self._head(name)
        return entry.header if entry is not None else None

    def cluster(self, name: str) -> Object | None:
        """Return a Cluster."""
        entry = self._head(name)
        return entry.objects[0] if entry is not None and entry.objects else None

    def works(self, name: str) -> list[Object]:
        """Return the Works of a Cluster; parts that cannot be used are missing."""
        head = self.head(name)
        if head is None:
            return []
        works: list[Object] = []
        for part in range(head.parts):
            entry = self._read(name, works_key(name, head.parts, part), head)
            works += entry.objects if entry is not None else ()
        return works

    def rules(self) -> list[Object]:
        """Return customizations and webhook configurations."""
        entry = self._read(RULES, RULES_KEY)
        return entry.objects if entry is not None else []

    def saved_at(self, name: str) -> datetime | None:
        """Return the time of the state of a Cluster."""
        try:
            head = header_of(self.entries[head_key(name)])
        except (KeyError, UnusableError):
            return None
        return self._time_of(head)

    def forget(self, name: str) -> None:
        """Drop the entries of a Cluster."""
        self.entries = {k: v for k, v in self.entries.items() if cluster_of_key(k) != name}

    def refuse(self, name: str, reason: UnusableError) -> None:
        """Do not serve a Cluster from here."""
        self.refusals[name] = reason
        self.unusable.add(name)

    def _time_of(self, head: Header) -> datetime | None:
        times = [head.saved]
        is_heard = self.contact is not None and head.cluster not in self.not_heard
        if self.contact is not None and is_heard and self.contact.hub == head.hub:
            times.append(self.contact.saved)
        return max((at for text in times if (at := time_of(text)) is not None), default=None)

    def refuse_entry(self, key: str, error: UnusableError) -> None:
        """Drop a damaged entry, and note why; the other Works stay."""
        self.entries.pop(key, None)
        where = f"{key} of Secret {self.secrets[key]}" if key in self.secrets else key
        refusal = UnusableError(error.reason, f"{where}: {error}")
        self.refusals.setdefault(cluster_of_key(key) or key, refusal)

    def _head(self, name: str) -> Entry | None:
        return self._read(name, head_key(name)) if name not in self.unusable else None

    def _read(self, name: str, key: str, head: Header | None = None) -> Entry | None:
        """Return an entry, None where it is missing or refused."""
        try:
            entry = decode(self.entries[key])
            _check_objects(entry, name, head)
        except KeyError:
            return None
        except UnusableError as error:
            self.refuse_entry(key, error)
            return None
        return entry


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
            _take(saved, key, text)
    _judge(saved, CONTACT_KEY, CONTACT, lambda header: _take_contact(saved, header))
    _judge(saved, RULES_KEY, RULES, lambda header: _check_hub(header, expected))
    for key in [key for key in saved.entries if key.startswith(f"{CLUSTER}.")]:
        _judge(saved, key, CLUSTER, lambda header: _check_head(saved, header, expected))
    for name in saved.clusters:
        _judge_works(saved, name)
    return saved


def _take(saved: Saved, key: str, text: str) -> None:
    try:
        saved.entries[key] = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        saved.refuse_entry(key, UnusableError(Reason.UNREADABLE, "it is not base64"))


def _judge_works(saved: Saved, name: str) -> None:
    """Drop damaged parts of the Works of a Cluster; refuse a Cluster that has no others."""
    parts = verified(saved.entries[head_key(name)]).parts
    keys = [works_key(name, parts, part) for part in range(parts)]
    for key in keys:
        _judge(saved, key, WORKS, lambda _: None)
    if name in saved.refusals and not any(key in saved.entries for key in keys):
        saved.refuse(name, saved.refusals[name])


def _take_contact(saved: Saved, header: Header) -> None:
    entry = decode(saved.entries[CONTACT_KEY])
    _check_objects(entry, CONTACT, None)
    saved.contact = header
    saved.not_heard = frozenset(obj["metadata"]["name"] for obj in entry.objects)


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
            saved.refuse(cluster_of_key(key) or key, error)


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
        _check_time(saved._time_of(header), *expected.times)  # noqa: SLF001 - of this module


def _check_time(at: datetime | None, oldest: datetime, newest: datetime) -> None:
    if at is None or at < oldest:
        raise UnusableError(Reason.TOO_OLD, f"it is of {_text(at)}, older than offlineMaxAge")
    if at > newest:
        detail = f"it is of {_text(at)}, in the future, so its age is unknown"
        raise UnusableError(Reason.TOO_OLD, detail)


def _text(at: datetime | None) -> str:
    return "an invalid time" if at is None else at.isoformat(timespec="seconds")


def _check_hub(header: Header, expected: Expected) -> None:
    if is_another_hub(header.hub, expected.hub):
        raise another_hub()


def _check_objects(entry: Entry, name: str, head: Header | None) -> None:
    """Refuse objects that do not match the headers; a checksum is no protection from a writer.

    head: that of the Cluster, for Works of it.
    """
    header = entry.header
    if head is not None and (header.hub, header.uid) != (head.hub, head.uid):
        raise UnusableError(Reason.CLUSTER, "it is of another Cluster")
    for obj in entry.objects:
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


def time_of(text: str) -> datetime | None:
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
    saved = read(await secrets.peek(), _expected(config, state, hub), secrets.names)
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
