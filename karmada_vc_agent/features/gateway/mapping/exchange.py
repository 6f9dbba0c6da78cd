"""What the rules of the gateway read: a request, and the view of one virtual cluster."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec

from karmada_vc_agent.features.gateway.mapping.continue_tokens import Sealer
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.context import TranslationContext


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


class Attributes(msgspec.Struct, frozen=True):
    """What a SubjectAccessReview asks; its namespace is the anchor, View.anchor (G-24)."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    name: str = ""


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


class Refused(msgspec.Struct, frozen=True):
    """A failure answered without the host: a Status with these fields.

    authorize: checked first; its 403 is the answer then.
    """

    code: int
    reason: str
    message: str
    details: Object | None = None
    authorize: Attributes | None = None

    def status(self) -> Object:
        """Return the Status object."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            status["details"] = self.details
        return {**status, "code": self.code}


class KindInfo(msgspec.Struct, frozen=True):
    """A resource that the host serves. subresources: without `<plural>/`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()

    @property
    def gvk(self) -> GroupVersionKind:
        """Return group, version and kind."""
        return GroupVersionKind(self.group, self.version, self.kind)


class View(Protocol):
    """What mapping needs to know of one virtual cluster; the server implements it over caches.

    The anchor is not among the claims: mapping itself shows it as `kube-system`.
    """

    @property
    def name(self) -> str:
        """Return the name of the virtual cluster."""

    @property
    def anchor(self) -> str:
        """Return the host namespace that is shown as `kube-system`."""

    def host_namespace(self, virtual: str) -> str | None:
        """Return the host namespace that is claimed for a virtual one; None: not claimed."""

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

    def node_selector(self) -> str:
        """Return the label selector of the nodes, as in a query before encoding."""

    def has_node(self, labels: dict[str, str]) -> bool:
        """Whether a node with these labels is of the virtual cluster."""

    def owns_node(self, name: str) -> bool:
        """Whether a node, by its name, is of the virtual cluster now."""

    def context(self) -> TranslationContext:
        """Return the facts for translating bodies and restoring objects; `work` is ""."""

    def suffix(self) -> str:
        """Return the end of a generated name, by chance (`metadata.generateName`)."""

    def sealer(self) -> Sealer:
        """Return what seals `continue` tokens; its key is shared by all replicas (G-40a)."""

    def host_is_alive(self) -> bool:
        """Whether the host answered in the last 30 s."""
