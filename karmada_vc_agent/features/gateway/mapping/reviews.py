"""Questions about rights: mapped for the host, and answered to the client (5.3)."""

from typing import Any

from msgspec import structs

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping import (
    bodies,
    object_membership,
    parsed_request,
    refusals,
    request_syntax,
)
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.cluster_view import KindInfo, ResponseKind, View
from karmada_vc_agent.features.gateway.mapping.namespace_writes import right
from karmada_vc_agent.features.gateway.mapping.parsed_request import (
    Forward,
    ParsedRequest,
    PlanAnswer,
)
from karmada_vc_agent.features.gateway.mapping.responses import Response, is_status, texts_of
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.translation.kind_policy import RefusedError
from karmada_vc_agent.translation.rbac import Callers
from karmada_vc_agent.translation.rbac_rules import restore_written

_WRITES = frozenset({"create", "update", "patch", "delete"})
_RULES = "SelfSubjectRulesReview"
_ATTRIBUTES = "resourceAttributes"
_CALLERS = frozenset({"SubjectAccessReview", "LocalSubjectAccessReview"})


def review_for_host(body: Object, target: BodyTarget) -> Object:
    """Return a review with names of the host. Raises PlanError: 400, 403."""
    sent = dig(body, "spec")
    if not isinstance(sent, dict):
        raise refusals.bad_request("spec is not a map")
    view, spec = target.view, dict(sent)
    if target.info.kind == _RULES:
        spec["namespace"] = _host_namespace(spec.get("namespace"), view)
    attributes = spec.get(_ATTRIBUTES)
    if isinstance(attributes, dict):
        spec[_ATTRIBUTES] = _attributes(attributes, view)
    if target.info.kind in _CALLERS:
        _map_callers(spec, view)
    return {**bodies.in_namespace_only(body, target), "spec": spec}


def review_for_client(obj: Object, sent: Object) -> Object:
    """Restore, in place, the question; texts are mapped by the caller."""
    obj["spec"] = dig(sent, "spec")
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and "namespace" in metadata:
        metadata["namespace"] = dig(sent, "metadata", "namespace") or metadata["namespace"]
    return obj


def self_review(info: KindInfo, identity: Caller) -> Object:
    """Return who the client is, by its own names."""
    user: Object = {"username": identity.user, "groups": list(identity.groups)}
    return {
        "kind": info.kind,
        "apiVersion": info.gvk.api_version,
        "metadata": {"creationTimestamp": None},
        "status": {"userInfo": user},
    }


def _attributes(sent: Object, view: View) -> Object:
    """Map the namespace; a question about all namespaces is one about the anchor (G-24)."""
    attributes = dict(sent)
    namespace = sent.get("namespace")
    resource, verb = sent.get("resource"), sent.get("verb")
    if resource == "namespaces" and not sent.get("group"):
        return _of_a_namespace(attributes, str(verb), view)
    if namespace or _is_namespaced(sent, view):
        attributes["namespace"] = _host_namespace(namespace, view)
    return attributes


def _of_a_namespace(attributes: Object, verb: str, view: View) -> Object:
    if verb in _WRITES:
        required = right(verb, "")
        attributes |= {"group": required.group, "version": "*", "namespace": view.anchor}
        attributes.pop("name", None)
    else:
        namespace = attributes.get("namespace")
        if namespace:
            attributes["namespace"] = _host_namespace(namespace, view)
        if attributes.get("name"):
            attributes["name"] = object_membership.host_namespace(view, str(attributes["name"]))
    return attributes


def _is_namespaced(attributes: Object, view: View) -> bool:
    """Whether a resource is in namespaces; one that the host does not serve is taken to."""
    group, resource = str(attributes.get("group") or ""), attributes.get("resource")
    served = [info for info in view.resources(group) if info.plural == resource]
    return all(info.namespaced for info in served)


def _host_namespace(namespace: Any, view: View) -> str:
    return object_membership.host_namespace(view, str(namespace)) if namespace else view.anchor


def _map_callers(spec: Object, view: View) -> None:
    """Map user and groups as those of a request are (G-21). Raises PlanError: 403."""
    callers = Callers(view.name, view.context().names())
    groups = spec.get("groups")
    try:
        if isinstance(spec.get("user"), str) and spec["user"]:
            spec["user"] = callers.user(spec["user"])
        mapped = [
            callers.everyone if group == "system:authenticated" else callers.group(str(group))
            for group in (groups if isinstance(groups, list) else ())
        ]
    except RefusedError as error:
        raise refusals.forbidden(error.refusal.detail) from error
    spec["groups"] = list(dict.fromkeys((*mapped, callers.everyone)))


_BY_THE_GATEWAY = "SubjectAccessReview"
"""Asks about others, which needs a right that tenants have in their cluster only."""


class _OfReview(Response):
    """The answer to a review; sent: what the client parsed."""

    kind = ResponseKind.OBJECT

    def __init__(self, sent: Object) -> None:
        self._sent = sent

    def map_object(self, decoded: Object, view: View) -> Object | None:
        """Map the answer: its texts, and names of namespaces in rules."""
        if is_status(decoded):
            return self.map_status(decoded, view)
        texts = texts_of(view)
        status = decoded.get("status")
        if isinstance(status, dict):
            for field in ("reason", "evaluationError"):
                if isinstance(status.get(field), str):
                    status[field] = texts.text(status[field])
            for rule in status.get("resourceRules") or ():
                if restore_written(rule):
                    continue
                names = dig(rule, "resourceNames")
                if isinstance(names, list):
                    rule["resourceNames"] = [texts.text(str(name)) for name in names]
        return review_for_client(decoded, self._sent)


def plan_review(parsed: ParsedRequest) -> Forward:
    """Return what becomes of a question about rights. Raises PlanError."""
    if parsed.verb != "create" or parsed.path.name:
        raise refusals.method_not_allowed()
    request, view, virtual = parsed.request, parsed.view, parsed.path.namespace
    host = ""
    if parsed.info.namespaced:
        claimed = object_membership.claimed_namespace(view, virtual)
        if claimed is None:
            raise refusals.namespace_not_found(virtual)
        host = claimed
    sent = bodies.as_object(bodies.decode(request.body, request.content_type))
    target = BodyTarget(parsed.info, virtual, host, "", view)
    mapped = review_for_host(sent, target)
    is_gateways = parsed.info.kind == _BY_THE_GATEWAY
    return parsed_request.forward(
        parsed,
        structs.replace(parsed.path, namespace=host),
        _OfReview(sent),
        body=bodies.encode(mapped),
        content_type=request_syntax.JSON,
        as_gateway=is_gateways,
        authorize=parsed.attributes if is_gateways else None,
    )


def plan_self_review(parsed: ParsedRequest) -> PlanAnswer:
    """Answer who the client is. Raises PlanError."""
    if parsed.verb != "create":
        raise refusals.method_not_allowed()
    body = bodies.encode(self_review(parsed.info, parsed.identity))
    return PlanAnswer(201, request_syntax.JSON, body)
