"""What pods get: nodes, tolerations, names of Services (rewriting-rules 3.3, 3.4)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from karmada_vc_agent.model import virtual_cluster, vocabulary
from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    copy_object,
    dig,
    list_at,
)
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import Draft, Notice, NoticeCode, TranslationContext
from karmada_vc_agent.translation.kind_policy import (
    Code,
    LocatedPodSpec,
    Refusal,
    RefusedError,
    have_fixed_pods,
    pod_specs,
)
from karmada_vc_agent.translation.references import change_at

_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
_OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints for the state of a node: cordoned, not ready, out of disk."""


def common_taints(nodes: Sequence[Node]) -> tuple[Taint, ...]:
    """Return the taints that all nodes carry and that repel pods, without those for a state.

    They dedicate the group, so its pods tolerate them (ADR 14); one on some nodes only does not.
    """
    if not nodes:
        return ()
    first, *others = nodes
    repelling = [
        taint
        for taint in first.spec.taints
        if taint.effect in _KEEPS_PODS_AWAY and not taint.key.startswith(_OF_KUBERNETES)
    ]
    common = [t for t in repelling if all(t in other.spec.taints for other in others)]
    return tuple(sorted(common, key=lambda taint: (taint.key, taint.value, taint.effect)))


def missing_tolerations(taints: Iterable[Taint], tolerations: Sequence[Object]) -> list[Object]:
    """Return tolerations for the taints that the given tolerations do not tolerate forever."""
    return [
        _toleration_of(taint)
        for taint in taints
        if not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def _toleration_of(taint: Taint) -> Object:
    operator, value = ("Equal", {"value": taint.value}) if taint.value else ("Exists", {})
    return {"key": taint.key, "operator": operator, **value, "effect": taint.effect}


def _tolerates(toleration: Object, taint: Taint) -> bool:
    key, effect = dig(toleration, "key") or "", dig(toleration, "effect") or ""
    is_for_all_values = (dig(toleration, "operator") or "Equal") == "Exists"
    return (
        dig(toleration, "tolerationSeconds") is None
        and effect in ("", taint.effect)
        and (key == taint.key or (not key and is_for_all_values))
        and (is_for_all_values or (dig(toleration, "value") or "") == taint.value)
    )


_IMAGE_PULL = "imagePrePullTemplate"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ON_A_NODE = ("local", "hostPath")
_OFFLINE_TOLERATIONS: tuple[Object, ...] = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
)


def place_pods(obj: Object, gvk: GroupVersionKind, context: TranslationContext) -> None:
    """Pin every pod spec of an object to the nodes of the virtual cluster (rewriting-rules 3.3)."""
    kind_policy.add_missing_specs(obj, gvk)
    for pod_spec in kind_policy.pod_specs(obj, gvk, context.settings.pod_templates):
        merge_node_selector(pod_spec.spec, pod_spec.path, context.vc.required_selector)
        if not pod_spec.selector_only:
            _refuse_affinity_elsewhere(pod_spec, context)
            _move_node_name_to_affinity(pod_spec, context.owns_node)
        _add_tolerations(pod_spec.spec, context)


def merge_node_selector(spec: Object, path: str, required: Mapping[str, str]) -> None:
    """Add the required labels to spec.nodeSelector; refuses another value of the same key."""
    selector = spec.get("nodeSelector")
    path = f"{path}.nodeSelector"
    if selector is None:
        selector = {}
    if not isinstance(selector, dict):
        raise RefusedError(Code.NODE_SELECTOR_CONFLICT, path, f"{path} is not a map")
    for key, value in required.items():
        if key in selector and selector[key] != value:
            where = f'{path}["{key}"]'
            detail = f'{where} is "{selector[key]}", required "{value}"'
            raise RefusedError(Code.NODE_SELECTOR_CONFLICT, where, detail)
    spec["nodeSelector"] = {**selector, **required}


def _refuse_affinity_elsewhere(pod_spec: LocatedPodSpec, context: TranslationContext) -> None:
    """Refuse NodeAffinityConflict if every term, they are ORed, excludes the required nodes."""
    required = dig(pod_spec.spec, "affinity", "nodeAffinity", _REQUIRED)
    if required is None:
        return
    terms = list_at(required, "nodeSelectorTerms")
    if not any(_may_match(term, context) for term in terms):
        path = f"{pod_spec.path}.affinity.nodeAffinity"
        detail = f"no node of the virtual cluster can match {path}"
        raise RefusedError(Code.NODE_AFFINITY_CONFLICT, path, detail)


