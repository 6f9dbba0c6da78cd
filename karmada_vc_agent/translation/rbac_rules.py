"""Rules of Roles: what of them a virtual cluster may grant on the host (5.2).

`*` means everything that a virtual cluster may do, so it is expanded. The maximum is `admin_rules`;
it is less than `agent_rules`, since nothing translates what tenants write themselves.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from karmada_vc_agent.model import user_text
from karmada_vc_agent.model.objects import Object, dig, list_at
from karmada_vc_agent.model.virtual_cluster import ApplyAs
from karmada_vc_agent.model.vocabulary import DOMAIN, Rule
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import Direction
from karmada_vc_agent.translation.kind_policy import Code, RefusedError

WILDCARD = "*"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

_READING = ("get", "list", "watch")
_FORBIDDEN_VERBS = frozenset({"escalate", "bind", "impersonate"})
_NAMESPACES = "namespaces"

_RESOURCES = user_text.load_yaml(Path(__file__).with_name("rbac_rules.yaml").read_bytes())


def _resources(table: str) -> frozenset[tuple[str, str]]:
    return frozenset(("".join(group), resource) for resource, *group in _RESOURCES[table])


_NEVER, _UNREACHED = _resources("never"), _resources("unreached")
_FOR_NO_TENANT, _TRANSLATED = _resources("for_no_tenant"), _resources("translated")
_READ_ONLY = _FOR_NO_TENANT | _TRANSLATED
_HOSTS_GROUPS = frozenset({"reliablesyncs.kubeedge.io", DOMAIN})
"""What CloudCore sends to nodes, and ours: in no Work (kind_policy.py), so tenants only read it."""

WRITTEN_NAMESPACES = (DOMAIN, _NAMESPACES)
"""(group, resource) that no API server serves: to write Namespaces by the gateway (ADR 52)."""
_WRITING = ("create", "update", "patch", "delete")

_HIDDEN = _NEVER | _UNREACHED
COMBINATIONS_MAX = 20_000
"""Of groups, resources and verbs, in all rules of a role: each is judged. Operators have 2,000."""
_OF_WILDCARD = 20
"""What a `*` counts as in groups and resources."""

Allow = Collection[str] | None
"""`allow` of a virtual cluster in profile Strict; None in Shared, which cuts nothing by it."""
_ByGroup = Mapping[str, Mapping[str, Sequence[str]]]
"""group -> resource -> verbs."""


def admin_rules(
    namespaced: Iterable[tuple[str, str]], *, is_strict: bool = False
) -> tuple[Object, ...]:
    """Return the rules of `virtual-cluster-admin`: an explicit list without `*`.

    namespaced: (group, plural or plural/subresource) of every namespaced resource of the host.
    is_strict: what is_written_in_strict() excludes is read-only.
    """
    allow = () if is_strict else None
    return _rules(
        (group, resource, _verbs_on(group, resource, allow))
        for group, resource in (*namespaced, WRITTEN_NAMESPACES)
        if (group, resource) not in _UNREACHED
    )


def agent_rules(namespaced: Iterable[tuple[str, str]]) -> tuple[Object, ...]:
    """Return what the agent itself may write in claimed namespaces; includes admin_rules."""
    verbs = {WRITTEN_NAMESPACES: _WRITING, **dict.fromkeys(_FOR_NO_TENANT, _READING)}
    return _rules(
        (group, resource, verbs.get((group, resource), VERBS))
        for group, resource in (*namespaced, WRITTEN_NAMESPACES)
    )


def cut(rules: Iterable[Object], most: Iterable[Object]) -> tuple[Object, ...]:
    """Return what the host's own rules grant of admin_rules(), and of reading Namespaces."""
    granted = list(rules)
    namespaces: Object = {"apiGroups": [""], "resources": [_NAMESPACES], "verbs": list(_READING)}
    return _rules(
        (group, resource, verbs)
        for rule in (namespaces, *most)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if (verbs := tuple(v for v in rule["verbs"] if _grants(granted, group, resource, v)))
    )


def _grants(rules: Iterable[Object], group: str, resource: str, verb: str) -> bool:
    _, slash, part = resource.partition("/")
    names = {resource, WILDCARD, f"{WILDCARD}/{part}" if slash else resource}
    return any(
        {group, WILDCARD} & set(rule.get("apiGroups") or ())
        and names & set(rule.get("resources") or ())
        and {verb, WILDCARD} & set(rule["verbs"])
        and not rule.get("resourceNames")
        for rule in rules
    )


