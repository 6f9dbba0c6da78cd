"""The failures that the gateway itself answers, in the words of an API server."""

from karmada_vc_agent.features.gateway.mapping.cluster_view import KindInfo, Refused
from karmada_vc_agent.features.gateway.mapping.request_syntax import JSON, PROTOBUF, YAML
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.kind_policy import Code, Refusal

HOSTS_CREDENTIALS = "its credentials would be those of the host"


class PlanError(Exception):
    """A request that is refused; plan() catches it and returns the Refused."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.refused = Refused(code, reason, message, details)


def bad_request(message: str) -> PlanError:
    """Return a 400."""
    return PlanError(400, "BadRequest", message)


def forbidden(message: str) -> PlanError:
    """Return a 403."""
    return PlanError(403, "Forbidden", message)


def forbidden_resource(info: KindInfo, name: str, why: str) -> PlanError:
    """Return a 403 about a resource or an object."""
    target = qualified(info) + (f' "{name}"' if name else "")
    return PlanError(403, "Forbidden", f"{target} is forbidden: {why}", _details(info, name))


def not_found(info: KindInfo, name: str) -> PlanError:
    """Return the 404 for an object."""
    message = f'{qualified(info)} "{name}" not found'
    return PlanError(404, "NotFound", message, _details(info, name))


def namespace_not_found(namespace: str) -> PlanError:
    """Return the 404 for a namespace."""
    details = {"name": namespace, "kind": "namespaces"}
    return PlanError(404, "NotFound", f'namespaces "{namespace}" not found', details)


def already_exists(info: KindInfo, name: str) -> PlanError:
    """Return the 409 for an object that is there."""
    message = f'{qualified(info)} "{name}" already exists'
    return PlanError(409, "AlreadyExists", message, _details(info, name))


def unknown_resource() -> PlanError:
    """Return the 404 for a resource that is not served."""
    return PlanError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> PlanError:
    """Return a 405."""
    message = "the server does not allow this method on the requested resource"
    return PlanError(405, "MethodNotAllowed", message, {})


def not_upgraded() -> PlanError:
    """Return the 400 for an upgrade of what is mapped, byte by byte (G-60)."""
    return bad_request(
        "only exec, attach, portforward, log and proxied requests can be upgraded; send this "
        "request without the header Upgrade"
    )


def not_acceptable() -> PlanError:
    """Return the 406 for a client that does not take JSON (G-43)."""
    message = f"only the following media types are accepted: {JSON}"
    return PlanError(406, "NotAcceptable", message)


def unsupported_body(why: str = "") -> PlanError:
    """Return the 415 for a body that cannot be read (G-43). why: of one in protobuf."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, {YAML}, {PROTOBUF}"
    )
    message += f"; this one is not read: {why}; send it as {JSON}" if why else ""
    return PlanError(415, "UnsupportedMediaType", message)


def too_large(message: str) -> PlanError:
    """Return a 413."""
    return PlanError(413, "RequestEntityTooLarge", message)


def invalid(info: KindInfo, name: str, field: str, detail: str) -> PlanError:
    """Return a 422 about one field."""
    return _of_field(info, name, field, "FieldValueInvalid", detail)


def invalid_value(info: KindInfo, name: str, field: str, value: str, detail: str) -> PlanError:
    """Return a 422 about a value, in the words of an API server."""
    return invalid(info, name, field, f'Invalid value: "{value}": {detail}')


def required(info: KindInfo, field: str, detail: str) -> PlanError:
    """Return the 422 for an object without a name, or whatever else it must have."""
    return _of_field(info, "", field, "FieldValueRequired", f"Required value: {detail}")


def _of_field(info: KindInfo, name: str, field: str, reason: str, detail: str) -> PlanError:
    group = f".{info.group}" if info.group else ""
    cause = {"reason": reason, "message": detail, "field": field}
    message = f'{info.kind}{group} "{name}" is invalid: {field}: {detail}'
    details = _without_empty(
        {"name": name, "group": info.group, "kind": info.kind, "causes": [cause]}
    )
    return PlanError(422, "Invalid", message, details)


def refused_object(
    refusal: Refusal, cluster: str, info: KindInfo, namespace: str, name: str
) -> PlanError:
    """Return what a Refusal of translate() is for a client (G-31)."""
    message = refusal.text(cluster, info.kind, namespace, name)
    cause = {"reason": str(refusal.code), "message": refusal.detail, "field": refusal.path}
    details = _without_empty(
        {"name": name, "group": info.group, "kind": info.plural, "causes": [cause]}
    )
    if refusal.code is Code.MANIFEST_INVALID:
        return PlanError(422, "Invalid", message, details)
    return PlanError(403, "Forbidden", message, details)


def qualified(info: KindInfo) -> str:
    """Return `deployments.apps`, or `pods` of the core group."""
    return f"{info.plural}.{info.group}" if info.group else info.plural


def _details(info: KindInfo, name: str) -> Object:
    return _without_empty({"name": name, "group": info.group, "kind": info.plural})


def _without_empty(details: Object) -> Object:
    """Leave out what is empty, as API servers do."""
    return {key: value for key, value in details.items() if value}
