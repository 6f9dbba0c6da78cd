"""Requests for resources in namespaces: in one (5.2), and in all (5.4)."""

from msgspec import structs

from karmada_vc_agent.features.gateway.mapping import asked as asking
from karmada_vc_agent.features.gateway.mapping import namespaces, refusals, scopes
from karmada_vc_agent.features.gateway.mapping.asked import Forward, Requested
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.membership import Membership, in_namespaces
from karmada_vc_agent.features.gateway.mapping.namespaces import KUBE_SYSTEM, NOWHERE
from karmada_vc_agent.features.gateway.mapping.pages import JoinedPages
from karmada_vc_agent.features.gateway.mapping.paths import ResourcePath
from karmada_vc_agent.features.gateway.mapping.responses import OfResource, Response
from karmada_vc_agent.features.gateway.mapping.writes import body_for

_STREAMS = frozenset({("pods", each) for each in ("exec", "attach", "portforward", "log")})
_PROXIES = frozenset({("pods", "proxy"), ("services", "proxy")})


def plan_namespaced(asked: Requested) -> Forward:
    """Return what becomes of a request for a namespaced resource. Raises PlanError."""
    path = asked.path
    if (path.group, path.resource, path.subresource) in scopes.DENIED_SUBRESOURCES:
        raise asked.refuse(refusals.HOSTS_CREDENTIALS)
    if path.rest and not is_proxy(path):
        raise refusals.unknown_resource()
    if not path.namespace:
        return _all_namespaces(asked)
    if path.namespace == KUBE_SYSTEM and (asked.is_write or is_connection(path)):
        raise asked.refuse(f"namespace {KUBE_SYSTEM} is read only")
    host = namespaces.claimed(asked.view, path.namespace)
    if host is None:
        return _unclaimed(asked)
    if is_connection(path):
        return _connection(asked, host)
    return _in_one(asked, host, as_gateway=False)


def is_proxy(path: ResourcePath) -> bool:
    """Whether a path leads through the API server to a pod or Service."""
    return not path.group and (path.resource, path.subresource) in _PROXIES


def is_connection(path: ResourcePath) -> bool:
    """Whether bytes pass untouched: streams, logs, proxied requests (G-35)."""
    is_stream = not path.group and (path.resource, path.subresource) in _STREAMS
    return is_stream or is_proxy(path)


def _connection(asked: Requested, host: str) -> Forward:
    request, path = asked.request, structs.replace(asked.path, namespace=host)
    return Forward(
        request.method,
        path.encoded(),
        Response(),
        query=request.query,
        accept=request.accept,
        content_type=request.content_type,
        body=request.body,
        is_long=path.subresource == "log" and asked.query.is_true("follow"),
    )


def _unclaimed(asked: Requested) -> Forward:
    """Read a namespace that does not exist yet as one that is empty (G-30)."""
    path, view = asked.path, asked.view
    creates = asked.verb == "create" and not path.name
    if creates or asked.verb == "deletecollection":
        raise refusals.namespace_not_found(path.namespace)
    if asked.is_write or is_connection(path):
        raise refusals.not_found(asked.info, path.name)
    host = namespaces.host_name(view, path.namespace)
    if host == NOWHERE:
        raise refusals.namespace_not_found(path.namespace)
    if view.is_foreign(host):
        raise asked.refuse(f'namespace "{path.namespace}" is not available in this cluster')
    return _in_one(asked, host, as_gateway=True)


def _in_one(asked: Requested, host: str, *, as_gateway: bool) -> Forward:
    virtual = asked.path.namespace
    path = structs.replace(asked.path, namespace=host)
    body, content_type = b"", ""
    if asked.is_write:
        target = BodyTarget(asked.info, virtual, host, asked.path.name, asked.view)
        body, content_type = body_for(asked, target)
    asked = asking.with_host_token(asked, virtual) if asked.verb == "list" else asked
    asked = asked.with_query(asking.map_selectors(asked.query, asked.view))
    return asking.forward(
        asked,
        path,
        asking.response_to(asked, in_namespaces(virtual), namespace=virtual),
        body=body,
        content_type=content_type,
        as_gateway=as_gateway,
        authorize=asked.attributes if as_gateway else None,
    )


def _all_namespaces(asked: Requested) -> Forward:
    """List or watch the whole host, and drop what is of others (G-40)."""
    if asked.path.name or not asked.is_list:
        raise refusals.method_not_allowed()
    membership = in_namespaces()
    asked = asked.with_query(asking.map_selectors(asked.query, asked.view))
    response = asking.response_to(asked, membership, hides_count=True)
    return filtered(asked, asked.path, response, membership)


def filtered(
    asked: Requested, path: ResourcePath, response: OfResource, membership: Membership
) -> Forward:
    """Return a request for what is filtered here: asked first, joined from pages (G-24, G-40).

    Also a list of all: what the gateway holds of it at once is one page.
    """
    query = asked.query
    token = query.first("continue")
    planned = asking.forward(asked, path, response, as_gateway=True, authorize=asked.attributes)
    if asked.verb != "list":
        return planned
    limit = asking.limit_of(query)
    place = asking.place_of(asked)
    query = query.with_values(**{"limit": None, "continue": None})
    if query.first("resourceVersion") == "0" and not (limit or token):
        # Any version will do, so the newest will; an API server gives version 0 as a whole.
        query = query.with_values(resourceVersion=None, resourceVersionMatch=None)
    if query.first("includeObject") == "None":
        query = query.with_values(includeObject="Metadata")
    pages = JoinedPages(response, membership, query, limit, place)
    return structs.replace(planned, pages=pages, query=pages.query())
