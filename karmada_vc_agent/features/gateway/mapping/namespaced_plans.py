"""Requests for resources in namespaces: in one (5.2), and in all (5.4)."""

from msgspec import structs

from karmada_vc_agent.features.gateway.mapping import asked as asking
from karmada_vc_agent.features.gateway.mapping import namespaces, refusals, scopes
from karmada_vc_agent.features.gateway.mapping.asked import Forward, ParsedRequest
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.membership import in_namespaces
from karmada_vc_agent.features.gateway.mapping.namespaces import KUBE_SYSTEM, NOWHERE
from karmada_vc_agent.features.gateway.mapping.paths import ResourcePath
from karmada_vc_agent.features.gateway.mapping.responses import Response
from karmada_vc_agent.features.gateway.mapping.writes import body_for

_STREAMS = frozenset({("pods", each) for each in ("exec", "attach", "portforward", "log")})
_PROXIES = frozenset({("pods", "proxy"), ("services", "proxy")})


def plan_namespaced(parsed: ParsedRequest) -> Forward:
    """Return what becomes of a request for a namespaced resource. Raises PlanError."""
    path = parsed.path
    if (path.group, path.resource, path.subresource) in scopes.DENIED_SUBRESOURCES:
        raise parsed.refuse(refusals.HOSTS_CREDENTIALS)
    if path.rest and not is_proxy(path):
        raise refusals.unknown_resource()
    if not path.namespace:
        return _all_namespaces(parsed)
    if path.namespace == KUBE_SYSTEM and (parsed.is_write or is_connection(path)):
        raise parsed.refuse(f"namespace {KUBE_SYSTEM} is read only")
    host = namespaces.claimed(parsed.view, path.namespace)
    if host is None:
        return _unclaimed(parsed)
    if is_connection(path):
        return _connection(parsed, host)
    return _in_one(parsed, host, as_gateway=False)


def is_proxy(path: ResourcePath) -> bool:
    """Whether a path leads through the API server to a pod or Service."""
    return not path.group and (path.resource, path.subresource) in _PROXIES


def is_connection(path: ResourcePath) -> bool:
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
    host = namespaces.host_name(view, path.namespace)
    if host == NOWHERE:
        raise refusals.namespace_not_found(path.namespace)
    if view.is_foreign(host):
        raise parsed.refuse(f'namespace "{path.namespace}" is not available in this cluster')
    return _in_one(parsed, host, as_gateway=True)


def _in_one(parsed: ParsedRequest, host: str, *, as_gateway: bool) -> Forward:
    virtual = parsed.path.namespace
    path = structs.replace(parsed.path, namespace=host)
    body, content_type = b"", ""
    if parsed.is_write:
        target = BodyTarget(parsed.info, virtual, host, parsed.path.name, parsed.view)
        body, content_type = body_for(parsed, target)
    parsed = asking.with_host_token(parsed, virtual) if parsed.verb == "list" else parsed
    parsed = parsed.with_query(asking.map_selectors(parsed.query, parsed.view))
    return asking.forward(
        parsed,
        path,
        asking.response_to(parsed, in_namespaces(virtual), namespace=virtual),
        body=body,
        content_type=content_type,
        as_gateway=as_gateway,
        authorize=parsed.attributes if as_gateway else None,
    )


def _all_namespaces(parsed: ParsedRequest) -> Forward:
    """List or watch the whole host, and drop what is of others (G-40)."""
    if parsed.path.name or not parsed.is_list:
        raise refusals.method_not_allowed()
    membership = in_namespaces()
    parsed = parsed.with_query(asking.map_selectors(parsed.query, parsed.view))
    response = asking.response_to(parsed, membership, hides_count=True)
    return asking.filtered(parsed, parsed.path, response, membership)
