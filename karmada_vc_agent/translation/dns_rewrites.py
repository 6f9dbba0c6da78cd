"""Virtual Service names that resolve without a change to applications (ADR 15).

A pod gets a search domain of its virtual cluster, `<cluster>.vc.<cluster domain>`. The host's
CoreDNS rewrites names with that suffix to the host namespace: `web.shop.branch-a.vc.cluster.local`
-> `web.shop-v-branch-a.svc.cluster.local`. Resolvers try search domains first for every name with
fewer dots than `ndots` (5), so `web.shop`, `web.shop.svc` and `web.shop.svc.cluster.local` all
work. The rules are generated from the claims, since a pattern cannot compute host names with a
hash.
"""

from collections.abc import Mapping

from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig
from karmada_vc_agent.model.virtual_cluster import (
    SERVICE_NAMES_FIRST,
    SERVICE_NAMES_NONE,
    HostNamespace,
    VirtualNamespace,
)
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.pod_templates import pod_specs

_ZONE = "vc"
_CLUSTER_FIRST = ("", "ClusterFirst", "ClusterFirstWithHostNet")
_NDOTS = {"name": "ndots", "value": "5"}


def search_domain(cluster: str, cluster_domain: str) -> str:
    """Return the search domain of a virtual cluster."""
    return f"{cluster}.{_ZONE}.{cluster_domain}"


def name_services(obj: Object, gvk: GroupVersionKind, context: TranslationContext) -> None:
    """Give every pod spec of an object the search domain of its virtual cluster.

    Pods that do not use the cluster's DNS are not changed. `VirtualFirst` requires the setting
    `clusterDNS`.
    """
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
    """Return the rewrite rules, to be imported into CoreDNS's server block of the cluster domain.

    claims: by virtual cluster, as it is named on the host. Longer suffixes come first, since the
    first match wins.
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
