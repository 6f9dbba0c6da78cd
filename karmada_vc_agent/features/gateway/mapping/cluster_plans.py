"""Requests for cluster-scoped resources (5.3)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import structs

from karmada_vc_agent.features.gateway.mapping import (
    bodies,
    namespace_writes,
    object_membership,
    parsed_request,
    patches,
    refusals,
    request_syntax,
)
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    Attributes,
    KindScope,
    scope_allows,
)
from karmada_vc_agent.features.gateway.mapping.parsed_request import (
    Forward,
    ParsedRequest,
    PlanAnswer,
)
from karmada_vc_agent.features.gateway.mapping.refusals import PlanError
from karmada_vc_agent.features.gateway.mapping.request_syntax import (
    NAME_FIELD,
    FieldTerm,
    Query,
    QueryError,
    ResourcePath,
    field_terms,
)
from karmada_vc_agent.features.gateway.mapping.responses import (
    OfNamespaceWrite,
    OfShared,
)
from karmada_vc_agent.features.gateway.mapping.reviews import plan_review, plan_self_review
from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX

_NO_NODE = "kubernetes.io/hostname,!kubernetes.io/hostname"
_READ_ONLY = "it is read only in this cluster"
_INCLUDE, _WHOLE = "includeObject", "Object"
_BINDING_LISTS = {"RoleBindingList": {"kind": "ClusterRoleBindingList"}}
_METADATA = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
_METADATA_LISTS = {"PersistentVolumeList": _METADATA}
"""Kind of a list on the host -> its type for the client."""


def plan_cluster_scoped(parsed: ParsedRequest, scope: KindScope) -> Forward | PlanAnswer:
    """Return what becomes of a request for a cluster-scoped resource. Raises PlanError."""
    if scope is KindScope.DENIED:
        raise parsed.refuse("it is not available in this cluster")
    if not scope_allows(scope, parsed.verb):
        if scope is KindScope.NAMESPACES and parsed.verb == "deletecollection":
            raise refusals.method_not_allowed()
        raise parsed.refuse(_READ_ONLY)
    if parsed.path.subresource:
        raise parsed.refuse(f"{parsed.path.subresource} is not available in this cluster")
    parsed = (
        parsed_request.with_host_token(parsed)
        if parsed.verb == "list" and not _joins(scope)
        else parsed
    )
    return _PLANS[scope](parsed)


def _joins(scope: KindScope) -> bool:
    """Whether pages are joined, which opens the token itself."""
    return scope is KindScope.VOLUMES


def _read(
    parsed: ParsedRequest, members: object_membership.ObjectFilter, name: str = ""
) -> Forward:
    """Return a request with the client's own rights; name: of the object on the host."""
    path = structs.replace(parsed.path, name=name) if name else parsed.path
    return parsed_request.forward(parsed, path, parsed_request.response_to(parsed, members))


def _shared(parsed: ParsedRequest) -> Forward:
    response = parsed_request.response_to(
        parsed, object_membership.SHARED_OBJECTS, OfShared, hides_count=True
    )
    return parsed_request.forward(parsed, parsed.path, response)


def _nodes(parsed: ParsedRequest) -> Forward:
    is_node = not parsed.path.group
    if not parsed.is_list:
        return _read(parsed, object_membership.NODES if is_node else object_membership.BY_NODE_NAME)
    selector = parsed.view.node_selector() or _NO_NODE
    selected = parsed.with_query(parsed_request.with_label(parsed.query, selector))
    return _read(
        selected, object_membership.SELECTED if is_node else object_membership.BY_NODE_NAME
    )


def _renamed(parsed: ParsedRequest) -> Forward:
    names = parsed.view.context().names()
    query = parsed_request.map_selectors(parsed.query, parsed.view, {NAME_FIELD: names.host_name})
    if parsed.is_list:
        own = f"{domain.CLUSTER_LABEL}={parsed.view.name},!{domain.GATEWAY_LABEL}"
        return _read(
            parsed.with_query(parsed_request.with_label(query, own)), object_membership.LABELLED
        )
    return _read(
        parsed.with_query(query), object_membership.LABELLED, names.host_name(parsed.path.name)
    )


