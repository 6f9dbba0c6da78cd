"""The body of a write for the host, by verb, media type and subresource (G-31, G-32, G-35)."""

from typing import Any

from karmada_vc_agent.features.gateway.mapping import bodies, json_patches, media_types, refusals
from karmada_vc_agent.features.gateway.mapping.asked import ParsedRequest
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.model.objects import Object, dig

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
OF_THE_KIND = frozenset({"", "status", "ephemeralcontainers", "resize"})
"""Subresources whose body is an object of the kind; others have kinds of their own."""


def body_for(parsed: ParsedRequest, target: BodyTarget) -> tuple[bytes, str]:
    """Return the body for the host and its Content-Type. Raises PlanError."""
    request = parsed.request
    if parsed.verb in ("delete", "deletecollection"):
        return options(request.body, request.content_type)
    if parsed.verb == "patch":
        kind = media_types.name_of(request.content_type)
        value = patched(kind, request.body, parsed, target)
        return bodies.encode(value), kind
    decoded = bodies.as_object(bodies.decode(request.body, request.content_type))
    written = written_object(decoded, parsed, target)
    return bodies.encode(written), media_types.JSON


def options(body: bytes, content_type: str) -> tuple[bytes, str]:
    """Return the DeleteOptions of a deletion; they name nothing. Raises PlanError."""
    if not body:
        return b"", ""
    return bodies.encode(bodies.decode(body, content_type)), media_types.JSON


def patched(kind: str, body: bytes, parsed: ParsedRequest, target: BodyTarget) -> Any:
    """Return a decoded patch for the host. Raises PlanError."""
    subresource = parsed.path.subresource
    if kind == JSON_PATCH:
        operations = bodies.decode_json(body)
        if subresource in OF_THE_KIND:
            return json_patches.json_patch(operations, target)
        return _patch_of_subresource(operations, target)
    if kind not in MERGE and kind != APPLY:
        raise refusals.unsupported_body()
    decoded = bodies.decode_either(body) if kind == APPLY else bodies.decode_json(body)
    sent = bodies.as_object(decoded)
    if subresource not in OF_THE_KIND:
        return bodies.in_namespace_only(sent, target)
    if kind == APPLY and not subresource:
        return bodies.whole(sent, target, is_update=True)
    return bodies.part(sent, target)


def written_object(sent: Object, parsed: ParsedRequest, target: BodyTarget) -> Object:
    """Return a created or replaced object for the host. Raises PlanError."""
    subresource = parsed.path.subresource
    if subresource == "binding":
        _refuse_foreign_node(sent, parsed)
    if subresource not in OF_THE_KIND:
        return bodies.in_namespace_only(sent, target)
    return bodies.whole(sent, target, is_update=parsed.verb == "update")


def _refuse_foreign_node(sent: Object, parsed: ParsedRequest) -> None:
    node = dig(sent, "target", "name")
    if not isinstance(node, str) or not parsed.view.owns_node(node):
        raise parsed.refuse(f'node "{node}" is not in the virtual cluster')


def _patch_of_subresource(operations: Any, target: BodyTarget) -> Any:
    """Refuse operations on the identity; the rest of a Scale or so names nothing."""
    for operation in operations if isinstance(operations, list) else ():
        path = dig(operation, "path")
        if not isinstance(path, str) or not path.startswith(("/spec", "/status")):
            raise refusals.invalid(target.info, target.name, str(path), "must not be patched")
    return operations
