"""What a translation depends on: names, settings, facts; a manifest on its way."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import ip_network

from karmada_vc_agent.model import virtual_cluster, vocabulary
from karmada_vc_agent.model.core import Taint
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.user_text import plain_address
from karmada_vc_agent.model.virtual_cluster import (
    Guard,
    HostNamespace,
    VirtualCluster,
    VirtualNamespace,
    by_host,
)
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.kind_policy import Code, Policy, Refusal, RefusedError

DEFAULT_NAMESPACE_TEMPLATE = "{namespace}-v-{cluster}"
DEFAULT_FORBIDDEN_NAMESPACES = ("kube-*",)
ANCHOR_NAMESPACE = VirtualNamespace("vc-system")

NAMES_ANNOTATION = f"{vocabulary.DOMAIN}/names"
"""JSON map, host name -> virtual name, of references that cannot be computed back.

A key can also be the path of a selector that meant ALL_NAMESPACES, or of a replaced list of names.
Names and such paths cannot be confused: no name has a dot and a capital letter.
"""
ALL_NAMESPACES = "*"

ALWAYS_FORBIDDEN = (
    ANCHOR_NAMESPACE,
    "kube-system",
    "karmada-system",
    vocabulary.LEASE_NAMESPACE,
    vocabulary.EXECUTION_NAMESPACE_PREFIX + "*",
)

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
LABEL_MAX_LENGTH = 63
_TEMPLATE = re.compile(r"(\{namespace\}|\{cluster\})([a-z0-9-]+)(\{namespace\}|\{cluster\})")
_PIECE_MAX_LENGTH = 23
HASH_LENGTH = 12
HASH_MARK = "--"

NAME_SEPARATOR = "-v-"
_NAME_MAX_LENGTH = 253
_NAME_PIECE_LENGTH = 180


def is_path(noted: str) -> bool:
    """Return whether a key of the annotation is a path, not a name."""
    return "." in noted and noted != noted.lower()


@dataclass(frozen=True, slots=True)
class NamespaceTemplate:
    """The template of host namespace names; created by parse()."""

    separator: str
    cluster_first: bool = False

    @classmethod
    def parse(cls, text: str) -> "NamespaceTemplate":
        """Parse `{namespace}<separator>{cluster}`, in either order (1.1). Raises ValueError."""
        match = _TEMPLATE.fullmatch(text)
        first, separator, second = match.groups() if match else ("", "", "")
        template = cls(separator, cluster_first=second == "{namespace}")
        if first == second or HASH_MARK in separator or template.piece_length < 1:
            raise ValueError(
                f'"{text}" must be {{namespace}} and {{cluster}} with a short separator between '
                f'them: characters of a-z, 0-9 and "-", without "{HASH_MARK}"'
            )
        return template

    def __str__(self) -> str:
        """Return the text that parse() takes."""
        return self.join("{namespace}", "{cluster}")

    @property
    def piece_length(self) -> int:
        """Number of characters of each name that the hashed form keeps."""
        length = LABEL_MAX_LENGTH - len(self.separator) - len(HASH_MARK) - HASH_LENGTH
        return min(_PIECE_MAX_LENGTH, length // 2)

    def join(self, namespace: str, cluster: str) -> str:
        """Fill in the placeholders, without a hash."""
        if self.cluster_first:
            return cluster + self.separator + namespace
        return namespace + self.separator + cluster


def host_namespace(
    template: NamespaceTemplate, namespace: VirtualNamespace, cluster: str
) -> HostNamespace:
    """Compute the host namespace of a virtual one: the function M.

    Injective over all pairs: the plain form never contains `--` and splits in one way only, the
    hashed form always contains `--`. Source: rewriting-rules 1.1.
    """
    plain = template.join(namespace, cluster)
    if (
        len(plain) <= LABEL_MAX_LENGTH
        and _LABEL.fullmatch(plain)
        and HASH_MARK not in plain
        and _occurs_once(template.separator, plain)
    ):
        return HostNamespace(plain)
    pieces = (_piece(text, template.piece_length) for text in (namespace, cluster))
    return HostNamespace(template.join(*pieces) + HASH_MARK + _digest(namespace, cluster))


def home_of(
    template: NamespaceTemplate,
    namespace: VirtualNamespace,
    cluster: str,
    adopted: Collection[str],
) -> HostNamespace:
    """Return the host namespace of a virtual one without a claim: M, or the adopted one (1.1).

    adopted: host namespaces that it may adopt. One that M computes for another virtual namespace is
    that one's, so the function stays injective.
    """
    if namespace in adopted and _computed_from(template, namespace, cluster) is None:
        return HostNamespace(namespace)
    return host_namespace(template, namespace, cluster)


def _computed_from(template: NamespaceTemplate, host: str, cluster: str) -> VirtualNamespace | None:
    """Return the virtual namespace that M maps to a host namespace, or None."""
    separator = template.separator
    for text in _without_hash(host):
        for name in (cluster, _piece(cluster, template.piece_length)):
            if template.cluster_first:
                guess = VirtualNamespace(text.removeprefix(name + separator))
            else:
                guess = VirtualNamespace(text.removesuffix(separator + name))
            if host_namespace(template, guess, cluster) == host:
                return guess
    return None


def host_name(name: str, cluster: str) -> str:
    """Compute the host name of a cluster-scoped object: the function R (rewriting-rules 1.4)."""
    plain = name + NAME_SEPARATOR + cluster
    if len(plain) <= _NAME_MAX_LENGTH and _occurs_once(NAME_SEPARATOR, plain):
        return plain
    piece = name[:_NAME_PIECE_LENGTH].rstrip("-.")
    return piece + NAME_SEPARATOR + cluster + HASH_MARK + _digest(name, cluster)


def cluster_of_host_name(name: str) -> str:
    """Return the virtual cluster that a computed host name ends with; "" for other names."""
    _, mark, cluster = name.rpartition(NAME_SEPARATOR)
    return cluster.partition(HASH_MARK)[0] if mark else ""


def _occurs_once(part: str, text: str) -> bool:
    """Return whether a text has a part once, counting overlapping ones, unlike str.count()."""
    return text.find(part) == text.rfind(part) >= 0


def _piece(text: str, length: int) -> str:
    return text[:length].rstrip("-")


def _digest(name: str, cluster: str) -> str:
    return hashlib.sha256(f"{name}/{cluster}".encode()).hexdigest()[:HASH_LENGTH]


@dataclass(frozen=True, slots=True)
class Names:
    """Maps the names of one virtual cluster, both ways.

    To the host a claim wins, then the function M or R. On the way back a claim wins, then what
    translate() recorded on the object, then a guess that maps forward to the same host name.

    cluster: its name on the host.
    claims: the namespaces of this virtual cluster that exist on the host.
    forbidden: patterns of namespaces that it may not have (setting `forbiddenNamespaces`).
    adopted: host namespaces that it may adopt (setting `adoptNamespaces`).
    noted: host name -> virtual name, from NAMES_ANNOTATION of the object at hand.
    """

    cluster: str
    template: NamespaceTemplate
    claims: Mapping[VirtualNamespace, HostNamespace]
    forbidden: tuple[str, ...] = DEFAULT_FORBIDDEN_NAMESPACES
    noted: Mapping[str, str] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()

    def forbids(self, namespace: str) -> bool:
        """Return whether virtual clusters may not refer to this namespace (rewriting-rules 1.3)."""
        patterns = (*ALWAYS_FORBIDDEN, *self.forbidden)
        return any(fnmatchcase(namespace, pattern) for pattern in patterns)

    def host_namespace(self, namespace: str) -> HostNamespace:
        """Return the host namespace, existing or future, of a virtual one.

        Refuses NamespaceClaimConflict if another namespace of this virtual cluster, adopted under a
        name that looks computed, is already there.
        """
        virtual = VirtualNamespace(namespace)
        if virtual in self.claims:
            return self.claims[virtual]
        host = home_of(self.template, virtual, self.cluster, self.adopted)
        if host in by_host(self.claims):
            detail = (
                f'namespace "{namespace}" would map to the host namespace of another namespace '
                "of this virtual cluster; use another name"
            )
            raise RefusedError(Code.NAMESPACE_CLAIM_CONFLICT, "", detail)
        return host

    def virtual_namespace(self, namespace: str) -> VirtualNamespace | None:
        """Return the virtual name of a host namespace; None if it is not of this cluster."""
        claimed = self.claimed_namespace(namespace)
        if claimed is not None:
            return claimed
        noted = self.noted.get(namespace)
        return VirtualNamespace(noted) if noted is not None else self._guess(namespace)

    def claimed_namespace(self, namespace: str) -> VirtualNamespace | None:
        """Return the virtual namespace that a host namespace is claimed for, or None."""
        guess = self._guess(namespace)
        if guess is not None and self.claims.get(guess) == namespace:
            return guess
        return by_host(self.claims).get(HostNamespace(namespace))

    def host_name(self, name: str) -> str:
        """Return the host name of a cluster-scoped object of this virtual cluster."""
        return host_name(name, self.cluster)

    def virtual_name(self, name: str) -> str | None:
        """Return the virtual name of a cluster-scoped object; None if it is not of this one."""
        return self.noted[name] if name in self.noted else self._guess_name(name)

    def computed_back(self, name: str) -> str | None:
        """Return the virtual name that maps to a host name by computation, or None."""
        if _piece(self.cluster, self.template.piece_length) not in name:
            return None  # every computed name contains that much of the cluster
        namespace = self._guess(name)
        return namespace if namespace is not None else self._guess_name(name)

    def _guess_name(self, name: str) -> str | None:
        suffix = NAME_SEPARATOR + self.cluster
        for text in _without_hash(name):
            guess = text.removesuffix(suffix)
            if host_name(guess, self.cluster) == name:
                return guess
        return None

    def _guess(self, namespace: str) -> VirtualNamespace | None:
        guess = _computed_from(self.template, namespace, self.cluster)
        if guess is None and namespace in self.adopted:
            return VirtualNamespace(namespace)
        return guess


def _without_hash(name: str) -> Iterator[str]:
    """Yield a name as it is, then without a hash at its end."""
    yield name
    body, mark = name[: -HASH_LENGTH - len(HASH_MARK)], name[-HASH_LENGTH - len(HASH_MARK) :]
    if mark.startswith(HASH_MARK):
        yield body


@dataclass(frozen=True, slots=True)
class Direction:
    """Maps names to the host or back; on the way back names of others are not changed.

    noted: host name -> virtual name of those that cannot be computed back.
    """

    names: Names
    to_host: bool
    noted: dict[str, str] = field(default_factory=dict)

    def namespace(self, value: str, path: str) -> str:
        """Map a namespace; refuses one that the virtual cluster may not refer to."""
        if self.to_host and self.names.forbids(value):
            detail = f'{path} refers to "{value}", which is not a namespace of a virtual cluster'
            raise RefusedError(Code.REFERENCE_FORBIDDEN, path, detail)
        return self.selected_namespace(value)

    def selected_namespace(self, value: str) -> str:
        """Map the value of a selector; a forbidden namespace then selects nothing."""
        return self._mapped(value, self.names.host_namespace, self.names.virtual_namespace)

    def name(self, value: str) -> str:
        """Map the name of a cluster-scoped object."""
        return self._mapped(value, self.names.host_name, self.names.virtual_name)

    def _mapped(
        self, value: str, forth: Callable[[str], str], back: Callable[[str], str | None]
    ) -> str:
        if not self.to_host:
            return back(value) or value
        host = forth(value)
        if back(host) != value:
            self.noted[host] = value
        return host


@dataclass(frozen=True, slots=True)
class GatewayBinding:
    """Whom to bind while the gateway of an agent is on.

    account: (namespace, name) of the gateway's ServiceAccount. role: the ClusterRole that lets it
    impersonate the ServiceAccounts of a namespace.
    """

    account: tuple[str, str]
    role: str


@dataclass(frozen=True, slots=True)
class TranslationSettings:
    """The agent's settings that translation depends on (rewriting-rules 10)."""

    namespace_template: NamespaceTemplate = field(
        default_factory=lambda: NamespaceTemplate.parse(DEFAULT_NAMESPACE_TEMPLATE)
    )
    forbidden_namespaces: tuple[str, ...] = DEFAULT_FORBIDDEN_NAMESPACES
    pod_templates: tuple[kind_policy.PodTemplates, ...] = ()
    namespace_references: tuple[kind_policy.NamespaceReferences, ...] = ()
    cluster_scoped_kinds: kind_policy.ClusterScopedKinds = field(default_factory=dict)
    cluster_domain: str = vocabulary.DEFAULT_CLUSTER_DOMAIN
    cluster_dns: tuple[str, ...] = ()
    infrastructure: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    agent_name: str = "karmada-vc-agent"
    tenancy: str = virtual_cluster.SHARED
    namespace_keys: tuple[str, ...] = ()
    gateway: GatewayBinding | None = None

    @property
    def is_strict(self) -> bool:
        """Return whether the profile is Strict: tenants do not trust each other."""
        return self.tenancy == virtual_cluster.STRICT

    def is_of_host(self, address: str) -> bool:
        """Return whether an address is the host's: of a pod, of its DNS, or node-local."""
        ip = plain_address(address)
        if ip is None:
            return False
        if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
            return True
        return str(ip) in self.cluster_dns or any(ip in ip_network(cidr) for cidr in self.pod_cidrs)


