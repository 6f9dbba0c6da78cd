"""Reads VirtualCluster objects: the virtual cluster of each, or why it can be none."""

from dataclasses import dataclass, field, replace

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

_OWN_KEYS = frozenset({"deletionPolicy"})
"""Keys of the spec that are not of the virtual cluster."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A VirtualCluster object as it was read.

    virtual_cluster: None where it can be none; `problem` is why then. status: as the server has it.
    spec: of the object, to read it again when the settings of the agent change.
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
        """Return whether the objects of its Works stay once it is deleted."""
        return self.deletion_policy == PRESERVE


def read(body: Object, config: AgentConfig) -> Definition:
    """Return an object as it is read with the settings of the agent as its defaults."""
    metadata = body["metadata"]
    spec = body.get("spec") or {}
    vc, problem = _read_spec(metadata["name"], spec, config)
    policy = spec.get("deletionPolicy")
    return Definition(
        name=metadata["name"],
        uid=uid_of(body),
        generation=int(metadata.get("generation") or 0),
        virtual_cluster=vc,
        problem=problem,
        deletion_policy=policy if policy in DELETION_POLICIES else DELETION_POLICIES[0],
        is_deleting=bool(metadata.get("deletionTimestamp")),
        status=dig(body, "status") or {},
        spec=spec,
    )


def read_again(definition: Definition, config: AgentConfig) -> Definition:
    """Return a definition as it is read with other settings of the agent."""
    vc, problem = _read_spec(definition.name, definition.spec, config)
    return replace(definition, virtual_cluster=vc, problem=problem)


async def definitions_on(host: ApiClient, config: AgentConfig) -> list[Definition] | None:
    """Return the objects for this agent; None where the host has no CRD. Raises KubeError."""
    items = await items_unless_absent(host, PATH)
    if items is None:
        return None
    return [read(each, config) for each in items if is_for(config.agent_name, each["metadata"])]


def _read_spec(name: str, spec: Object, config: AgentConfig) -> tuple[VirtualCluster | None, str]:
    """Return the virtual cluster of a spec, or None and why it can be none."""
    try:
        return _virtual_cluster(name, spec, config), ""
    except ConfigError as error:
        field = field_of(error)
        return None, f"spec.{field} {error.problem}" if field else error.problem


def _virtual_cluster(name: str, spec: Object, config: AgentConfig) -> VirtualCluster:
    """Return the virtual cluster of a spec, as one of the settings file. Raises ConfigError."""
    given = {key: value for key, value in spec.items() if key not in _OWN_KEYS}
    common = {each.key: getattr(config.bounds, each.name) for each in settings_of(Bounds)}
    bounds = common | (given.get("bounds") or {})
    raw = {"virtualClusters": [{"name": name, **given, "bounds": bounds}]}
    (vc,) = decode(raw, AgentConfig, name).virtual_clusters
    return completed(vc, config)
