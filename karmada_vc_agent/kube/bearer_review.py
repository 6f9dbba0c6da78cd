"""Who may read an endpoint of ours: the API server says who they are, and whether they may."""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from karmada_vc_agent.kube.errors import KubeError, UnreachableError
from karmada_vc_agent.model.objects import Object, dig

TOKEN_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - no secret
ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALLOWED_FOR_S, REFUSED_FOR_S = 60.0, 10.0
OUTAGE_S = 600.0
"""Whoever was allowed so short ago still is while the API server is away."""
REVIEW_S = 8.0
"""Prometheus waits for 10 s."""
KEPT = 128
AT_ONCE = 16
"""Answers kept of each sort, and questions under way: who guesses tokens costs no more."""

_log = logging.getLogger(__name__)

Ask = Callable[[str, Any], Awaitable[Object]]
Refusal = tuple[int, str]
"""Status and text of the answer."""


class _Answer(NamedTuple):
    at: float
    refusal: Refusal | None


class BearerReview:
    """Asks an API server about bearer tokens, by TokenReview and SubjectAccessReview.

    ask: creates an object at a path. path: of the endpoint, which they must be allowed to get.
    """

    def __init__(self, ask: Ask, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._path = path
        self._clock = clock
        self._allowed: OrderedDict[bytes, _Answer] = OrderedDict()
        self._refused: OrderedDict[bytes, _Answer] = OrderedDict()
        self._under_way = 0
        self._said = ""

    async def refusal(self, authorization: str) -> Refusal | None:
        """Return why the bearer of this header may not read the endpoint; None: they may."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return 401, f"{self._path} needs a bearer token of the host"
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        known = self._known(key)
        if known is not None:
            return known.refusal
        if self._under_way >= AT_ONCE:
            return 503, f"too many ask for {self._path} at once; try again"
        self._under_way += 1
        try:
            refusal = await self._review(token)
        except (KubeError, TimeoutError) as error:
            return self._unanswered(key, error)
        finally:
            self._under_way -= 1
        self._said = ""
        self._keep(key, refusal)
        return refusal

    def _known(self, key: bytes) -> _Answer | None:
        for answers, lasts_s in ((self._allowed, ALLOWED_FOR_S), (self._refused, REFUSED_FOR_S)):
            answer = answers.get(key)
            if answer is not None and self._clock() - answer.at < lasts_s:
                return answer
        return None

    def _keep(self, key: bytes, refusal: Refusal | None) -> None:
        self._allowed.pop(key, None)
        self._refused.pop(key, None)
        answers = self._allowed if refusal is None else self._refused
        answers[key] = _Answer(self._clock(), refusal)
        if len(answers) > KEPT:
            answers.popitem(last=False)

    def _unanswered(self, key: bytes, error: Exception) -> Refusal | None:
        """Decide by what was said last, for a while, if the server is away; else refuse."""
        last = self._allowed.get(key)
        is_away = isinstance(error, (UnreachableError, TimeoutError))
        if is_away and last is not None and self._clock() - last.at < OUTAGE_S:
            return None
        reason = str(error) or "no answer in time"
        if reason != self._said:
            self._said = reason
            _log.warning(
                "Cannot ask the host who may read", extra={"path": self._path, "reason": reason}
            )
        return 503, "the host's API server could not be asked who you are; try again"

    async def _review(self, token: str) -> Refusal | None:
        async with asyncio.timeout(REVIEW_S):
            status = dig(await self._ask(TOKEN_REVIEWS_PATH, _token_review(token)), "status")
            if dig(status, "authenticated") is not True:
                return 401, "the host does not know this token"
            user = dig(status, "user")
            review = _access_review(user if isinstance(user, dict) else {}, self._path)
            answer = await self._ask(ACCESS_REVIEWS_PATH, review)
        if dig(answer, "status", "allowed") is True:
            return None
        name = dig(user, "username")
        needs = f"nonResourceURLs [{self._path}], verbs [get]"
        return 403, f'user "{name}" may not get {self._path}; needs a ClusterRole with {needs}'


def _token_review(token: str) -> Object:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }


def _access_review(user: Object, path: str) -> Object:
    """Ask for whom the TokenReview named, with all that it said of them."""
    who = {"user": user.get("username", "")}
    who |= {name: user[name] for name in ("uid", "groups", "extra") if user.get(name)}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": who | {"nonResourceAttributes": {"path": path, "verb": "get"}},
    }
