"""Errors that an API server, or its absence, can answer, and missing permissions.

Nothing may be concluded from a page of a proxy or load balancer, whatever its code: so PageError is
no NotFoundError, and that a kind is absent is for discovery to say.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
from cachetools import TTLCache

from karmada_vc_agent.model.objects import decode_as, dig, maps_at
from karmada_vc_agent.model.vocabulary import Rule

DENIED_FOR_S = 30.0
"""Shorter denials come from the end of an execution namespace, not from missing rules."""
FORBIDDEN_S = 300.0
"""The longest pause of a list where an administrator has to give a right first."""
DENIALS_KEPT_S = FORBIDDEN_S + DENIED_FOR_S
"""A permission counts as missing for this long after it was last refused, unless it was given."""
DENIALS_KEPT = 1024
"""Permissions that are missing at once; a request may name any object, so of more none is kept."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Need:
    """The permission that a request needs; namespace "" = cluster-wide."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def rule(self) -> Rule:
        names = (self.name,) if self.name else ()
        return Rule((self.group,), (self.resource,), (self.verb,), names)

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "cluster-wide"
        return f"{self.rule} {where}"


def need_of(method: str, path: str, *, watches: bool = False) -> Need | None:
    """Return what a request needs (as RequestInfo); None if its path is of no resource."""
    steps = [unquote(step) for step in path.partition("?")[0].split("/") if step]
    if steps[:1] == ["apis"] and len(steps) > 3:
        group, steps = steps[1], steps[3:]
    elif steps[:1] == ["api"] and len(steps) > 2:
        group, steps = "", steps[2:]
    else:
        return None
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2 and steps[2] not in ("status", "finalize"):
        namespace, steps = steps[1], steps[2:]
    resource, name = steps[0], steps[1] if len(steps) > 1 else ""
    if len(steps) > 2:
        resource = f"{resource}/{steps[2]}"
    if method == "GET":
        verb = "watch" if watches else "get" if name else "list"
    else:
        verb = _VERBS[method] if name or method != "DELETE" else "deletecollection"
    return Need(verb, group, resource, namespace, name)


class Denials:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: TTLCache[Need, tuple[float, float]] = TTLCache(
            DENIALS_KEPT, DENIALS_KEPT_S, timer=clock
        )

    def note(self, need: Need) -> None:
        now = self._clock()
        if need in self._seen or len(self._seen) < DENIALS_KEPT:
            first, _ = self._seen.get(need, (now, now))
            self._seen[need] = (first, now)

    def granted(self, method: str, path: str, *, watches: bool = False) -> None:
        """Record a request that was not refused; see need_of()."""
        if self._seen and (need := need_of(method, path, watches=watches)):
            self._seen.pop(need, None)

    def lasting(self) -> list[Need]:
        return [need for need, (first, last) in self._seen.items() if last - first >= DENIED_FOR_S]


_TLS_OF_AIOHTTP = re.compile(r" ssl:(<[^>]*>|\w+)")
_OF_AIOHTTP = "Cannot connect to host "
"""Of hub or host: `host` would be taken for the other one."""
_RBAC_REFUSAL = re.compile(r'User ".*" cannot \w+ resource')
"""A denial by the authorizer; admission (quota, policies) answers 403 in other words."""


class KubeError(Exception):
    """Any failure between us and an API server."""


class UnreachableError(KubeError):
    """No answer: refused, timed out, broken off, fenced."""


class UnreadableError(KubeError):
    """The response cannot be read."""


class UnwritableError(KubeError):
    """The request cannot be encoded as JSON, or has an invalid path."""


class CutOffError(UnreachableError):
    """The request was sent, but the response stalled, broke off, or is too large."""


class TooLargeError(CutOffError):
    """The response is larger than may be read at once."""


class ApiError(KubeError):
    """An error of the server; `str()` is its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFoundError(ApiError):
    """The object, its namespace, or its role does not exist: the server names it."""


class PageError(ApiError):
    """An error response that no API server writes, as of a proxy; it proves nothing.

    target: the server and the path, for messages to administrators; not part of `str()`.
    """

    target: str = ""


class NotServedError(PageError):
    """404 that does not name what is requested: nothing is served at this path now."""


class AlreadyExistsError(ApiError):
    """An object with this name exists."""


class ConflictError(ApiError):
    """The object changed since it was read, or others own `fields`: (field, message) of each."""

    fields: tuple[tuple[str, str], ...] = ()


