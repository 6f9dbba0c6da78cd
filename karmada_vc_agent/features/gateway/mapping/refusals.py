"""The failures that the gateway itself answers, in the words of an API server."""

from collections.abc import Mapping
from typing import Any

import msgspec

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.kind_policy import Code, Refusal

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
HOSTS_CREDENTIALS = "its credentials would be those of the host"
REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "AlreadyExists",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    431: "RequestHeaderFieldsTooLarge",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_RETRIED = frozenset({429, 503})
RETRY_AFTER_S = 1


class KindInfo(msgspec.Struct, frozen=True):
    """A resource that the host serves."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def qualified(self) -> str:
        """Return `deployments.apps`, or `pods` of the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Attributes(msgspec.Struct, frozen=True):
    """What a SubjectAccessReview asks; its namespace is the anchor, View.anchor (G-24)."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    name: str = ""


class RefusalError(Exception):
    """A request that is answered with a Status, without the host.

    counted: its label in the metric of refusals. authorize: checked before it is answered; its 403
    is the answer then.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        counted: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = REASONS.get(code, "")
        self.details = details
        self.counted = counted or self.reason
        self.authorize: Attributes | None = None

    def status(self) -> Object:
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        details = dict(self.details or {})
        if self.code in _RETRIED:
            details.setdefault("retryAfterSeconds", RETRY_AFTER_S)
        if details:
            status["details"] = details
        return {**status, "code": self.code}

    def headers(self) -> list[tuple[str, str]]:
        headers = [("Content-Type", JSON)]
        if self.code in _RETRIED:
            headers.append(("Retry-After", str(RETRY_AFTER_S)))
        return headers


def unauthorized(counted: str = "unauthorized") -> RefusalError:
    """Return the one answer to an unauthenticated caller, whatever the reason (G-11)."""
    return RefusalError(401, "Unauthorized", counted=counted)


def _by_rules(code: int, message: str, details: Object | None = None) -> RefusalError:
    return RefusalError(code, message, details=details, counted=f"refused-{REASONS[code]}")


def bad_request(message: str) -> RefusalError:
    return _by_rules(400, message)


def forbidden(message: str) -> RefusalError:
    return _by_rules(403, message)


def forbidden_resource(info: KindInfo, name: str, why: str) -> RefusalError:
    """Return a 403 about a resource or an object."""
    target = info.qualified + (f' "{name}"' if name else "")
    return _by_rules(403, f"{target} is forbidden: {why}", _details(info, name))


def not_found(info: KindInfo, name: str) -> RefusalError:
    return _by_rules(404, f'{info.qualified} "{name}" not found', _details(info, name))


def namespace_not_found(namespace: str) -> RefusalError:
    details = {"name": namespace, "kind": "namespaces"}
    return _by_rules(404, f'namespaces "{namespace}" not found', details)


def already_exists(info: KindInfo, name: str) -> RefusalError:
    return _by_rules(409, f'{info.qualified} "{name}" already exists', _details(info, name))


def unknown_resource() -> RefusalError:
    """Return the 404 for a resource that is not served."""
    return _by_rules(404, "the server could not find the requested resource")


def method_not_allowed() -> RefusalError:
    return _by_rules(405, "the server does not allow this method on the requested resource")


def not_acceptable() -> RefusalError:
    """Return the 406 for a client that does not take JSON (G-43)."""
    return _by_rules(406, f"only the following media types are accepted: {JSON}")


def unsupported_body(why: str = "") -> RefusalError:
    """Return the 415 for a body that cannot be read (G-43). why: of one in protobuf."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, {PROTOBUF}"
    )
    message += f"; this one is not read: {why}; send it as {JSON}" if why else ""
    return _by_rules(415, message)


def invalid(
    info: KindInfo, name: str, field: str, detail: str, reason: str = "FieldValueInvalid"
) -> RefusalError:
    """Return a 422 about one field."""
    group = f".{info.group}" if info.group else ""
    cause = {"reason": reason, "message": detail, "field": field}
    message = f'{info.kind}{group} "{name}" is invalid: {field}: {detail}'
    return _by_rules(422, message, _details(info, name, kind=info.kind, causes=[cause]))


def refused_object(
    refusal: Refusal, cluster: str, info: KindInfo, namespace: str, name: str
) -> RefusalError:
    """Return what a Refusal of translate() is for a client (G-31)."""
    code = 422 if refusal.code is Code.MANIFEST_INVALID else 403
    cause = {"reason": str(refusal.code), "message": refusal.detail, "field": refusal.path}
    message = refusal.text(cluster, info.kind, namespace, name)
    return _by_rules(code, message, _details(info, name, causes=[cause]))


def _details(info: KindInfo, name: str, *, kind: str = "", causes: Any = None) -> Object:
    """Return what a failure is about; what is empty is left out, as by API servers."""
    details = {"name": name, "group": info.group, "kind": kind or info.plural, "causes": causes}
    return {key: value for key, value in details.items() if value}
