"""What to do with one request of a client: forward, answer or refuse it.

The path is parsed, the scope of its kind decides the rule: namespaced_plans.py (5.2, 5.4),
cluster_plans.py (5.3), and here what leads to no resource (5.1).
"""

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping import asked as asking
from karmada_vc_agent.features.gateway.mapping import discovery, refusals
from karmada_vc_agent.features.gateway.mapping.asked import Forward, ParsedRequest, Plan, PlanAnswer
from karmada_vc_agent.features.gateway.mapping.cluster_plans import plan_cluster_scoped
from karmada_vc_agent.features.gateway.mapping.discovery import DiscoveryPlan
from karmada_vc_agent.features.gateway.mapping.exchange import (
    KindInfo,
    Refused,
    View,
    VirtualRequest,
)
from karmada_vc_agent.features.gateway.mapping.namespaced_plans import (
    is_connection,
    is_proxy,
    plan_namespaced,
)
from karmada_vc_agent.features.gateway.mapping.paths import (
    OtherPath,
    PathError,
    ResourcePath,
    parse,
)
from karmada_vc_agent.features.gateway.mapping.queries import Query, QueryError
from karmada_vc_agent.features.gateway.mapping.refusals import PlanError
from karmada_vc_agent.features.gateway.mapping.responses import Response
from karmada_vc_agent.features.gateway.mapping.review_plans import plan_review
from karmada_vc_agent.features.gateway.mapping.scopes import KindScope, scope_of

_HEALTH = frozenset({"healthz", "livez", "readyz"})
_DISCOVERY_DEPTH = {"api": 2, "apis": 3}
_READS = frozenset({"GET", "HEAD"})
_PROXY_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def plan(request: VirtualRequest, identity: Caller, view: View) -> Plan:
    """Return what becomes of a request of an authenticated client."""
    try:
        path, query = parse(request.path), Query.parse(request.query)
        if request.is_upgrade and not (isinstance(path, ResourcePath) and is_connection(path)):
            # An API server serves watches over WebSockets, which would be copied unmapped.
            raise refusals.not_upgraded()
        if isinstance(path, OtherPath):
            return _other(request, path, view)
        return _resource(request, path, query, identity, view)
    except (PathError, QueryError) as error:
        return refusals.bad_request(str(error)).refused
    except PlanError as error:
        return error.refused


def _resource(
    request: VirtualRequest, path: ResourcePath, query: Query, identity: Caller, view: View
) -> Plan:
    info = view.resource(path.group, path.version, path.resource)
    if info is None:
        raise refusals.unknown_resource()
    if info.namespaced is not True and path.namespace and path.resource != "namespaces":
        raise refusals.unknown_resource()
    parsed = _parsed(request, path, query, identity, view, info)
    scope = scope_of(info, view)
    if not info.namespaced:
        return plan_cluster_scoped(parsed, scope)
    if scope is KindScope.REVIEW:
        return plan_review(parsed)
    if scope is KindScope.DENIED:
        raise parsed.refuse("it is not available in this cluster")
    return plan_namespaced(parsed)


def _parsed(
    request: VirtualRequest,
    path: ResourcePath,
    query: Query,
    identity: Caller,
    view: View,
    info: KindInfo,
) -> ParsedRequest:
    if is_proxy(path):  # any method, and any form of answer
        verb = _PROXY_VERBS.get(request.method, "get")
        return ParsedRequest(request, identity, view, path, info, query, verb, "")
    verb = asking.verb_of(request, path, query)
    accept = "" if is_connection(path) else asking.accept_of(request)
    return ParsedRequest(request, identity, view, path, info, query, verb, accept)


def _other(request: VirtualRequest, path: OtherPath, view: View) -> Plan:
    if request.method not in _READS:
        raise _not_served(path)
    match path.segments:
        case ("version",) | ("openapi", "v2") | ("openapi", "v3", *_):
            return _untouched(request, path)
        case (check,) if check in _HEALTH:
            return _health(view)
        case ("api" | "apis" as root, *rest) if len(rest) < _DISCOVERY_DEPTH[root]:
            return _discovery(request, path, view)
    raise _not_served(path)


def _not_served(path: OtherPath) -> PlanError:
    return refusals.forbidden(f'forbidden: path "{path.encoded()}" is not served')


def _untouched(request: VirtualRequest, path: OtherPath) -> Forward:
    return Forward(
        request.method, path.encoded(), Response(), query=request.query, accept=request.accept
    )


def _health(view: View) -> PlanAnswer | Refused:
    if view.host_is_alive():
        return PlanAnswer(200, "text/plain; charset=utf-8", b"ok")
    return Refused(503, "ServiceUnavailable", "the cluster does not answer")


def _discovery(request: VirtualRequest, path: OtherPath, view: View) -> Forward:
    accept = asking.accept_of(request)
    group = path.segments[1] if path.segments[0] == "apis" and len(path.segments) > 1 else ""
    if group and not discovery.is_group_shown(group, view):
        raise refusals.unknown_resource()
    return Forward("GET", path.encoded(), DiscoveryPlan(), query=request.query, accept=accept)
