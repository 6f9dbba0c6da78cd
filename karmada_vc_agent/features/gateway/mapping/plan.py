"""Plans a request of a client: forward or refuse it.

plan() at the end parses the path, and the scope of its kind decides the rule. Rules are above it:
writes of Namespaces, questions about rights, what is cluster-scoped (5.3), what is in namespaces
(5.2, 5.4), discovery (5.1).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from karmada_vc_agent.config.checks import DNS_LABEL
from karmada_vc_agent.features.gateway.mapping import (
    bodies,
    cluster_view,
    object_membership,
    refusals,
    responses,
)
from karmada_vc_agent.features.gateway.mapping.bodies import body_for
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindScope,
    MapName,
    ParsedRequest,
    Query,
    RequestPath,
    ResponseKind,
    View,
    VirtualRequest,
    field_terms,
    parse_path,
    scope_allows,
    scope_of,
)
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, KindInfo, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import Forward, Plan, Response, is_status
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    dig,
    maps_at,
    parse_api_version,
    text_at,
)
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import NAME_FIELD, NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation import own_steps
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX
from karmada_vc_agent.translation.rbac_rules import restore_written
from karmada_vc_agent.translation.translate import claimed_namespace

IMMORTAL = "default"
"""Kubernetes deletes it never, and neither does a virtual cluster."""
_MAPS = ("labels", "annotations")
_OF_ITS_END = ("finalizers", "ownerReferences")
"""What would keep a namespace on the host that its virtual cluster, or the agent, deleted."""
_KEPT = (*_OF_ITS_END, "managedFields")
"""What writes leave as the host has it."""
_NAME_MAX_LENGTH = 63


Written = tuple[Object, tuple[str, ...]]
"""What a write becomes, and warnings for the client."""


def right_to_namespaces(verb: str, name: str) -> Attributes:
    """Return the right that a client needs to write a Namespace."""
    return Attributes(verb, vocabulary.DOMAIN, "v1alpha1", "namespaces", name=name)


def name_of(body: Object, parsed: ParsedRequest) -> str:
    """Return the virtual name of a new Namespace, or generate it. Raises RefusalError."""
    metadata = dig(body, "metadata")
    name, prefix = (dig(metadata, each) for each in ("name", "generateName"))
    if parsed.name:
        _check_name(body, parsed)
        name = parsed.name
    elif not (isinstance(name, str) and name):
        if not (isinstance(prefix, str) and prefix):
            detail = "Required value: name or generateName is required"
            raise refusals.invalid(parsed.info, "", "metadata.name", detail, "FieldValueRequired")
        suffix = parsed.view.suffix()
        name = prefix[: _NAME_MAX_LENGTH - len(suffix)] + suffix
    if not DNS_LABEL.fullmatch(name):
        detail = "must be a DNS label: a-z, 0-9 and -, up to 63 characters"
        detail = f'Invalid value: "{name}": {detail}'
        raise refusals.invalid(parsed.info, name, "metadata.name", detail)
    return name


def created_namespace(body: Object, parsed: ParsedRequest) -> Written:
    """Return the claimed host Namespace. parsed: with the name. Raises RefusalError."""
    context = parsed.view.context()
    if parsed.name in context.vc.adopt_namespaces:
        raise parsed.refuse("an administrator of the host lets the virtual cluster adopt it")
    if 0 < context.vc.bounds.works <= len(context.claims):
        most = context.vc.bounds.works
        raise parsed.refuse(f"the virtual cluster may have {most} namespaces (bounds.works)")
    _refuse_its_end(body, {}, parsed)
    named = {**body, "metadata": {**(dig(body, "metadata") or {}), "name": parsed.name}}
    written = _without_ends(bodies.whole(named, parsed))
    pairs, dropped = _tenants(body, {}, parsed)
    marks = _marks(parsed)["metadata"]
    written["metadata"]["name"] = marks["name"]
    for each in _MAPS:
        written["metadata"][each] = {**pairs[each], **marks[each]}
    return written, dropped


def replaced_namespace(body: Object, live: Object, parsed: ParsedRequest) -> Written:
    """Return the host Namespace with what is not the tenant's as it is. Raises RefusalError."""
    _check_name(body, parsed)
    _refuse_its_end(body, live, parsed)
    written = _without_ends(bodies.whole(body, parsed, is_update=True))
    metadata = written["metadata"]
    pairs, dropped = _tenants(body, live, parsed)
    for each in _MAPS:
        there: Object = dig(live, "metadata", each) or {}
        kept = {key: value for key, value in there.items() if not _is_tenants(key, parsed)}
        _put(metadata, each, pairs[each] | kept)
    for each in _OF_ITS_END:
        if live_value := dig(live, "metadata", each):
            metadata[each] = live_value
    return written, dropped


