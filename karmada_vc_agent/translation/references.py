"""Rewrites references, in both directions: namespaces and names that objects refer to."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, values_at
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import ALL_NAMESPACES, Draft, Notice, NoticeCode
from karmada_vc_agent.translation.kind_policy import Code, Reference, RefusedError, Treatment

_LOCAL_SERVERS = ("https://kubernetes.default.svc", "https://kubernetes.default.svc.cluster.local")
_LOCAL_CLUSTER = "in-cluster"
_GLOB_MARKS = "*?[!"
_BETWEEN_NAMES = ","
_OWN_NAMESPACE = "${pvc.namespace}"
"""A claim's own namespace, filled in by the driver; other templates may refer to any."""
_NAMESPACE_KEYS = ("secretnamespace", "pvcnamespace", "podnamespace")
_SECRET_KEY = "secretname"  # noqa: S105 - the suffix of a parameter's name
OF_ALL_PROXIES = ("/auth-secret", "/auth-tls-secret", "/proxy-ssl-secret")
PROXY_REFERENCES = ("-ca", "-crt", "-secret", "-headers", "-configmap", "/cr-backend")
"""Suffixes of annotations of an Ingress with value `namespace/name`, or the name alone."""
PROXY_DOMAINS = (
    *("nginx.ingress.kubernetes.io/", "nginx.org/", "nginx.com/", "ingress.kubernetes.io/"),
    *("haproxy.org/", "haproxy.com/", "haproxy-ingress.github.io/"),
)
"""Domains with such annotations; those of OF_ALL_PROXIES count under any domain."""


def rewrite_references(draft: Draft) -> None:
    """Rewrite all references that the tables and the settings list (rewriting-rules 4.1)."""
    settings = draft.context.settings
    rows = kind_policy.references_of(draft.gvk.group_kind, settings.namespace_references)
    _apply(draft, draft.obj, "", rows)
    for pod_spec in kind_policy.pod_specs(draft.obj, draft.gvk, settings.pod_templates):
        # In other kinds only the affinity is certain to be a pod's.
        inside = kind_policy.AFFINITY if pod_spec.selector_only else kind_policy.IN_POD_SPECS
        _apply(draft, pod_spec.spec, f"{pod_spec.path}.", inside)


def _apply(draft: Draft, obj: Object, prefix: str, references: Iterable[Reference]) -> None:
    for reference in references:
        if not obj.get(_head(reference.path)):
            continue  # nearly always: the walk would cost several times as much
        change = _CHANGES[reference.treatment]

        def changed(value: Any, where: str, change: _Change = change) -> Any:
            return change(draft, value, prefix + where)

        change_at(obj, reference.path, changed)


_Change = Callable[[Draft, Any, str], Any]
"""(draft, value, path) -> the new value; None removes the key."""


def _namespace(way: Draft, value: Any, path: str) -> Any:
    return way.direction.namespace(value, path) if _is_name(value) else value


def _pattern(way: Draft, value: Any, path: str) -> Any:
    if way.direction.to_host and _is_name(value) and any(m in value for m in _GLOB_MARKS):
        detail = (
            f'{path} is "{value}"; list each namespace, since a pattern matches those of others'
        )
        raise RefusedError(Code.REFERENCE_FORBIDDEN, path, detail)
    return _namespace(way, value, path)


def _is_own_node(way: Draft, value: Any) -> bool:
    return isinstance(value, str) and way.context.owns_node(value)


def _node(way: Draft, value: Any, path: str) -> Any:
    if way.direction.to_host and value != "" and not _is_own_node(way, value):
        detail = f'{path} "{value}" is not in the virtual cluster'
        raise RefusedError(Code.NODE_NAME_FORBIDDEN, path, detail)
    return value


def _refused(way: Draft, value: Any, path: str) -> Any:
    if way.direction.to_host:
        detail = f"{path} must not be set, since virtual clusters share objects of this kind"
        raise RefusedError(Code.REFERENCE_FORBIDDEN, path, detail)
    return value