@dataclass(frozen=True, slots=True)
class TranslationContext:
    """Facts about the world that a translation depends on, passed in by the caller.

    claims: host namespaces of this virtual cluster, by virtual name.
    owns_node: whether a node, by its name, belongs to this virtual cluster.
    work: `<execution namespace>/<work>` of the manifest; "" = none.
    bound_to: namespace of the Work's binding, "" = cluster-scoped, None = no binding.
    is_of_cluster: whether Karmada created that Work for the Cluster itself, not for a template.
    admin_rules: the most a Role may grant, see rbac_rules.admin_rules().
    nodes_of_group: names of the nodes in a KubeEdge NodeGroup; None = no such group.
    node_taints: taints of the nodes of this virtual cluster, which its pods tolerate.
    is_of_host: whether an address belongs to a node, a pod or a Service of others.
    is_namespaced: the scope of a kind; None = the host does not serve it.
    names_only: only find which object an earlier manifest created; skip checks of its content.
    """

    vc: VirtualCluster
    settings: TranslationSettings
    claims: Mapping[VirtualNamespace, HostNamespace]
    owns_node: Callable[[str], bool]
    work: str = ""
    bound_to: str | None = None
    is_of_cluster: bool = False
    admin_rules: tuple[Object, ...] = ()
    nodes_of_group: Callable[[str], Collection[str] | None] = lambda _name: None
    node_taints: tuple[Taint, ...] = ()
    is_of_host: Callable[[str], bool] = lambda _address: False
    is_namespaced: Callable[[GroupVersionKind], bool | None] = lambda gvk: (
        not kind_policy.is_cluster_scoped(gvk)
    )
    names_only: bool = False

    def refuses(self, guard: Guard, kind: str = "") -> bool:
        """Return whether profile and `allow` of the virtual cluster refuse what a guard covers."""
        return virtual_cluster.refuses(self.settings.tenancy, self.vc.allow, guard, kind)

    @property
    def allow_in_strict(self) -> Collection[str] | None:
        """Return `allow` of the virtual cluster; None in Shared, where rights need none."""
        return self.vc.allow if self.settings.is_strict else None

    def names(self, noted: Mapping[str, str] | None = None) -> Names:
        """Return the mapping of names under these facts. noted: names recorded on the object."""
        return Names(
            cluster=self.vc.name_on_host,
            template=self.settings.namespace_template,
            claims=self.claims,
            forbidden=self.settings.forbidden_namespaces,
            noted=noted or {},
            adopted=self.vc.adopt_namespaces,
        )


