"""Questions about rights: mapped for the host, and answered to the client (5.3)."""

from dataclasses import replace
from typing import Any

from msgspec import structs

from karmada_vc_agent.features.gateway.mapping import (
    bodies,
    object_membership,
    parsed_request,
    refusals,
)
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ParsedRequest,
    ResponseKind,
    View,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import ObjectReader
from karmada_vc_agent.features.gateway.mapping.parsed_request import Forward, PlanAnswer
from karmada_vc_agent.features.gateway.mapping.responses import Response, is_status
from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.translation.kind_policy import RefusedError
from karmada_vc_agent.translation.rbac import Callers
from karmada_vc_agent.translation.rbac_rules import restore_written

_WRITES = frozenset({"create", "update", "patch", "delete"})
_RULES = "SelfSubjectRulesReview"
_ATTRIBUTES = "resourceAttributes"
_CALLERS = frozenset({"SubjectAccessReview", "LocalSubjectAccessReview"})


def review_for_host(body: Object, parsed: ParsedRequest) -> Object:
    """Return a review with names of the host. Raises RefusalError: 400, 403."""
    sent = dig(body, "spec")
    if not isinstance(sent, dict):
        raise refusals.bad_request("spec is not a map")
    view, spec = parsed.view, dict(sent)
    if parsed.info.kind == _RULES:
        spec["namespace"] = _host_namespace(spec.get("namespace"), view)
    attributes = spec.get(_ATTRIBUTES)
    if isinstance(attributes, dict):
        spec[_ATTRIBUTES] = _attributes(attributes, view)
    if parsed.info.kind in _CALLERS:
        _map_callers(spec, view)
    return {**bodies.in_namespace_only(body, parsed), "spec": spec}


def _attributes(sent: Object, view: View) -> Object:
    """Map the namespace; a question about all namespaces is one about the anchor (G-24)."""
    attributes, namespace = dict(sent), sent.get("namespace")
    if sent.get("resource") == "namespaces" and not sent.get("group"):
        if str(sent.get("verb")) in _WRITES:
            attributes.pop("name", None)
            ours = {"group": domain.DOMAIN, "version": "*", "namespace": view.anchor}
            return attributes | ours
        if attributes.get("name"):
            attributes["name"] = object_membership.host_namespace(view, str(attributes["name"]))
        is_in_one = bool(namespace)
    else:
        is_in_one = bool(namespace) or _is_namespaced(sent, view)
    if is_in_one:
        attributes["namespace"] = _host_namespace(namespace, view)
    return attributes


def _is_namespaced(attributes: Object, view: View) -> bool:
    """Whether a resource is in namespaces; one that the host does not serve is taken to."""
    group, resource = str(attributes.get("group") or ""), attributes.get("resource")
    served = [info for info in view.resources(group) if info.plural == resource]
    return all(info.namespaced for info in served)


def _host_namespace(namespace: Any, view: View) -> str:
    return object_membership.host_namespace(view, str(namespace)) if namespace else view.anchor


def _map_callers(spec: Object, view: View) -> None:
    """Map user and groups as those of a request are (G-21). Raises RefusalError: 403."""
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
    """The answer to a review; sent: the question of the client."""

    kind = ResponseKind.OBJECT

    def __init__(self, sent: Object) -> None:
        self._sent = sent

    def map(self, decoded: Object, view: View) -> Object | None:
        """Map the texts, and names of namespaces in rules; restore the question."""
        if is_status(decoded):
            return self.map_status(decoded, view)
        reader, status = ObjectReader(view), decoded.get("status")
        if isinstance(status, dict):
            for field in ("reason", "evaluationError"):
                reader.text_in(status, field)
            for rule in status.get("resourceRules") or ():
                if restore_written(rule):
                    continue
                names = dig(rule, "resourceNames")
                if isinstance(names, list):
                    rule["resourceNames"] = [reader.text(str(name)) for name in names]
        decoded["spec"] = dig(self._sent, "spec")
        metadata = decoded.get("metadata")
        if isinstance(metadata, dict) and "namespace" in metadata:
            sent = dig(self._sent, "metadata", "namespace")
            metadata["namespace"] = sent or metadata["namespace"]
        return decoded


def plan_review(parsed: ParsedRequest) -> Forward:
    """Return what becomes of a question about rights. Raises RefusalError."""
    if parsed.verb != "create" or parsed.name:
        raise refusals.method_not_allowed()
    host = ""
    if parsed.info.namespaced:
        claimed = object_membership.claimed_namespace(parsed.view, parsed.namespace)
        if claimed is None:
            raise refusals.namespace_not_found(parsed.namespace)
        host = claimed
    request = parsed.request
    sent = bodies.as_object(bodies.decode(request.body, request.content_type))
    is_gateways = parsed.info.kind == _BY_THE_GATEWAY
    return parsed_request.forward(
        parsed,
        structs.replace(parsed.path, namespace=host),
        _OfReview(sent),
        body=bodies.encode(review_for_host(sent, replace(parsed, host_namespace=host))),
        content_type=refusals.JSON,
        authorize=parsed.attributes if is_gateways else None,
    )


def plan_self_review(parsed: ParsedRequest) -> PlanAnswer:
    """Answer who the client is, by its own names. Raises RefusalError."""
    if parsed.verb != "create":
        raise refusals.method_not_allowed()
    user: Object = {"username": parsed.identity.user, "groups": list(parsed.identity.groups)}
    review = {
        "kind": parsed.info.kind,
        "apiVersion": parsed.info.gvk.api_version,
        "metadata": {"creationTimestamp": None},
        "status": {"userInfo": user},
    }
    return PlanAnswer(201, refusals.JSON, bodies.encode(review))
