"""Discovery: what the host serves, without what a virtual cluster never sees (5.1, 5.5)."""

from karmada_vc_agent.features.gateway.mapping import refusals, scopes
from karmada_vc_agent.features.gateway.mapping.exchange import KindInfo, Refused, ResponseKind, View
from karmada_vc_agent.features.gateway.mapping.responses import Response, is_status
from karmada_vc_agent.model.objects import Object, dig, maps_at, parse_api_version, text_at


class DiscoveryPlan(Response):
    """The answer to a request for discovery, in any of its forms."""

    kind = ResponseKind.DISCOVERY

    def map_object(self, decoded: Object, view: View) -> Object | None:
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

    def not_found(self) -> Refused:
        """Return the 404 for a group that is not shown."""
        return refusals.unknown_resource().refused


def is_group_shown(group: str, view: View) -> bool:
    """Whether any resource of a group is shown, or none is served."""
    served = list(view.resources(group))
    return not served or any(scopes.is_shown(info, view) for info in served)


def _filter_resources(decoded: Object, view: View) -> None:
    """Filter an APIResourceList; subresources go with their resource."""
    group, version, _ = parse_api_version(text_at(decoded, "groupVersion"), "")
    infos: dict[str, tuple[KindInfo, scopes.KindScope]] = {}
    entries = maps_at(decoded, "resources")
    for entry in entries:
        name = text_at(entry, "name")
        if "/" not in name:
            kind, namespaced = text_at(entry, "kind"), bool(entry.get("namespaced"))
            info = KindInfo(group, version, name, kind, namespaced)
            infos[name] = info, scopes.scope_of(info, view)
    decoded["resources"] = [entry for entry in entries if _is_entry_shown(entry, infos)]


def _is_entry_shown(entry: Object, infos: dict[str, tuple[KindInfo, scopes.KindScope]]) -> bool:
    plural, slash, subresource = text_at(entry, "name").partition("/")
    info, scope = infos.get(plural, (None, scopes.KindScope.DENIED))
    if info is None or scope is scopes.KindScope.DENIED:
        return False
    if slash:
        return scopes.shows_subresource(scope, info, subresource)
    _limit_verbs(entry, scope)
    return True


def _limit_verbs(entry: Object, scope: scopes.KindScope) -> None:
    verbs = entry.get("verbs")
    if isinstance(verbs, list):
        entry["verbs"] = [verb for verb in verbs if scopes.allows(scope, str(verb))]


def _aggregated(group: Object, view: View) -> Object:
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
            scope = scopes.scope_of(info, view)
            if scope is scopes.KindScope.DENIED:
                continue
            _limit_verbs(resource, scope)
            subresources = [
                sub
                for sub in maps_at(resource, "subresources")
                if scopes.shows_subresource(scope, info, text_at(sub, "subresource"))
            ]
            resource.pop("subresources", None)
            if subresources:
                resource["subresources"] = subresources
            shown.append(resource)
        version["resources"] = shown
    # A version that could not be read has no resources, and is reported as stale.
    group["versions"] = [
        version
        for version in maps_at(group, "versions")
        if version["resources"] or version.get("freshness") == "Stale"
    ]
    return group
