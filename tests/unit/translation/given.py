"""What tests of the translation start from: a virtual cluster and its context."""

from collections.abc import Mapping, Sequence
from typing import Any

from karmada_vc_agent.model.core import Taint
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    HostNamespace,
    LabelSelector,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.context import (
    NamespaceTemplate,
    TranslationContext,
    TranslationSettings,
)
from karmada_vc_agent.translation.kind_policy import (
    NamespaceReferences,
    PodTemplates,
    Policy,
    Refusal,
)
from karmada_vc_agent.translation.translate import (
    HostObject,
    translate,
)

OWNED_NODES = frozenset({"node-1", "node-2"})
SERVED = (
    ("", "pods"),
    ("", "pods/log"),
    ("", "resourcequotas"),
    ("", "serviceaccounts/token"),
    ("apps", "deployments"),
    ("apps", "deployments/scale"),
)
"""Namespaced resources of the host, as (group, plural)."""
NODE_GROUPS: Mapping[str, set[str]] = {"own": {"node-1"}, "east": {"node-2", "node-9"}}
"""NodeGroups of the host and their nodes."""


def virtual_cluster(
    name: str = "branch-a", required: Mapping[str, str] | None = None, **fields: Any
) -> VirtualCluster:
    selector = LabelSelector({"branch": "a"} if required is None else required)
    return VirtualCluster(name, selector, **fields)


def context(
    vc: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    claims: Mapping[str, str] | None = None,
    work: str = "karmada-es-branch-a/web-1",
    *,
    is_of_cluster: bool = False,
    node_taints: Sequence[Mapping[str, str]] = (),
) -> TranslationContext:
    """Build TranslationContext from plain values, as YAML cases have them."""
    if claims is None:
        claims = {"edge": "edge-v-branch-a"}
    return TranslationContext(
        vc=_vc(vc or {}),
        settings=_settings(settings or {}),
        claims={VirtualNamespace(ns): HostNamespace(host) for ns, host in claims.items()},
        owns_node=OWNED_NODES.__contains__,
        work=work,
        is_of_cluster=is_of_cluster,
        admin_rules=rbac_rules.admin_rules(SERVED),
        nodes_of_group=NODE_GROUPS.get,
        node_taints=tuple(Taint(**taint) for taint in node_taints),
    )


def host_object(
    manifest: Object, facts: TranslationContext | None = None, *, namespaced: bool = True
) -> Object:
    """Translate a manifest that must not be refused and return the host's object."""
    result = translated(manifest, facts, namespaced=namespaced)
    return result.obj


def translated(
    manifest: Object, facts: TranslationContext | None = None, *, namespaced: bool = True
) -> HostObject:
    result = translate(manifest, namespaced, facts or context())
    assert isinstance(result, HostObject), result
    return result


def refusal(
    manifest: Object, facts: TranslationContext | None = None, *, namespaced: bool = True
) -> Refusal:
    """Translate a manifest that must be refused and return why."""
    result = translate(manifest, namespaced, facts or context())
    assert isinstance(result, Refusal), result
    return result


def _vc(fields: Mapping[str, Any]) -> VirtualCluster:
    rest = dict(fields)
    for key in ("tolerations", "node_names", "allow"):
        if key in rest:
            rest[key] = tuple(rest[key])
    return virtual_cluster(**rest)


def _settings(fields: Mapping[str, Any]) -> TranslationSettings:
    rest = dict(fields)
    if "namespace_template" in rest:
        rest["namespace_template"] = NamespaceTemplate.parse(rest["namespace_template"])
    for key, row in (
        ("pod_templates", PodTemplates),
        ("namespace_references", NamespaceReferences),
    ):
        if key in rest:
            rest[key] = tuple(row(**{**r, "paths": tuple(r["paths"])}) for r in rest[key])
    if "cluster_scoped_kinds" in rest:
        rest["cluster_scoped_kinds"] = {
            tuple(name.split("/")): Policy(policy)
            for name, policy in rest["cluster_scoped_kinds"].items()
        }
    if "forbidden_namespaces" in rest:
        rest["forbidden_namespaces"] = tuple(rest["forbidden_namespaces"])
    return TranslationSettings(**rest)
