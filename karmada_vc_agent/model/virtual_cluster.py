"""A virtual cluster: a group of nodes that Karmada sees as a Cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from karmada_vc_agent.model.bounds import DEFAULT_BOUNDS, Bounds
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.selectors import LabelSelector

VirtualNamespace = NewType("VirtualNamespace", str)
"""A namespace as the hub names it: `edge`."""

HostNamespace = NewType("HostNamespace", str)
"""A namespace as the host names it: `edge-v-branch-a`."""

NAMESPACES_ALWAYS = "Always"
NAMESPACES_ON_DEMAND = "OnDemand"

NETWORK_POLICIES = ("none", "isolate")
POD_SECURITY_LEVELS = ("", "privileged", "baseline", "restricted")

SERVICE_NAMES_NONE = "None"
SERVICE_NAMES_SEARCH = "SearchDomain"
SERVICE_NAMES_FIRST = "VirtualFirst"
SERVICE_NAMES = (SERVICE_NAMES_NONE, SERVICE_NAMES_SEARCH, SERVICE_NAMES_FIRST)
"""How pods find Services by the names of virtual namespaces (ADR 15)."""


@dataclass(frozen=True, slots=True)
class ApplyAs:
    """The host ServiceAccount with whose rights the manifests of a virtual cluster are written.

    cluster_role: bound to it in every namespace of the virtual cluster; empty = the
    administrator binds it. is_default: `join` made it, since the tenants do not trust each other;
    what has no namespace is then written by the agent itself, which its policy confines.
    """

    namespace: str
    name: str
    cluster_role: str = ""
    is_default: bool = False

    @property
    def user(self) -> str:
        """Return the user name that the API server knows the account by."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """One virtual cluster as the settings describe it (rewriting-rules 10)."""

    name: str
    node_selector: LabelSelector = field(default_factory=LabelSelector)
    node_names: tuple[str, ...] = ()
    cluster_labels: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    taints: tuple[Object, ...] = ()
    resource_models: tuple[Object, ...] = ()
    namespaces: str = NAMESPACES_ALWAYS
    adopt_namespaces: tuple[str, ...] = ()
    tolerations: tuple[Object, ...] = ()
    offline_tolerations: bool = False
    tolerate_node_taints: bool = True
    quota: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[Object, ...] = ()
    network_policy: str = "none"
    pod_security: str = ""
    allowed_kinds: tuple[str, ...] = ()
    denied_kinds: tuple[str, ...] = ()
    apply_as: ApplyAs | None = None
    service_names: str = SERVICE_NAMES_NONE
    allow: tuple[str, ...] = ()
    bounds: Bounds = DEFAULT_BOUNDS

    @property
    def needs_membership_label(self) -> bool:
        """Whether the agent has to label the nodes, since pods can only select by equality."""
        return bool(self.node_names or self.node_selector.match_expressions)

    @property
    def required_selector(self) -> Mapping[str, str]:
        """Labels that every pod of this virtual cluster must select (rewriting-rules 3.1)."""
        if self.needs_membership_label:
            return {MEMBERSHIP_LABEL: self.name}
        return self.node_selector.match_labels

    def selects(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node belongs here by the settings; overlaps are not looked at."""
        if node_name in self.node_names:
            return True
        return bool(self.node_selector) and self.node_selector.matches(labels)
