"""The only place that maps virtual <-> host names.

Namespaces: an existing claim wins, else the computation `M` (rewriting-rules 1.1). Names of
cluster-scoped objects: the computation `R` (1.4). On the way back a claim is asked first, then
what translate() noted on the object; last comes a guess that counts only if computing it forward
again gives the very same host name.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar, Protocol

from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.karmada import EXECUTION_NAMESPACE_PREFIX, LEASE_NAMESPACE
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.refusal import Code, RefusedError

DEFAULT_NAMESPACE_TEMPLATE = "{namespace}-v-{cluster}"
DEFAULT_FORBIDDEN_NAMESPACES = ("kube-*",)
ANCHOR_NAMESPACE = VirtualNamespace("vc-system")

NAMES_ANNOTATION = f"{DOMAIN}/names"
"""JSON map, host name to virtual name, of references that cannot be computed back.

A key can also be the path of a selector that meant ALL_NAMESPACES, or of a list of names that
stands there no more; no name has a dot and a capital letter as these paths do.
"""
ALL_NAMESPACES = "*"
_BETWEEN_NAMES = ","

_ALWAYS_FORBIDDEN = (
    ANCHOR_NAMESPACE,
    "kube-system",
    "karmada-system",
    LEASE_NAMESPACE,
    EXECUTION_NAMESPACE_PREFIX + "*",
)

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LABEL_MAX_LENGTH = 63
_SEPARATOR = re.compile(r"[a-z0-9-]+")
_PLACEHOLDERS = ("{namespace}", "{cluster}")
_PIECE_MAX_LENGTH = 23
_HASH_LENGTH = 12
_HASH_MARK = "--"

_NAME_SEPARATOR = "-v-"
_NAME_MAX_LENGTH = 253
_NAME_PIECE_LENGTH = 180


def is_path(noted: str) -> bool:
    """Return whether a key of the annotation is a path, and no name."""
    return "." in noted and noted != noted.lower()


@dataclass(frozen=True, slots=True)
class NamespaceTemplate:
    """How host namespaces are named; made by parse()."""

    separator: str
    cluster_first: bool = False

    @classmethod
    def parse(cls, text: str) -> "NamespaceTemplate":
        """Read `{namespace}<separator>{cluster}`, in either order.

        Raises ValueError with what is wrong. Source: rewriting-rules 1.1.
        """
        if any(text.count(placeholder) != 1 for placeholder in _PLACEHOLDERS):
            raise ValueError(f'"{text}" must contain {{namespace}} and {{cluster}} once each')
        cluster_first = text.index("{cluster}") < text.index("{namespace}")
        first, second = reversed(_PLACEHOLDERS) if cluster_first else _PLACEHOLDERS
        before, _, rest = text.partition(first)
        separator, _, after = rest.partition(second)
        if before or after:
            raise ValueError(f'"{text}" must begin and end with a placeholder')
        if not _SEPARATOR.fullmatch(separator):
            raise ValueError(f'"{text}" needs a text of a-z, 0-9 and "-" between its placeholders')
        if _HASH_MARK in separator:
            raise ValueError(f'"{text}" must not contain "{_HASH_MARK}"')
        template = cls(separator, cluster_first)
        if template.piece_length < 1:
            raise ValueError(f'"{text}" leaves no room for names: shorten its middle')
        return template

    def __str__(self) -> str:
        """Return the text that parse() takes."""
        return self.join(*_PLACEHOLDERS)

    @property
    def piece_length(self) -> int:
        """How many characters of each name the hashed form keeps."""
        room = _LABEL_MAX_LENGTH - len(self.separator) - len(_HASH_MARK) - _HASH_LENGTH
        return min(_PIECE_MAX_LENGTH, room // 2)

    def join(self, namespace: str, cluster: str) -> str:
        """Fill in the placeholders, nothing more."""
        if self.cluster_first:
            return cluster + self.separator + namespace
        return namespace + self.separator + cluster


def host_namespace(
    template: NamespaceTemplate, namespace: VirtualNamespace, cluster: str
) -> HostNamespace:
    """Compute the host namespace of a virtual one: the function M.

    Injective over all pairs: the plain form never has `--` and splits in one way only, the hashed
    form always has `--`. Source: rewriting-rules 1.1.
    """
    plain = template.join(namespace, cluster)
    if (
        len(plain) <= _LABEL_MAX_LENGTH
        and _LABEL.fullmatch(plain)
        and _HASH_MARK not in plain
        and _occurrences(template.separator, plain) == 1
    ):
        return HostNamespace(plain)
    pieces = (_piece(text, template.piece_length) for text in (namespace, cluster))
    return HostNamespace(template.join(*pieces) + _HASH_MARK + _digest(namespace, cluster))


def host_name(name: str, cluster: str) -> str:
    """Compute the host name of a cluster-scoped object: the function R.

    Source: rewriting-rules 1.4.
    """
    plain = name + _NAME_SEPARATOR + cluster
    if len(plain) <= _NAME_MAX_LENGTH and _occurrences(_NAME_SEPARATOR, plain) == 1:
        return plain
    piece = name[:_NAME_PIECE_LENGTH].rstrip("-.")
    return piece + _NAME_SEPARATOR + cluster + _HASH_MARK + _digest(name, cluster)


def _occurrences(part: str, text: str) -> int:
    """Count overlapping occurrences; str.count() skips those that overlap."""
    return sum(text.startswith(part, start) for start in range(len(text)))


def _piece(text: str, length: int) -> str:
    return text[:length].rstrip("-")


def _digest(name: str, cluster: str) -> str:
    return hashlib.sha256(f"{name}/{cluster}".encode()).hexdigest()[:_HASH_LENGTH]


@dataclass(frozen=True, slots=True)
class Names:
    """Maps the names of one virtual cluster, both ways.

    claims: the namespaces of this virtual cluster that exist on the host.
    forbidden: patterns of namespaces that it may not have (setting `forbiddenNamespaces`).
    noted: host name to virtual name, as found in NAMES_ANNOTATION of the object in hand.
    """

    cluster: str
    template: NamespaceTemplate
    claims: Mapping[VirtualNamespace, HostNamespace]
    forbidden: tuple[str, ...] = DEFAULT_FORBIDDEN_NAMESPACES
    noted: Mapping[str, str] = field(default_factory=dict)

    def forbids(self, namespace: str) -> bool:
        """Whether a virtual cluster may not have or name this namespace (rewriting-rules 1.3)."""
        patterns = (*_ALWAYS_FORBIDDEN, *self.forbidden)
        return any(fnmatchcase(namespace, pattern) for pattern in patterns)

    def host_namespace(self, namespace: str) -> HostNamespace:
        """Return where a virtual namespace is, or will be, on the host.

        Refuses NamespaceClaimConflict where another namespace of this virtual cluster, adopted
        under a name that looks computed, already is there.
        """
        virtual = VirtualNamespace(namespace)
        if virtual in self.claims:
            return self.claims[virtual]
        host = host_namespace(self.template, virtual, self.cluster)
        if host in self.claims.values():
            detail = (
                f'namespace "{namespace}" would lie where another namespace of the virtual '
                "cluster lies already; give it another name"
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
        """Return which virtual namespace a host namespace is claimed for, if any."""
        guess = self._guess(namespace)
        if guess is not None and self.claims.get(guess) == namespace:
            return guess  # nearly always; spares the search
        return next((v for v, host in self.claims.items() if host == namespace), None)

    def host_name(self, name: str) -> str:
        """Return the host name of a cluster-scoped object of this virtual cluster."""
        return host_name(name, self.cluster)

    def virtual_name(self, name: str) -> str | None:
        """Return the virtual name of a cluster-scoped object; None if it is not of this one."""
        return self.noted[name] if name in self.noted else self._guess_name(name)

    def computed_back(self, name: str) -> str | None:
        """Return the virtual name of what only a computation can have named so, if any does."""
        if _piece(self.cluster, self.template.piece_length) not in name:
            return None  # every computed name has that much of the cluster in it
        namespace = self._guess(name)
        return namespace if namespace is not None else self._guess_name(name)

    def _guess_name(self, name: str) -> str | None:
        suffix = _NAME_SEPARATOR + self.cluster
        for text in _without_hash(name):
            guess = text.removesuffix(suffix)
            if host_name(guess, self.cluster) == name:
                return guess
        return None

    def _guess(self, namespace: str) -> VirtualNamespace | None:
        separator = self.template.separator
        for text in _without_hash(namespace):
            for cluster in (self.cluster, _piece(self.cluster, self.template.piece_length)):
                if self.template.cluster_first:
                    guess = VirtualNamespace(text.removeprefix(cluster + separator))
                else:
                    guess = VirtualNamespace(text.removesuffix(separator + cluster))
                if host_namespace(self.template, guess, self.cluster) == namespace:
                    return guess
        return None


def _without_hash(name: str) -> Iterator[str]:
    """Yield a name as it is, then without the hash it may end with."""
    yield name
    body, mark = name[: -_HASH_LENGTH - len(_HASH_MARK)], name[-_HASH_LENGTH - len(_HASH_MARK) :]
    if mark.startswith(_HASH_MARK):
        yield body


class Direction(Protocol):
    """One way through the tables of references: to the host or back."""

    to_host: ClassVar[bool]

    def namespace(self, value: str, path: str, /) -> str:
        """Map a namespace that is named directly."""

    def selected_namespace(self, value: str, /) -> str:
        """Map a namespace that is named by a selector's value."""

    def name(self, value: str, /) -> str:
        """Map the name of a cluster-scoped object."""

    def any_selector(self, selector: Object, path: str, /) -> Object | None:
        """Map `{any: true}` of a monitor; None where the selector at the path means less."""

    def note_names(self, names: list[str], path: str, /) -> None:
        """Note the namespaces that stood at a path."""

    def noted_names(self, path: str, /) -> list[str] | None:
        """Return the namespaces that stood at a path; None where nothing is noted."""


