"""What mapping and server hand to each other: requests, plans, responses, the view.

plan() in plan.py makes a Plan of a VirtualRequest; the server carries it out. Nothing here waits.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec

from karmada_vc_agent.features.gateway.mapping.continue_tokens import Sealer
from karmada_vc_agent.features.gateway.mapping.sieves import Sieve
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.context import TranslationContext


class VirtualRequest(msgspec.Struct, frozen=True):
    """What one client asked.

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
    exist is of nobody then: virtual_namespace() returns None.
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

    authorize: ask first; who may not is told that instead.
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


class PlanAnswer(msgspec.Struct, frozen=True):
    """A success answered without the host."""

    code: int
    content_type: str
    body: bytes


class Response(Protocol):
    """How to map what comes back; made for one request, may keep state of it.

    kind: of an answer below 300. OPAQUE: bytes pass untouched. OBJECT, DISCOVERY: map_object().
    LIST: map_list(). WATCH: map_event() for each line. Answers from 300 on, whatever the kind:
    map_status() if the body is a JSON Status, else bytes pass. All functions change what they are
    given, and return it; lists and events may come from sieve(), which decodes what they look at.
    """

    @property
    def kind(self) -> ResponseKind:
        """Return how to treat the body."""

    def sieve(self, view: "View") -> Sieve:
        """Return what decodes lists and events, and encodes what they become."""

    def map_object(self, decoded: Object, view: "View") -> Object | Unknown | None:
        """Map one object, Table or Status; None: not of this virtual cluster, not_found()."""

    def map_list(self, decoded: Object, view: "View") -> Object | Unknown:
        """Map a list or a Table, without what is not of this virtual cluster."""

    def map_event(self, decoded: Object, view: "View") -> Object | Unknown | None:
        """Map `{"type", "object"}` of a watch; None: drop it."""

    def map_status(self, decoded: Object, view: "View") -> Object:
        """Map a Status (G-48)."""

    def map_warning(self, text: str, view: "View") -> str:
        """Map the value of a header `Warning`, or any other text of the host (G-48)."""

    def not_found(self) -> Refused:
        """Return the 404 of the host for the object that was asked for."""


class Pages(Protocol):
    """Joins pages of the host to one answer (G-40); made for one request, keeps its state."""

    def add(self, decoded: Object, view: "View") -> str | Unknown | None:
        """Take one page; return the query of the next one, None: it is complete."""

    def ahead(self, decoded: Object) -> str | None:
        """Return what add() will return of a page, if that is certain before."""

    def smaller(self) -> str | None:
        """Return the query of a page that was too large, with fewer entries; None: it has one."""

    def answer(self) -> Object:
        """Return the joined list or Table, mapped; after the first page at any time.

        Of its entries, those that were not taken().
        """

    @property
    def is_whole(self) -> bool:
        """Whether all there is was asked for: then it is sent page by page."""

    @property
    def field(self) -> str:
        """Name of what the list, or the Table, is long of."""

    def opening(self) -> Object:
        """Return the list or Table without its entries, mapped; after the first page."""

    def taken(self) -> list[Object]:
        """Return the entries since the last call, mapped."""


class Forward(msgspec.Struct, frozen=True):
    """One request to the host.

    path, query: encoded. accept: "" = none. as_gateway: with the gateway's own identity, instead of
    impersonating the client's (G-30, G-40). authorize: ask first; 403 if it is denied. is_long: no
    time limit. pages: with a LIST whose host pages are joined: send it, give the page to
    pages.add(), send it again with the query that this returns, up to PAGES_MAX times or
    PAGES_MAX_S; pages.answer() is the body. A page that fails: pages.answer() if there was
    one before, else the mapped Status. If pages.is_whole, all pages are sent, one by one.
    otherwise: what to send if the host answers 404. sets_up: a host namespace that the agent sets
    up once this made it; the answer waits for that, but not long. warnings: texts for the client.
    """

    method: str
    path: str
    response: Response
    query: str = ""
    accept: str = ""
    content_type: str = ""
    body: bytes = b""
    as_gateway: bool = False
    authorize: Attributes | None = None
    is_long: bool = False
    pages: Pages | None = None
    otherwise: "Forward | None" = None
    sets_up: str = ""
    warnings: tuple[str, ...] = ()


PAGES_MAX = 10
PAGES_MAX_S = 5.0

Plan = Forward | PlanAnswer | Refused


class KindInfo(msgspec.Struct, frozen=True):
    """A resource that the host serves. subresources: without `<plural>/`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()


class CallerIdentity(Protocol):
    """Who asks, by the names that the client sent (G-12, G-20): never those of the host."""

    @property
    def user(self) -> str:
        """Return the user, such as `alice`."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups that the client sent."""


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
        """Return the virtual name of a claimed host namespace; None: of others, or gone."""

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

    def has_node(self, labels: dict[str, str], name: str) -> bool:
        """Whether a node with these labels and this name is of the virtual cluster."""

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