class ExpiredError(ApiError):
    """The resource version or the continue token is too old."""


class ForbiddenError(ApiError):
    """The credential lacks the permission.

    need: the rule that would have allowed the request, if RBAC denied it; `str()` includes it.
    server: which one refused, for messages to administrators. is_intended: whether an
    administrator stopped such writes, so that nothing is wrong.
    """

    server: str = ""
    need: Need | None = None
    is_intended: bool = False

    def missing(self, need: Need | None) -> "ForbiddenError":
        """Return this error with the missing rule, if it is a denial of RBAC."""
        if need is None or not _RBAC_REFUSAL.search(str(self)):
            return self
        text = f"{self}; needs rule {need}; karmada-vc-agent join grants what the agent needs"
        error = ForbiddenError(self.status, self.reason, text)
        error.need = need
        return error


class UnauthorizedError(ApiError):
    """The server rejects the credential. target: as in PageError, with its source."""

    target: str = ""


class InvalidError(ApiError):
    """The object is malformed or violates a rule of the server."""


class TooManyRequestsError(ApiError):
    """The server requests a pause."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float) -> None:
        super().__init__(status, reason, message)
        self.retry_after_s = retry_after_s


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Any = None


_CLASSES: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
}
_DEFAULT_RETRY_AFTER_S = 1.0
MAX_RETRY_AFTER_S = 30.0
"""API servers request a second or a few; longer values must not block a worker."""
_WORDS_FOR_NOT_SERVED = "the server could not find the requested resource"
"""What Kubernetes' own clients report for a 404 that names no object."""
_BODY_SHOWN = 200


def reason_of(error: Exception) -> str:
    """Return why an exchange failed, without details of the HTTP library."""
    text = _TLS_OF_AIOHTTP.sub("", str(error)).replace(_OF_AIOHTTP, "cannot connect to ")
    return text or type(error).__name__


def error_from_answer(
    status: int,
    body: bytes,
    retry_after: str | None = None,
    *,
    path: str = "",
    sent: bytes | None = None,
) -> ApiError:
    """Return the error of a response; a body that is not a Status is cut at 200 characters.

    path, sent: of the request. 401 and 429 count without a Status as well: credentials are also
    checked in front of API servers, and API servers themselves write 429 as plain text.
    """
    text = body[:_BODY_SHOWN].decode(errors="replace").strip()
    answer = decode_as(_Status, body) or _Status(message=text)
    message = answer.message or f"the server answered {status} without a message"
    is_status = answer.kind == "Status"
    named = str(dig(answer.details, "name") or "") if is_status else ""
    if status == 404 and not _is_about(named, dig(answer.details, "kind"), path, sent):
        return NotServedError(404, answer.reason, message if named else _WORDS_FOR_NOT_SERVED)
    if status == 429:
        return TooManyRequestsError(status, answer.reason, message, _retry_after_s(retry_after))
    if not is_status and status != 401:
        return PageError(status, answer.reason, message)
    if status == 409 and answer.reason == "AlreadyExists":
        return AlreadyExistsError(status, answer.reason, message)
    error = _CLASSES.get(status, ApiError)(status, answer.reason, message)
    if isinstance(error, ConflictError):
        fields = maps_at(answer.details, "causes")
        error.fields = tuple((str(e.get("field", "")), str(e.get("message", ""))) for e in fields)
    return error


def watch_error(status: bytes) -> ApiError:
    error = error_from_answer(500, status)
    is_expired = "Expired" in error.reason or error.reason == "Gone"
    return ExpiredError(410, error.reason, str(error)) if is_expired else error


def _is_about(named: str, kind: Any, path: str, sent: bytes | None) -> bool:
    need = need_of("GET", path)
    if need is None or not named:
        return False
    if named == need.name or (kind == "namespaces" and named == need.namespace):
        return True
    # An API server answers for the role that a binding refers to, too.
    is_binding = need.resource in ("rolebindings", "clusterrolebindings")
    return is_binding and named == dig(decode_as(dict, sent or b""), "roleRef", "name")


def _retry_after_s(header: str | None) -> float:
    """Return how long to wait; a text that is no number counts as one second."""
    try:
        requested_s = float(header or _DEFAULT_RETRY_AFTER_S)
    except ValueError:
        return _DEFAULT_RETRY_AFTER_S
    return max(0.0, min(MAX_RETRY_AFTER_S, requested_s))  # in this order a NaN is the longest