class NoticeCode(StrEnum):
    """Reasons of the events about applied manifests."""

    CONTROLLER_RIGHTS = "ControllerRights"
    HOST_SHARED = "HostShared"
    IMMEDIATE_BINDING = "ImmediateBinding"
    NODE_PORT_REASSIGNED = "NodePortReassigned"
    REFERENCE_NOT_REWRITTEN = "ReferenceNotRewritten"
    RULE_CUT = "RuleCut"
    SHARED_ADDRESS = "SharedAddress"
    METADATA_DROPPED = "MetadataDropped"
    OWNED_ELSEWHERE = "OwnedElsewhere"


@dataclass(frozen=True, slots=True)
class Notice:
    """A Warning event on the Work, which refuses nothing; detail has virtual names only."""

    code: NoticeCode
    detail: str


def node_port_reassigned(desired: int, actual: int) -> Notice:
    """Report that a fixed node port is taken on the host (4.3)."""
    detail = f"node port {desired} is taken on the host; port {actual} is used instead"
    return Notice(NoticeCode.NODE_PORT_REASSIGNED, detail)


def shared_name(host: str) -> Notice:
    """Report that another virtual cluster uses the same host (4.1)."""
    detail = (
        f"host {host} is also used by another virtual cluster; the host's gateway or ingress "
        "controller decides which of the two gets requests"
    )
    return Notice(NoticeCode.HOST_SHARED, detail)


