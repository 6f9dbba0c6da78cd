"""What an API server, or its absence, can answer.

KubeError
├── UnreachableError            no answer: refused, timed out, broken off, fenced
│   └── CutOffError             it was asked, but its answer did not come whole, or was too large
├── UnreadableError             an answer that is no JSON, or not of the form it must have
├── UnwritableError             what we would send is no JSON: nested too deep
└── ApiError                    the server said no (status, reason, message)
    ├── NotFoundError           404
    ├── AlreadyExistsError      409, reason AlreadyExists
    ├── ConflictError           409, anything else
    ├── ExpiredError            410
    ├── ForbiddenError          403
    │   └── UnauthorizedError   401
    ├── InvalidError            400, 422
    └── TooManyRequestsError    429, with retry_after_s
"""

import math
import re

import msgspec

from karmada_vc_agent.kube.permissions import Need

_TLS_OF_AIOHTTP = re.compile(r" ssl:(<[^>]*>|\w+)")
_RBAC_REFUSAL = re.compile(r'User ".*" cannot \w+ resource')
"""How the authorizer says no; admission (quota, policies) answers 403 in other words."""


class KubeError(Exception):
    """Anything that goes wrong between us and an API server."""


class UnreachableError(KubeError):
    """No answer came."""


class UnreadableError(KubeError):
    """An answer came and could not be read."""


class UnwritableError(KubeError):
    """What is to be sent cannot be written as JSON, or to such a path."""


class CutOffError(UnreachableError):
    """The question went out, but the answer fell silent, broke off, or was too large to take."""


class ApiError(KubeError):
    """The server's own refusal; `str()` is its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFoundError(ApiError):
    """The object or the resource does not exist."""


class AlreadyExistsError(ApiError):
    """An object of that name exists."""


class ConflictError(ApiError):
    """The object changed since it was read."""


class ExpiredError(ApiError):
    """The resource version or the continue token is too old."""


class ForbiddenError(ApiError):
    """The credential is unknown or lacks the permission.

    need: what would have allowed the request, where RBAC refused it; `str()` then says it too.
    """

    need: Need | None = None

    def missing(self, need: Need | None) -> "ForbiddenError":
        """Return this error with what is missing, if it is a refusal of RBAC."""
        if need is None or not _RBAC_REFUSAL.search(str(self)):
            return self
        text = f"{self}; needs rule {need}; karmada-vc-agent join grants what the agent needs"
        told = ForbiddenError(self.status, self.reason, text)
        told.need = need
        return told


class UnauthorizedError(ForbiddenError):
    """The server does not know the credential: it ran out, or was taken back.

    asked: the server and where the credential is from, for who gave it; not part of `str()`,
    which reaches Works.
    """

    asked: str = ""


class InvalidError(ApiError):
    """The object is malformed or breaks a rule of the server."""


class TooManyRequestsError(ApiError):
    """The server asks for patience."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float) -> None:
        super().__init__(status, reason, message)
        self.retry_after_s = retry_after_s


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


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
"""API servers ask for a second or a few; whatever else says more must not park a worker."""
_WORDS_FOR_PLAIN_ANSWERS = {404: "the server could not find the requested resource"}
"""What Kubernetes' own clients say of an answer that is no Status, e.g. for an unknown kind."""
_BODY_SHOWN = 200


def cause_of(error: Exception) -> str:
    """Say why an exchange failed, without what only a programmer of the client understands."""
    return _TLS_OF_AIOHTTP.sub("", str(error)) or type(error).__name__


def error_from_answer(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Make the error of an answer; a body that is none is cut at 200 characters."""
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = body[:_BODY_SHOWN].decode(errors="replace").strip()
        answer = _Status(message=_WORDS_FOR_PLAIN_ANSWERS.get(status, text))
    message = answer.message or f"the server answered {status} without a message"
    if status == 429:
        return TooManyRequestsError(status, answer.reason, message, _retry_after_s(retry_after))
    if status == 409 and answer.reason == "AlreadyExists":
        return AlreadyExistsError(status, answer.reason, message)
    return _CLASSES.get(status, ApiError)(status, answer.reason, message)


def _retry_after_s(header: str | None) -> float:
    """Return for how long to wait; what is no number of seconds, a date too, is a second."""
    try:
        asked_s = float(header or _DEFAULT_RETRY_AFTER_S)
    except ValueError:
        return _DEFAULT_RETRY_AFTER_S
    if math.isnan(asked_s):
        return _DEFAULT_RETRY_AFTER_S
    return min(max(asked_s, 0.0), MAX_RETRY_AFTER_S)