def _rules(grants: Iterable[tuple[str, str, tuple[str, ...]]]) -> tuple[Object, ...]:
    resources: dict[tuple[str, tuple[str, ...]], set[str]] = defaultdict(set)
    for group, resource, verbs in grants:
        if (group, resource) not in _NEVER:
            resources[group, verbs].add(resource)
    return tuple(
        {"apiGroups": [group], "resources": sorted(names), "verbs": list(verbs)}
        for (group, verbs), names in sorted(resources.items())
    )


def combinations(rule: Any) -> int:
    """Return how many combinations of group, resource and verb a rule makes."""
    groups, resources, verbs = _fields(rule)
    sizes = (_size(groups), _size(resources), len(verbs))
    return prod(max(size, 1) for size in sizes)


def _size(values: list[str]) -> int:
    return sum(_OF_WILDCARD if WILDCARD in each else 1 for each in values)


def _fields(rule: Any) -> tuple[list[str], list[str], list[str]]:
    groups, resources, verbs = (
        list(map(str, list_at(rule, field))) for field in ("apiGroups", "resources", "verbs")
    )
    return groups, resources, verbs


def allowed_rules(
    rule: Any,
    path: str,
    admin: Iterable[Object],
    direction: Direction,
    *,
    allow: Allow = None,
    is_of_cluster: bool = False,
) -> list[Object]:
    """Return the part of one rule that may be granted.

    On the host rules on namespaces are for reading; those of ClusterRoles that write let the
    gateway write. admin: from admin_rules(). Refuses RuleForbidden.
    """
    verbs = _texts(rule, "verbs", path)
    for verb in verbs:
        if verb in _FORBIDDEN_VERBS:
            detail = f'{path}.verbs contains "{verb}", which no role of a virtual cluster may grant'
            raise RefusedError(Code.RULE_FORBIDDEN, f"{path}.verbs", detail)
    resources = _texts(rule, "resources", path)
    groups = _texts(rule, "apiGroups", path)
    on_namespaces = [each for each in resources if each.split("/")[0] == _NAMESPACES]
    others = [each for each in resources if each not in on_namespaces]
    rest = {key: value for key, value in rule.items() if key != "nonResourceURLs"}
    allowed: list[Object] = []
    is_explicit = not any(WILDCARD in each for each in (*verbs, *others, *groups))
    if others and is_explicit and not any(beyond({**rule, "resources": others}, allow)):
        allowed.append({**rest, "resources": others})
    elif others:
        by_group = {} if is_explicit else _served_by_group(admin, path)
        written_out = _written_out(groups, others, verbs, by_group, allow=allow)
        allowed += [{**rest, **each} for each in written_out]
    reading = [verb for verb in _READING if verb in verbs or WILDCARD in verbs]
    if on_namespaces and reading:
        allowed.append({**rest, "resources": on_namespaces, "verbs": reading})
        if WILDCARD in groups:
            allowed[-1]["apiGroups"] = [""]
        rename_namespaces(allowed[-1], path, direction)
    writing = [verb for verb in _WRITING if verb in verbs or WILDCARD in verbs]
    if is_of_cluster and writing and _NAMESPACES in resources and {"", WILDCARD} & set(groups):
        group, resource = WRITTEN_NAMESPACES
        allowed.append({**rest, "apiGroups": [group], "resources": [resource], "verbs": writing})
    return allowed


def restore_written(rule: Any) -> bool:
    """Name, in place, namespaces of a rule on WRITTEN_NAMESPACES as tenants do; False: another."""
    group, resource = WRITTEN_NAMESPACES
    if dig(rule, "apiGroups") != [group] or dig(rule, "resources") != [resource]:
        return False
    rule["apiGroups"] = [""]
    return True


def beyond(rule: Any, allow: Allow = None) -> Iterator[str]:
    """Yield `verbs resource` for what a rule lists explicitly and no virtual cluster may do."""
    groups, resources, verbs = _fields(rule)
    for resource in resources:
        cut = [
            verb
            for verb in verbs
            if verb != WILDCARD and not all(_may(group, resource, verb, allow) for group in groups)
        ]
        if cut:
            yield f"{', '.join(cut)} {resource}"


def excess(rule: Any, allow: Allow = None) -> Iterator[str]:
    """Yield what a rule on the host allows that no Work could have granted; rules have no `*`."""
    yield from beyond(rule, allow)
    groups, resources, verbs = _fields(rule)
    forbidden = _FORBIDDEN_VERBS & set(verbs)
    if forbidden or WILDCARD in (*verbs, *groups) or any(WILDCARD in each for each in resources):
        yield f"{', '.join(sorted(forbidden) or verbs)} {', '.join(resources)}"


