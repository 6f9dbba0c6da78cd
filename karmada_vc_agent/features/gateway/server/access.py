"""Who a caller is and what it may do, by reviews of the host (G-10 to G-24).

Only the agent has rights in a new namespace at first. The last that it makes there is what lets the
gateway act for its ServiceAccounts, so the gateway waits for that right of its own (5.3).
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from cachetools import TTLCache

from karmada_vc_agent.features.gateway import identity
from karmada_vc_agent.features.gateway.host_state import HostState
from karmada_vc_agent.features.gateway.mapping.refusals import (
    Attributes,
    RefusalError,
    unauthorized,
)
from karmada_vc_agent.features.gateway.server.connections import Head, impersonation_of
from karmada_vc_agent.features.gateway.tokens import digest, matching
from karmada_vc_agent.kube.discovery import (
    ACCESS_REVIEWS_PATH,
    SELF_ACCESS_REVIEWS_PATH,
    TOKEN_REVIEWS_PATH,
    new_review,
    review_status,
    self_access_review,
)
from karmada_vc_agent.kube.errors import ForbiddenError, InvalidError, KubeError
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.vocabulary import DOMAIN, service_account_of
from karmada_vc_agent.translation.context import ANCHOR_NAMESPACE
from karmada_vc_agent.translation.kind_policy import RefusedError
from karmada_vc_agent.translation.rbac import ACCESS_GROUP, KARMADA_USER, OPERATOR_USER, Callers

VALID_FOR_S = 10.0
KEPT_TOKENS = 1024
VOUCHED_FOR_S = 600.0
"""How long a token that was valid does not wait behind guessed ones."""
REVIEWS_AT_ONCE, REVIEWS_WAITING = 8, 64
"""Of one virtual cluster: guessed tokens must not take the host from the others."""
REVIEW_S = 10.0
LOOK_AGAIN_S = 30.0
"""How often callers with an open watch or tunnel are checked again."""
_JWT_DOTS = 2
_REFUSED = frozenset({401, 403})

Ask = Callable[[str, Any], Awaitable[Object]]


class Authentication:
    """Authenticates callers. ask_for: creates objects at the host for a virtual cluster."""

    def __init__(self, state: HostState, ask_for: Callable[[str], Ask]) -> None:
        self._state = state
        self._reviews: dict[str, Reviews] = {}
        self._ask_for = ask_for
        state.unserved.subscribe(lambda cluster: self._reviews.pop(cluster, None))

    async def identify(self, head: Head) -> identity.Caller:
        """Return the caller. Raises RefusalError: 401, 403."""
        match = matching(self._state.sums_of(head.cluster), head.token)  # by its sum (G-10)
        if match is not None and head.token:
            kind, account = str(match.kind), ""
        else:
            kind, account = identity.OPERATOR_KIND, await self._operator(head)
        impersonation = impersonation_of(head.headers)
        denial = identity.denial_of(impersonation, kind, self._state.impersonators_of(head.cluster))
        if denial is not None:
            raise RefusalError(403, denial, counted="impersonation")
        vc = self._state.virtual_clusters.get(head.cluster)
        if vc is None:
            raise unauthorized()
        callers = Callers(head.cluster, self._state.contexts.context_for(vc, "").names())
        if kind == identity.IMPERSONATOR_KIND:
            user, groups = impersonation.users[0], impersonation.groups
        else:
            user = KARMADA_USER if kind == identity.ACCESS_KIND else OPERATOR_USER
            groups = (ACCESS_GROUP,)
        try:
            who = identity.identity_of(kind, user, groups, callers, account)
        except RefusedError as error:
            raise RefusalError(403, str(error), counted="impersonation") from error
        if not identity.is_confined(who, partial(self._is_own, head.cluster)):
            raise RefusalError(403, "the user is not one of this cluster", counted="impersonation")
        return who

    def _is_own(self, cluster: str, host_namespace: str) -> bool:
        """Whether a host namespace is the virtual cluster's, or not there."""
        if self._state.namespaces.get("", host_namespace) is None:
            return True
        claim = self._state.claims.holder_of(host_namespace)
        if claim is None or claim.cluster != cluster:
            return False
        return claim.namespace != ANCHOR_NAMESPACE

    async def _operator(self, head: Head) -> str:
        """Return the host ServiceAccount, in the anchor, whose token for the gateway this is."""
        vc = self._state.virtual_clusters.get(head.cluster)
        if vc is None or head.token.count(".") != _JWT_DOTS:
            raise unauthorized()
        account = await self.reviews_of(head.cluster).account_of(head.token)
        namespace, colon, name = account.partition(":")
        if not colon or namespace != self._state.anchor_of(vc):
            raise unauthorized()
        return name

    def reviews_of(self, cluster: str) -> "Reviews":
        """Return the reviews for a virtual cluster that is served."""
        if cluster not in self._reviews:
            self._reviews[cluster] = Reviews(self._ask_for(cluster), time.monotonic)
        return self._reviews[cluster]


