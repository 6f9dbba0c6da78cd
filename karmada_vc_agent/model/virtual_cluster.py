"""A virtual cluster as a group of nodes, and how its settings are declared."""

import math
import re
from collections import UserDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, NewType

import msgspec

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import INT64_MAX, Duration, QuantityText, Size, format_duration
from karmada_vc_agent.model.user_text import either, shown
from karmada_vc_agent.model.vocabulary import MEMBERSHIP_LABEL, service_account_user


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a number: from `least` on, below `below`.

    is_open: excludes `least` itself. zero: the special meaning of 0, if it has one. unit: of the
    number, for docs/settings.md.
    """

    least: float = 0
    below: float = math.inf
    is_open: bool = False
    zero: str = ""
    unit: str = ""

    def problem(self, value: float) -> str | None:
        """Return what is wrong with a number, or None."""
        if isinstance(value, float) and not math.isfinite(value):
            return f"is {value:g}, must be a finite number"
        if isinstance(value, int) and abs(value) > INT64_MAX:
            return "is too large"
        if value < self.below and (value > self.least if self.is_open else value >= self.least):
            return None
        return f"is {_write(type(value), value)}, must be {self.text(type(value))}"

    def text(self, kind: type[float]) -> str:
        """Describe the range: `more than 0s`; kind: the type of the number."""
        least = _write(kind, self.least)
        if self.below < math.inf:
            return f"between {least} and {_write(kind, self.below)}"
        if self.is_open:
            return f"more than {least}"
        return f"{least} ({self.zero}) or more" if self.zero else f"{least} or more"


def _write(kind: type[float], number: float) -> str:
    if issubclass(kind, Duration):
        return format_duration(number)
    return f"{number:g}" if isinstance(number, float) else shown(number)


_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_PREFIX_MAX_LENGTH = 253
_SIGNS = '63 letters, digits, "-", "_" or ".", beginning and ending with a letter or digit'

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
"""Operator of an expression."""


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of matchExpressions."""

    key: str
    """Key of the label."""
    operator: Operator
    """How the label is compared; `NotIn` also matches nodes without it."""
    values: frozenset[str] = frozenset()
    """Values to compare with; only for `In` and `NotIn`."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels meet it; NotIn is also met if the key is missing."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        if self.operator == "In":
            return labels.get(self.key) in self.values
        return labels.get(self.key) not in self.values


class LabelSelector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A Kubernetes label selector; an empty one is not allowed here."""

    match_labels: Mapping[str, str] = {}
    """Labels that a node must have."""
    match_expressions: tuple[Requirement, ...] = ()
    """Requirements on the labels of a node; all must be met."""

    def __bool__(self) -> bool:
        return bool(self.match_labels or self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        is_equal = self.match_labels.items() <= labels.items()
        return is_equal and all(each.matches(labels) for each in self.match_expressions)

    def requirements(self) -> tuple[Requirement, ...]:
        equalities = (Requirement(k, "In", frozenset((v,))) for k, v in self.match_labels.items())
        return (*equalities, *self.match_expressions)


def label_key_problem(key: str) -> str | None:
    """Return what is wrong with a label key, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _PREFIX_MAX_LENGTH and _PREFIX.fullmatch(prefix)):
        return f'"{key}" is not a valid label key: the part before "/" must be a DNS name'
    if not _NAME.fullmatch(name):
        return f'"{key}" is not a valid label key: use 1 to {_SIGNS}'
    return None


def label_value_problem(value: str) -> str | None:
    """Return what is wrong with a label value, or None; an empty value is allowed."""
    if value and not _NAME.fullmatch(value):
        return f'"{value}" is not a valid label value: use at most {_SIGNS}'
    return None


CLUSTER_STATUS = "clusterStatus"
EXECUTION = "execution"
WORK_STATUS = "workStatus"
SERVICE_EXPORT = "serviceExport"
ENDPOINT_SLICE_COLLECT = "endpointsliceCollect"
CERT_ROTATION = "certRotation"
HOST_EVENTS = "hostEvents"

CONTROLLERS: Mapping[str, bool] = {
    CLUSTER_STATUS: True,
    EXECUTION: True,
    WORK_STATUS: True,
    SERVICE_EXPORT: True,
    ENDPOINT_SLICE_COLLECT: True,
    CERT_ROTATION: False,
    HOST_EVENTS: True,
}
"""Controller -> whether `*` always includes it. The help of the flag describes them."""

MULTI_CLUSTER_SERVICE = "MultiClusterService"
CLUSTER_RESOURCE_MODELING = "CustomizedClusterResourceModeling"

FEATURE_GATES: Mapping[str, bool] = {MULTI_CLUSTER_SERVICE: False, CLUSTER_RESOURCE_MODELING: True}
"""Gate -> its default, as in Karmada. Gates of Karmada without meaning here are unknown."""

_ALL = "*"
_TRUTH = {"true": True, "false": False}


def enabled_controllers(text: str, also: Collection[str] = ()) -> frozenset[str]:
    """Return what `*,foo,-foo` enables, by the first match; also: in `*`. Raises ValueError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != _ALL and word.removeprefix("-") not in CONTROLLERS:
            raise ValueError(
                f'"{word.removeprefix("-")}" is not a controller, must be {either(CONTROLLERS)}'
            )
    enabled = set()
    for name, is_default in CONTROLLERS.items():
        named = [word for word in words if word.removeprefix("-") == name]
        if named[0] == name if named else _ALL in words and (is_default or name in also):
            enabled.add(name)
    if not enabled:
        raise ValueError(f'"{text}" enables no controller; write * for those on by default')
    if WORK_STATUS in enabled and EXECUTION not in enabled:
        raise ValueError(
            f"{WORK_STATUS} reports and repairs only what {EXECUTION} applies; write "
            f'"-{EXECUTION},-{WORK_STATUS}" to disable both'
        )
    return frozenset(enabled)


def feature_gates(text: str) -> dict[str, bool]:
    """Return all gates as `Name=true,Other=false` sets them. Raises ValueError."""
    gates = dict(FEATURE_GATES)
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if not name and not value:
            continue
        if name not in FEATURE_GATES:
            raise ValueError(f'"{name}" is not a feature gate, must be {either(FEATURE_GATES)}')
        if value.lower() not in _TRUTH:
            raise ValueError(f'{name} is "{value}", must be true or false')
        gates[name] = _TRUTH[value.lower()]
    return gates


_NO_BOUND = "no bound"
_Bound = Annotated[int, Range(zero=_NO_BOUND)]


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Bounds of one virtual cluster; 0 = none."""

    works: _Bound = 5000
    """Number of Works."""
    bytes: Annotated[Size, Range(zero=_NO_BOUND, unit="bytes")] = Size(32 * 2**20)
    """Memory for the manifests of all Works, and as much again for objects on the host and what
    Works report of them; a manifest takes several times its size as JSON."""
    manifests_per_work: _Bound = 500
    """Number of manifests in one Work."""
    kinds: _Bound = 100
    """Number of kinds in the Works; the agent watches the host for each of them."""
    shared_objects: _Bound = 200
    """Number of cluster-scoped objects shared with other virtual clusters, such as CRDs and
    classes."""
    loop_milliseconds: Annotated[int, Range(zero=_NO_BOUND, unit="ms")] = 250
    """Milliseconds of each second that the agent computes for it while it has something to do for
    others; alone it takes what it needs."""


WORKS_BOUND, MANIFESTS_BOUND, KINDS_BOUND = "works", "manifestsPerWork", "kinds"
BYTES_BOUND, HOST_BYTES_BOUND, SHARED_OBJECTS_BOUND = "bytes", "hostBytes", "sharedObjects"
LOOP_BOUND = "loopMilliseconds"
"""Names of the bounds in settings, messages and metrics; HOST_BYTES is `bytes` once more."""


VirtualNamespace = NewType("VirtualNamespace", str)
"""A namespace by its name on the hub: `edge`."""

HostNamespace = NewType("HostNamespace", str)
"""A namespace by its name on the host: `edge-v-branch-a`."""

PodSecurity = Literal["", "privileged", "baseline", "restricted"]
"""A level of the Pod Security Standards, or ""."""

SERVICE_NAMES_NONE: Final = "None"
SERVICE_NAMES_FIRST: Final = "VirtualFirst"
"""Two of the ways to resolve Services by the names of virtual namespaces (ADR 15)."""


KEEP: Final = "Keep"
EVICT: Final = "Evict"
"""Choices for the pods on a node that leaves its virtual cluster (ADR 33)."""


class ApplyAs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The host ServiceAccount whose rights apply to the manifests of a virtual cluster."""

    is_default: ClassVar[bool] = False
    namespace: str
    """Namespace of the ServiceAccount on the host."""
    name: str
    """Name of the ServiceAccount."""
    cluster_role: str = ""
    """ClusterRole that is bound to it in every namespace of the virtual cluster; without one the
    administrator creates the bindings."""

    @property
    def user(self) -> str:
        return service_account_user(self.namespace, self.name)


class DefaultAccount(ApplyAs, frozen=True):
    """An account that `join` created, since the tenants do not trust each other.

    The agent itself, which its policy confines, writes cluster-scoped objects.
    """

    is_default: ClassVar[bool] = True


class DefaultPodSecurity(str):
    """A level that the profile requires where the settings name none."""

    __slots__ = ()


def labelled(*names: str) -> LabelSelector:
    """Return the selector of the nodes that the agent labelled. names: on the host."""
    return LabelSelector(match_expressions=(Requirement(MEMBERSHIP_LABEL, "In", frozenset(names)),))


NO_NODES: Final = labelled()
"""Selects no node, and is a selector all the same: its pods are not to run anywhere."""


class VirtualClusterSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """All settings of a virtual cluster but its name and nodes (rewriting-rules 10)."""

    cluster_labels: Mapping[str, str] = {}
    """Labels of the Cluster."""
    provider: str = ""
    """Provider of the Cluster. Default: `clusterProvider`."""
    region: str = ""
    """Region of the Cluster. Default: `clusterRegion`."""
    zones: tuple[str, ...] = ()
    """Zones of the Cluster. Default: `clusterZones`."""
    taints: tuple[Object, ...] = ()
    """Taints of the Cluster, applied when the settings change; taints of operators are kept."""
    resource_models: tuple[Object, ...] = ()
    """Grades of nodes, as in `spec.resourceModels` of a Cluster, whose own are not used."""
    namespaces: Literal["Always", "OnDemand"] = "Always"
    """When host namespaces are created: always, or when something needs them."""
    adopt_namespaces: tuple[str, ...] = ()
    """Host namespaces that it may adopt, once `join` has marked them; its namespaces of these names
    are those of the host ([adopting](adopting.md))."""
    former_names: tuple[str, ...] = ()
    """Names it had before, the first one first: it takes over what they have on the host, and names
    on the host stay those of the first. One that has its first name again lists it first
    ([adopting](adopting.md))."""
    tolerations: tuple[Object, ...] = ()
    """Tolerations added to all its pods."""
    offline_tolerations: bool = False
    """Keep its pods on nodes that lost their uplink."""
    tolerate_node_taints: bool = True
    """Add a toleration to all its pods for each taint that all its nodes have."""
    on_node_leave: Literal["Keep", "Evict"] = KEEP
    """What becomes of its pods on a node that leaves the group: they stay, or are evicted once the
    node has been outside for `clusterFailureThreshold`, as far as PodDisruptionBudgets allow ([ADR
    33](adr/0033-nodes-that-leave-or-are-away.md))."""
    ready_when_unreachable: bool = True
    """Whether the Cluster stays Ready while none of its nodes is (condition `NodesReachable`), as
    Karmada's own agent has it."""
    quota: Mapping[str, QuantityText] = {}
    """Quota over all its namespaces together ([ADR 14](adr/0014-tenancy.md))."""
    limits: tuple[Object, ...] = ()
    """`limits` of the LimitRange in each of its namespaces."""
    network_policy: Literal["none", "isolate"] = "none"
    """`isolate`: NetworkPolicies admit to its pods only its own pods and those of
    `infrastructureNamespaces`."""
    pod_security: PodSecurity = ""
    """Pod Security Standard of its namespaces; wins over a label in the Work. Default: none; with
    `tenancy: Strict` `baseline`."""
    allowed_kinds: tuple[str, ...] = ()
    """Patterns of allowed kinds: `apps/Deployment`, `Secret`, `batch/*`; empty = all."""
    denied_kinds: tuple[str, ...] = ()
    """Patterns of denied kinds; win over `allowedKinds`."""
    apply_as: ApplyAs | None = None
    """ServiceAccount of the host that applies its manifests. Default: the agent's; with `tenancy:
    Strict` one that `join` creates."""
    service_names: Literal["None", "SearchDomain", "VirtualFirst"] = SERVICE_NAMES_NONE
    """How its pods resolve Services by the names of virtual namespaces ([ADR
    15](adr/0015-service-names.md))."""
    allow: tuple[str, ...] = ()
    """Guards that do not apply to it, or objects as `group/Kind`, `group/*` or `group/Kind/name`
    ([isolation](isolation.md))."""
    paused: bool = False
    """Write nothing of its Works to the host until this is off again, as if each of them had
    `suspendDispatching`. Its Cluster, its status and deletions go on."""
    window: str = ""
    """When the site takes changes: `Mon-Fri 22:00-05:00 Europe/Berlin`, several with `;` between
    them; empty = always. Otherwise new generations of what Works contain wait, and what was applied
    before is kept as it is ([ADR 43](adr/0043-the-site-decides-when.md))."""
    window_passes: tuple[str, ...] = ("Secret", "discovery.k8s.io/EndpointSlice")
    """Patterns of kinds that do not wait for a window, as in `allowedKinds`."""
    bounds: Bounds = Bounds()
    """Bounds of its own; those not set are taken from the agent's `bounds`."""


class VirtualCluster(
    VirtualClusterSettings, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """One virtual cluster in the settings (rewriting-rules 10)."""

    name: str
    """Name of the Cluster, at most 48 characters."""
    node_selector: LabelSelector = LabelSelector()
    """Label selector of its nodes; required unless `nodeNames` is set; both may be combined."""
    node_names: tuple[str, ...] = ()
    """Names of its nodes."""

    @property
    def name_on_host(self) -> str:
        """Return the name that names on the host are made from: a new one changes none of them."""
        return self.former_names[0] if self.former_names else self.name

    @property
    def needs_membership_label(self) -> bool:
        """Return True if the agent must label the nodes: pods can only select by equality."""
        return bool(self.node_names or self.node_selector.match_expressions)

    @property
    def required_selector(self) -> Mapping[str, str]:
        """Labels that every pod of this virtual cluster must select (rewriting-rules 3.1)."""
        if self.needs_membership_label:
            return {MEMBERSHIP_LABEL: self.name_on_host}
        return self.node_selector.match_labels

    def selects(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Return True if the settings select a node; overlaps are not considered."""
        if node_name in self.node_names:
            return True
        return bool(self.node_selector) and self.node_selector.matches(labels)


def virtual_cluster_of(
    settings: VirtualClusterSettings,
    name: str,
    node_selector: LabelSelector = NO_NODES,
    node_names: tuple[str, ...] = (),
) -> VirtualCluster:
    given = {field: getattr(settings, field) for field in settings.__struct_fields__}
    return VirtualCluster(name, node_selector, node_names, **given)


class ClaimedNamespaces(UserDict[VirtualNamespace, HostNamespace]):
    """Virtual name -> host namespace; each change drops the way back."""

    def __init__(self, claims: Mapping[VirtualNamespace, HostNamespace] | None = None) -> None:
        super().__init__()
        self.data = dict(claims or {})  # `update` would be five times as slow
        self._by_host: dict[HostNamespace, VirtualNamespace] | None = None

    def __setitem__(self, virtual: VirtualNamespace, host: HostNamespace) -> None:
        super().__setitem__(virtual, host)
        self._by_host = None

    def __delitem__(self, virtual: VirtualNamespace) -> None:
        super().__delitem__(virtual)
        self._by_host = None

    @property
    def by_host(self) -> Mapping[HostNamespace, VirtualNamespace]:
        """Return the first virtual name of each host namespace; built after a change."""
        if self._by_host is None:
            self._by_host = {host: virtual for virtual, host in reversed(self.data.items())}
        return self._by_host


def by_host(
    claims: Mapping[VirtualNamespace, HostNamespace],
) -> Mapping[HostNamespace, VirtualNamespace]:
    indexed = claims if isinstance(claims, ClaimedNamespaces) else ClaimedNamespaces(claims)
    return indexed.by_host


Tenancy = Literal["Shared", "Strict"]
"""Branches of one organisation, or tenants that do not trust each other."""

SHARED: Final = "Shared"
STRICT: Final = "Strict"


class Guard(StrEnum):
    """Refused unless `allow` of a virtual cluster lists it; the values of `allow`."""

    HOST_PATH = "HostPath"
    NETWORK_VOLUMES = "NetworkVolumes"
    UNCLAIMED_VOLUMES = "UnclaimedVolumes"
    DEFAULT_CLASSES = "DefaultClasses"
    CONTROLLER_KINDS = "ControllerKinds"
    EXTERNAL_ADDRESSES = "ExternalAddresses"
    LOAD_BALANCER_ADDRESSES = "LoadBalancerAddresses"
    LOAD_BALANCER_CLASSES = "LoadBalancerClasses"
    NODE_PORTS = "NodePorts"
    POD_ADDRESSES = "PodAddresses"
    FOREIGN_ENDPOINTS = "ForeignEndpoints"
    HOST_ENDPOINTS = "HostEndpoints"
    EXTERNAL_NAMES = "ExternalNames"
    ACCOUNT_TOKENS = "AccountTokens"
    EXTERNAL_DNS = "ExternalDNS"
    WILDCARD_HOSTS = "WildcardHosts"
    SHARED_HOSTS = "SharedHosts"
    PROXY_SNIPPETS = "ProxySnippets"
    SHARED_KINDS = "SharedKinds"
    UNKNOWN_KINDS = "UnknownKinds"


GUARDS_IN_BOTH = frozenset(
    {
        Guard.UNCLAIMED_VOLUMES,
        Guard.DEFAULT_CLASSES,
        Guard.EXTERNAL_ADDRESSES,
        Guard.HOST_ENDPOINTS,
        Guard.PROXY_SNIPPETS,
    }
)
"""Guards that also refuse in Shared: what passes them affects other virtual clusters."""


def refuses(tenancy: str, allow: Collection[str], guard: Guard, kind: str = "") -> bool:
    """Return True if a guard refuses.

    kind: `group/Kind` or `group/Kind/name`; `allow` may list the kind, or `group/*`, instead of the
    guard. Its name alone gives the name (SharedKinds), and nothing of what the object may say.
    """
    group, *rest = kind.split("/")
    given = {guard, "/".join((group, *rest[:1])), f"{group}/*"}
    if guard is Guard.SHARED_KINDS:
        given.add(kind)
    is_allowed = any(each and each in allow for each in given)
    return not is_allowed and (tenancy == STRICT or guard in GUARDS_IN_BOTH)


def allowance_problem(entry: str) -> str | None:
    """Return what is wrong with an entry of `allow`, or None."""
    group, slash, rest = entry.partition("/")
    kind, _, name = rest.partition("/")
    is_named = not rest.endswith("/") and "/" not in name
    if entry in tuple(Guard) or (group and slash and kind and is_named):
        return None
    return f'is "{entry}", must be one of {", ".join(Guard)}, a group/Kind, or a group/Kind/name'