def _merged(body: Object, live: Object, parsed: ParsedRequest) -> Written:
    _check_name(body, parsed)
    _refuse_its_end(body, live, parsed)
    written = _without_ends(bodies.part(body, parsed))
    pairs, dropped = _tenants(body, live, parsed)
    metadata = written.get("metadata") or {}
    for each in _MAPS:
        _put(metadata, each, pairs[each])
    if metadata:
        written["metadata"] = metadata
    else:
        written.pop("metadata", None)
    return written, dropped


def _applied(body: Object, live: Object, parsed: ParsedRequest) -> Written:
    """Return an apply to a Namespace, with marks: those that a manager leaves out are removed."""
    written, dropped = _merged(body, live, parsed)
    marks = _marks(parsed)["metadata"]
    metadata = written.setdefault("metadata", {})
    for each in _MAPS:
        there = dig(live, "metadata", each) or {}
        kept = {key: there[key] for key in marks[each] if key in there}
        metadata[each] = {**metadata.get(each, {}), **kept}
    return written, dropped


def kept_because(live: Object, name: str) -> str:
    """Return why a Namespace is not for tenants to delete, "" if it is."""
    if name == IMMORTAL:
        return "this namespace may not be deleted"
    marks = annotations_of(live)
    if not is_made_by_agent(live):
        return "it was there before the virtual cluster adopted it"
    if marks.get(vocabulary.WORK_ANNOTATION):
        return "Karmada propagates it, and would create it again; delete it there"
    if vocabulary.HOLD_ANNOTATION in marks:
        return "an administrator of the host holds it"
    return ""


def _marks(parsed: ParsedRequest) -> Object:
    context = parsed.view.context()
    marks = claimed_namespace(context.vc, VirtualNamespace(parsed.name), context.settings)
    marks["metadata"]["annotations"][vocabulary.BY_GATEWAY_ANNOTATION] = "true"
    return marks


def _is_tenants(key: str, parsed: ParsedRequest) -> bool:
    settings = parsed.view.context().settings
    patterns = own_steps.tenants_patterns(settings.tenancy, settings.namespace_keys)
    return own_steps.is_tenants(key, patterns)


def _tenants(
    body: Object, live: Object, parsed: ParsedRequest
) -> tuple[dict[str, Object], tuple[str, ...]]:
    """Return what a client may change of labels and annotations, and the warning about others."""
    kept: dict[str, Object] = {}
    dropped: set[str] = set()
    for each in _MAPS:
        there, kept[each] = dig(live, "metadata", each) or {}, {}
        sent = dig(body, "metadata", each)
        for key, value in (sent if isinstance(sent, dict) else {}).items():
            if _is_tenants(key, parsed):
                kept[each][key] = value
            elif not (
                key == NAMESPACE_NAME_LABEL or vocabulary.is_ours(key) or there.get(key) == value
            ):
                dropped.add(key)
    names = ", ".join(sorted(dropped))
    warning = f"labels and annotations that the site decides are left as they are: {names}"
    return kept, (warning,) if dropped else ()


def _put(obj: Object, key: str, value: Object) -> None:
    obj.pop(key, None)
    if value:
        obj[key] = value


def _check_name(body: Object, parsed: ParsedRequest) -> None:
    name = dig(body, "metadata", "name")
    if name and name != parsed.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({parsed.name})"
        raise refusals.bad_request(text)


def _refuse_its_end(body: Object, live: Object, parsed: ParsedRequest) -> None:
    """Refuse finalizers and owners: who deletes a namespace must see it go."""
    metadata = dig(body, "metadata")
    for each in _OF_ITS_END:
        is_there = isinstance(metadata, dict) and each in metadata
        if is_there and (metadata[each] or []) != (dig(live, "metadata", each) or []):
            raise parsed.refuse(f"metadata.{each} of a namespace is not for tenants")
    if dig(body, "spec", "finalizers") not in (None, [], ["kubernetes"]):
        raise parsed.refuse("spec.finalizers of a namespace is not for tenants")


def _without_ends(obj: Object) -> Object:
    """Take off what the host sets by itself, and keeps whatever a client sends."""
    kept = {key: value for key, value in obj.items() if key not in ("spec", "status")}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = {k: v for k, v in metadata.items() if k not in _KEPT}
    return kept