async def until_refused(check: Callable[[], Awaitable[None]]) -> None:
    """Return once a check refuses the caller; without an answer of the host it stays (G-15)."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_S)
        try:
            await check()
        except RefusalError as refusal:
            if refusal.code in _REFUSED:
                return


VERDICT_FOR_S = 5.0
KEPT_VERDICTS = 1024
"""Answers that are remembered for each virtual cluster."""

_Question = tuple[str, tuple[str, ...], str, Attributes]


class Reviews:
    """TokenReviews and SubjectAccessReviews for one virtual cluster, remembered for some seconds.

    ask: creates an object at a path. Tokens that were valid lately have slots of their own: guessed
    ones fill the others.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._accounts: TTLCache[str, str] = TTLCache(KEPT_TOKENS, VALID_FOR_S, timer=clock)
        self._vouched: TTLCache[str, None] = TTLCache(KEPT_TOKENS, VOUCHED_FOR_S, timer=clock)
        self._slots = defaultdict[bool, asyncio.Semaphore](
            partial(asyncio.Semaphore, REVIEWS_AT_ONCE)
        )
        self._waiting = Counter[bool]()
        self._verdicts: TTLCache[_Question, bool] = TTLCache(
            KEPT_VERDICTS, VERDICT_FOR_S, timer=clock
        )

    async def account_of(self, token: str) -> str:
        """Return `<namespace>:<name>`, "" for no valid token of one. Raises RefusalError."""
        key = digest(token)
        if (account := self._accounts.get(key)) is not None:
            return account
        is_vouched = key in self._vouched
        if self._waiting[is_vouched] >= REVIEWS_WAITING:
            raise RefusalError(429, "too many unknown tokens at once; try again")
        self._waiting[is_vouched] += 1
        try:
            async with self._slots[is_vouched]:
                account = await self._review(token)
        finally:
            self._waiting[is_vouched] -= 1
        self._accounts[key] = account
        if account:
            self._vouched[key] = None
        else:
            self._vouched.pop(key, None)
        return account

    async def check(self, who: identity.Caller, what: Attributes, anchor: str) -> None:
        """Return if the host allows it in the anchor. Raises RefusalError: 403, 503."""
        question = (who.host_user, who.host_groups, anchor, what)
        is_allowed = self._verdicts.get(question)
        if is_allowed is None:
            review = _review(who, what, anchor)
            try:
                answer = review_status(await self._ask(ACCESS_REVIEWS_PATH, review))
            except KubeError as error:
                text = "the API server of the cluster cannot review access"
                raise RefusalError(503, text, counted="host-away") from error
            is_allowed = self._verdicts[question] = answer.get("allowed") is True
        if not is_allowed:
            raise denied(who, what)

    async def _review(self, token: str) -> str:
        spec = {"token": token, "audiences": [identity.AUDIENCE]}
        review = new_review("authentication", "TokenReview", spec=spec)
        try:
            async with asyncio.timeout(REVIEW_S):
                status = review_status(await self._ask(TOKEN_REVIEWS_PATH, review))
        except (ForbiddenError, InvalidError) as error:
            raise RefusalError(500, "the token cannot be reviewed", counted="review") from error
        except (KubeError, TimeoutError) as error:
            text = "the API server of the cluster does not answer"
            raise RefusalError(503, text, counted="host-away") from error
        # Both are said: an answer may have a user and not vouch for it.
        is_ours = identity.AUDIENCE in (dig(status, "audiences") or ())
        user = str(dig(status, "user", "username") or "")
        if dig(status, "authenticated") is not True or not is_ours:
            return ""
        return ":".join(service_account_of(user) or ())


def denied(who: identity.Caller, what: Attributes) -> RefusalError:
    """Return the 403 of an API server, with the names that the caller knows."""
    group = "" if what.group == DOMAIN else what.group  # namespaces, as clients name them
    resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
    plural = f"{what.resource}.{group}" if group else what.resource
    named = f'{plural} "{what.name}"' if what.name else plural
    text = (
        f'{named} is forbidden: User "{who.user}" cannot {what.verb} resource "{resource}" in API '
        f'group "{group}" at the cluster scope'
    )
    given = {"kind": what.resource, "group": group, "name": what.name}
    details = {key: value for key, value in given.items() if value}
    return RefusalError(403, text, details=details, counted="denied")


def _review(who: identity.Caller, what: Attributes, anchor: str) -> Object:
    spec = {
        "user": who.host_user,
        "groups": list(who.host_groups),
        "resourceAttributes": {**msgspec.structs.asdict(what), "namespace": anchor},
    }
    return new_review("authorization", "SubjectAccessReview", spec=spec)


SET_UP_S = 5.0
"""How long a client waits at most; the namespace is reported all the same."""
PAUSE_S = 0.1
"""Between questions."""


async def wait_until_set_up(
    ask: Ask, host_namespace: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Return once it is set up, or it takes too long, or the host does not answer."""
    attributes = {"verb": "impersonate", "resource": "serviceaccounts", "namespace": host_namespace}
    with suppress(KubeError, TimeoutError):
        async with asyncio.timeout(SET_UP_S):
            while True:
                answer = await ask(SELF_ACCESS_REVIEWS_PATH, self_access_review(attributes))
                if dig(answer, "status", "allowed") is True:
                    return
                await sleep(PAUSE_S)
