"""Plans a request of a client: forward, answer or refuse it.

The path is parsed, the scope of its kind decides the rule: here for what is in namespaces (5.2,
5.4) and for discovery (5.1, 5.5), cluster_plans.py for what is cluster-scoped (5.3).
"""

from dataclasses import replace

from msgspec import structs

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping import (
    cluster_view,
    object_membership,
    refusals,
    responses,
)
from karmada_vc_agent.features.gateway.mapping.bodies import body_for
from karmada_vc_agent.features.gateway.mapping.cluster_plans import plan_cluster_scoped
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindScope,
    ParsedRequest,
    Query,
    RequestPath,
    View,
    VirtualRequest,
    parse_path,
    scope_of,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import (
    KUBE_SYSTEM,
    NOWHERE,
    in_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import (
    Forward,
    Plan,
    Response,
)

_STREAMS = frozenset({("pods", each) for each in ("exec", "attach", "portforward", "log")})
_PROXIES = frozenset({("pods", "proxy"), ("services", "proxy")})


def plan_namespaced(parsed: ParsedRequest) -> Forward:
    """Return what becomes of a request for a namespaced resource. Raises RefusalError."""
    path = parsed.path
    if (path.group, path.resource, path.subresource) in cluster_view.DENIED_SUBRESOURCES:
        raise parsed.refuse(refusals.HOSTS_CREDENTIALS)
    if path.rest and not is_proxy(path):
        raise refusals.unknown_resource()
    if not path.namespace:
        return _all_namespaces(parsed)
    if path.namespace == KUBE_SYSTEM and (parsed.is_write or is_connection(path)):
        raise parsed.refuse(f"namespace {KUBE_SYSTEM} is read only")
    host = object_membership.claimed_namespace(parsed.view, path.namespace)
    if host is None:
        return _unclaimed(parsed)
    if is_connection(path):
        return _connection(parsed, host)
    return _in_one(parsed, host)


def is_proxy(path: RequestPath) -> bool:
    """Whether a path leads through the API server to a pod or Service."""
    return not path.group and (path.resource, path.subresource) in _PROXIES


def is_connection(path: RequestPath) -> bool:
    """Whether bytes pass untouched: streams, logs, proxied requests (G-35)."""
    is_stream = not path.group and (path.resource, path.subresource) in _STREAMS
    return is_stream or is_proxy(path)


def _connection(parsed: ParsedRequest, host: str) -> Forward:
    request, path = parsed.request, structs.replace(parsed.path, namespace=host)
    return Forward(
        request.method,
        path.encoded(),
        Response(),
        query=request.query,
        accept=request.accept,
        content_type=request.content_type,
        body=request.body,
        is_long=path.subresource == "log" and parsed.query.is_true("follow"),
    )


def _unclaimed(parsed: ParsedRequest) -> Forward:
    """Read a namespace that does not exist yet as one that is empty (G-30)."""
    path, view = parsed.path, parsed.view
    creates = parsed.verb == "create" and not path.name
    if creates or parsed.verb == "deletecollection":
        raise refusals.namespace_not_found(path.namespace)
    if parsed.is_write or is_connection(path):
        raise refusals.not_found(parsed.info, path.name)
    host = object_membership.host_namespace(view, path.namespace)
    if host == NOWHERE:
        raise refusals.namespace_not_found(path.namespace)
    if view.is_foreign(host):
        raise parsed.refuse(f'namespace "{path.namespace}" is not available in this cluster')
    return _in_one(parsed, host, authorize=parsed.attributes)


def _in_one(parsed: ParsedRequest, host: str, authorize: Attributes | None = None) -> Forward:
    parsed = replace(parsed, host_namespace=host)
    body, content_type = body_for(parsed) if parsed.is_write else (b"", "")
    query = responses.map_selectors(parsed.query, parsed.view)
    return responses.forward(
        replace(parsed, query=query),
        structs.replace(parsed.path, namespace=host),
        responses.response_to(parsed, in_namespaces(parsed.namespace)),
        body=body,
        content_type=content_type,
        authorize=authorize,
    )


def _all_namespaces(parsed: ParsedRequest) -> Forward:
    """List or watch the whole host, and drop what is of others (G-40)."""
    if parsed.name or not parsed.is_list:
        raise refusals.method_not_allowed()
    parsed = replace(parsed, query=responses.map_selectors(parsed.query, parsed.view))
    response = responses.response_to(parsed, in_namespaces())
    return responses.filtered(parsed, response)


_NOT_UPGRADED = (
    "only exec, attach, portforward, log and proxied requests can be upgraded; send this request "
    "without the header Upgrade"
)
_OF_THE_HOST = frozenset({"api", "apis", "healthz", "livez", "openapi", "readyz", "version"})
"""Paths that are no resources and of no one: discovery, health, version."""
_DEPTH = {"api": 2, "apis": 3}
_PROXY_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTION = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OF_OBJECT = {"GET": "get", **_PROXY_VERBS}


def plan(request: VirtualRequest, identity: Caller, view: View) -> Plan:
    """Return what becomes of a request of an authenticated client."""
    try:
        path, query = parse_path(request.path), Query.parse(request.query)
        if request.is_upgrade and not is_connection(path):
            # An API server serves watches over WebSockets, which would be copied unmapped.
            raise refusals.bad_request(_NOT_UPGRADED)
        if not path.resource:
            return _other(request, path)
        return _resource(request, path, query, identity, view)
    except RefusalError as error:
        return error.with_traceback(None)  # which would hold the body


def _resource(
    request: VirtualRequest, path: RequestPath, query: Query, identity: Caller, view: View
) -> Plan:
    info = view.resource(path.group, path.version, path.resource)
    if info is None:
        raise refusals.unknown_resource()
    if info.namespaced is not True and path.namespace and path.resource != "namespaces":
        raise refusals.unknown_resource()
    verb = _verb_of(request, path, query)
    accept = "" if is_connection(path) else _accept_of(request)
    parsed = ParsedRequest(request, identity, view, path, info, query, verb, accept)
    scope = scope_of(info, view)
    if not info.namespaced:
        return plan_cluster_scoped(parsed, scope)
    if scope is KindScope.DENIED:
        raise parsed.refuse("it is not available in this cluster")
    return plan_namespaced(parsed)


def _verb_of(request: VirtualRequest, path: RequestPath, query: Query) -> str:
    """Return the verb as in RBAC. Raises RefusalError: 405."""
    if is_proxy(path):  # any method, and any form of answer
        return _PROXY_VERBS.get(request.method, "get")
    verb = (_OF_OBJECT if path.name else _OF_COLLECTION).get(request.method)
    if verb is None or (verb == "create" and path.name and not path.subresource):
        raise refusals.method_not_allowed()
    return "watch" if verb == "list" and query.is_true("watch") else verb


def _accept_of(request: VirtualRequest) -> str:
    """Return the Accept for the host. Raises RefusalError: 406."""
    accept = cluster_view.upstream_accept(request.accept)
    if accept is None:
        raise refusals.not_acceptable()
    return accept


def _other(request: VirtualRequest, path: RequestPath) -> Plan:
    """Pass on what says the same to all: as by any API server, whatever they may use of it."""
    root = path.rest[0] if path.rest else ""
    depth = _DEPTH.get(root, 1 if root != "openapi" else len(path.rest))
    is_read = request.method in ("GET", "HEAD")
    if not is_read or root not in _OF_THE_HOST or len(path.rest) > depth:
        raise refusals.forbidden(f'forbidden: path "{path.encoded()}" is not served')
    return Forward(
        request.method, path.encoded(), Response(), query=request.query, accept=request.accept
    )