def owned_elsewhere(owners: str) -> Notice:
    """Report that something else owns an adopted object still, such as `EdgeApplication web`."""
    detail = (
        f"its object on the host is owned by {owners}, which may change it and takes it along "
        "when it is deleted: delete the owner with --cascade=orphan"
    )
    return Notice(NoticeCode.OWNED_ELSEWHERE, detail)


@dataclass(slots=True)
class Draft:
    """A manifest on its way to the host, or a host object on its way back, changed in place.

    inside: translates, or restores, an embedded manifest; it holds no draft, for a circle of
    references would keep the manifest in memory until a collection.
    """

    obj: Object
    gvk: GroupVersionKind
    context: TranslationContext
    direction: Direction
    inside: Callable[[Object, "Draft"], Object | Refusal]
    namespaced: bool = True
    policy: Policy = Policy.REFUSE
    virtual_namespace: VirtualNamespace = field(default=VirtualNamespace(""))
    depends_on_claims: bool = False
    notices: list[Notice] = field(default_factory=list)


Step = Callable[[Draft], None]


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """The additional steps of one kind, in the order in which they run.

    strip: after fields that tenants may not write are dropped. metadata: after the name is mapped.
    inside: for embedded manifests, before references. rewrite: after references. place: after pods.
    notices: about the original manifest. restore: on the way back, before references.
    """

    strip: Step | None = None
    metadata: Step | None = None
    inside: Step | None = None
    rewrite: Step | None = None
    place: Step | None = None
    notices: Callable[[Object, TranslationContext], Iterable[Notice]] | None = None
    restore: Step | None = None