def _bindings(parsed: ParsedRequest) -> Forward:
    def host(name: str) -> str:
        return CONVERTED_PREFIX + name

    query = parsed_request.map_selectors(parsed.query, parsed.view, {NAME_FIELD: host})
    path = structs.replace(
        parsed.path,
        resource="rolebindings",
        namespace=parsed.view.anchor,
        name=host(parsed.path.name) if parsed.path.name else "",
    )
    parsed = parsed.with_query(query)
    response = parsed_request.response_to(
        parsed, object_membership.BINDINGS, renamed_lists=_BINDING_LISTS
    )
    return parsed_request.forward(parsed, path, response)


# --- volumes ----------------------------------------------------------------------------


def _volumes(parsed: ParsedRequest) -> Forward:
    """Read whole volumes as the gateway: their claim decides, and whose their name is."""
    include = parsed.query.first(_INCLUDE) or "Metadata"
    is_metadata = request_syntax.is_for_metadata(parsed.accept)
    is_table = request_syntax.is_for_table(parsed.accept)
    members = object_membership.volume_membership(
        _terms_of_names(parsed) if parsed.is_list else (),
        metadata_only=is_metadata or (is_table and include == "Metadata"),
    )
    renamed = _METADATA_LISTS if is_metadata else None
    response = parsed_request.response_to(parsed, members, hides_count=True, renamed_lists=renamed)
    query = _without_names(parsed) if parsed.is_list else parsed.query
    if is_table:
        query = query.with_values(**{_INCLUDE: _WHOLE})
    parsed = replace(parsed, query=query, accept=request_syntax.without_views(parsed.accept))
    if parsed.is_list:
        return parsed_request.filtered(parsed, parsed.path, response, members)
    own = parsed_request.forward(
        parsed, parsed.path, response, as_gateway=True, authorize=parsed.attributes
    )
    path = structs.replace(
        parsed.path, name=parsed.view.context().names().host_name(parsed.path.name)
    )
    return structs.replace(own, path=path.encoded(), otherwise=own)


def _terms_of_names(parsed: ParsedRequest) -> tuple[FieldTerm, ...]:
    try:
        terms = field_terms(parsed.query.first("fieldSelector") or "")
    except QueryError as error:
        raise refusals.bad_request(str(error)) from error
    return tuple(term for term in terms if term.key == NAME_FIELD)


def _without_names(parsed: ParsedRequest) -> Query:
    selector = parsed.query.first("fieldSelector")
    if not selector:
        return parsed.query
    kept = [str(term) for term in field_terms(selector) if term.key != NAME_FIELD]
    return parsed.query.with_values(fieldSelector=",".join(kept) or None)


# --- namespaces -------------------------------------------------------------------------


def _namespaces(parsed: ParsedRequest) -> Forward:
    view, name = parsed.view, parsed.path.name
    if parsed.is_list:
        query = parsed_request.map_selectors(
            parsed.query,
            view,
            {NAME_FIELD: lambda each: object_membership.host_namespace(view, each)},
        )
        own = f"{domain.CLUSTER_LABEL}={view.name}"
        return _read(
            parsed.with_query(parsed_request.with_label(query, own)), object_membership.NAMESPACES
        )
    if parsed.is_write:
        return _write_namespace(parsed)
    host = object_membership.claimed_namespace(view, name)
    if host is None:
        raise refusals.namespace_not_found(name)
    return _read(parsed, object_membership.NAMESPACES, host)


def _write_namespace(parsed: ParsedRequest) -> Forward:
    """Return the write; who may not write learns nothing of what is there."""
    try:
        return _write_or_refuse(parsed)
    except PlanError as error:
        name = parsed.path.name
        right = namespace_writes.right(parsed.verb, name)
        error.refused = structs.replace(error.refused, authorize=right)
        raise


def _write_or_refuse(parsed: ParsedRequest) -> Forward:
    if parsed.path.name == object_membership.KUBE_SYSTEM:
        raise parsed.refuse(_READ_ONLY)
    kind = request_syntax.media_type_of(parsed.request.content_type)
    host = (
        object_membership.claimed_namespace(parsed.view, parsed.path.name)
        if parsed.path.name
        else None
    )
    live = parsed.view.namespace_object(host) if host is not None else None
    if live is not None and host is not None:
        return _change_namespace(parsed, live, host, kind)
    if parsed.verb == "create" or (parsed.verb == "patch" and kind == patches.APPLY):
        return _create_namespace(parsed)
    raise refusals.namespace_not_found(parsed.path.name)


