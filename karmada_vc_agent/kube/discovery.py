"""The kinds that an API server serves; refreshed cheaply by ETag.

Uses aggregated discovery (two requests); for a server without it, reads the group list and then
each version.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from karmada_vc_agent.kube.client import DISCOVERY, ApiClient
from karmada_vc_agent.kube.errors import ApiError, UnreadableError
from karmada_vc_agent.kube.flows import SharedLock
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import GroupVersionKind, Object, parse_api_version

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
