"""Requests that ask about rights, or who one is (5.3)."""

from msgspec import structs

from karmada_vc_agent.features.gateway.mapping import asked as asking
from karmada_vc_agent.features.gateway.mapping import (
    bodies,
    media_types,
    namespaces,
    refusals,
    reviews,
)
from karmada_vc_agent.features.gateway.mapping.asked import Forward, ParsedRequest, PlanAnswer
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.exchange import ResponseKind, View
from karmada_vc_agent.features.gateway.mapping.responses import Response, is_status, texts_of
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.translation.rbac_rules import restore_written

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
        return reviews.review_for_client(decoded, self._sent)


def plan_review(parsed: ParsedRequest) -> Forward:
    """Return what becomes of a question about rights. Raises PlanError."""
    if parsed.verb != "create" or parsed.path.name:
        raise refusals.method_not_allowed()
    request, view, virtual = parsed.request, parsed.view, parsed.path.namespace
    host = ""
    if parsed.info.namespaced:
        claimed = namespaces.claimed(view, virtual)
        if claimed is None:
            raise refusals.namespace_not_found(virtual)
        host = claimed
    sent = bodies.as_object(bodies.decode(request.body, request.content_type))
    target = BodyTarget(parsed.info, virtual, host, "", view)
    mapped = reviews.review_for_host(sent, target)
    is_gateways = parsed.info.kind == _BY_THE_GATEWAY
    return asking.forward(
        parsed,
        structs.replace(parsed.path, namespace=host),
        _OfReview(sent),
        body=bodies.encode(mapped),
        content_type=media_types.JSON,
        as_gateway=is_gateways,
        authorize=parsed.attributes if is_gateways else None,
    )


def plan_self_review(parsed: ParsedRequest) -> PlanAnswer:
    """Answer who the client is. Raises PlanError."""
    if parsed.verb != "create":
        raise refusals.method_not_allowed()
    body = bodies.encode(reviews.self_review(parsed.info, parsed.identity))
    return PlanAnswer(201, media_types.JSON, body)