def _parameters(way: Draft, parameters: Any, path: str) -> Any:
    if not isinstance(parameters, dict):
        return parameters
    plain = {key: re.sub(r"[^a-z]", "", str(key).lower()) for key in parameters}
    ends = tuple(plain.values())
    for key, name in plain.items():
        before = name.removesuffix(_SECRET_KEY)
        if way.direction.to_host and before != name and f"{before}secretnamespace" not in ends:
            detail = f'{path}["{key}"] refers to a Secret without a namespace; set that too'
            raise RefusedError(Code.REFERENCE_FORBIDDEN, path, detail)
    named = {key for key, name in plain.items() if name.endswith(_NAMESPACE_KEYS)}
    return _with_parameters(way, parameters, named, path)


def _with_parameters(way: Draft, items: Object, named: Collection[str], path: str) -> Object:
    """Return a map in which the values of some keys are mapped as namespaces."""
    return {
        key: _parameter(way, value, f'{path}["{key}"]') if key in named else value
        for key, value in items.items()
    }


def _parameter(way: Draft, value: Any, path: str) -> Any:
    if value == _OWN_NAMESPACE:
        return value
    if way.direction.to_host and isinstance(value, str) and "${" in value:
        detail = f'{path} is "{value}", must be {_OWN_NAMESPACE} or the name of a namespace'
        raise RefusedError(Code.REFERENCE_FORBIDDEN, path, detail)
    return _namespace(way, value, path)


def _secret_annotations(way: Draft, annotations: Any, path: str) -> Any:
    """Map the namespaces of Secrets that drivers use for deletion (`-secret-namespace`)."""
    if not isinstance(annotations, dict):
        return annotations
    named = {key for key in annotations if str(key).endswith("-secret-namespace")}
    return _with_parameters(way, annotations, named, path)


def _proxy_annotations(way: Draft, annotations: Any, path: str) -> Any:
    """Map the namespace in annotations that refer to a Secret as `namespace/name`."""
    if not isinstance(annotations, dict):
        return annotations
    mapped = dict(annotations)
    for key, value in annotations.items():
        if "/" not in str(value) or not _is_proxys(str(key)):
            continue
        where = f'{path}["{key}"]'
        match = re.fullmatch(r"(?P<namespace>[a-z0-9.-]+)/(?P<name>[a-z0-9._-]+)", str(value))
        if match:
            mapped[key] = f"{_namespace(way, match['namespace'], where)}/{match['name']}"
        elif way.direction.to_host:
            detail = f'{where} "{value}" is not valid; use <namespace>/<name>, or the name'
            raise RefusedError(Code.REFERENCE_FORBIDDEN, where, detail)
    return mapped


def _is_proxys(key: str) -> bool:
    return key.endswith(OF_ALL_PROXIES) or (
        key.endswith(PROXY_REFERENCES) and key.startswith(PROXY_DOMAINS)
    )


def _destination(way: Draft, destination: Any, path: str) -> Any:
    """Map the namespace if the destination is the cluster that Argo CD runs in."""
    server, name = dig(destination, "server"), dig(destination, "name")
    if not isinstance(destination, dict) or not (
        server in _LOCAL_SERVERS or name == _LOCAL_CLUSTER or not (server or name)
    ):
        return destination
    mapped = _namespace(way, destination.get("namespace"), f"{path}.namespace")
    return destination if mapped is None else {**destination, "namespace": mapped}


def _route_namespaces(way: Draft, allowed: Any, _path: str) -> Any:
    """Let routes attach from the namespaces of this virtual cluster only."""
    origin = dig(allowed, "from")
    if origin == "All" and way.direction.to_host:
        return {**allowed, "from": "Selector", "selector": _selector(way, {}, "")}
    if origin != "Selector":
        return allowed
    selector = _selector(way, allowed.get("selector") or {}, "")
    if not selector and not way.direction.to_host:
        return {key: v for key, v in allowed.items() if key != "selector"} | {"from": "All"}
    return {**allowed, "selector": selector}


