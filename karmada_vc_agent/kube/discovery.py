"""The kinds that an API server serves, and whether it is healthy.

Discovery uses the aggregated format (two requests); for a server without it, reads the group list
and then each version.

Built-in kinds and those of CustomResourceDefinitions are stored in the etcd of the API server
itself. An aggregated server has a storage and resourceVersions of its own.

A path that is not served is answered by 404 without a Status: by the API server, by a proxy that
has lost it, and by an API server whose APIService is away for a moment. Only discovery tells these
apart: an API server lists what it serves.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from karmada_vc_agent.kube.client import DISCOVERY, ApiClient
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.errors import (
    ApiError,
    KubeError,
    NotFoundError,
    NotServedError,
    UnreadableError,
)
from karmada_vc_agent.kube.flows import SharedLock
from karmada_vc_agent.model.kinds import RBAC_GROUP
from karmada_vc_agent.model.objects import GroupVersionKind, Object, maps_at, parse_api_version

_AGGREGATED = "APIGroupDiscoveryList"
_ROOTS = {"/api": (_AGGREGATED, "APIVersions"), "/apis": (_AGGREGATED, "APIGroupList")}
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""Errors of reading a response that is not a discovery document."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served kind and its URL path."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        group, version, _ = self.gvk
        parts = ["", "apis", group, version] if group else ["", "api", version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class ServedApis:
    """The APIs that a server serves: lists as in APIResourceList, and an index by kind.

    lists: [{"groupVersion", "resources": [{"name", "kind", "namespaced", "verbs"}]}], without
    subresources. is_complete: False where a group did not answer. namespaced: (group, plural
    or plural/subresource) of everything that is in namespaces. subresources: of each (group,
    version, plural) that has some. unanswered: `<group>/<version>` that may be incomplete.
    """

    lists: list[Object]
    is_complete: bool
    by_kind: dict[GroupVersionKind, Resource] = field(default_factory=dict)
    namespaced: frozenset[tuple[str, str]] = frozenset()
    subresources: dict[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)
    unanswered: frozenset[str] = frozenset()


UNKNOWN_FOR_S = 5.0
"""A kind that was not served counts as not served for this long, unless `expire` is called."""


class Discovery:
    """The kinds that one API server serves.

    unknown_for_s: maximum age of an answer that lacks a kind. So lookups of unknown kinds cost a
    request now and then, however many and frequent they are.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Callable[[], float] = time.monotonic,
        unknown_for_s: float = UNKNOWN_FOR_S,
    ) -> None:
        self._unknown_for_s = unknown_for_s
        self._client = client
        self._clock = clock
        self._refreshed_at = float("-inf")
        self._etags: dict[str, str | None] = {}
        self._roots: dict[str, Any] = {}
        self._is_outdated = True
        self._is_expired = False
        self._doubted: set[GroupVersionKind] = set()
        self._lock = SharedLock()
        self.served = ServedApis([], is_complete=False)
        self.changed = Signal[[]]()
        """Emitted when `served` changed, whichever caller refreshed."""

    async def refresh(self, max_age_s: float = 0.0) -> ServedApis:
        """Refresh, unless the last answer is younger than `max_age_s`.

        Raises KubeError if the server does not answer.
        """
        async with self._lock:
            if self._clock() - self._refreshed_at < max_age_s:
                return self.served
            began_at, self._is_expired = self._clock(), False
            doubted, self._doubted = self._doubted, set()
            try:
                await self._refresh()
            except _SHAPE_ERRORS as error:
                # None of it is kept, or the server would answer 304.
                self._etags.clear()
                self._is_outdated = True
                text = f"cannot read what {self._client.name} serves: {error!r:.200}"
                raise UnreadableError(text) from error
            else:
                doubted.clear()
            finally:
                self._doubted |= doubted
            if not self._is_expired:  # while it was read: what was read may be from before
                self._refreshed_at = began_at
            return self.served

    async def _refresh(self) -> None:
        for root in _ROOTS:
            await self._refresh_root(root)
        if self._is_outdated:
            self.served = await self._read_roots()
            self._is_outdated = False
            self.changed.emit()

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind.

        Refreshes for one that is unknown or in doubt, unless that was recent.
        """
        if gvk not in self.served.by_kind or gvk in self._doubted:
            await self.refresh(self._unknown_for_s)
        return self.served.by_kind.get(gvk)

    async def find_any(self, gvk: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind at its version, else at another one that is served.

        An object has one identity at all of them. The server lists the preferred version first.
        """
        resource = await self.find(gvk)
        if resource is not None:
            return resource
        same = (r for r in self.served.by_kind.values() if r.gvk.group_kind == gvk.group_kind)
        return next(same, None)

    def covers(self, gvk: GroupVersionKind) -> bool:
        """Return whether the API group of a kind answered: what it does not list is not served."""
        unanswered = (parse_api_version(each, "") for each in self.served.unanswered)
        return all(each.group != gvk.group for each in unanswered)

    def expire(self) -> None:
        """Refresh at the next lookup of an unknown kind: it may be served now."""
        self._refreshed_at = float("-inf")
        self._is_expired = True

    def doubt(self, gvk: GroupVersionKind) -> None:
        """Refresh at the next lookup of a kind: it is not served where it was said to be."""
        self._doubted.add(gvk)
        self.expire()

    async def _refresh_root(self, root: str) -> None:
        answer = await self._client.get_if_changed(root, self._etags.get(root), DISCOVERY)
        if answer is None:
            return
        self._roots[root], self._etags[root] = answer
        self._is_outdated = True  # even if the other root fails then

    async def _read_roots(self) -> ServedApis:
        lists: list[Object] = []
        unanswered: set[str] = set()
        for path, root in self._roots.items():
            if root.get("kind") not in _ROOTS[path]:
                raise ValueError(f"{path} is no discovery document")  # a page, not an API server
            if root["kind"] == _AGGREGATED:
                listed, stale = _aggregated(root)
            else:
                listed, stale = await self._one_by_one(root)
            lists += listed
            unanswered |= stale
        namespaced = frozenset(_namespaced(lists))
        subresources = _subresources(lists)
        for served in lists:
            served["resources"] = [each for each in served["resources"] if "/" not in each["name"]]
        return ServedApis(
            lists,
            not unanswered,
            _index(lists),
            namespaced,
            subresources,
            frozenset(unanswered),
        )

    async def _one_by_one(self, root: Object) -> tuple[list[Object], set[str]]:
        paths = [f"/api/{version}" for version in root.get("versions") or []]
        for group in root.get("groups") or []:
            paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
        lists: list[Object] = []
        unanswered: set[str] = set()
        for path in paths:
            try:
                answer = await self._client.get(path)
            except ApiError:
                unanswered.add(path.removeprefix("/apis/").removeprefix("/api/"))
                continue
            resources = answer.get("resources") or []
            lists.append({"groupVersion": answer["groupVersion"], "resources": resources})
        return lists, unanswered


