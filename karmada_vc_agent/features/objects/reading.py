"""A VirtualCluster object as the agent uses it: its virtual cluster, or why it can be none."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.config.completing import completed, field_of
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.declared import settings_of
from karmada_vc_agent.config.decoding import decode
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.object_names import (
    DELETION_POLICIES,
    PATH,
    PRESERVE,
    DeletionPolicy,
    is_for,
)
from karmada_vc_agent.kube.absence import items_unless_absent
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.bounds import Bounds
from karmada_vc_agent.model.objects import Object, dig, uid_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

_OWN_KEYS = frozenset({"deletionPolicy"})
"""Keys of the spec that are not of the virtual cluster."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What an object says.

    virtual_cluster: None where it can be none; `problem` says why then. status: as the server has
    it. spec: of the object, for when the settings that lie under it change.
    """

    name: str
    uid: str
    generation: int
    virtual_cluster: VirtualCluster | None
    problem: str = ""
    deletion_policy: DeletionPolicy = DELETION_POLICIES[0]
    is_deleting: bool = False
    status: Object = field(default_factory=dict)
    spec: Object = field(default_factory=dict)

    @property
    def is_preserved(self) -> bool:
        """Whether what its Works made stays once it is deleted."""
        return self.deletion_policy == PRESERVE


class Reader:
    """Reads what objects say. live: the settings of the agent, which they stand upon."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live

    def read(self, body: Object) -> Definition:
        """Return what an object says."""
        metadata = body["metadata"]
        spec = body.get("spec") or {}
        found, problem = self._read_spec(metadata["name"], spec)
        policy = spec.get("deletionPolicy")
        return Definition(
            name=metadata["name"],
            uid=uid_of(body),
            generation=int(metadata.get("generation") or 0),
            virtual_cluster=found,
            problem=problem,
            deletion_policy=policy if policy in DELETION_POLICIES else DELETION_POLICIES[0],
            is_deleting=bool(metadata.get("deletionTimestamp")),
            status=dig(body, "status") or {},
            spec=spec,
        )

    def read_again(self, definition: Definition) -> Definition:
        """Return what an object says by the settings as they are now."""
        found, problem = self._read_spec(definition.name, definition.spec)
        return replace(definition, virtual_cluster=found, problem=problem)

    def _read_spec(self, name: str, spec: Object) -> tuple[VirtualCluster | None, str]:
        """Return the virtual cluster of a spec, or None and why it can be none."""
        try:
            return _virtual_cluster(name, spec, self._live.config), ""
        except ConfigError as error:
            field = field_of(error)
            return None, f"spec.{field} {error.problem}" if field else error.problem


@dataclass(frozen=True, slots=True)
class AtStart:
    """What objects say when the agent starts, before they are watched.

    virtual_clusters: those that were in use. preserved: those of them that are being removed while
    what their Works made stays.
    """

    virtual_clusters: Sequence[VirtualCluster] = ()
    preserved: frozenset[str] = frozenset()


async def read_at_start(
    host: ApiClient, live: LiveSettings, is_registered: Callable[[str], bool]
) -> AtStart:
    """Return what the objects that there are say, as far as it was in use. Raises KubeError.

    So that nothing takes what objects describe for gone before they are watched, and a removal
    goes on as it began.
    is_registered: whether a virtual cluster of a name was; its object may not say so yet.
    """
    items = await items_unless_absent(host, PATH)
    if items is None:
        _log.warning("Waiting for the CRD of VirtualCluster objects; apply manifests/base/crd.yaml")
        return AtStart()
    ours = (item for item in items if is_for(live.config.agent_name, item["metadata"]))
    read = map(Reader(live).read, ours)
    used = [
        (each, each.virtual_cluster)
        for each in read
        if each.virtual_cluster is not None and _was_in_use(each, is_registered)
    ]
    preserved = frozenset(each.name for each, _ in used if each.is_deleting and each.is_preserved)
    return AtStart([vc for _, vc in used], preserved)


def _was_in_use(found: Definition, is_registered: Callable[[str], bool]) -> bool:
    phase = found.status.get("phase")
    return phase != "Refused" if phase is not None else is_registered(found.name)


def _virtual_cluster(name: str, spec: Object, config: AgentConfig) -> VirtualCluster:
    """Return the virtual cluster of a spec, as one of the settings file. Raises ConfigError."""
    given = {key: value for key, value in spec.items() if key not in _OWN_KEYS}
    common = {each.key: getattr(config.bounds, each.name) for each in settings_of(Bounds)}
    bounds = common | (given.get("bounds") or {})
    raw = {"virtualClusters": [{"name": name, **given, "bounds": bounds}]}
    (found,) = decode(raw, AgentConfig, name).virtual_clusters
    return completed(found, config)