_WRITES = frozenset({"create", "update", "patch", "delete"})
_ATTRIBUTES = "resourceAttributes"


def review_for_host(body: Object, parsed: ParsedRequest) -> Object:
    """Return a review with names of the host. Raises RefusalError: 400."""
    sent = body.get("spec")
    if sent is None and parsed.info.kind == "SelfSubjectReview":
        return body
    if not isinstance(sent, dict):
        raise refusals.bad_request("spec is not a map")
    spec = dict(sent)
    if parsed.info.kind == "SelfSubjectRulesReview":
        spec["namespace"] = _host_namespace(spec.get("namespace"), parsed.view)
    if isinstance(spec.get(_ATTRIBUTES), dict):
        spec[_ATTRIBUTES] = _attributes(spec[_ATTRIBUTES], parsed.view)
    return {**body, "spec": spec}


def _attributes(sent: Object, view: View) -> Object:
    """Map the namespace; a question about all namespaces is one about the anchor (G-24)."""
    attributes, namespace = dict(sent), sent.get("namespace")
    if sent.get("resource") == "namespaces" and not sent.get("group"):
        if str(sent.get("verb")) in _WRITES:
            attributes.pop("name", None)
            ours = {"group": vocabulary.DOMAIN, "version": "*", "namespace": view.anchor}
            return attributes | ours
        if attributes.get("name"):
            attributes["name"] = object_membership.host_namespace(view, str(attributes["name"]))
        is_in_one = bool(namespace)
    else:
        is_in_one = bool(namespace) or _is_namespaced(sent, view)
    if is_in_one:
        attributes["namespace"] = _host_namespace(namespace, view)
    return attributes


def _is_namespaced(attributes: Object, view: View) -> bool:
    """Whether a resource is in namespaces; one that the host does not serve is taken to."""
    group, resource = str(attributes.get("group") or ""), attributes.get("resource")
    served = [info for info in view.resources(group) if info.plural == resource]
    return all(info.namespaced for info in served)


def _host_namespace(namespace: Any, view: View) -> str:
    return object_membership.host_namespace(view, str(namespace)) if namespace else view.anchor


class _OfReview(Response):
    """The answer to a review; sent: the question of the client."""

    kind = ResponseKind.OBJECT

    def __init__(self, sent: Object) -> None:
        self._sent = sent

    def map(self, decoded: Object, view: View) -> Object | None:
        """Map the texts, and names of namespaces in rules; restore the question."""
        if is_status(decoded):
            return self.map_status(decoded, view)
        reader, status = object_membership.ObjectReader(view), decoded.get("status")
        if isinstance(status, dict):
            for field in ("reason", "evaluationError"):
                reader.text_in(status, field)
            for rule in status.get("resourceRules") or ():
                if restore_written(rule):
                    continue
                names = dig(rule, "resourceNames")
                if isinstance(names, list):
                    rule["resourceNames"] = [reader.text(str(name)) for name in names]
            if isinstance(user := status.get("userInfo"), dict):
                reader.text_in(user, "username")
                groups = [reader.text(str(group)) for group in user.get("groups") or ()]
                user["groups"] = list(dict.fromkeys(groups))
        if "spec" in self._sent:
            decoded["spec"] = self._sent["spec"]
        return decoded


def plan_review(parsed: ParsedRequest) -> Forward:
    """Return what becomes of a question about rights. Raises RefusalError."""
    if parsed.verb != "create" or parsed.name:
        raise refusals.method_not_allowed()
    request = parsed.request
    sent = bodies.as_object(bodies.decode(request.body, request.content_type))
    return responses.forward(
        parsed,
        parsed.path,
        _OfReview(sent),
        body=bodies.encode(review_for_host(sent, parsed)),
        content_type=refusals.JSON,
    )


_NO_NODE = "kubernetes.io/hostname,!kubernetes.io/hostname"
_READ_ONLY = "it is read only in this cluster"
_INCLUDE, _WHOLE = "includeObject", "Object"


def plan_cluster_scoped(parsed: ParsedRequest, scope: KindScope) -> Forward:
    """Return what becomes of a request for a cluster-scoped resource. Raises RefusalError."""
    if not scope_allows(scope, parsed.verb):
        if scope is KindScope.NAMESPACES and parsed.verb == "deletecollection":
            raise refusals.method_not_allowed()
        raise parsed.refuse(_READ_ONLY)
    if parsed.path.subresource:
        raise parsed.refuse(f"{parsed.path.subresource} is not available in this cluster")
    return _PLANS[scope](parsed)


