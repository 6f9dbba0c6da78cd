"""Requests for cluster-scoped resources (5.3)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

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
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindScope,
    ParsedRequest,
    scope_allows,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import ObjectFilter
from karmada_vc_agent.features.gateway.mapping.parsed_request import Forward, PlanAnswer
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, RefusalError
from karmada_vc_agent.features.gateway.mapping.request_syntax import (
    NAME_FIELD,
    MapName,
    RequestPath,
    field_terms,
)
from karmada_vc_agent.features.gateway.mapping.reviews import plan_review, plan_self_review
from karmada_vc_agent.model import domain
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX

_NO_NODE = "kubernetes.io/hostname,!kubernetes.io/hostname"
_READ_ONLY = "it is read only in this cluster"
_INCLUDE, _WHOLE = "includeObject", "Object"
_BINDING_LISTS = {"RoleBindingList": {"kind": "ClusterRoleBindingList"}}
_METADATA = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
_METADATA_LISTS = {"PersistentVolumeList": _METADATA}
"""Kind of a list on the host -> its type for the client."""


def plan_cluster_scoped(parsed: ParsedRequest, scope: KindScope) -> Forward | PlanAnswer:
    """Return what becomes of a request for a cluster-scoped resource. Raises RefusalError."""
    if scope is KindScope.DENIED:
        raise parsed.refuse("it is not available in this cluster")
    if not scope_allows(scope, parsed.verb):
        if scope is KindScope.NAMESPACES and parsed.verb == "deletecollection":
            raise refusals.method_not_allowed()
        raise parsed.refuse(_READ_ONLY)
    if parsed.path.subresource:
        raise parsed.refuse(f"{parsed.path.subresource} is not available in this cluster")
    # Where pages are joined, that opens the token itself.
    if parsed.verb == "list" and scope is not KindScope.VOLUMES:
        parsed = parsed_request.with_host_token(parsed)
    return _PLANS[scope](parsed)


def _read(parsed: ParsedRequest, members: ObjectFilter, name: str = "") -> Forward:
    """Return a request with the client's own rights; name: of the object on the host."""
    path = structs.replace(parsed.path, name=name) if name else parsed.path
    return parsed_request.forward(parsed, path, parsed_request.response_to(parsed, members))


def _selected(parsed: ParsedRequest, selector: str, fields: Mapping[str, MapName]) -> ParsedRequest:
    """Return a request with its names mapped, and a list narrowed to what is selected."""
    query = (
        parsed_request.map_selectors(parsed.query, parsed.view, fields) if fields else parsed.query
    )
    if parsed.is_list:
        query = parsed_request.with_label(query, selector)
    return replace(parsed, query=query)


def _shared(parsed: ParsedRequest) -> Forward:
    response = parsed_request.response_to(
        parsed, object_membership.SHARED_OBJECTS, hides_count=True
    )
    return parsed_request.forward(parsed, parsed.path, response)


def _nodes(parsed: ParsedRequest) -> Forward:
    required = parsed.view.context().vc.required_selector
    selector = ",".join(f"{key}={value}" for key, value in required.items()) or _NO_NODE
    of_nodes = object_membership.SELECTED if parsed.is_list else object_membership.NODES
    members = object_membership.BY_NODE_NAME if parsed.path.group else of_nodes
    return _read(_selected(parsed, selector, {}), members)


def _renamed(parsed: ParsedRequest) -> Forward:
    host_name = parsed.view.context().names().host_name
    own = f"{domain.CLUSTER_LABEL}={parsed.view.name},!{domain.GATEWAY_LABEL}"
    name = host_name(parsed.name) if parsed.name else ""
    selected = _selected(parsed, own, {NAME_FIELD: host_name})
    return _read(selected, object_membership.LABELLED, name)


def _bindings(parsed: ParsedRequest) -> Forward:
    def host(name: str) -> str:
        return CONVERTED_PREFIX + name

    query = parsed_request.map_selectors(parsed.query, parsed.view, {NAME_FIELD: host})
    path = structs.replace(
        parsed.path,
        resource="rolebindings",
        namespace=parsed.view.anchor,
        name=host(parsed.name) if parsed.name else "",
    )
    response = parsed_request.response_to(
        parsed, object_membership.BINDINGS, renamed_lists=_BINDING_LISTS
    )
    return parsed_request.forward(replace(parsed, query=query), path, response)


# --- volumes ----------------------------------------------------------------------------


