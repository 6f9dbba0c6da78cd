"""What an API server serves, whether it is healthy, and what it lets users do."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from cachetools import TTLCache

from karmada_vc_agent.kube import errors, flows
from karmada_vc_agent.kube.client import DISCOVERY, ONE_METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.flows import LogOnce, SharedLock
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    dig,
    maps_at,
    parse_api_version,
    texts_at,
)
from karmada_vc_agent.model.user_text import load_yaml
from karmada_vc_agent.model.vocabulary import service_account_of

_AGGREGATED = "APIGroupDiscoveryList"
_ROOTS = ("/api", "/apis")
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Resource:
    """One served kind and its URL path."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        group, version, _ = self.gvk
        parts = ["", "apis", group, version] if group else ["", "api", version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class ServedApis:
    """The APIs that a server serves.

    lists: [{"groupVersion", "resources": [{"name", "kind", "namespaced", "verbs"}]}], without
    subresources. namespaced: (group, plural or plural/subresource) of all that is in namespaces.
    aliases: singular and short names by (group, version, plural). unanswered: `<group>/<version>`
    that may lack some.
    """

    lists: list[Object]
    is_complete: bool
    by_kind: dict[GroupVersionKind, Resource] = field(default_factory=dict)
    namespaced: frozenset[tuple[str, str]] = frozenset()
    unanswered: frozenset[str] = frozenset()
    aliases: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)


UNKNOWN_FOR_S = 5.0
"""A kind that was not served counts as not served for this long, unless `expire` is called."""