def _read(
    parsed: ParsedRequest, members: object_membership.ObjectFilter, name: str = ""
) -> Forward:
    path = structs.replace(parsed.path, name=name) if name else parsed.path
    return responses.forward(parsed, path, responses.response_to(parsed, members))


def _selected(parsed: ParsedRequest, selector: str, fields: Mapping[str, MapName]) -> ParsedRequest:
    query = responses.map_selectors(parsed.query, parsed.view, fields) if fields else parsed.query
    if parsed.is_list:  # in front of what is given, which it only narrows
        given = query.first("labelSelector")
        query = query.with_values(labelSelector=f"{selector},{given}" if given else selector)
    return replace(parsed, query=query)


def _nodes(parsed: ParsedRequest) -> Forward:
    required = parsed.view.context().vc.required_selector
    selector = ",".join(f"{key}={value}" for key, value in required.items()) or _NO_NODE
    of_nodes = object_membership.SELECTED if parsed.is_list else object_membership.NODES
    members = object_membership.BY_NODE_NAME if parsed.path.group else of_nodes
    return _read(_selected(parsed, selector, {}), members)


def _renamed(parsed: ParsedRequest) -> Forward:
    host_name = parsed.view.context().names().host_name
    own = f"{vocabulary.CLUSTER_LABEL}={parsed.view.name},!{vocabulary.GATEWAY_LABEL}"
    name = host_name(parsed.name) if parsed.name else ""
    return _read(_selected(parsed, own, {NAME_FIELD: host_name}), object_membership.LABELLED, name)


def _bindings(parsed: ParsedRequest) -> Forward:
    def host(name: str) -> str:
        return CONVERTED_PREFIX + name

    query = responses.map_selectors(parsed.query, parsed.view, {NAME_FIELD: host})
    path = structs.replace(
        parsed.path,
        resource="rolebindings",
        namespace=parsed.view.anchor,
        name=host(parsed.name) if parsed.name else "",
    )
    response = responses.response_to(parsed, object_membership.BINDINGS)
    return responses.forward(replace(parsed, query=query), path, response)


def _volumes(parsed: ParsedRequest) -> Forward:
    """Read whole volumes as the gateway: their claim decides, and whose their name is."""
    # Of a Table, too; the API server makes metadata alone of no claim.
    is_metadata = "PartialObjectMetadata" in parsed.accept
    parsed = replace(parsed, accept=refusals.JSON) if is_metadata else parsed
    query, names = parsed.query, []
    selector = query.first("fieldSelector")
    if parsed.is_list and selector:
        terms = field_terms(selector)
        names = [term for term in terms if term.key == NAME_FIELD]
        others = ",".join(str(term) for term in terms if term.key != NAME_FIELD)
        query = query.with_values(fieldSelector=others or None)
    if "as=Table" in parsed.accept:
        query = query.with_values(**{_INCLUDE: _WHOLE})
    response = responses.response_to(parsed, object_membership.volume_membership(tuple(names)))
    parsed = replace(parsed, query=query)
    own = responses.forward(parsed, parsed.path, response, authorize=parsed.attributes)
    if parsed.is_list:
        return own
    host_name = parsed.view.context().names().host_name(parsed.name)
    path = structs.replace(parsed.path, name=host_name)
    return structs.replace(own, path=path.encoded(), otherwise=own)


def _namespaces(parsed: ParsedRequest) -> Forward:
    view = parsed.view
    if parsed.is_list:
        fields = {NAME_FIELD: partial(object_membership.host_namespace, view)}
        selected = _selected(parsed, f"{vocabulary.CLUSTER_LABEL}={view.name}", fields)
        return _read(selected, object_membership.NAMESPACES)
    if parsed.is_write:
        try:
            return _write_namespace(parsed)
        except RefusalError as error:
            # Who may not write learns nothing of what is there.
            error.authorize = right_to_namespaces(parsed.verb, parsed.name)
            raise
    host = object_membership.claimed_namespace(view, parsed.name)
    if host is None:
        raise refusals.namespace_not_found(parsed.name)
    return _read(parsed, object_membership.NAMESPACES, host)


