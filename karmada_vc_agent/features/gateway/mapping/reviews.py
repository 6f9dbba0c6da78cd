"""Questions about rights: sent to the host in its names, answered in those of the client (5.3)."""

from typing import Any

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping import bodies, namespaces, refusals
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.exchange import KindInfo, View
from karmada_vc_agent.features.gateway.mapping.namespace_writes import right
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.translation.identities import Callers
from karmada_vc_agent.translation.refusal import RefusedError

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
            attributes["name"] = namespaces.host_name(view, str(attributes["name"]))
    return attributes


def _is_namespaced(attributes: Object, view: View) -> bool:
    """Whether a resource is in namespaces; one that the host does not serve is taken to."""
    group, resource = str(attributes.get("group") or ""), attributes.get("resource")
    served = [info for info in view.resources(group) if info.plural == resource]
    return all(info.namespaced for info in served)


def _host_namespace(namespace: Any, view: View) -> str:
    return namespaces.host_name(view, str(namespace)) if namespace else view.anchor


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
