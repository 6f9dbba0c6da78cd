"""Reads the checkpoint at the start of a leader, as far as it may be used."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Annotated

import msgspec

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.config.settings import AgentConfig, Fields
from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import Header, Reason, UnusableError
from karmada_vc_agent.features.checkpoint.writer import EVERYTHING, Outdated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import Range
from karmada_vc_agent.model.vocabulary import execution_namespace

SKEW_S = 300.0


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
    """The age up to which an agent that starts without the hub serves from the checkpoint."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """What is kept for a start without the hub."""


def is_kept(config: AgentConfig) -> bool:
    return config.of(CheckpointFields).checkpoint.enabled


@dataclass(frozen=True, slots=True)
class Expected:
    """The requirements on an entry.

    uids: Cluster -> the uid that this agent registered; None = it must not be served. times: what
    is before the first is too old, the age of what is after the second is unknown; None = any.
    is_outdated: whether a Cluster changed on the hub since, certainly or perhaps.
    """

    template: str
    uids: Mapping[str, str | None]
    hub: str = ""
    times: tuple[datetime, datetime] | None = None
    is_outdated: Callable[[str], bool] = lambda _: False


@dataclass(slots=True)
class Saved:
    """The entries, by owner and key, and what was refused, by owner: a Cluster, or another key.

    What was refused is as if it had not been saved. secrets: key -> name of its Secret. contact:
    when the hub was last in this state, except for the Clusters in not_heard.
    """

    content_of: dict[str, dict[str, bytes]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, UnusableError] = field(default_factory=dict)
    contact: Header | None = None
    not_heard: frozenset[str] = frozenset()

    @property
    def clusters(self) -> list[str]:
        return sorted(n for n, own in self.content_of.items() if entries.head_key(n) in own)

    def content(self, key: str) -> bytes | None:
        return self.content_of.get(_owner(key), {}).get(key)

    def head(self, name: str) -> Header | None:
        content = self.content(entries.head_key(name))
        return entries.verified(content) if content is not None else None

    def cluster(self, name: str) -> Object | None:
        return next(iter(self._read(name, entries.head_key(name))), None)

    def works(self, name: str) -> list[Object]:
        """Return the Works of a Cluster; parts that cannot be used are missing."""
        head = self.head(name)
        return [work for key in _keys(name, head) for work in self._read(name, key, head)]

    def rules(self) -> list[Object]:
        return self._read(entries.RULES, entries.RULES_KEY)

    def saved_at(self, name: str) -> datetime | None:
        """Return the time of the state of a Cluster; None if it has none."""
        head, contact = self.head(name), self.contact
        if head is None:
            return None
        times = [head.saved]
        if contact is not None and contact.hub == head.hub and name not in self.not_heard:
            times.append(contact.saved)
        return max((at for text in times if (at := _time(text)) is not None), default=None)

    def forget(self, name: str) -> None:
        self.content_of.pop(name, None)

    def refuse(self, name: str, reason: UnusableError) -> None:
        self.refusals[name] = reason
        self.forget(name)

    def refuse_entry(self, key: str, error: UnusableError) -> None:
        """Drop a damaged entry, and note why; the other Works stay."""
        self.content_of.get(_owner(key), {}).pop(key, None)
        where = f"{key} of Secret {self.secrets[key]}" if key in self.secrets else key
        self.refusals.setdefault(_owner(key), UnusableError(error.reason, f"{where}: {error}"))

    def _read(self, name: str, key: str, head: Header | None = None) -> list[Object]:
        if (content := self.content(key)) is None:
            return []
        try:
            header, objects = entries.decode(content)
            _check_objects(header, objects, name, head)
        except UnusableError as error:
            self.refuse_entry(key, error)
            return []
        return objects


def _owner(key: str) -> str:
    return entries.cluster_of_key(key) or key


def _keys(name: str, head: Header | None) -> list[str]:
    return [entries.works_key(name, head.parts, part) for part in range(head.parts)] if head else []


def read(
    secrets: Iterable[Mapping[str, str]], expected: Expected, names: Sequence[str] = ()
) -> Saved:
    """Return what may be used. secrets: the `data` of each; names: theirs, in the same order."""
    saved = Saved()
    for data, name in zip_longest(secrets, names):
        for key, text in (data or {}).items():
            if name:
                saved.secrets[key] = name
            try:
                content = base64.b64decode(text, validate=True)
            except ValueError:
                saved.refuse_entry(key, UnusableError(Reason.UNREADABLE, "it is not base64"))
            else:
                saved.content_of.setdefault(_owner(key), {})[key] = content
    _judge(saved, entries.CONTACT_KEY, entries.CONTACT, lambda header: _take_contact(saved, header))
    _judge(saved, entries.RULES_KEY, entries.RULES, lambda header: _check_hub(header, expected))
    for name in saved.clusters:
        head_key = entries.head_key(name)
        _judge(saved, head_key, entries.CLUSTER, lambda head: _check_head(saved, head, expected))
        keys = _keys(name, saved.head(name))
        for key in keys:
            _judge(saved, key, entries.WORKS, lambda _: None)
        if name in saved.refusals and not any(map(saved.content, keys)):
            saved.forget(name)
    return saved


def _take_contact(saved: Saved, header: Header) -> None:
    _, objects = entries.decode(saved.content(entries.CONTACT_KEY) or b"")
    _check_objects(header, objects, entries.CONTACT, None)
    saved.contact = header
    saved.not_heard = frozenset(obj["metadata"]["name"] for obj in objects)


def _judge(saved: Saved, key: str, kind: str, check: Callable[[Header], None]) -> None:
    content = saved.content(key)
    if content is None:
        return
    try:
        header = entries.verified(content)
        if header.kind != kind:
            raise UnusableError(Reason.UNREADABLE, f"it is of kind {header.kind}")  # noqa: TRY301
        check(header)
    except UnusableError as error:
        if error.reason in entries.DAMAGED:
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
        (oldest, newest), at = expected.times, saved.saved_at(header.cluster)
        text = "an invalid time" if at is None else at.isoformat(timespec="seconds")
        if at is None or at < oldest:
            raise UnusableError(Reason.TOO_OLD, f"it is of {text}, older than offlineMaxAge")
        if at > newest:
            raise UnusableError(Reason.TOO_OLD, f"it is of {text}, in the future: of unknown age")


def _check_hub(header: Header, expected: Expected) -> None:
    if refusal := hub_refusal(header.hub, expected.hub):
        raise refusal


def _check_objects(header: Header, objects: list[Object], name: str, head: Header | None) -> None:
    """Refuse objects that do not match their header, or that of their Cluster (`head`)."""
    if head is not None and (header.hub, header.uid) != (head.hub, head.uid):
        raise UnusableError(Reason.CLUSTER, "it is of another Cluster")
    for obj in objects:
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise UnusableError(Reason.UNREADABLE, "an object in it has no name")
        if header.kind == entries.CLUSTER and (metadata["name"], uid_of(obj)) != (name, header.uid):
            raise UnusableError(Reason.CLUSTER, "the Cluster in it is another one")
        if header.kind == entries.WORKS and metadata.get("namespace") != execution_namespace(name):
            raise UnusableError(Reason.CLUSTER, "a Work in it is of another Cluster")
        if metadata.get("deletionTimestamp"):
            raise UnusableError(Reason.UNREADABLE, "an object in it is being deleted")


def hub_refusal(saved: str, hub: str) -> UnusableError | None:
    """Return why an entry is not used that is certainly of another hub; "" = unknown."""
    if not (saved and hub and saved != hub):
        return None
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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint at the start, and whether the hub was away then."""

    secrets: entries.CheckpointSecrets
    saved: Saved
    outdated: Outdated
    is_hub_away: bool = False


async def read_checkpoint(
    host: ApiClient,
    config: AgentConfig,
    state: AgentState,
    hub: str,
    attempts: int = entries.ATTEMPTS,
    *,
    is_continued: bool = True,
) -> Checkpoint:
    """Return it, empty without rights. is_continued: the last leader kept it. Raises KubeError."""
    secrets = entries.CheckpointSecrets(host, config.agent_namespace, config.agent_name)
    outdated = Outdated(state)
    if not is_continued:
        await outdated.note(EVERYTHING)
    try:
        data = await secrets.load(attempts)
    except ForbiddenError:  # the writer logs it
        secrets.doubt_all()
        return Checkpoint(secrets, Saved(), outdated)
    registered = {
        name: None if record.has_left or record.was_deleted else record.uid
        for name, record in state.clusters().items()
    }
    expected = Expected(
        template=config.namespace_template,
        uids=registered,
        hub=hub,
        times=usable_times(datetime.now(UTC), config.of(CheckpointFields).offline_max_age),
        is_outdated=outdated.has,
    )
    return Checkpoint(secrets, read(data, expected, secrets.names), outdated)
