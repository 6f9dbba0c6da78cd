"""Reviews of access: our own, that of a user we impersonate, and of bearer tokens."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from cachetools import TTLCache

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    KubeError,
    Need,
    PageError,
    UnreachableError,
    UnreadableError,
)
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model.kinds import service_account_of
from karmada_vc_agent.model.objects import Object, dig

SELF_ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def self_access_review(attributes: Object) -> Object:
    """Return the review of whether our own user may do something."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def review_status(review: Object) -> Object:
    """Return the status of an answered review. Raises UnreadableError for a page in its place."""
    status = dig(review, "status")
    if not isinstance(status, dict):
        raise UnreadableError("the response is not a review")
    return status


async def is_allowed(client: ApiClient, need: Need, as_user: str = "") -> bool:
    """Return whether our own user, or one we may impersonate, may do something."""
    resource, _, subresource = need.resource.partition("/")
    attributes = {
        "verb": need.verb,
        "group": need.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": need.namespace,
        "name": need.name,
    }
    answer = await client.create(SELF_ACCESS_REVIEWS_PATH, self_access_review(attributes), as_user)
    return bool(review_status(answer).get("allowed"))


SELF_SUBJECT_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def own_user_name(client: ApiClient) -> str:
    """Return our user name for policies. Raises KubeError."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.create(SELF_SUBJECT_REVIEWS_PATH, review)
    return str(dig(answer, "status", "userInfo", "username") or "")


def need_to_impersonate(user: str) -> Need:
    """Return the right to impersonate a user; a ServiceAccount is one in its namespace."""
    account = service_account_of(user)
    if account is None:
        return Need("impersonate", "", "users", name=user)
    return Need("impersonate", "", "serviceaccounts", *account)


TOKEN_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - no secret
ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALLOWED_FOR_S, REFUSED_FOR_S = 60.0, 10.0
OUTAGE_S = 600.0
"""A client that was allowed within this time still is while the API server does not answer."""
REVIEW_S = 8.0
"""Prometheus waits for 10 s."""
REVIEWS_KEPT = 128
REVIEWS_AT_ONCE = 16
"""Limit of cached answers of each sort, and of requests in progress, against guessed tokens."""

_log = logging.getLogger(__name__)

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
        except (KubeError, TimeoutError) as error:
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
        is_away = isinstance(error, (UnreachableError, PageError, UnreadableError, TimeoutError))
        if is_away and key in self._allowed_at:
            return None
        reason = str(error) or "no answer in time"
        self._once.warning(
            "Cannot ask the host who may read metrics", path=self._path, reason=reason
        )
        return 503, "the API server of the host does not answer; try again"

    async def _review(self, token: str) -> Refusal | None:
        async with asyncio.timeout(REVIEW_S):
            status = review_status(await self._create(TOKEN_REVIEWS_PATH, _token_review(token)))
            if dig(status, "authenticated") is not True:
                return 401, "the host does not know this token"
            user = dig(status, "user")
            review = _subject_access_review(user if isinstance(user, dict) else {}, self._path)
            answer = review_status(await self._create(ACCESS_REVIEWS_PATH, review))
        if answer.get("allowed") is True:
            return None
        name = dig(user, "username")
        needs = f"nonResourceURLs [{self._path}], verbs [get]"
        return 403, (f'user "{name}" may not get {self._path}; it needs a ClusterRole with {needs}')


def _token_review(token: str) -> Object:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }


def _subject_access_review(user: Object, path: str) -> Object:
    """Return the review for the user that the TokenReview returned, with all its attributes."""
    who = {"user": user.get("username", "")}
    who |= {name: user[name] for name in ("uid", "groups", "extra") if user.get(name)}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": who | {"nonResourceAttributes": {"path": path, "verb": "get"}},
    }