def _move_node_name_to_affinity(pod_spec: LocatedPodSpec, owns_node: Callable[[str], bool]) -> None:
    """Replace nodeName by required node affinity to that node; refuses a foreign node.

    The host's admission policy forbids nodeName, also in pods that a controller creates.
    """
    spec = pod_spec.spec
    node = spec.get("nodeName")
    if not node:
        spec.pop("nodeName", None)
        return
    path = f"{pod_spec.path}.nodeName"
    if not isinstance(node, str) or not owns_node(node):
        detail = f'{path} "{node}" is not in the virtual cluster'
        raise RefusedError(Code.NODE_NAME_FORBIDDEN, path, detail)
    del spec["nodeName"]
    only_there = {"key": vocabulary.NAME_FIELD, "operator": "In", "values": [node]}
    node_affinity = _map_at(_map_at(spec, "affinity"), "nodeAffinity")
    required = node_affinity.get(_REQUIRED)
    if required is None:
        node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [only_there]}]}
        return
    for term in required["nodeSelectorTerms"]:
        fields = list_at(term, "matchFields")
        # A term without requirements matches no node; adding one would make it match.
        if isinstance(term, dict) and term and only_there not in fields:
            term["matchFields"] = [*fields, only_there]


def _add_tolerations(spec: Object, context: TranslationContext) -> None:
    """Add missing tolerations: configured ones, for lost uplinks, for taints of the nodes."""
    tolerations = list(list_at(spec, "tolerations"))
    tolerations += [t for t in context.vc.tolerations if t not in tolerations]
    if context.vc.offline_tolerations:
        keys = [dig(toleration, "key") for toleration in tolerations]
        tolerations += [t for t in _OFFLINE_TOLERATIONS if t["key"] not in keys]
    tolerations += missing_tolerations(context.node_taints, tolerations)
    if tolerations:
        spec["tolerations"] = copy_object(tolerations)


def keep_tolerations(spec: Object, live: Object, taints: Iterable[Taint]) -> None:
    """Keep the tolerations of a live, fixed pod spec if they have all but those for taints."""
    kept, desired = list_at(live, "tolerations"), list_at(spec, "tolerations")
    of_taints = list(map(_toleration_of, taints))
    if all(each in kept or each in of_taints for each in desired):
        spec.pop("tolerations", None)
        if kept:
            spec["tolerations"] = copy_object(kept)


def drop_selected_node(draft: Draft) -> None:
    """Drop the annotation `volume.kubernetes.io/selected-node` (rewriting-rules 3.4)."""
    annotations = dig(draft.obj, "metadata", "annotations")
    if isinstance(annotations, dict):
        for key in (vocabulary.SELECTED_NODE_ANNOTATION, vocabulary.SELECTED_NODE_BEFORE):
            annotations.pop(key, None)


def tie_volume(draft: Draft) -> None:
    """Pin a `local` or `hostPath` volume to own nodes (rewriting-rules 3.4)."""
    spec, required = draft.obj.get("spec"), draft.context.vc.required_selector
    if not isinstance(spec, dict) or not any(spec.get(source) for source in _ON_A_NODE):
        return
    requirements = [
        {"key": key, "operator": "In", "values": [value]} for key, value in sorted(required.items())
    ]
    selector = _map_at(_map_at(spec, "nodeAffinity"), "required")
    terms = [term for term in list_at(selector, "nodeSelectorTerms") if isinstance(term, dict)]
    for term in terms:
        expressions = list_at(term, "matchExpressions")
        # A term without requirements matches no node; adding one would make it match.
        if term:
            missing = [each for each in requirements if each not in expressions]
            term["matchExpressions"] = [*expressions, *missing]
    selector["nodeSelectorTerms"] = terms or [{"matchExpressions": requirements}]


def confine_image_pull(draft: Draft) -> None:
    """Require own nodes by labels, if it lists none by name (rewriting-rules 5.1)."""
    job = dig(draft.obj, "spec", _IMAGE_PULL)
    if not isinstance(job, dict):
        return
    if job.get("labelSelector") is not None or not list_at(job, "nodeNames"):
        path = f"spec.{_IMAGE_PULL}.labelSelector.matchLabels"
        require_node_labels(job, path, draft.context.vc.required_selector)


def require_node_labels(target: Object, path: str, required: Mapping[str, str]) -> None:
    """Add, in place, the required labels to target.labelSelector; refuses NodeScopeForbidden."""
    labels = _map_at(_map_at(target, "labelSelector"), "matchLabels")
    for key, value in required.items():
        if labels.get(key, value) != value:
            detail = f'{path}["{key}"] is "{labels[key]}", required "{value}"'
            raise RefusedError(Code.NODE_SCOPE_FORBIDDEN, path, detail)
    labels.update(required)