def _write_namespace(parsed: ParsedRequest) -> Forward:
    request, view, name = parsed.request, parsed.view, parsed.name
    if name == object_membership.KUBE_SYSTEM:
        raise parsed.refuse(_READ_ONLY)
    kind = cluster_view.media_type_of(request.content_type)
    host = object_membership.claimed_namespace(view, name) if name else None
    live = view.namespace_object(host) if host is not None else None
    if live is None or host is None:
        if parsed.verb == "create" or (parsed.verb == "patch" and kind == bodies.APPLY):
            return _create_namespace(parsed)
        raise refusals.namespace_not_found(name)
    path = structs.replace(parsed.path, name=host)
    right = right_to_namespaces(parsed.verb, name)
    if parsed.verb == "delete":
        if why := kept_because(live, name):
            raise parsed.refuse(why)
        body, content_type = bodies.delete_options(request.body, request.content_type)
        response = responses.response_to(parsed, object_membership.NAMESPACES)
        return responses.forward(
            parsed, path, response, body=body, content_type=content_type, authorize=right
        )
    if parsed.verb == "patch":
        kind, changed = bodies.decoded_patch(parsed)
        is_applied = kind == bodies.APPLY
        written = (_applied if is_applied else _merged)(changed, live, parsed)
        # A strategic one could replace all that is not in it; here both mean the same.
        content_type = kind if is_applied else bodies.MERGE[0]
    else:
        sent = bodies.as_object(bodies.decode(request.body, request.content_type))
        written, content_type = replaced_namespace(sent, live, parsed), refusals.JSON
    return _written(parsed, written, path, content_type, right, (host, name))


def _create_namespace(parsed: ParsedRequest) -> Forward:
    request, view = parsed.request, parsed.view
    is_applied = parsed.verb == "patch"
    body = bodies.as_object(
        bodies.decode(request.body, refusals.JSON if is_applied else request.content_type)
    )
    name = name_of(body, parsed)
    named = replace(parsed, path=structs.replace(parsed.path, name=name))
    existing = object_membership.claimed_namespace(view, name)
    if existing is not None and name != object_membership.KUBE_SYSTEM:
        raise refusals.already_exists(parsed.info, name)
    written = created_namespace(body, named)
    host = str(written[0]["metadata"]["name"])
    if view.is_foreign(host):
        raise named.refuse("its name on the host is taken by what is not of this cluster")
    forwarded = _written(
        parsed,
        written,
        structs.replace(parsed.path, name=host if is_applied else ""),
        bodies.APPLY if is_applied else refusals.JSON,
        right_to_namespaces("create", name if is_applied else ""),
        (host, name),
    )
    is_dry_run = bool(parsed.query.first("dryRun"))
    return forwarded if is_dry_run else structs.replace(forwarded, sets_up=host)


def _written(
    parsed: ParsedRequest,
    written: Written,
    path: RequestPath,
    content_type: str,
    right: Attributes,
    names: tuple[str, str],
) -> Forward:
    """Return the request that writes a Namespace. names: on the host, and the virtual one."""
    value, warnings = written
    forwarded = responses.forward(
        parsed,
        path,
        responses.response_to(parsed, object_membership.written_namespace(*names), written=names),
        body=bodies.encode(value),
        content_type=content_type,
        authorize=right,
    )
    return structs.replace(forwarded, warnings=warnings)


_PLANS: Mapping[KindScope, Callable[[ParsedRequest], Forward]] = {
    KindScope.NAMESPACES: _namespaces,
    KindScope.NODES: _nodes,
    KindScope.RENAMED: _renamed,
    KindScope.VOLUMES: _volumes,
    KindScope.BINDINGS: _bindings,
    KindScope.SHARED: partial(_read, members=object_membership.SHARED_OBJECTS),
    KindScope.REVIEW: plan_review,
}
"""Scope -> its rule, for verbs that it allows."""


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
    if path.namespace == object_membership.KUBE_SYSTEM and (parsed.is_write or is_connection(path)):
        raise parsed.refuse(f"namespace {object_membership.KUBE_SYSTEM} is read only")
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
    if host == object_membership.NOWHERE:
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
        responses.response_to(parsed, object_membership.in_namespaces(parsed.namespace)),
        body=body,
        content_type=content_type,
        authorize=authorize,
    )


def _all_namespaces(parsed: ParsedRequest) -> Forward:
    """List or watch the whole host, and drop what is of others (G-40)."""
    if parsed.name or not parsed.is_list:
        raise refusals.method_not_allowed()
    parsed = replace(parsed, query=responses.map_selectors(parsed.query, parsed.view))
    response = responses.response_to(parsed, object_membership.in_namespaces())
    return responses.forward(parsed, parsed.path, response, authorize=parsed.attributes)


