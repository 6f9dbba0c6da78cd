"""Requests for cluster-scoped resources (5.3)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import structs

from karmada_vc_agent.features.gateway.mapping import asked as asking
from karmada_vc_agent.features.gateway.mapping import (
    bodies,
    media_types,
    membership,
    namespace_writes,
    refusals,
    writes,
)
from karmada_vc_agent.features.gateway.mapping import namespaces as spaces
from karmada_vc_agent.features.gateway.mapping.asked import Forward, PlanAnswer, Requested
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.exchange import Attributes
from karmada_vc_agent.features.gateway.mapping.namespaced_plans import filtered
from karmada_vc_agent.features.gateway.mapping.paths import ResourcePath
from karmada_vc_agent.features.gateway.mapping.queries import (
    NAME_FIELD,
    FieldTerm,
    Query,
    QueryError,
    field_terms,
)
from karmada_vc_agent.features.gateway.mapping.refusals import PlanError
from karmada_vc_agent.features.gateway.mapping.responses import (
    OfNamespaceWrite,
    OfShared,
)
from karmada_vc_agent.features.gateway.mapping.review_plans import plan_review, plan_self_review
from karmada_vc_agent.features.gateway.mapping.scopes import KindScope, allows
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


def plan_cluster_scoped(asked: Requested, scope: KindScope) -> Forward | PlanAnswer:
    """Return what becomes of a request for a cluster-scoped resource. Raises PlanError."""
    if scope is KindScope.DENIED:
        raise asked.refuse("it is not available in this cluster")
    if not allows(scope, asked.verb):
        if scope is KindScope.NAMESPACES and asked.verb == "deletecollection":
            raise refusals.method_not_allowed()
        raise asked.refuse(_READ_ONLY)
    if asked.path.subresource:
        raise asked.refuse(f"{asked.path.subresource} is not available in this cluster")
    asked = asking.with_host_token(asked) if asked.verb == "list" and not _joins(scope) else asked
    return _PLANS[scope](asked)


def _joins(scope: KindScope) -> bool:
    """Whether pages are joined, which opens the token itself."""
    return scope is KindScope.VOLUMES


def _read(asked: Requested, members: membership.Membership, name: str = "") -> Forward:
    """Return a request with the client's own rights; name: of the object on the host."""
    path = structs.replace(asked.path, name=name) if name else asked.path
    return asking.forward(asked, path, asking.response_to(asked, members))


def _shared(asked: Requested) -> Forward:
    response = asking.response_to(asked, membership.SHARED, OfShared, hides_count=True)
    return asking.forward(asked, asked.path, response)


def _nodes(asked: Requested) -> Forward:
    is_node = not asked.path.group
    if not asked.is_list:
        return _read(asked, membership.NODE if is_node else membership.BY_NODE_NAME)
    selector = asked.view.node_selector() or _NO_NODE
    selected = asked.with_query(asking.with_label(asked.query, selector))
    return _read(selected, membership.ALL if is_node else membership.BY_NODE_NAME)


def _renamed(asked: Requested) -> Forward:
    names = asked.view.context().names()
    query = asking.map_selectors(asked.query, asked.view, {NAME_FIELD: names.host_name})
    if asked.is_list:
        own = f"{domain.CLUSTER_LABEL}={asked.view.name},!{domain.GATEWAY_LABEL}"
        return _read(asked.with_query(asking.with_label(query, own)), membership.LABELLED)
    return _read(asked.with_query(query), membership.LABELLED, names.host_name(asked.path.name))


def _bindings(asked: Requested) -> Forward:
    def host(name: str) -> str:
        return CONVERTED_PREFIX + name

    query = asking.map_selectors(asked.query, asked.view, {NAME_FIELD: host})
    path = structs.replace(
        asked.path,
        resource="rolebindings",
        namespace=asked.view.anchor,
        name=host(asked.path.name) if asked.path.name else "",
    )
    asked = asked.with_query(query)
    response = asking.response_to(asked, membership.BINDINGS, renamed_lists=_BINDING_LISTS)
    return asking.forward(asked, path, response)


# --- volumes ----------------------------------------------------------------------------


def _volumes(asked: Requested) -> Forward:
    """Read whole volumes as the gateway: their claim decides, and whose their name is."""
    include = asked.query.first(_INCLUDE) or "Metadata"
    is_metadata = media_types.is_for_metadata(asked.accept)
    is_table = media_types.is_for_table(asked.accept)
    members = membership.volumes(
        _terms_of_names(asked) if asked.is_list else (),
        metadata_only=is_metadata or (is_table and include == "Metadata"),
    )
    renamed = _METADATA_LISTS if is_metadata else None
    response = asking.response_to(asked, members, hides_count=True, renamed_lists=renamed)
    query = _without_names(asked) if asked.is_list else asked.query
    if is_table:
        query = query.with_values(**{_INCLUDE: _WHOLE})
    asked = replace(asked, query=query, accept=media_types.without_views(asked.accept))
    if asked.is_list:
        return filtered(asked, asked.path, response, members)
    own = asking.forward(asked, asked.path, response, as_gateway=True, authorize=asked.attributes)
    path = structs.replace(asked.path, name=asked.view.context().names().host_name(asked.path.name))
    return structs.replace(own, path=path.encoded(), otherwise=own)


def _terms_of_names(asked: Requested) -> tuple[FieldTerm, ...]:
    try:
        terms = field_terms(asked.query.first("fieldSelector") or "")
    except QueryError as error:
        raise refusals.bad_request(str(error)) from error
    return tuple(term for term in terms if term.key == NAME_FIELD)