def rename_namespaces(rule: Any, path: str, direction: Direction) -> None:
    """Map, in place, the resourceNames of a rule on namespaces."""
    resources, names = dig(rule, "resources"), dig(rule, "resourceNames")
    if not isinstance(resources, list) or not isinstance(names, list):
        return
    if any(str(each).split("/")[0] == _NAMESPACES for each in resources):
        where = f"{path}.resourceNames"
        rule["resourceNames"] = [direction.namespace(str(name), where) for name in names]


def _verbs_on(group: str, resource: str, allow: Allow) -> tuple[str, ...]:
    if (group, resource) == WRITTEN_NAMESPACES:
        return _WRITING
    read_only = (
        (group, resource) in _READ_ONLY
        or group in _HOSTS_GROUPS
        or (allow is not None and not kind_policy.is_written_in_strict(group, resource, allow))
    )
    return _READING if read_only else VERBS


def _may(group: str, resource: str, verb: str, allow: Allow) -> bool:
    if resource.split("/", maxsplit=1)[0] == _NAMESPACES and group in ("", WILDCARD):
        return verb in _READING
    if (group, resource) in _HIDDEN:
        return False
    if (group, resource) == WRITTEN_NAMESPACES:
        return verb in _WRITING
    return verb in _READING or _verbs_on(group, resource, allow) is VERBS


def _served_by_group(admin: Iterable[Object], path: str) -> _ByGroup:
    by_group: dict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    for rule in admin:
        for group in rule["apiGroups"]:
            by_group[group].update(dict.fromkeys(rule["resources"], rule["verbs"]))
    if not by_group:
        detail = f'{path}: "{WILDCARD}" cannot be expanded before the APIs of the host are listed'
        raise RefusedError(Code.RULE_FORBIDDEN, path, detail)
    return by_group


def _written_out(
    groups: Sequence[str],
    resources: Sequence[str],
    verbs: Sequence[str],
    by_group: _ByGroup,
    *,
    allow: Allow,
) -> Iterator[Object]:
    """Yield rules with `*` expanded; resources listed explicitly stay, served or not."""
    for group in sorted(by_group) if WILDCARD in groups else groups:
        by_verbs: dict[tuple[str, ...], set[str]] = defaultdict(set)
        served = by_group.get(group, {})
        for named in resources:
            for resource in _matching(named, served, is_any_group=WILDCARD in groups):
                if (group, resource) in _HIDDEN:
                    continue
                most = _verbs_on(group, resource, allow)
                allowed = tuple(verb for verb in verbs if _may(group, resource, verb, allow))
                by_verbs[most if WILDCARD in verbs else allowed].add(resource)
        for each, names in sorted(by_verbs.items()):
            if each:
                yield {"apiGroups": [group], "resources": sorted(names), "verbs": list(each)}


def _matching(named: str, served: Mapping[str, Any], *, is_any_group: bool) -> Iterable[str]:
    if named == WILDCARD:
        return served
    if named.startswith(f"{WILDCARD}/"):
        return [resource for resource in served if resource.endswith(named[1:])]
    return [named] if not is_any_group or named in served else []


def _texts(rule: Any, field: str, path: str) -> list[str]:
    values = rule.get(field) or [] if isinstance(rule, dict) else None
    if not isinstance(values, list):
        detail = f"{path} is not a map" if values is None else f"{path}.{field} is not a list"
        raise RefusedError(Code.RULE_FORBIDDEN, path, detail)
    return [str(value) for value in values]


_CANNOT = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_GROUPS = re.compile(r" \(groups=\[[^\]]*\]\)")


def explain_denial(text: str, cluster: str, apply_as: ApplyAs) -> str:
    """Return a 403 of the host, in virtual names, without the account but with the missing rule."""
    match = _CANNOT.search(text)
    if match and match["verb"] == "impersonate":
        return (
            f'virtual cluster "{cluster}": the agent may not impersonate its account on the host; '
            'run karmada-vc-agent join, or for setting applyAs grant it verb "impersonate"'
        )
    if match and match["user"] == apply_as.user:
        _, verb, resource, group, namespace = match.groups()
        where = f" in namespace {namespace}" if namespace else ""
        what = f"{verb} {resource}.{group}".rstrip(".")
        return (
            f'virtual cluster "{cluster}" may not {what}{where}: its account on the host lacks '
            f"the rule {Rule((group,), (resource,), (verb,))}"
        )
    account = f'the account of virtual cluster "{cluster}"'
    text = _GROUPS.sub("", text)
    return text.replace(f'"{apply_as.user}"', account).replace(apply_as.user, account)
