"""Names and envelopes of admission policies, whatever they contain."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL, DOMAIN, NAMESPACE_LABEL
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.well_known import DEFAULT_CLUSTER_DOMAIN
from karmada_vc_agent.translation.names import DEFAULT_NAMESPACE_TEMPLATE

GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"
VERSIONS = {VALIDATING: ("v1",), MUTATING: ("v1", "v1beta1", "v1alpha1")}
"""Preferred first. GA in 1.30 and 1.36; older versions of the second are disabled by default."""
PARAMETERS_ANNOTATION = f"{DOMAIN}/parameters"
"""On agent-confines: JSON of the input of all policies, to generate and compare them again."""
ANY_CLUSTER = "*"
SCHEDULER = "system:kube-scheduler"

_EMPTY_SELECTORS = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


@dataclass(frozen=True, slots=True)
class PolicyOwner:
    """The input of an agent's policies.

    user: the agent's user name on the host.
    clusters: its virtual clusters; ANY_CLUSTER among them = whatever name one has.
    group_labels: keys of Node labels that select its groups.
    schedulers: users who may bind pods.
    elsewhere: single objects that it writes outside of claimed namespaces and its own, as
    `<namespace>/<plural>/<name>`.
    held, allowed: what tenants may not write though others may, and the reverse, as
    `<guard>/<plural>/<virtual cluster>` (admission_strict.py).
    renames: claims that may change hands, as `<former name>/<virtual cluster>`.
    gateway: user name of its gateway, "" = it has none. template: of the names of host namespaces.
    domain: cluster domain of the host.
    tenants_keys: patterns of what tenants may change of a Namespace through the gateway.
    """

    agent: str
    namespace: str
    user: str
    clusters: tuple[str, ...] = ()
    group_labels: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = (SCHEDULER,)
    elsewhere: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    renames: tuple[str, ...] = ()
    gateway: str = ""
    template: str = DEFAULT_NAMESPACE_TEMPLATE
    domain: str = DEFAULT_CLUSTER_DOMAIN
    tenants_keys: tuple[str, ...] = ()

    def name(self, policy: str) -> str:
        """Return the name of a policy on the host."""
        return f"{policy}.{self.agent}.{DOMAIN}"

    @property
    def placement_policy(self) -> str:
        """Return the name of the policy that denies pods."""
        return self.name("pod-placement")

    @property
    def selector_policy(self) -> str:
        """Return the name of the policy that mutates pods."""
        return self.name("pod-node-selector")

    @property
    def claims_policy(self) -> str:
        """Return the name of the policy that protects claims."""
        return self.name("namespace-claims")

    @property
    def confines_policy(self) -> str:
        """Return the name of the policy that confines the agent."""
        return self.name("agent-confines")

    @property
    def gateway_policy(self) -> str:
        """Return the name of the policy that confines the gateway."""
        return self.name("gateway-confines")

    def parameters(self) -> str:
        """Return this input as text for PARAMETERS_ANNOTATION."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))


def owner_of(policy: Object) -> PolicyOwner | None:
    """Return the input that a live policy was generated from; None if unreadable."""
    try:
        values: dict[str, Any] = json.loads(annotations_of(policy).get(PARAMETERS_ANNOTATION, ""))
        known = {field.name for field in fields(PolicyOwner)}
        read: dict[str, Any] = {
            key: tuple(map(str, value)) if isinstance(value, list) else value
            for key, value in values.items()
            if key in known
        }
        return PolicyOwner(**read)
    except (ValueError, TypeError, AttributeError):
        return None


def is_as_wanted(wanted: Object, live: Object) -> bool:
    """Whether a live policy or binding has exactly the wanted spec, and the agent's label.

    Additions count as changes: an added exception weakens it.
    """
    return labels_of(live).get(AGENT_LABEL) == labels_of(wanted)[AGENT_LABEL] and _filled(
        wanted["spec"]
    ) == _filled(live.get("spec") or {})