class _Discovery(Response):
    """The answer to a request for discovery, without addresses of the host and refused kinds."""

    kind = ResponseKind.DISCOVERY

    def map(self, decoded: Object, view: View) -> Object | None:
        """Remove them, in place; a controller that lists all kinds would fail at refused ones."""
        if "serverAddressByClientCIDRs" in decoded:
            decoded["serverAddressByClientCIDRs"] = []
        if decoded.get("kind") == "APIResourceList":
            group, version, _ = parse_api_version(text_at(decoded, "groupVersion"), "")
            decoded["resources"] = _shown(group, version, decoded, view)
        for key in ("groups", "items"):  # of an APIGroupList, of an APIGroupDiscoveryList
            if key in decoded:
                decoded[key] = [each for each in maps_at(decoded, key) if _is_shown(each, view)]
        return decoded


def _is_shown(listed: Object, view: View) -> bool:
    """Whether a group has anything that is not refused, or nothing; such resources are removed."""
    group = text_at(listed, "metadata", "name") or text_at(listed, "name")
    for served in maps_at(listed, "versions"):
        if "resources" in served:
            served["resources"] = _shown(group, text_at(served, "version"), served, view)
    scopes = [scope_of(info, view) for info in view.resources(group)]
    return not scopes or any(scope is not KindScope.DENIED for scope in scopes)


def _shown(group: str, version: str, served: Object, view: View) -> list[Object]:
    scopes, entries = dict[str, KindScope](), maps_at(served, "resources")
    for each in entries:
        name = text_at(each, "resource") or text_at(each, "name")
        kind = text_at(each, "responseKind", "kind") or text_at(each, "kind")
        namespaced = each.get("namespaced") is True or each.get("scope") == "Namespaced"
        scopes.setdefault(name, scope_of(KindInfo(group, version, name, kind, namespaced), view))
    return [each for each in entries if _is_allowed(group, each, scopes)]


def _is_allowed(group: str, entry: Object, scopes: Mapping[str, KindScope]) -> bool:
    """Whether an entry is not refused; its verbs and subresources are limited in place."""
    plural, _, subresource = (text_at(entry, "resource") or text_at(entry, "name")).partition("/")
    scope = scopes.get(plural, KindScope.DENIED)

    def shows(part: str) -> bool:
        is_denied = (group, plural, part) in cluster_view.DENIED_SUBRESOURCES
        return scope is KindScope.NAMESPACED and not is_denied

    if subresource:
        return shows(subresource)
    if "verbs" in entry:
        entry["verbs"] = [verb for verb in entry["verbs"] or () if scope_allows(scope, str(verb))]
    if parts := maps_at(entry, "subresources"):
        entry["subresources"] = [each for each in parts if shows(text_at(each, "subresource"))]
    return scope is not KindScope.DENIED


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


def plan(request: VirtualRequest, view: View) -> Plan:
    """Return what becomes of a request of an authenticated client."""
    try:
        path, query = parse_path(request.path), Query.parse(request.query)
        if request.is_upgrade and not is_connection(path):
            # An API server serves watches over WebSockets, which would be copied unmapped.
            raise refusals.bad_request(_NOT_UPGRADED)
        if not path.resource:
            return _other(request, path)
        return _resource(request, path, query, view)
    except RefusalError as error:
        return error.with_traceback(None)  # which would hold the body


def _resource(request: VirtualRequest, path: RequestPath, query: Query, view: View) -> Plan:
    info = view.resource(path.group, path.version, path.resource)
    if info is None:
        raise refusals.unknown_resource()
    if info.namespaced is not True and path.namespace and path.resource != "namespaces":
        raise refusals.unknown_resource()
    verb = _verb_of(request, path, query)
    accept = "" if is_connection(path) else _accept_of(request)
    parsed = ParsedRequest(request, view, path, info, query, verb, accept)
    scope = scope_of(info, view)
    if scope is KindScope.DENIED:
        raise parsed.refuse("it is not available in this cluster")
    return plan_namespaced(parsed) if info.namespaced else plan_cluster_scoped(parsed, scope)


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
    method, accept, response = request.method, request.accept, Response()
    if root in _DEPTH:
        method, accept, response = "GET", _accept_of(request), _Discovery()
    return Forward(method, path.encoded(), response, query=request.query, accept=accept)