@dataclass(frozen=True, slots=True)
class ToHost:
    """Maps virtual names to host names and notes those that no computation gives back."""

    to_host: ClassVar[bool] = True
    names: Names
    noted: dict[str, str] = field(default_factory=dict)

    def namespace(self, value: str, path: str) -> str:
        """Map a namespace; refuses one that the virtual cluster may not name."""
        if self.names.forbids(value):
            raise RefusedError(
                Code.REFERENCE_FORBIDDEN,
                path,
                f'{path} names "{value}", which is no namespace of a virtual cluster',
            )
        return self.selected_namespace(value)

    def selected_namespace(self, value: str) -> str:
        """Map a selector's value; one that may not be named then selects nothing."""
        host = self.names.host_namespace(value)
        if self.names.virtual_namespace(host) != value:
            self.noted[host] = value
        return host

    def name(self, value: str) -> str:
        """Map the name of a cluster-scoped object."""
        host = self.names.host_name(value)
        if self.names.virtual_name(host) != value:
            self.noted[host] = value
        return host

    def any_selector(self, selector: Object, path: str) -> Object | None:
        """List the claimed host namespaces; the object changes when one comes or goes."""
        if selector.get("any") is not True:
            return None
        self.noted[path] = ALL_NAMESPACES
        return {"matchNames": sorted(self.names.claims.values())}

    def note_names(self, names: list[str], path: str) -> None:
        """Note the namespaces that stood at a path."""
        self.noted[path] = _BETWEEN_NAMES.join(names)

    def noted_names(self, _path: str) -> list[str] | None:
        """Return None: notes are for the way back."""
        return None


@dataclass(frozen=True, slots=True)
class ToVirtual:
    """Maps host names back; what is not of this virtual cluster stays as it is."""

    to_host: ClassVar[bool] = False
    names: Names

    def namespace(self, value: str, _path: str) -> str:
        """Map a host namespace back."""
        return self.selected_namespace(value)

    def selected_namespace(self, value: str) -> str:
        """Map a host namespace back."""
        return self.names.virtual_namespace(value) or value

    def name(self, value: str) -> str:
        """Map the host name of a cluster-scoped object back."""
        return self.names.virtual_name(value) or value

    def any_selector(self, _selector: Object, path: str) -> Object | None:
        """Give `{any: true}` back where translate() noted it."""
        return {"any": True} if self.names.noted.get(path) == ALL_NAMESPACES else None

    def note_names(self, _names: list[str], _path: str) -> None:
        """Note nothing: notes are made on the way to the host."""

    def noted_names(self, path: str) -> list[str] | None:
        """Give back the namespaces that translate() noted for a path."""
        noted = self.names.noted.get(path)
        return None if noted is None else noted.split(_BETWEEN_NAMES)