class Discovery:
    """What one API server serves. unknown_for_s: maximum age of an answer that lacks a kind."""

    def __init__(
        self,
        client: ApiClient,
        clock: Callable[[], float] = time.monotonic,
        unknown_for_s: float = UNKNOWN_FOR_S,
    ) -> None:
        self._unknown_for_s = unknown_for_s
        self._client = client
        self._clock = clock
        self._refreshed_at = self._failed_at = float("-inf")
        self._failure = errors.KubeError()
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
        """Refresh unless the last answer is younger; waiting calls share one. Raises KubeError."""
        called_at = self._clock()
        async with self._lock:
            if self._refreshed_at > called_at - max_age_s:
                return self.served
            if self._failed_at > called_at:
                raise self._failure.with_traceback(None)
            began_at, self._is_expired = self._clock(), False
            doubted = self._doubted.copy()
            try:
                await self._refresh()
            except errors.KubeError as error:
                self._failed_at, self._failure = began_at, error
                raise
            self._failed_at, self._failure = float("-inf"), errors.KubeError()
            if not self._is_expired:  # while it was read: what was read may be from before
                self._doubted -= doubted
                self._refreshed_at = began_at
            return self.served

    async def _refresh(self) -> None:
        for root in _ROOTS:
            answer = await self._client.get_if_changed(root, self._etags.get(root), DISCOVERY)
            if answer is not None:
                self._roots[root], self._etags[root] = answer
                self._is_outdated = True  # even if the other root fails then
        if not self._is_outdated:
            return
        try:
            self.served = _served(self._roots.values())
        except _SHAPE_ERRORS as error:
            self._etags.clear()  # none of it is kept, or the server would answer 304
            text = f"cannot read what {self._client.name} serves: {error!r:.200}"
            raise errors.UnreadableError(text) from error
        self._is_outdated = False
        self.changed.emit()

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind; refresh for one that is unknown or in doubt."""
        if gvk not in self.served.by_kind or gvk in self._doubted:
            await self.refresh(self._unknown_for_s)
        return self.cached(gvk)

    def cached(self, gvk: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind as last read: without a request."""
        return self.served.by_kind.get(gvk)

    async def find_any(self, gvk: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind at its version, else at another one that is served."""
        resource = await self.find(gvk)
        same = (r for r in self.served.by_kind.values() if r.gvk.group_kind == gvk.group_kind)
        return resource or next(same, None)

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


def _served(roots: Iterable[Any]) -> ServedApis:
    """Return what documents of aggregated discovery list. Raises ValueError, KeyError and such."""
    lists: list[Object] = []
    by_kind: dict[GroupVersionKind, Resource] = {}
    namespaced: set[tuple[str, str]] = set()
    aliases: dict[tuple[str, str, str], tuple[str, ...]] = {}
    unanswered: set[str] = set()
    for root, entry in _versions(roots):
        group, version = (root.get("metadata") or {}).get("name") or "", entry["version"]
        api_version = GroupVersionKind(group, version, "").api_version
        if entry.get("freshness") == "Stale":
            unanswered.add(api_version)
        resources: list[Object] = []
        for each in entry.get("resources") or []:
            plural, verbs = each["resource"], each.get("verbs") or []
            kind = (each.get("responseKind") or {}).get("kind") or ""
            gvk = GroupVersionKind(group, version, kind)
            subs = [sub["subresource"] for sub in each.get("subresources") or []]
            is_namespaced = each.get("scope") == "Namespaced"
            if is_namespaced:
                names = (plural, *(f"{plural}/{sub}" for sub in subs))
                namespaced.update((group, name) for name in names)
            if short := each.get("shortNames"):
                aliases[group, version, plural] = (each.get("singularResource") or "", *short)
            by_kind.setdefault(gvk, Resource(gvk, plural, is_namespaced, frozenset(verbs)))
            resources.append(
                {"name": plural, "kind": gvk.kind, "namespaced": is_namespaced, "verbs": verbs}
            )
        lists.append({"groupVersion": api_version, "resources": resources})
    of_namespaces, missing = frozenset(namespaced), frozenset(unanswered)
    return ServedApis(lists, not missing, by_kind, of_namespaces, missing, aliases)


def _versions(roots: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    for root in roots:
        if root.get("kind") != _AGGREGATED:  # a page, not an API server
            raise ValueError("not a document of aggregated discovery")
        for group in root.get("items") or []:
            for version in group.get("versions") or []:
                yield group, version


_BUILT_IN = frozenset(load_yaml(Path(__file__).with_name("built_in_groups.yaml").read_bytes()))


def is_built_in(group: str) -> bool:
    """Return whether the API server serves a group itself, without a CRD."""
    return group in _BUILT_IN


DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def is_aggregated(client: ApiClient, resource: Resource) -> bool:
    """Return whether an aggregated API server serves a kind, by a request. Raises KubeError.

    Built-in kinds and those of CustomResourceDefinitions are in the storage of the API server.
    """
    group = resource.gvk.group
    if is_built_in(group):
        return False
    path = f"{DEFINITIONS_PATH}/{resource.plural}.{group}"
    try:
        await client.request("GET", path, accept=ONE_METADATA_ONLY)
    except errors.NotFoundError:
        return True
    return False


_groups: WeakKeyDictionary[ApiClient, tuple[str | None, ServedApis]] = WeakKeyDictionary()
"""What a server serves, and its ETag: the reflectors of many namespaces may lack a kind."""


async def is_absent(client: ApiClient, path: str) -> bool:
    """Return whether the API server's discovery lacks the kind of a path.

    404 without a Status is also the answer of a proxy, and while an APIService is away.
    """
    _, root, group, version, *_ = f"{path}//".split("/")
    need = errors.need_of("GET", path)
    if root != "apis" or need is None:
        return False  # every API server serves the core group
    try:
        etag, served = _groups.get(client, (None, _served(())))
        response = await client.get_if_changed("/apis", etag, DISCOVERY)
        if response is not None:
            served = _served([response[0]])
            _groups[client] = response[1], served
    except (errors.KubeError, *_SHAPE_ERRORS):
        return False
    if not served.lists or f"{group}/{version}" in served.unanswered:
        return False
    resources = {(*each.gvk[:2], each.plural) for each in served.by_kind.values()}
    return (group, version, need.resource) not in resources


async def items_unless_absent(client: ApiClient, path: str) -> list[Object] | None:
    """Return the items of a collection, None if it is not served. Raises KubeError."""
    try:
        answer = await client.get(path)
    except errors.NotServedError:
        if await is_absent(client, path):
            return None
        raise
    if not isinstance(answer.get("items"), list):
        raise errors.UnreadableError(f"the response to {path} is not a list")
    return maps_at(answer, "items")


async def never() -> bool:
    """Return False: the default of what is requested about a kind."""
    return False


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
            except errors.NotServedError:
                continue
            except errors.ApiError as error:
                return error.status
            except (errors.KubeError, TimeoutError):
                return None
            return 200
        return 404


SELF_ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def new_review(group: str, kind: str, **fields: Any) -> Object:
    """Return a review to create. group: without `.k8s.io`."""
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, **fields}


def self_access_review(attributes: Object) -> Object:
    spec = {"resourceAttributes": attributes}
    return new_review("authorization", "SelfSubjectAccessReview", spec=spec)


def review_status(review: Object) -> Object:
    """Return the status of an answered review. Raises UnreadableError for a page in its place."""
    status = dig(review, "status")
    if not isinstance(status, dict):
        raise errors.UnreadableError("the response is not a review")
    return status


async def is_allowed(client: ApiClient, need: errors.Need, as_user: str = "") -> bool:
    """Return whether our own user, or one we may impersonate, may do something."""
    resource, _, subresource = need.resource.partition("/")
    attributes = {**asdict(need), "resource": resource, "subresource": subresource}
    answer = await client.create(SELF_ACCESS_REVIEWS_PATH, self_access_review(attributes), as_user)
    return bool(review_status(answer).get("allowed"))


SELF_RULES_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
RULES_FOR_S = 10.0
_NOWHERE = "-"
"""A review of rules has a namespace, whose rules are in the answer, too: none has this name."""


_own_rules = WeakKeyDictionary[ApiClient, tuple[float, asyncio.Task[list[Object]]]]()
"""When the cluster-wide rules of our user were listed, and who lists them."""


async def _list_rules(client: ApiClient) -> list[Object]:
    review = new_review("authorization", "SelfSubjectRulesReview", spec={"namespace": _NOWHERE})
    try:
        answer = await client.create(SELF_RULES_REVIEWS_PATH, review)
    except errors.KubeError:
        return []
    return maps_at(answer, "status", "resourceRules")


async def is_allowed_by_rules(client: ApiClient, need: errors.Need) -> bool:
    """Return what `is_allowed` does, by one list of the rules in all namespaces for many needs.

    A server may list less than it allows: what no rule grants is reviewed by itself.
    """
    listed_at, rules = _own_rules.get(client) or (-math.inf, None)
    now = asyncio.get_running_loop().time()
    if rules is None or now - listed_at > RULES_FOR_S:
        rules = asyncio.create_task(flows.run(flows.OWN, partial(_list_rules, client)))
        _own_rules[client] = now, rules
    of_own = await asyncio.shield(rules)
    return any(_grants(rule, need) for rule in of_own) or await is_allowed(client, need)


def _grants(rule: Object, need: errors.Need) -> bool:
    required = {"verbs": need.verb, "apiGroups": need.group, "resources": need.resource}
    names = texts_at(rule, "resourceNames")
    return (not names or need.name in names) and all(
        not {value, "*"}.isdisjoint(texts_at(rule, key)) for key, value in required.items()
    )


async def server_version(client: ApiClient) -> str:
    """Return the version of Kubernetes of an API server, "" if it does not say so."""
    try:
        return str((await client.get("/version")).get("gitVersion") or "")
    except errors.KubeError:
        return ""


SELF_SUBJECT_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def own_user_name(client: ApiClient) -> str:
    """Return our user name for policies. Raises KubeError."""
    review = new_review("authentication", "SelfSubjectReview")
    answer = await client.create(SELF_SUBJECT_REVIEWS_PATH, review)
    return str(dig(answer, "status", "userInfo", "username") or "")


def need_to_impersonate(user: str) -> errors.Need:
    """Return the right to impersonate a user; a ServiceAccount is one in its namespace."""
    account = service_account_of(user)
    if account is None:
        return errors.Need("impersonate", "", "users", name=user)
    return errors.Need("impersonate", "", "serviceaccounts", *account)


TOKEN_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - no secret
ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALLOWED_FOR_S, REFUSED_FOR_S = 60.0, 10.0
OUTAGE_S = 600.0
"""A client that was allowed within this time still is while the API server does not answer."""
REVIEW_S = 8.0
"""Prometheus waits for 10 s."""
REVIEWS_KEPT, REVIEWS_AT_ONCE = 128, 16
"""Limit of cached answers of each sort, and of requests in progress, against guessed tokens."""

_log = logging.getLogger(__name__)

_AWAY = (errors.UnreachableError, errors.PageError, errors.UnreadableError, TimeoutError)
Create = Callable[[str, Any], Awaitable[Object]]
Refusal = tuple[int, str]
"""Status and text of the rejection."""


class BearerReview:
    """Reviews bearer tokens at an API server, by TokenReview and SubjectAccessReview.

    create: creates an object at a path. path: of our endpoint; clients must be allowed to get it.
    """

    def __init__(
        self, create: Create, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._create = create
        self._path = path
        self._clock = clock
        self._allowed_at: TTLCache[bytes, float] = TTLCache(REVIEWS_KEPT, OUTAGE_S, timer=clock)
        self._refused: TTLCache[bytes, Refusal] = TTLCache(REVIEWS_KEPT, REFUSED_FOR_S, timer=clock)
        self._under_way = 0
        self._once = LogOnce(_log)

    async def refusal(self, authorization: str) -> Refusal | None:
        """Return why the bearer of this header may not read the endpoint, None if allowed."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return 401, f"{self._path} needs a bearer token of the host"
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        if self._clock() - self._allowed_at.get(key, -math.inf) < ALLOWED_FOR_S:
            return None
        if (cached := self._refused.get(key)) is not None:
            return cached
        if self._under_way >= REVIEWS_AT_ONCE:
            return 503, f"too many clients of {self._path} at once; try again"
        self._under_way += 1
        try:
            refusal = await self._review(token)
        except (errors.KubeError, TimeoutError) as error:
            return self._unanswered(key, error)
        finally:
            self._under_way -= 1
        self._once.ended()
        self._allowed_at.pop(key, None)
        if refusal is None:
            self._allowed_at[key] = self._clock()
        else:
            self._refused[key] = refusal
        return refusal

    def _unanswered(self, key: bytes, error: Exception) -> Refusal | None:
        """Use the last answer, for a while, if the server does not answer; otherwise reject."""
        if isinstance(error, _AWAY) and key in self._allowed_at:
            return None
        reason = str(error) or "no answer in time"
        self._once.warning("Cannot ask the host who may read metrics", reason=reason)
        return 503, "the API server of the host does not answer; try again"

    async def _review(self, token: str) -> Refusal | None:
        async with asyncio.timeout(REVIEW_S):
            review = new_review("authentication", "TokenReview", spec={"token": token})
            status = review_status(await self._create(TOKEN_REVIEWS_PATH, review))
            if dig(status, "authenticated") is not True:
                return 401, "the host does not know this token"
            user = dig(status, "user")
            # With all attributes that the TokenReview returned.
            fields = {name: dig(user, name) for name in ("uid", "groups", "extra")}
            spec = {name: value for name, value in fields.items() if value}
            spec["user"] = name = dig(user, "username") or ""
            spec["nonResourceAttributes"] = {"path": self._path, "verb": "get"}
            review = new_review("authorization", "SubjectAccessReview", spec=spec)
            answer = review_status(await self._create(ACCESS_REVIEWS_PATH, review))
        if answer.get("allowed") is True:
            return None
        needs = f"nonResourceURLs [{self._path}], verbs [get]"
        return 403, f'user "{name}" may not get {self._path}; it needs a ClusterRole with {needs}'