def node_selector_annotation(required: Mapping[str, str]) -> str:
    """Return the selector in the format of the namespace annotation: `k=v,k2=v2`, keys sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(required.items()))


def _may_match(term: Any, context: TranslationContext) -> bool:
    if not term:
        return False
    expressions = list_at(term, "matchExpressions")
    fields = list_at(term, "matchFields")
    return not any(
        _excludes(expression, context.vc.required_selector) for expression in expressions
    ) and not any(_is_elsewhere(match, context.owns_node) for match in fields)


def _excludes(expression: Object, required: Mapping[str, str]) -> bool:
    key = dig(expression, "key")
    if not isinstance(key, str) or key not in required:
        return False
    operator, values = dig(expression, "operator"), list_at(expression, "values")
    if operator == "In":
        return required[key] not in values
    if operator == "NotIn":
        return required[key] in values
    return bool(operator == "DoesNotExist")


def _is_elsewhere(match: Object, owns_node: Callable[[str], bool]) -> bool:
    if dig(match, "key") != vocabulary.NAME_FIELD or dig(match, "operator") != "In":
        return False
    return not any(isinstance(name, str) and owns_node(name) for name in list_at(match, "values"))


def _map_at(obj: Object, key: str) -> Object:
    if not isinstance(obj.get(key), dict):
        obj[key] = {}
    result: Object = obj[key]
    return result


_ANSWERS = ("field is immutable", "pod updates may not change fields")
"""The host's message for a Job and for a Pod; it also prints the whole pod spec (1.34.4)."""


def explain_immutable(
    answer: str, gvk: GroupVersionKind, live: Object | None, required: Mapping[str, str]
) -> Refusal | None:
    """Return Immutable if the host's 422 was about the node selector of a live object, else None.

    A Job that was not started yet may still move, so the host is tried first.
    """
    if live is None or not have_fixed_pods(gvk) or not any(each in answer for each in _ANSWERS):
        return None
    for pod_spec in pod_specs(live, gvk):
        selector = pod_spec.spec.get("nodeSelector") or {}
        missing = {key: value for key, value in required.items() if selector.get(key) != value}
        if missing:
            path = f"{pod_spec.path}.nodeSelector"
            detail = (
                f"{path} cannot be changed to select {node_selector_annotation(missing)}; the "
                "object stays where it is: to move it, delete and recreate it"
            )
            return Refusal(Code.IMMUTABLE, path, detail)
    return None


_ZONE = "vc"
_CLUSTER_FIRST = ("", "ClusterFirst", "ClusterFirstWithHostNet")
_NDOTS = {"name": "ndots", "value": "5"}


def name_services(obj: Object, gvk: GroupVersionKind, context: TranslationContext) -> None:
    """Give every pod spec that uses the cluster's DNS the search domain of its virtual cluster."""
    vc, settings = context.vc, context.settings
    if vc.service_names == virtual_cluster.SERVICE_NAMES_NONE:
        return
    namespace, cluster_domain = dig(obj, "metadata", "namespace"), settings.cluster_domain
    domain = f"{vc.name_on_host}.{_ZONE}.{cluster_domain}"
    for pod_spec in pod_specs(obj, gvk, settings.pod_templates):
        spec = pod_spec.spec
        if pod_spec.selector_only or not _uses_cluster_dns(spec):
            continue
        if vc.service_names == virtual_cluster.SERVICE_NAMES_FIRST:
            own = f"{namespace}.svc.{cluster_domain}"
            searches = [own, domain, f"svc.{cluster_domain}", cluster_domain]
            _replace_dns(spec, searches, settings.cluster_dns)
        else:
            config = dict(spec.get("dnsConfig") or {})
            searches = list(config.get("searches") or [])
            added = [] if domain in searches else [domain]
            spec["dnsConfig"] = {**config, "searches": [*searches, *added]}


