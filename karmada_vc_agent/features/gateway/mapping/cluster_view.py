"""What the rules of the gateway read: a request, and one virtual cluster.

The policy for Works decides about kinds that have no scope here, so what Karmada may send and what
discovery shows rest on one list (translation/kind_policy.py). `continue` tokens of the host name
the next object, which may be a neighbour's: they are sealed. AES-SIV needs no random nonce, so
equal places give equal tokens (G-40a).
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping import refusals
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, KindInfo, RefusalError
from karmada_vc_agent.features.gateway.mapping.request_syntax import Query, RequestPath
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind, Object
from karmada_vc_agent.translation import kind_paths
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_paths import Reference
from karmada_vc_agent.translation.kind_policy import Policy, policy_for

SEALER_KEY_BYTES = 64
"""Length of the key in the host Secret; AES-SIV with 256 bits."""


class Sealer:
    """Seals and opens tokens with one key: SEALER_KEY_BYTES random bytes.

    scope: what a token is good for, as ParsedRequest.token_scope.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def seal(self, token: str, scope: tuple[str, ...]) -> str:
        """Return the token for clients: URL-safe text that shows nothing."""
        sealed = self._cipher.encrypt(token.encode(), _bound_to(scope))
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, token: str, scope: tuple[str, ...]) -> str:
        """Return the token of the host. Raises RefusalError: 400."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            return self._cipher.decrypt(sealed, _bound_to(scope)).decode()
        except (InvalidTag, ValueError) as error:
            text = "continue key is not valid: the continue token is not valid for this list"
            raise refusals.bad_request(text) from error


def _bound_to(scope: tuple[str, ...]) -> list[bytes]:
    return [part.encode() for part in scope]


class VirtualRequest(msgspec.Struct, frozen=True):
    """What one client parsed.

    path: after `/virtualclusters/<vc>`, begins with `/`; it and query as received, still
    percent-encoded. body: complete, b"" on upgrades. accept: "" if there was none.
    """

    method: str
    path: str
    query: str = ""
    accept: str = ""
    content_type: str = ""
    body: bytes = b""
    is_upgrade: bool = False

    @property
    def size(self) -> int:
        """How much there is to map, in bytes."""
        texts = (self.path, self.query, self.accept, self.content_type)
        return sum(map(len, texts)) + len(self.body)


class Unknown(msgspec.Struct, frozen=True):
    """Host namespaces that the view has to read before the answer can be mapped (G-41).

    Nothing was changed: read them, and call again with the same value. A namespace that does not
    exist belongs to no one then: virtual_namespace() returns None.
    """

    host_namespaces: frozenset[str]


class ResponseKind(StrEnum):
    """How the server has to treat the body of a successful answer."""

    OPAQUE = "opaque"
    OBJECT = "object"
    LIST = "list"
    WATCH = "watch"
    DISCOVERY = "discovery"


class View(Protocol):
    """What mapping reads of one virtual cluster; the server implements it over caches.

    anchor: the host namespace that mapping shows as `kube-system`; it is not among the claims.
    """

    @property
    def name(self) -> str: ...
    @property
    def anchor(self) -> str: ...

    def virtual_namespace(self, host: str) -> str | Unknown | None:
        """Return the virtual name of a claimed host namespace; None: of others, or deleted."""

    def is_foreign(self, host: str) -> bool:
        """Whether a host namespace exists and is not of this virtual cluster."""

    def is_others(self, host: str) -> bool:
        """Whether a host namespace is claimed by, or the anchor of, another virtual cluster."""

    def namespace_object(self, host: str) -> Object | None:
        """Return the Namespace of the host from the cache; never changed by mapping."""

    def resource(self, group: str, version: str, plural: str) -> KindInfo | None:
        """Return what the host serves under a path, from discovery."""

    def resources(self, group: str) -> Iterable[KindInfo]:
        """Return all that the host serves of a group, in all versions."""

    def context(self) -> TranslationContext:
        """Return the facts for translating bodies and restoring objects; `work` is ""."""

    def suffix(self) -> str:
        """Return the end of a generated name, by chance (`metadata.generateName`)."""

    def sealer(self) -> Sealer:
        """Return what seals `continue` tokens; its key is shared by all replicas (G-40a)."""

    def host_is_alive(self) -> bool:
        """Whether the host answered in the last 30 s."""


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request for a resource. verb: as in RBAC. accept: for the host, JSON.

    host_namespace: of the namespace in the path, once it is determined.
    """

    request: VirtualRequest
    identity: Caller
    view: View
    path: RequestPath
    info: KindInfo
    query: Query
    verb: str
    accept: str
    host_namespace: str = ""

    @property
    def name(self) -> str:
        """Return the name in the path; "" if the body has it."""
        return self.path.name

    @property
    def namespace(self) -> str:
        """Return the virtual namespace; "" for what is cluster-scoped."""
        return self.path.namespace if self.info.namespaced else ""

    @property
    def is_write(self) -> bool:
        """Whether the request changes something."""
        return self.verb in WRITES

    @property
    def is_list(self) -> bool:
        """Whether it is a list or a watch."""
        return self.verb in ("list", "watch")

    @property
    def token_scope(self) -> tuple[str, ...]:
        """Return what the `continue` tokens of a list are bound to (G-40a)."""
        return self.view.name, self.path.group, self.path.resource, self.namespace

    @property
    def attributes(self) -> Attributes:
        """Return what a client must be allowed to where the gateway asks itself (G-24)."""
        path = self.path
        return Attributes(
            self.verb, path.group, path.version, path.resource, path.subresource, path.name
        )

    def reference_rows(self) -> tuple[Reference, ...]:
        """Return the rows for the kind of the table of references to namespaces."""
        references = self.view.context().settings.namespace_references
        return kind_paths.references_of(self.info.gvk.group_kind, references)

    def refuse(self, why: str) -> RefusalError:
        """Return the 403 for this request."""
        return refusals.forbidden_resource(self.info, self.name, why)

    def invalid(self, field: str, detail: str) -> RefusalError:
        """Return the 422 about a field of its body."""
        return refusals.invalid(self.info, self.name, field, detail)