def _aggregated(root: Object) -> tuple[list[Object], set[str]]:
    lists: list[Object] = []
    unanswered: set[str] = set()
    for group in root.get("items") or []:
        group_name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or []:
            gvk = GroupVersionKind(group_name, version["version"], "")
            if version.get("freshness") == "Stale":
                unanswered.add(gvk.api_version)
            resources = [
                {
                    "name": name,
                    "kind": (resource.get("responseKind") or {}).get("kind") or "",
                    "namespaced": resource.get("scope") == "Namespaced",
                    "verbs": resource.get("verbs") or [],
                }
                for resource in version.get("resources") or []
                for name in _names(resource)
            ]
            lists.append({"groupVersion": gvk.api_version, "resources": resources})
    return lists, unanswered


def _names(resource: Object) -> Iterator[str]:
    """Yield the plural of a resource of aggregated discovery, and its subresources."""
    yield resource["resource"]
    for sub in resource.get("subresources") or []:
        yield f"{resource['resource']}/{sub['subresource']}"


def _namespaced(lists: list[Object]) -> Iterator[tuple[str, str]]:
    for served in lists:
        group = parse_api_version(served["groupVersion"], "").group
        for entry in served["resources"]:
            if entry["namespaced"]:
                yield group, entry["name"]


def _subresources(lists: list[Object]) -> dict[tuple[str, str, str], frozenset[str]]:
    by_plural: dict[tuple[str, str, str], set[str]] = {}
    for served in lists:
        group, version, _ = parse_api_version(served["groupVersion"], "")
        for entry in served["resources"]:
            plural, slash, sub = entry["name"].partition("/")
            if slash:
                by_plural.setdefault((group, version, plural), set()).add(sub)
    return {key: frozenset(subs) for key, subs in by_plural.items()}


