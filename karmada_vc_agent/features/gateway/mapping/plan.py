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
    ResponseKind,
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
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, KindInfo, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import (
    Forward,
    Plan,
    PlanAnswer,
    Response,
    is_status,
)
from karmada_vc_agent.model.objects import Object, dig, maps_at, parse_api_version, text_at

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
    parsed = responses.with_host_token(parsed) if parsed.verb == "list" else parsed
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
    response = responses.response_to(parsed, in_namespaces(), hides_count=True)
    return responses.filtered(parsed, response)


class _DiscoveryResponse(Response):
    """The answer to a request for discovery, in any of its forms."""

    kind = ResponseKind.DISCOVERY

    def map(self, decoded: Object, view: View) -> Object | None:
        """Remove, in place, what is not shown."""
        if is_status(decoded):
            return self.map_status(decoded, view)
        if "serverAddressByClientCIDRs" in decoded:
            decoded["serverAddressByClientCIDRs"] = []
        match decoded.get("kind"):
            case "APIGroupList":
                groups = maps_at(decoded, "groups")
                decoded["groups"] = [g for g in groups if is_group_shown(text_at(g, "name"), view)]
            case "APIGroup":
                return decoded if is_group_shown(text_at(decoded, "name"), view) else None
            case "APIResourceList":
                _filter_resources(decoded, view)
            case "APIGroupDiscoveryList":
                groups = [_aggregated(group, view) for group in maps_at(decoded, "items")]
                decoded["items"] = [group for group in groups if group["versions"]]
        return decoded


def is_group_shown(group: str, view: View) -> bool:
    """Whether any resource of a group is shown, or none is served."""
    served = list(view.resources(group))
    return not served or any(cluster_view.is_kind_shown(info, view) for info in served)


def _filter_resources(decoded: Object, view: View) -> None:
    """Filter an APIResourceList; subresources go with their resource."""
    group, version, _ = parse_api_version(text_at(decoded, "groupVersion"), "")
    entries, infos = maps_at(decoded, "resources"), dict[str, KindInfo]()
    for entry in entries:
        name, kind = text_at(entry, "name"), text_at(entry, "kind")
        if "/" not in name:
            infos[name] = KindInfo(group, version, name, kind, bool(entry.get("namespaced")))
    shown = []
    for entry in entries:
        plural, _, subresource = text_at(entry, "name").partition("/")
        info = infos.get(plural)
        if info is not None and _is_shown(entry, info, subresource, view):
            shown.append(entry)
    decoded["resources"] = shown


def _is_shown(entry: Object, info: KindInfo, subresource: str, view: View) -> bool:
    """Whether discovery shows a resource, whose verbs are limited in place, or a subresource."""
    scope = scope_of(info, view)
    if scope is KindScope.DENIED:
        return False
    if subresource:
        return cluster_view.is_subresource_shown(scope, info, subresource)
    verbs = entry.get("verbs")
    if isinstance(verbs, list):
        entry["verbs"] = [verb for verb in verbs if cluster_view.scope_allows(scope, str(verb))]
    return True


def _aggregated(group: Object, view: View) -> Object:
    """Filter an entry of an APIGroupDiscoveryList."""
    name = text_at(group, "metadata", "name")
    for version in maps_at(group, "versions"):
        shown = []
        for resource in maps_at(version, "resources"):
            info = KindInfo(
                name,
                text_at(version, "version"),
                text_at(resource, "resource"),
                text_at(resource, "responseKind", "kind"),
                dig(resource, "scope") == "Namespaced",
            )
            if _is_shown(resource, info, "", view):
                subresources = [
                    each
                    for each in maps_at(resource, "subresources")
                    if _is_shown(each, info, text_at(each, "subresource"), view)
                ]
                resource.pop("subresources", None)
                shown.append(
                    {**resource, "subresources": subresources} if subresources else resource
                )
        version["resources"] = shown
    # A version that could not be read has no resources, and is reported as stale.
    group["versions"] = [
        version
        for version in maps_at(group, "versions")
        if version["resources"] or version.get("freshness") == "Stale"
    ]
    return group


_NOT_UPGRADED = (
    "only exec, attach, portforward, log and proxied requests can be upgraded; send this request "
    "without the header Upgrade"
)
_HEALTH = frozenset({"healthz", "livez", "readyz"})
_DISCOVERY_DEPTH = {"api": 2, "apis": 3}
_READS = frozenset({"GET", "HEAD"})
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
            return _other(request, path, view)
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


def _other(request: VirtualRequest, path: RequestPath, view: View) -> Plan:
    not_served = refusals.forbidden(f'forbidden: path "{path.encoded()}" is not served')
    if request.method not in _READS:
        raise not_served
    match path.rest:
        case ("version",) | ("openapi", "v2") | ("openapi", "v3", *_):
            forwarded = request.method, request.accept, Response()
        case (check,) if check in _HEALTH:
            if view.host_is_alive():
                return PlanAnswer(200, "text/plain; charset=utf-8", b"ok")
            raise refusals.unavailable("the cluster does not answer")
        case ("api" | "apis" as root, *rest) if len(rest) < _DISCOVERY_DEPTH[root]:
            forwarded = "GET", _accept_of(request), _DiscoveryResponse()
            if root == "apis" and rest and not is_group_shown(rest[0], view):
                raise refusals.unknown_resource()
        case _:
            raise not_served
    method, accept, response = forwarded
    return Forward(method, path.encoded(), response, query=request.query, accept=accept)
