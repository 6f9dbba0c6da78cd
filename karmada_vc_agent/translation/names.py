"""The only place that maps virtual <-> host names."""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.karmada import EXECUTION_NAMESPACE_PREFIX, LEASE_NAMESPACE
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace, by_host
from karmada_vc_agent.translation.kind_policy import Code, RefusedError

DEFAULT_NAMESPACE_TEMPLATE = "{namespace}-v-{cluster}"
DEFAULT_FORBIDDEN_NAMESPACES = ("kube-*",)
ANCHOR_NAMESPACE = VirtualNamespace("vc-system")

NAMES_ANNOTATION = f"{DOMAIN}/names"
"""JSON map, host name -> virtual name, of references that cannot be computed back.

A key can also be the path of a selector that meant ALL_NAMESPACES, or of a replaced list of names.
Names and such paths cannot be confused: no name has a dot and a capital letter.
"""
ALL_NAMESPACES = "*"

ALWAYS_FORBIDDEN = (
    ANCHOR_NAMESPACE,
    "kube-system",
    "karmada-system",
    LEASE_NAMESPACE,
    EXECUTION_NAMESPACE_PREFIX + "*",
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
        and _occurrences(template.separator, plain) == 1
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
    """Return the host namespace of a virtual one without a claim: M, or the adopted one.

    adopted: namespaces of the host that the virtual cluster may adopt. One that M computes for
    another virtual namespace is that one's, so the function stays injective.
    Source: rewriting-rules 1.1.
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
    if len(plain) <= _NAME_MAX_LENGTH and _occurrences(NAME_SEPARATOR, plain) == 1:
        return plain
    piece = name[:_NAME_PIECE_LENGTH].rstrip("-.")
    return piece + NAME_SEPARATOR + cluster + HASH_MARK + _digest(name, cluster)


def cluster_of_host_name(name: str) -> str:
    """Return the virtual cluster that a computed host name ends with; "" for other names."""
    _, mark, cluster = name.rpartition(NAME_SEPARATOR)
    return cluster.partition(HASH_MARK)[0] if mark else ""


def _occurrences(part: str, text: str) -> int:
    """Count overlapping occurrences, unlike str.count()."""
    count, start = 0, text.find(part)
    while start >= 0:
        count, start = count + 1, text.find(part, start + 1)
    return count


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
            raise RefusedError(
                Code.REFERENCE_FORBIDDEN,
                path,
                f'{path} refers to "{value}", which is not a namespace of a virtual cluster',
            )
        return self.selected_namespace(value)

    def selected_namespace(self, value: str) -> str:
        """Map the value of a selector; a forbidden namespace then selects nothing."""
        if not self.to_host:
            return self.names.virtual_namespace(value) or value
        host = self.names.host_namespace(value)
        if self.names.virtual_namespace(host) != value:
            self.noted[host] = value
        return host

    def name(self, value: str) -> str:
        """Map the name of a cluster-scoped object."""
        if not self.to_host:
            return self.names.virtual_name(value) or value
        host = self.names.host_name(value)
        if self.names.virtual_name(host) != value:
            self.noted[host] = value
        return host