def _create_namespace(parsed: ParsedRequest) -> Forward:
    request, view, path = parsed.request, parsed.view, parsed.path
    is_applied = parsed.verb == "patch"
    decoded = (
        bodies.decode_either(request.body)
        if is_applied
        else bodies.decode(request.body, request.content_type)
    )
    body = bodies.as_object(decoded)
    name = namespace_writes.name_of(body, BodyTarget(parsed.info, "", "", path.name, view))
    target = BodyTarget(parsed.info, "", "", name, view)
    if (
        object_membership.claimed_namespace(view, name) is not None
        and name != object_membership.KUBE_SYSTEM
    ):
        raise refusals.already_exists(parsed.info, name)
    written = namespace_writes.created(body, target)
    host = str(written.value["metadata"]["name"])
    if view.is_foreign(host):
        why = "its name on the host is taken by what is not of this cluster"
        raise refusals.forbidden_resource(parsed.info, name, why)
    forwarded = _written(
        parsed,
        written,
        structs.replace(path, name=host if is_applied else ""),
        patches.APPLY if is_applied else request_syntax.JSON,
        namespace_writes.right("create", name if is_applied else ""),
        (host, name),
    )
    return forwarded if parsed.is_dry_run else structs.replace(forwarded, sets_up=host)


def _change_namespace(parsed: ParsedRequest, live: Object, host: str, kind: str) -> Forward:
    request, name = parsed.request, parsed.path.name
    target = BodyTarget(parsed.info, "", "", name, parsed.view)
    path = structs.replace(parsed.path, name=host)
    right = namespace_writes.right(parsed.verb, name)
    if parsed.verb == "delete":
        namespace_writes.refuse_deletion(live, target)
        body, content_type = patches.delete_options(request.body, request.content_type)
        response = parsed_request.response_to(parsed, object_membership.NAMESPACES)
        return parsed_request.forward(
            parsed,
            path,
            response,
            body=body,
            content_type=content_type,
            as_gateway=True,
            authorize=right,
        )
    if parsed.verb == "patch":
        written, content_type = _patched(parsed, live, target, kind), kind
    else:
        sent = bodies.as_object(bodies.decode(request.body, request.content_type))
        written, content_type = namespace_writes.replaced(sent, live, target), request_syntax.JSON
    return _written(parsed, written, path, content_type, right, (host, name))


def _patched(
    parsed: ParsedRequest, live: Object, target: BodyTarget, kind: str
) -> namespace_writes.NamespaceBody:
    body = parsed.request.body
    if kind == patches.JSON_PATCH:
        return namespace_writes.json_patched(bodies.decode_json(body), target)
    if kind == patches.APPLY:
        sent = bodies.as_object(bodies.decode_either(body))
        return namespace_writes.applied(sent, live, target)
    if kind not in patches.MERGE:
        raise refusals.unsupported_body()
    return namespace_writes.merged(bodies.as_object(bodies.decode_json(body)), live, target)


def _written(
    parsed: ParsedRequest,
    written: namespace_writes.NamespaceBody,
    path: ResourcePath,
    content_type: str,
    right: Attributes,
    names: tuple[str, str],
) -> Forward:
    """Return the request that writes a Namespace. names: on the host, and the virtual one."""
    response = parsed_request.response_to(
        parsed, object_membership.written_namespace(*names), OfNamespaceWrite
    )
    if isinstance(response, OfNamespaceWrite):
        response.host, response.virtual = names
    forwarded = parsed_request.forward(
        parsed,
        path,
        response,
        body=bodies.encode(written.value),
        content_type=content_type,
        as_gateway=True,
        authorize=right,
    )
    return structs.replace(forwarded, warnings=written.warnings())


_PLANS: Mapping[KindScope, Callable[[ParsedRequest], Forward | PlanAnswer]] = {
    KindScope.NAMESPACES: _namespaces,
    KindScope.NODES: _nodes,
    KindScope.RENAMED: _renamed,
    KindScope.VOLUMES: _volumes,
    KindScope.BINDINGS: _bindings,
    KindScope.SHARED: _shared,
    KindScope.REVIEW: plan_review,
    KindScope.SELF_REVIEW: plan_self_review,
}
"""Scope -> its rule, for verbs that it allows."""