def _name_list_selector(way: Draft, selector: Any, path: str) -> Any:
    """Map a list of names; `any` becomes the list of all currently claimed namespaces."""
    if not isinstance(selector, dict):
        return selector
    direction, names = way.direction, selector.get("matchNames")
    if direction.to_host and selector.get("any") is True:
        direction.noted[path] = ALL_NAMESPACES
        return {"matchNames": sorted(direction.names.claims.values())}
    if not direction.to_host and direction.names.noted.get(path) == ALL_NAMESPACES:
        return {"any": True}
    if not isinstance(names, list):
        return selector
    mapped = [_namespace(way, name, f"{path}.matchNames[{i}]") for i, name in enumerate(names)]
    return {**selector, "matchNames": mapped}


def _selector(way: Draft, selector: Any, _path: str) -> Any:
    """Map a selector of namespaces; an empty one becomes all of this virtual cluster (4.2)."""
    if not isinstance(selector, dict):
        return selector
    labels = selector.get("matchLabels")
    labels = dict(labels) if isinstance(labels, dict) else {}
    labels.pop(CLUSTER_LABEL, None)
    if isinstance(labels.get(NAMESPACE_NAME_LABEL), str):
        name = labels[NAMESPACE_NAME_LABEL]
        labels[NAMESPACE_NAME_LABEL] = way.direction.selected_namespace(name)
    if way.direction.to_host:
        labels[CLUSTER_LABEL] = way.context.vc.name
    result = {key: value for key, value in selector.items() if key != "matchLabels"}
    if labels:
        result["matchLabels"] = labels
    expressions = selector.get("matchExpressions")
    if isinstance(expressions, list):
        result["matchExpressions"] = [_expression(way, each) for each in expressions]
    return result


def _expression(way: Draft, expression: Any) -> Any:
    values = dig(expression, "values")
    if dig(expression, "key") != NAMESPACE_NAME_LABEL or not isinstance(values, list):
        return expression
    mapped = [
        way.direction.selected_namespace(value) if isinstance(value, str) else value
        for value in values
    ]
    return {**expression, "values": mapped}


def _affinity_term(way: Draft, term: Any, path: str) -> Any:
    """Map a pod affinity term, which applies to its `namespaces` and to those it selects.

    On the host only the own namespace is referred to by name, since policies cannot derive from a
    name whose it is (ADR 23). Others are selected by label; their names are recorded.
    """
    if not isinstance(term, dict):
        return term
    where = f"{path}.namespaces"
    selector = _selector(way, term.get("namespaceSelector"), "")
    mapped = {**term, "namespaceSelector": selector} if selector is not None else dict(term)
    names = term.get("namespaces")
    if not way.direction.to_host:
        return _term_of_names(way, mapped, way.direction.names.noted.get(where))
    if not isinstance(names, list):
        return mapped
    hosts = mapped["namespaces"] = [
        _namespace(way, name, f"{where}[{i}]") for i, name in enumerate(names)
    ]
    if not all(map(_is_name, hosts)) or {*hosts} <= {way.obj["metadata"].get("namespace")}:
        return mapped
    whole_cluster = _selector(way, {}, "")
    if selector not in (None, whole_cluster):
        detail = (
            f"{where} lists other namespaces in addition to a namespaceSelector; use a term of "
            "its own for each, or select all of them by labels"
        )
        raise RefusedError(Code.REFERENCE_FORBIDDEN, where, detail)
    way.direction.noted[where] = _BETWEEN_NAMES.join(names)
    del mapped["namespaces"]
    listed = {"key": NAMESPACE_NAME_LABEL, "operator": "In", "values": hosts}
    mapped["namespaceSelector"] = selector or {**whole_cluster, "matchExpressions": [listed]}
    return mapped


