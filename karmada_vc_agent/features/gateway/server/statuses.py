"""Answers of the gateway's own: a Status of Kubernetes for whatever it refuses."""

from collections.abc import Mapping
from typing import Any

import orjson

from karmada_vc_agent.features.gateway.mapping.exchange import Refused

JSON = "application/json"
REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    431: "RequestHeaderFieldsTooLarge",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_RETRIED = frozenset({429, 503})
RETRY_AFTER_S = 1


class RefusalError(Exception):
    """A request that is answered with a Status. counted: its label in the metric of refusals."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        counted: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS.get(code, "")
        self.details = details
        self.counted = counted or self.reason


def unauthorized(counted: str = "unauthorized") -> RefusalError:
    """Return the one answer to an unauthenticated caller, whatever the reason (G-11)."""
    return RefusalError(401, "Unauthorized", counted=counted)


def status_body(refusal: RefusalError) -> bytes:
    """Return the Status of a refusal."""
    details = dict(refusal.details or {})
    if refusal.code in _RETRIED:
        details.setdefault("retryAfterSeconds", RETRY_AFTER_S)
    refused = Refused(refusal.code, refusal.reason, str(refusal), details or None)
    return orjson.dumps(refused.status())


def headers_of(refusal: RefusalError) -> list[tuple[str, str]]:
    """Return the headers that go with the Status of a refusal."""
    headers = [("Content-Type", JSON)]
    if refusal.code in _RETRIED:
        headers.append(("Retry-After", str(RETRY_AFTER_S)))
    return headers