class KindScope(Enum):
    """How objects of a kind belong to a virtual cluster."""

    NAMESPACED = "by the namespace that they are in"
    NAMESPACES = "by the claim"
    NODES = "by the node selector; read only"
    RENAMED = "by the label of the virtual cluster, under other names; read only"
    VOLUMES = "by the label, or by the namespace of their claim; read only"
    BINDINGS = "by their RoleBindings in the anchor; read only"
    SHARED = "shared by all; read only"
    REVIEW = "questions about rights, which are mapped"
    SELF_REVIEW = "the question who one is, which the gateway answers"
    DENIED = "not at all"


_AUTHORIZATION = "authorization.k8s.io"
SCOPE_OF_KIND: Mapping[GroupKind, KindScope] = {
    kinds.NAMESPACE: KindScope.NAMESPACES,
    GroupKind("", "Node"): KindScope.NODES,
    GroupKind("metrics.k8s.io", "NodeMetrics"): KindScope.NODES,
    kinds.PERSISTENT_VOLUME: KindScope.VOLUMES,
    kinds.CLUSTER_ROLE_BINDING: KindScope.BINDINGS,
    GroupKind("storage.k8s.io", "CSIDriver"): KindScope.SHARED,
    GroupKind(_AUTHORIZATION, "SelfSubjectAccessReview"): KindScope.REVIEW,
    GroupKind(_AUTHORIZATION, "SelfSubjectRulesReview"): KindScope.REVIEW,
    GroupKind(_AUTHORIZATION, "SubjectAccessReview"): KindScope.REVIEW,
    GroupKind(_AUTHORIZATION, "LocalSubjectAccessReview"): KindScope.REVIEW,
    GroupKind("authentication.k8s.io", "SelfSubjectReview"): KindScope.SELF_REVIEW,
    # Works may not contain these; in namespaces they are read.
    GroupKind("", "Event"): KindScope.NAMESPACED,
    GroupKind("events.k8s.io", "Event"): KindScope.NAMESPACED,
    GroupKind("storage.k8s.io", "CSIStorageCapacity"): KindScope.NAMESPACED,
    GroupKind("policy.kubeedge.io", "ServiceAccountAccess"): KindScope.NAMESPACED,
}
"""Kinds whose scope does not follow from the policy for Works."""

_OF_POLICY: Mapping[Policy, KindScope] = {
    Policy.APPLY: KindScope.NAMESPACED,
    Policy.RENAME: KindScope.RENAMED,
    Policy.SHARE: KindScope.SHARED,
}

_READING = frozenset({"get", "list", "watch"})
_VERBS_OF_SCOPE: Mapping[KindScope, frozenset[str]] = {
    KindScope.NAMESPACES: _READING | {"create", "delete", "patch", "update"},
    KindScope.REVIEW: frozenset({"create"}),
    KindScope.SELF_REVIEW: frozenset({"create"}),
    KindScope.DENIED: frozenset(),
}
"""Verbs that are allowed, else reading; of NAMESPACED, host RBAC decides."""

DENIED_SUBRESOURCES = frozenset({("", "serviceaccounts", "token")})
"""(group, plural, subresource) in namespaces: what they return would bypass the gateway (G-35)."""


def scope_of(info: KindInfo, view: View) -> KindScope:
    """Return how a resource is seen."""
    special = SCOPE_OF_KIND.get(info.gvk.group_kind)
    if special is not None:
        return special
    configured = view.context().settings.cluster_scoped_kinds
    policy = policy_for(info.gvk, namespaced=info.namespaced, configured=configured)
    return _OF_POLICY.get(policy, KindScope.DENIED)


def is_kind_shown(info: KindInfo, view: View) -> bool:
    """Whether discovery shows a resource (5.5)."""
    return scope_of(info, view) is not KindScope.DENIED


def scope_allows(scope: KindScope, verb: str) -> bool:
    """Whether a verb is allowed at all."""
    return scope is KindScope.NAMESPACED or verb in _VERBS_OF_SCOPE.get(scope, _READING)


def is_subresource_shown(scope: KindScope, info: KindInfo, subresource: str) -> bool:
    """Whether discovery shows a subresource."""
    if (info.group, info.plural, subresource) in DENIED_SUBRESOURCES:
        return False
    return scope is KindScope.NAMESPACED