def _index(lists: list[Object]) -> dict[GroupVersionKind, Resource]:
    by_kind: dict[GroupVersionKind, Resource] = {}
    for served in lists:
        for entry in served["resources"]:
            gvk = parse_api_version(served["groupVersion"], entry["kind"])
            resource = Resource(
                gvk, entry["name"], bool(entry["namespaced"]), frozenset(entry.get("verbs") or ())
            )
            by_kind.setdefault(gvk, resource)
    return by_kind


_BUILT_IN = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "extensions", "policy"),
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        RBAC_GROUP,
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    )
)


def is_built_in(group: str) -> bool:
    """Return whether the API server serves a group itself, without a CRD."""
    return group in _BUILT_IN


DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METADATA_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


async def is_aggregated(client: ApiClient, resource: Resource) -> bool:
    """Return whether a kind is served by an aggregated API server; one request each time.

    Raises KubeError if that cannot be determined.
    """
    group = resource.gvk.group
    if is_built_in(group):
        return False
    path = f"{DEFINITIONS_PATH}/{resource.plural}.{group}"
    try:
        await client.request("GET", path, accept=_METADATA_OF_ONE)
    except NotFoundError:
        return True
    return False


GROUPS_PATH = "/apis"


class _Place(NamedTuple):
    """The group, version and plural that the path of a collection or an object names."""

    group: str
    version: str
    plural: str

    @classmethod
    def of(cls, path: str) -> "_Place | None":
        """Return them; None for the core group, which every API server serves."""
        parts = path.strip("/").split("/")
        if parts[0] != "apis":
            return None
        _, group, version, *rest = parts
        is_in_namespace = rest[0] == "namespaces" and len(rest) > 2
        return cls(group, version, rest[2] if is_in_namespace else rest[0])


async def is_absent(client: ApiClient, path: str) -> bool:
    """Return whether the API server does not serve the kind at a path, according to discovery.

    False if no API server says so: that says nothing about its objects.
    """
    place = _Place.of(path)
    if place is None:
        return False
    try:
        return await _is_absent(client, place)
    except KubeError:
        return False


async def items_unless_absent(client: ApiClient, path: str) -> list[Object] | None:
    """Return the items of a collection, None if the API server says it does not serve it.

    Raises KubeError, and UnreadableError for a response that is no list.
    """
    try:
        answer = await client.get(path)
    except NotServedError:
        if await is_absent(client, path):
            return None
        raise
    if not isinstance(answer.get("items"), list):
        raise UnreadableError(f"the response to {path} is not a list")
    return maps_at(answer, "items")


async def never() -> bool:
    """Return False: the default of what is requested about a kind."""
    return False


async def _is_absent(client: ApiClient, place: _Place) -> bool:
    groups = await _document(client, GROUPS_PATH, "APIGroupList", "groups")
    versions = {
        version.get("version")
        for group in groups
        if group.get("name") == place.group
        for version in maps_at(group, "versions")
    }
    if place.version not in versions:
        return True
    path = f"{GROUPS_PATH}/{place.group}/{place.version}"
    resources = await _document(client, path, "APIResourceList", "resources")
    return all(resource.get("name") != place.plural for resource in resources)


async def _document(client: ApiClient, path: str, kind: str, field: str) -> list[Object]:
    """Return the entries of a discovery document, of which there are always some."""
    document = await client.get(path)
    entries = list(maps_at(document, field))
    if document.get("kind") != kind or not entries:
        raise UnreadableError(f"{path} is no {kind}")
    return entries


PROBE_TIMEOUT_S = 10.0


class HealthProbe:
    """Requests /readyz, or /healthz if that is not served."""

    def __init__(
        self, client: ApiClient, max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = SharedLock()
        self._probed_at = float("-inf")
        self._status: int | None = None

    async def status(self) -> int | None:
        """Return the HTTP status of the answer, None if there is none; at most max_age_s old."""
        async with self._lock:
            if self._clock() - self._probed_at >= self._max_age_s:
                self._status = await self._probe()
                self._probed_at = self._clock()
            return self._status

    async def _probe(self) -> int | None:
        for path in ("/readyz", "/healthz"):
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    await self._client.request("GET", path)
            except NotServedError:
                continue
            except ApiError as error:
                return error.status
            except (KubeError, TimeoutError):
                return None
            return 200
        return 404
