"""Policy `gateway-confines`: which Namespaces the gateway's own account may write (ADR 52).

RBAC knows no beginnings of names, so the account's right is one over all namespaces, and this is
what confines it: to names that the template makes of the claim on them, to claims of the agent, and
to what tenants may change. It judges the host's objects, whatever the gateway believes.
Expressions run on kube-apiserver 1.34.4.
"""

import re

from karmada_vc_agent.features.policies.objects import (
    ANY_CLUSTER,
    PolicyOwner,
    cel_list,
    cel_text,
    homes,
    metadata_maps,
    rule,
    same_field,
)
from karmada_vc_agent.model.domain import (
    ADOPTED_ANNOTATION,
    AGENT_LABEL,
    BY_GATEWAY_ANNOTATION,
    CLUSTER_LABEL,
    CREATED_BY_AGENT_ANNOTATION,
    DOMAIN,
    HOLD_ANNOTATION,
    NAMESPACE_LABEL,
    NODE_SELECTOR_ANNOTATION,
    POD_SECURITY_ANNOTATION,
    WORK_ANNOTATION,
)
from karmada_vc_agent.model.karmada import KARMADAS_DOMAIN
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation.names import (
    ALWAYS_FORBIDDEN,
    ANCHOR_NAMESPACE,
    HASH_LENGTH,
    HASH_MARK,
    LABEL_MAX_LENGTH,
    NamespaceTemplate,
)
from karmada_vc_agent.translation.namespace_defaults import POD_SECURITY_LABEL
from karmada_vc_agent.translation.tenant_metadata import DECISIONS, PLAIN

_HARDENING = ("baseline", "restricted")
"""Pod Security levels that a namespace may be born with; the agent sets the one of the settings."""
_OWN_LABELS = (CLUSTER_LABEL, NAMESPACE_LABEL, AGENT_LABEL)
_OWN_ANNOTATIONS = (
    CREATED_BY_AGENT_ANNOTATION,
    BY_GATEWAY_ANNOTATION,
    WORK_ANNOTATION,
    NODE_SELECTOR_ANNOTATION,
    POD_SECURITY_ANNOTATION,
)