def _volumes(parsed: ParsedRequest) -> Forward:
    """Read whole volumes as the gateway: their claim decides, and whose their name is."""
    preferred = request_syntax.preferred_view(parsed.accept)
    is_metadata = preferred in request_syntax.METADATA
    is_table = preferred == "Table"
    include = parsed.query.first(_INCLUDE) or "Metadata"
    query, names = parsed.query, []
    selector = query.first("fieldSelector")
    if parsed.is_list and selector:
        terms = field_terms(selector)
        names = [term for term in terms if term.key == NAME_FIELD]
        others = ",".join(str(term) for term in terms if term.key != NAME_FIELD)
        query = query.with_values(fieldSelector=others or None)
    if is_table:
        query = query.with_values(**{_INCLUDE: _WHOLE})
    members = object_membership.volume_membership(
        tuple(names), metadata_only=is_metadata or (is_table and include == "Metadata")
    )
    renamed = _METADATA_LISTS if is_metadata else {}
    response = parsed_request.response_to(parsed, members, hides_count=True, renamed_lists=renamed)
    parsed = replace(parsed, query=query, accept=request_syntax.without_views(parsed.accept))
    own = parsed_request.filtered(parsed, response)
    if parsed.is_list:
        return own
    host_name = parsed.view.context().names().host_name(parsed.name)
    path = structs.replace(parsed.path, name=host_name)
    return structs.replace(own, path=path.encoded(), otherwise=own)


# --- namespaces -------------------------------------------------------------------------


def _namespaces(parsed: ParsedRequest) -> Forward:
    view = parsed.view
    if parsed.is_list:
        fields = {NAME_FIELD: partial(object_membership.host_namespace, view)}
        selected = _selected(parsed, f"{domain.CLUSTER_LABEL}={view.name}", fields)
        return _read(selected, object_membership.NAMESPACES)
    if parsed.is_write:
        try:
            return _write_namespace(parsed)
        except RefusalError as error:
            # Who may not write learns nothing of what is there.
            error.authorize = namespace_writes.right(parsed.verb, parsed.name)
            raise
    host = object_membership.claimed_namespace(view, parsed.name)
    if host is None:
        raise refusals.namespace_not_found(parsed.name)
    return _read(parsed, object_membership.NAMESPACES, host)


def _write_namespace(parsed: ParsedRequest) -> Forward:
    request, view, name = parsed.request, parsed.view, parsed.name
    if name == object_membership.KUBE_SYSTEM:
        raise parsed.refuse(_READ_ONLY)
    kind = request_syntax.media_type_of(request.content_type)
    host = object_membership.claimed_namespace(view, name) if name else None
    live = view.namespace_object(host) if host is not None else None
    if live is None or host is None:
        if parsed.verb == "create" or (parsed.verb == "patch" and kind == patches.APPLY):
            return _create_namespace(parsed)
        raise refusals.namespace_not_found(name)
    path = structs.replace(parsed.path, name=host)
    right = namespace_writes.right(parsed.verb, name)
    if parsed.verb == "delete":
        if why := namespace_writes.kept_because(live, name):
            raise parsed.refuse(why)
        body, content_type = patches.delete_options(request.body, request.content_type)
        response = parsed_request.response_to(parsed, object_membership.NAMESPACES)
        return parsed_request.forward(
            parsed, path, response, body=body, content_type=content_type, authorize=right
        )
    if parsed.verb == "patch":
        written, content_type = namespace_writes.patched(live, parsed, kind), kind
    else:
        sent = bodies.as_object(bodies.decode(request.body, request.content_type))
        written, content_type = namespace_writes.replaced(sent, live, parsed), refusals.JSON
    return _written(parsed, written, path, content_type, right, (host, name))


def _create_namespace(parsed: ParsedRequest) -> Forward:
    request, view = parsed.request, parsed.view
    is_applied = parsed.verb == "patch"
    body = bodies.as_object(
        bodies.decode(request.body, refusals.JSON if is_applied else request.content_type)
    )
    name = namespace_writes.name_of(body, parsed)
    named = replace(parsed, path=structs.replace(parsed.path, name=name))
    existing = object_membership.claimed_namespace(view, name)
    if existing is not None and name != object_membership.KUBE_SYSTEM:
        raise refusals.already_exists(parsed.info, name)
    written = namespace_writes.created(body, named)
    host = str(written[0]["metadata"]["name"])
    if view.is_foreign(host):
        raise named.refuse("its name on the host is taken by what is not of this cluster")
    forwarded = _written(
        parsed,
        written,
        structs.replace(parsed.path, name=host if is_applied else ""),
        patches.APPLY if is_applied else refusals.JSON,
        namespace_writes.right("create", name if is_applied else ""),
        (host, name),
    )
    is_dry_run = bool(parsed.query.first("dryRun"))
    return forwarded if is_dry_run else structs.replace(forwarded, sets_up=host)


def _written(
    parsed: ParsedRequest,
    written: namespace_writes.Written,
    path: RequestPath,
    content_type: str,
    right: Attributes,
    names: tuple[str, str],
) -> Forward:
    """Return the request that writes a Namespace. names: on the host, and the virtual one."""
    value, warnings = written
    forwarded = parsed_request.forward(
        parsed,
        path,
        parsed_request.response_to(
            parsed, object_membership.written_namespace(*names), written=names
        ),
        body=bodies.encode(value),
        content_type=content_type,
        authorize=right,
    )
    return structs.replace(forwarded, warnings=warnings)


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