def rewrite_rules(
    cluster_domain: str,
    claims: Mapping[str, Mapping[VirtualNamespace, HostNamespace]],
) -> str:
    """Return the rules to be imported into CoreDNS's server block; the first match wins.

    `web.shop.branch-a.vc.cluster.local` -> `web.shop-v-branch-a.svc.cluster.local`: resolvers try
    search domains first for names with fewer dots than `ndots`, 5. No pattern computes hashes.
    claims: by virtual cluster, as it is named on the host.
    """
    rules = {
        f".{virtual}{form}.{cluster}.{_ZONE}.{cluster_domain}.": host
        for cluster, namespaces in claims.items()
        for virtual, host in namespaces.items()
        for form in ("", ".svc", f".svc.{cluster_domain}")
    }
    ordered = sorted(rules, key=lambda suffix: (-len(suffix), suffix))
    return "".join(
        f"rewrite stop {{\n    name suffix {suffix} .{rules[suffix]}.svc.{cluster_domain}."
        " answer auto\n}\n"
        for suffix in ordered
    )


def _uses_cluster_dns(spec: Object) -> bool:
    policy = spec.get("dnsPolicy") or ""
    if policy not in _CLUSTER_FIRST:
        return False
    # With hostNetwork, policy ClusterFirst means the DNS of the node.
    return not spec.get("hostNetwork") or policy == "ClusterFirstWithHostNet"


def _replace_dns(spec: Object, searches: list[str], cluster_dns: tuple[str, ...]) -> None:
    """Spell out policy ClusterFirst, with the virtual search domain before the host's."""
    config = dict(spec.get("dnsConfig") or {})
    own = [domain for domain in config.get("searches") or [] if domain not in searches]
    servers = [server for server in config.get("nameservers") or [] if server not in cluster_dns]
    options = list(config.get("options") or [])
    if all(dig(option, "name") != _NDOTS["name"] for option in options):
        options.append(dict(_NDOTS))
    spec["dnsPolicy"] = "None"
    spec["dnsConfig"] = {
        **config,
        "nameservers": [*cluster_dns, *servers],
        "searches": [*searches, *own],
        "options": options,
    }


ENV, ARGS, DATA = "env", "args", "data"
PLACES = (ENV, ARGS, DATA)

DATA_FIELDS: Mapping[GroupKind, tuple[str, ...]] = {vocabulary.CONFIG_MAP: ("data",)}
"""The fields behind `data`: maps of strings."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_PATHS = {
    ENV: [f"{field}[].env[].value" for field in _CONTAINERS],
    ARGS: [f"{field}[].{texts}[]" for field in _CONTAINERS for texts in ("args", "command")],
}
"""Place -> its paths in a pod spec."""

Replace = Callable[[Any, str], Any]
"""(value, path) -> the value with names replaced."""


def places_of(obj: Object) -> tuple[str, ...]:
    """Return the places that the annotation of an object lists, valid or not."""
    text = annotations_of(obj).get(vocabulary.REWRITE_DNS_ANNOTATION, "")
    return tuple(place for place in map(str.strip, text.split(",")) if place)


def unknown_places(obj: Object) -> Iterator[Notice]:
    """Report invalid values of the annotation `D/rewrite-dns` (4.3)."""
    key, valid = vocabulary.REWRITE_DNS_ANNOTATION, ", ".join(PLACES)
    for place in places_of(obj):
        if place not in PLACES:
            detail = f'annotation {key} contains "{place}"; valid are {valid}'
            yield Notice(NoticeCode.REFERENCE_NOT_REWRITTEN, detail)


def rewrite_texts(
    obj: Object,
    gvk: GroupVersionKind,
    namespaces: Iterable[tuple[str, str]],
    extra: Iterable[kind_policy.PodTemplates] = (),
) -> bool:
    """Replace, in place, namespaces in texts that the annotation selects; False: none is set."""
    places = frozenset(places_of(obj)).intersection(PLACES)
    if not places:
        return False
    replace = _replacing(dict(namespaces))
    if DATA in places:
        for field in DATA_FIELDS.get(gvk.group_kind, ()):
            change_at(obj, f"{field}{{}}", replace)
    for pod_spec in kind_policy.pod_specs(obj, gvk, extra):
        for place in places if not pod_spec.selector_only else ():
            for path in _PATHS.get(place, ()):
                change_at(pod_spec.spec, path, replace)
    return True


def _replacing(namespaces: Mapping[str, str]) -> Replace:
    """Return a function that replaces all of them at once: a replacement may equal another key."""
    names = "|".join(map(re.escape, sorted(namespaces))) or "(?!)"  # which matches nothing
    pattern = re.compile(rf"\.({names})\.svc(?=\.|[:/]|$)", re.MULTILINE)

    def replaced(match: re.Match[str]) -> str:
        return f".{namespaces[match[1]]}.svc"

    return lambda text, _path: pattern.sub(replaced, text) if isinstance(text, str) else text