def gateway_confines(owner: PolicyOwner) -> Object:
    """Let the gateway's account write Namespaces of its virtual clusters, and nothing else.

    Reviews of tokens and rights are queries, although they are sent by POST.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule("*", ("*/*",), ("*",), "*")]},
        "matchConditions": [
            {
                "name": "the-gateway",
                "expression": f"request.userInfo.username == {cel_text(owner.gateway)}",
            },
            {
                "name": "no-question",
                "expression": "!(request.resource.group in "
                "['authentication.k8s.io', 'authorization.k8s.io'])",
            },
        ],
        "variables": [
            {
                "name": "is_namespace",
                "expression": "request.resource.group == ''"
                " && request.resource.resource == 'namespaces'"
                " && (!has(request.subResource) || request.subResource == '')"
                " && request.operation in ['CREATE', 'UPDATE', 'DELETE']",
            },
            *metadata_maps(),
            *_claims(owner),
            *_names(owner),
        ],
        "validations": [
            _only("variables.is_namespace", "may write Namespaces alone"),
            *(
                _only(f"!variables.is_namespace || {expression}", may)
                for expression, may in (
                    (_on("CREATE", _created()), "may create namespaces with a claim alone"),
                    (_on("CREATE", _named(owner)), "may create no namespace but that of its claim"),
                    (_on("CREATE", _created_keys(owner)), _KEYS),
                    (_on("UPDATE", _updated()), "may change own namespaces alone, not their end"),
                    (_on("UPDATE", _updated_keys(owner)), _KEYS),
                    (_on("DELETE", _deleted()), "may delete what was created for tenants alone"),
                )
            ),
        ],
    }


_KEYS = "may write only labels and annotations that are for tenants"


def _only(expression: str, may: str) -> Object:
    return {"expression": expression, "message": f"the gateway {may}"}


def _on(operation: str, expression: str) -> str:
    return f"request.operation != '{operation}' || ({expression})"


def _claims(owner: PolicyOwner) -> list[Object]:
    """Return variables {old,new}_claim: whether there is one of the agent, and not of an anchor."""
    found = []
    for age in ("old", "new"):
        labels = f"variables.{age}_labels"
        cluster = f"{labels}['{CLUSTER_LABEL}']"
        is_own = f"{cluster} in {cel_list(owner.clusters)}"
        if ANY_CLUSTER in owner.clusters:
            is_own = f"{cluster} != ''"
        expression = " && ".join(
            (
                *(f"'{key}' in {labels}" for key in _OWN_LABELS),
                is_own,
                f"{labels}['{AGENT_LABEL}'] == {cel_text(owner.agent)}",
                f"{labels}['{NAMESPACE_LABEL}'] != {cel_text(ANCHOR_NAMESPACE)}",
            )
        )
        found.append({"name": f"{age}_claim", "expression": expression})
    return found


def _names(owner: PolicyOwner) -> list[Object]:
    """Return variables name, virtual, homes: the names that a virtual cluster may have on the host.

    One that was renamed has the first of its former names there.
    """
    labels = "variables.new_labels"
    cluster = f"{labels}['{CLUSTER_LABEL}']"
    return [
        {
            "name": "name",
            "expression": "object != null && has(object.metadata.name) ? object.metadata.name : ''",
        },
        {
            "name": "virtual",
            "expression": f"variables.new_claim ? {labels}['{NAMESPACE_LABEL}'] : ''",
        },
        {
            "name": "homes",
            "expression": f"variables.new_claim ? {homes(owner, cluster)} : []",
        },
    ]


def _created() -> str:
    marks = "variables.new_annotations"
    level, levels = f"variables.new_labels['{POD_SECURITY_LABEL}']", cel_list(_HARDENING)
    owners, ends = "object.metadata.ownerReferences", "object.spec.finalizers"
    return " && ".join(
        (
            "variables.new_claim",
            f"'{CREATED_BY_AGENT_ANNOTATION}' in {marks}",
            f"{marks}['{CREATED_BY_AGENT_ANNOTATION}'] == 'true'",
            f"'{NODE_SELECTOR_ANNOTATION}' in {marks}",
            f"{marks}['{NODE_SELECTOR_ANNOTATION}'] != ''",
            f"(!('{WORK_ANNOTATION}' in {marks}) || {marks}['{WORK_ANNOTATION}'] == '')",
            f"(!('{POD_SECURITY_LABEL}' in variables.new_labels) || {level} in {levels})",
            "(!has(object.metadata.finalizers) || object.metadata.finalizers.size() == 0)",
            f"(!has({owners}) || {owners}.size() == 0)",
            f"(!has(object.spec) || !has({ends}) || {ends}.all(f, f == 'kubernetes'))",
        )
    )


def _named(owner: PolicyOwner) -> str:
    """Return whether the name is what the template makes of the claim (rewriting-rules 1.1).

    Of the hashed form the hash is not seen: no expression computes one.
    """
    template = NamespaceTemplate.parse(owner.template)
    separator, length = cel_text(template.separator), template.piece_length

    def join(namespace: str, cluster: str) -> str:
        first, second = (cluster, namespace) if template.cluster_first else (namespace, cluster)
        return f"{first} + {separator} + {second}"

    def piece(text: str) -> str:
        cut = f"({text}.size() > {length} ? {text}.substring(0, {length}) : {text})"
        return f"{cut}.find('^.*[^-]')"

    plain = join("variables.virtual", "c")
    is_plain = (
        f"({plain}).size() <= {LABEL_MAX_LENGTH} && !({plain}).contains('{HASH_MARK}')"
        f" && ({plain}).indexOf({separator}) == ({plain}).lastIndexOf({separator})"
    )
    head = f"{join(piece('variables.virtual'), piece('c'))} + '{HASH_MARK}'"
    hashed = (
        f"variables.name.startsWith({head})"
        f" && variables.name.substring(({head}).size()).matches('^[0-9a-f]{{{HASH_LENGTH}}}$')"
    )
    forbidden = " || ".join(
        f"variables.virtual.startsWith({cel_text(each[:-1])})"
        if each.endswith("*")
        else f"variables.virtual == {cel_text(each)}"
        for each in ALWAYS_FORBIDDEN
    )
    fits = f"({is_plain}) ? variables.name == {plain} : ({hashed})"
    return f"!({forbidden}) && variables.homes.exists(c, {fits})"


def _created_keys(owner: PolicyOwner) -> str:
    labels = cel_list((*_OWN_LABELS, POD_SECURITY_LABEL, NAMESPACE_NAME_LABEL))
    annotations = cel_list(_OWN_ANNOTATIONS)
    return (
        f"variables.new_labels.all(k, k in {labels} || ({_is_tenants(owner)}))"
        f" && variables.new_annotations.all(k, k in {annotations} || ({_is_tenants(owner)}))"
    )


def _updated() -> str:
    same = " && ".join(
        same_field(path) for path in ("spec", "metadata.finalizers", "metadata.ownerReferences")
    )
    return f"variables.old_claim && {same}"


def _updated_keys(owner: PolicyOwner) -> str:
    def same(field: str) -> str:
        old, new = f"variables.old_{field}", f"variables.new_{field}"
        return (
            f"{new}.all(k, ({_is_tenants(owner)}) || k in {old} && {old}[k] == {new}[k])"
            f" && {old}.all(k, ({_is_tenants(owner)}) || k in {new})"
        )

    return f"{same('labels')} && {same('annotations')}"


def _deleted() -> str:
    """Allow what was created for tenants, and no Work contains; Kubernetes keeps `default`."""
    marks = "variables.old_annotations"
    return " && ".join(
        (
            "variables.old_claim",
            f"variables.old_labels['{NAMESPACE_LABEL}'] != 'default'",
            f"'{CREATED_BY_AGENT_ANNOTATION}' in {marks}",
            f"!('{ADOPTED_ANNOTATION}' in {marks})",
            f"!('{HOLD_ANNOTATION}' in {marks})",
            f"(!('{WORK_ANNOTATION}' in {marks}) || {marks}['{WORK_ANNOTATION}'] == '')",
        )
    )


def _is_tenants(owner: PolicyOwner) -> str:
    """Return whether k is a key that tenants may change (translation/tenant_metadata.py)."""
    patterns = [each for each in owner.tenants_keys if each != PLAIN]
    found = []
    if PLAIN in owner.tenants_keys:
        found.append("!k.contains('/')")
    if patterns:
        text = "|".join(map(_regular, patterns)).replace("\\", "\\\\")
        found.append(f"k.matches('^({text})$')")
    allowed = " || ".join(found) or "false"
    never = (
        f"!(k in {cel_list(sorted(DECISIONS))}) && !k.startsWith('{DOMAIN}/')"
        f" && !k.startsWith('pod-security.kubernetes.io/') && !k.contains('{KARMADAS_DOMAIN}')"
        f" && k != '{NODE_SELECTOR_ANNOTATION}' && k != '{NAMESPACE_NAME_LABEL}'"
    )
    return f"({allowed}) && {never}"


def _regular(pattern: str) -> str:
    """Return a pattern of a shell as a regular expression."""
    wild = {"*": ".*", "?": "."}
    return "".join(wild.get(each) or re.escape(each) for each in pattern)