def _without_names(asked: Requested) -> Query:
    selector = asked.query.first("fieldSelector")
    if not selector:
        return asked.query
    kept = [str(term) for term in field_terms(selector) if term.key != NAME_FIELD]
    return asked.query.with_values(fieldSelector=",".join(kept) or None)


# --- namespaces -------------------------------------------------------------------------


def _namespaces(asked: Requested) -> Forward:
    view, name = asked.view, asked.path.name
    if asked.is_list:
        query = asking.map_selectors(
            asked.query, view, {NAME_FIELD: lambda each: spaces.host_name(view, each)}
        )
        own = f"{domain.CLUSTER_LABEL}={view.name}"
        return _read(asked.with_query(asking.with_label(query, own)), membership.NAMESPACES)
    if asked.is_write:
        return _write_namespace(asked)
    host = spaces.claimed(view, name)
    if host is None:
        raise refusals.namespace_not_found(name)
    return _read(asked, membership.NAMESPACES, host)


def _write_namespace(asked: Requested) -> Forward:
    """Return the write; who may not write learns nothing of what is there."""
    try:
        return _write_or_refuse(asked)
    except PlanError as error:
        name = asked.path.name
        right = namespace_writes.right(asked.verb, name)
        error.refused = structs.replace(error.refused, authorize=right)
        raise


def _write_or_refuse(asked: Requested) -> Forward:
    if asked.path.name == spaces.KUBE_SYSTEM:
        raise asked.refuse(_READ_ONLY)
    kind = media_types.name_of(asked.request.content_type)
    host = spaces.claimed(asked.view, asked.path.name) if asked.path.name else None
    live = asked.view.namespace_object(host) if host is not None else None
    if live is not None and host is not None:
        return _change_namespace(asked, live, host, kind)
    if asked.verb == "create" or (asked.verb == "patch" and kind == writes.APPLY):
        return _create_namespace(asked)
    raise refusals.namespace_not_found(asked.path.name)


def _create_namespace(asked: Requested) -> Forward:
    request, view, path = asked.request, asked.view, asked.path
    is_applied = asked.verb == "patch"
    decoded = (
        bodies.decode_either(request.body)
        if is_applied
        else bodies.decode(request.body, request.content_type)
    )
    body = bodies.as_object(decoded)
    name = namespace_writes.name_of(body, BodyTarget(asked.info, "", "", path.name, view))
    target = BodyTarget(asked.info, "", "", name, view)
    if spaces.claimed(view, name) is not None and name != spaces.KUBE_SYSTEM:
        raise refusals.already_exists(asked.info, name)
    written = namespace_writes.created(body, target)
    host = str(written.value["metadata"]["name"])
    if view.is_foreign(host):
        why = "its name on the host is taken by what is not of this cluster"
        raise refusals.forbidden_resource(asked.info, name, why)
    forwarded = _written(
        asked,
        written,
        structs.replace(path, name=host if is_applied else ""),
        writes.APPLY if is_applied else media_types.JSON,
        namespace_writes.right("create", name if is_applied else ""),
        (host, name),
    )
    return forwarded if asked.is_dry_run else structs.replace(forwarded, sets_up=host)


def _change_namespace(asked: Requested, live: Object, host: str, kind: str) -> Forward:
    request, name = asked.request, asked.path.name
    target = BodyTarget(asked.info, "", "", name, asked.view)
    path = structs.replace(asked.path, name=host)
    right = namespace_writes.right(asked.verb, name)
    if asked.verb == "delete":
        namespace_writes.refuse_deletion(live, target)
        body, content_type = writes.options(request.body, request.content_type)
        response = asking.response_to(asked, membership.NAMESPACES)
        return asking.forward(
            asked,
            path,
            response,
            body=body,
            content_type=content_type,
            as_gateway=True,
            authorize=right,
        )
    if asked.verb == "patch":
        written, content_type = _patched(asked, live, target, kind), kind
    else:
        sent = bodies.as_object(bodies.decode(request.body, request.content_type))
        written, content_type = namespace_writes.replaced(sent, live, target), media_types.JSON
    return _written(asked, written, path, content_type, right, (host, name))


def _patched(
    asked: Requested, live: Object, target: BodyTarget, kind: str
) -> namespace_writes.NamespaceBody:
    body = asked.request.body
    if kind == writes.JSON_PATCH:
        return namespace_writes.json_patched(bodies.decode_json(body), target)
    if kind == writes.APPLY:
        sent = bodies.as_object(bodies.decode_either(body))
        return namespace_writes.applied(sent, live, target)
    if kind not in writes.MERGE:
        raise refusals.unsupported_body()
    return namespace_writes.merged(bodies.as_object(bodies.decode_json(body)), live, target)


def _written(
    asked: Requested,
    written: namespace_writes.NamespaceBody,
    path: ResourcePath,
    content_type: str,
    right: Attributes,
    names: tuple[str, str],
) -> Forward:
    """Return the request that writes a Namespace. names: on the host, and the virtual one."""
    response = asking.response_to(asked, membership.written_namespace(*names), OfNamespaceWrite)
    if isinstance(response, OfNamespaceWrite):
        response.host, response.virtual = names
    forwarded = asking.forward(
        asked,
        path,
        response,
        body=bodies.encode(written.value),
        content_type=content_type,
        as_gateway=True,
        authorize=right,
    )
    return structs.replace(forwarded, warnings=written.warnings())


_PLANS: Mapping[KindScope, Callable[[Requested], Forward | PlanAnswer]] = {
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
