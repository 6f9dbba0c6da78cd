"""Virtual names of Services: search domains, rewrite rules, and texts (ADR 15)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import REWRITE_DNS_ANNOTATION
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object, annotations_of, dig
from karmada_vc_agent.model.virtual_cluster import (
    SERVICE_NAMES_FIRST,
    SERVICE_NAMES_NONE,
    HostNamespace,
    VirtualNamespace,
)
from karmada_vc_agent.translation import kind_paths
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.draft import Notice, NoticeCode
from karmada_vc_agent.translation.kind_paths import pod_specs
from karmada_vc_agent.translation.references import change_at

_ZONE = "vc"
_CLUSTER_FIRST = ("", "ClusterFirst", "ClusterFirstWithHostNet")
_NDOTS = {"name": "ndots", "value": "5"}


def search_domain(cluster: str, cluster_domain: str) -> str:
    """Return the search domain of a virtual cluster."""
    return f"{cluster}.{_ZONE}.{cluster_domain}"


def name_services(obj: Object, gvk: GroupVersionKind, context: TranslationContext) -> None:
    """Give every pod spec that uses the cluster's DNS the search domain of its virtual cluster."""
    vc, settings = context.vc, context.settings
    if vc.service_names == SERVICE_NAMES_NONE:
        return
    namespace, cluster_domain = dig(obj, "metadata", "namespace"), settings.cluster_domain
    domain = search_domain(vc.name_on_host, cluster_domain)
    for pod_spec in pod_specs(obj, gvk, settings.pod_templates):
        spec = pod_spec.spec
        if pod_spec.selector_only or not _uses_cluster_dns(spec):
            continue
        if vc.service_names == SERVICE_NAMES_FIRST:
            own = f"{namespace}.svc.{cluster_domain}"
            searches = [own, domain, f"svc.{cluster_domain}", cluster_domain]
            _replace_dns(spec, searches, settings.cluster_dns)
        else:
            _add_search(spec, domain)


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
        f".{virtual}{form}.{search_domain(cluster, cluster_domain)}.": host
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


def _add_search(spec: Object, domain: str) -> None:
    config = dict(spec.get("dnsConfig") or {})
    searches = list(config.get("searches") or [])
    if domain not in searches:
        searches.append(domain)
    spec["dnsConfig"] = {**config, "searches": searches}


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

DATA_FIELDS: Mapping[GroupKind, tuple[str, ...]] = {kinds.CONFIG_MAP: ("data",)}
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
    text = annotations_of(obj).get(REWRITE_DNS_ANNOTATION, "")
    return tuple(place for place in map(str.strip, text.split(",")) if place)


def unknown_places(obj: Object) -> Iterator[Notice]:
    """Report invalid values of the annotation `D/rewrite-dns` (4.3)."""
    for place in places_of(obj):
        if place not in PLACES:
            valid = ", ".join(PLACES)
            detail = f'annotation {REWRITE_DNS_ANNOTATION} contains "{place}"; valid are {valid}'
            yield Notice(NoticeCode.REFERENCE_NOT_REWRITTEN, detail)


def rewrite_texts(
    obj: Object,
    gvk: GroupVersionKind,
    namespaces: Iterable[tuple[str, str]],
    extra: Iterable[kind_paths.PodTemplates] = (),
) -> bool:
    """Replace, in place, namespaces in texts that the annotation selects; False: none is set."""
    places = frozenset(places_of(obj)).intersection(PLACES)
    if not places:
        return False
    replace = _replacing(dict(namespaces))
    if DATA in places:
        for field in DATA_FIELDS.get(gvk.group_kind, ()):
            change_at(obj, f"{field}{{}}", replace)
    for pod_spec in kind_paths.pod_specs(obj, gvk, extra):
        for place in places if not pod_spec.selector_only else ():
            for path in _PATHS.get(place, ()):
                change_at(pod_spec.spec, path, replace)
    return True


def _replacing(namespaces: Mapping[str, str]) -> Replace:
    """Return a function that replaces all of them at once: a replacement may equal another key."""
    names = "|".join(map(re.escape, sorted(namespaces))) or "(?!)"  # which matches nothing
    pattern = re.compile(rf"\.({names})\.svc(?=\.|[:/]|$)", re.MULTILINE)

    def replace(text: Any, _path: str) -> Any:
        if not isinstance(text, str):
            return text
        return pattern.sub(lambda match: f".{namespaces[match[1]]}.svc", text)

    return replace