def _filled(spec: Object) -> Object:
    """Return a spec with the server's defaults (kube-apiserver 1.34.4)."""
    filled = dict(spec)
    for field in ("matchConstraints", "matchResources"):
        if field in spec:
            filled[field] = {**_EMPTY_SELECTORS, **spec[field]}
    return filled


def quoted(text: str) -> str:
    """Escape a text for a single-quoted CEL string."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def cel_list(texts: Iterable[str]) -> str:
    """Return texts as a CEL list."""
    return f"[{', '.join(cel_text(text) for text in texts)}]"


def cel_text(text: str) -> str:
    """Return a text as a CEL literal."""
    return f"'{quoted(text)}'"


def metadata_maps() -> list[Object]:
    """Return variables {old,new}_{labels,annotations}: maps, never null."""
    return [
        {
            "name": f"{age}_{field}",
            "expression": f"{obj} != null && has({obj}.metadata.{field})"
            f" ? {obj}.metadata.{field} : {{}}",
        }
        for field in ("labels", "annotations")
        for age, obj in (("old", "oldObject"), ("new", "object"))
    ]


def same_field(path: str) -> str:
    """Return whether an update keeps a field, set or unset."""
    return (
        f"has(object.{path}) == has(oldObject.{path})"
        f" && (!has(object.{path}) || object.{path} == oldObject.{path})"
    )


def homes(owner: PolicyOwner, cluster: str) -> str:
    """Return the names that a virtual cluster may have on the host: its own and former ones."""
    renames = f"{cel_list(owner.renames)}.filter(p, p.endsWith('/' + {cluster}))"
    return f"[{cluster}] + {renames}.map(p, p.split('/')[0])"


def claimed_selector(owner: PolicyOwner, virtual: str = "") -> Object:
    """Return the selector of the namespaces that the agent claims; virtual: of one name only."""
    named = [{"key": NAMESPACE_LABEL, "operator": "In", "values": [virtual]}] if virtual else []
    return {
        "matchExpressions": [
            {"key": CLUSTER_LABEL, "operator": "Exists"},
            {"key": AGENT_LABEL, "operator": "In", "values": [owner.agent]},
            *named,
        ]
    }


def binding(
    owner: PolicyOwner, kind: str, version: str, policy: str, match: Object, name: str = ""
) -> Object:
    """Return the binding of a policy; a policy without one has no effect."""
    spec: Object = {"policyName": policy}
    if match:
        spec["matchResources"] = match
    if kind == VALIDATING:
        spec["validationActions"] = ["Deny"]
    return policy_object(owner, f"{kind}Binding", version, name or policy, spec)


def policy_object(owner: PolicyOwner, kind: str, version: str, name: str, spec: Object) -> Object:
    """Return a policy or a binding with the label of its agent."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {"name": name, "labels": {AGENT_LABEL: owner.agent}},
        "spec": spec,
    }


def on(group: str, plural: str, *operations: str) -> Object:
    """Return matchConstraints for a resource and the subresources that write it."""
    return {"resourceRules": writes(group, (plural,), *operations)}


def writes(group: str, plurals: tuple[str, ...], *operations: str) -> list[Object]:
    """Return entries of resourceRules: resources, and updates by any of their subresources.

    An API server lets labels and annotations change by `status` as well, whatever else it keeps.
    """
    parts = tuple(f"{plural}/*" for plural in plurals)
    through = [rule(group, parts, ("UPDATE",))] if "UPDATE" in operations else []
    return [rule(group, plurals, operations), *through]


def rule(
    group: str, resources: tuple[str, ...], operations: tuple[str, ...], version: str = "v1"
) -> Object:
    """Return one entry of resourceRules."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources),
        "operations": list(operations),
        "scope": "*",
    }


def exempt_user(expression: str) -> str:
    """Return the user that an expression exempts, "" if none."""
    match = _EXEMPT_USER.match(expression)
    return re.sub(r"\\(.)", r"\1", match[1]) if match else ""


_EXEMPT_USER = re.compile(r"request\.userInfo\.username != '((?:[^'\\]|\\.)*)'")