def _term_of_names(way: Draft, term: Object, noted: str | None) -> Object:
    """Return a term, its other parts already mapped, with the namespaces that it listed."""
    if noted is None:
        names = term.get("namespaces")
        if isinstance(names, list):
            term["namespaces"] = [_namespace(way, name, "") for name in names]
        return term
    if term.get("namespaceSelector"):  # it lists them; an empty one is the tenant's own
        del term["namespaceSelector"]
    return {**term, "namespaces": noted.split(_BETWEEN_NAMES)}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_CHANGES: Mapping[Treatment, _Change] = {
    Treatment.NAMESPACE: _namespace,
    Treatment.SELECTOR: _selector,
    Treatment.AFFINITY_TERM: _affinity_term,
    Treatment.NAME_LIST_SELECTOR: _name_list_selector,
    Treatment.ROUTE_NAMESPACES: _route_namespaces,
    Treatment.DESTINATION: _destination,
    Treatment.PATTERN: _pattern,
    Treatment.PARAMETERS: _parameters,
    Treatment.SECRET_ANNOTATIONS: _secret_annotations,
    Treatment.PROXY_ANNOTATIONS: _proxy_annotations,
    Treatment.CLUSTER_SCOPED_NAME: lambda way, value, _path: (
        way.direction.name(value) if _is_name(value) else value
    ),
    Treatment.NODE: _node,
    Treatment.NODE_IF_OWN: lambda way, value, _path: (
        None if way.direction.to_host and not _is_own_node(way, value) else value
    ),
    Treatment.DROPPED: lambda way, value, _path: None if way.direction.to_host else value,
    Treatment.REFUSED: _refused,
}


@cache
def _head(path: str) -> str:
    return path.partition(".")[0].removesuffix("[]").removesuffix("{}")


def change_at(obj: Object, path: str, changed: Callable[[Any, str], Any]) -> None:
    """Replace, in place, every value at a path by `changed(value, path)`.

    None removes the key. A path that ends in `[]` or `{}` changes elements or map values.
    """
    parent_path, _, last = path.rpartition(".")
    key = last.removesuffix("[]").removesuffix("{}")
    parents = values_at(obj, parent_path) if parent_path else iter([("", obj)])
    for where, parent in parents:
        value = dig(parent, key)
        if value is None or not isinstance(parent, dict):
            continue
        here = f"{where}.{key}" if where else key
        if last.endswith("[]"):
            if isinstance(value, list):
                parent[key] = [changed(each, f"{here}[{i}]") for i, each in enumerate(value)]
        elif last.endswith("{}"):
            if isinstance(value, dict):
                parent[key] = {k: changed(each, f'{here}["{k}"]') for k, each in value.items()}
        else:
            parent[key] = changed(value, here)
            if parent[key] is None:
                del parent[key]


REFERENCES_MAX = 5
"""Maximum number of notices about references in one manifest."""

_NAMESPACE_KEY = re.compile(r"([a-z0-9]N|n)amespaces?(Name|s)?")
_BUILT_IN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})
_BUILT_IN_ENDING = ".k8s.io"


def unknown_references(
    obj: Object,
    gvk: GroupVersionKind,
    namespaces: Collection[str],
    configured: tuple[kind_policy.NamespaceReferences, ...],
) -> Iterator[Notice]:
    """Report values that look like a namespace of this virtual cluster but are in no table (4.1).

    The tables are complete for Kubernetes' own kinds. namespaces: virtual names.
    """
    if gvk.group in _BUILT_IN_GROUPS or gvk.group.endswith(_BUILT_IN_ENDING):
        return
    rows = kind_policy.references_of(gvk.group_kind, configured)
    listed = tuple(_without_indices(row.path) for row in rows)
    unlisted = (
        (path, value)
        for path, value in _named_namespaces(obj.get("spec"), "spec", "")
        if value in namespaces and not _without_indices(path).startswith(listed)
    )
    for path, value in islice(unlisted, REFERENCES_MAX):
        detail = (
            f'{path} is "{value}", the name of a namespace of this virtual cluster, and is not '
            "rewritten: if it refers to that namespace, add the path to namespaceReferences"
        )
        yield Notice(NoticeCode.REFERENCE_NOT_REWRITTEN, detail)


def _named_namespaces(value: Any, path: str, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _named_namespaces(inner, f"{path}.{name}", str(name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _named_namespaces(inner, f"{path}[{index}]", key)
    elif isinstance(value, str) and _NAMESPACE_KEY.search(key):
        yield path, value


def _without_indices(path: str) -> str:
    return re.sub(r"\[[^]]*\]|\{\}", "", path)
