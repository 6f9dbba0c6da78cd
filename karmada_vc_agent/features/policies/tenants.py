"""What tenants may write in claimed namespaces themselves, without translation."""

from karmada_vc_agent.features.policies.objects import (
    PolicyOwner,
    cel_list,
    cel_text,
    homes,
    metadata_maps,
    on,
    rule,
    writes,
)
from karmada_vc_agent.features.policies.strict import (
    CLUSTER,
    strict_pod_validations,
    strict_validations,
    unless_allowed,
    variables_by_cluster,
)
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.tenancy import Guard
from karmada_vc_agent.model.well_known import (
    RBAC_GROUP,
    SELECTED_NODE_ANNOTATION,
    SERVICE_ACCOUNT_TOKEN,
)
from karmada_vc_agent.translation.guards import PROXY_CONFIGS
from karmada_vc_agent.translation.names import HASH_MARK, NAME_SEPARATOR
from karmada_vc_agent.translation.namespace_defaults import BINDING_NAMES
from karmada_vc_agent.translation.references import (
    OF_ALL_PROXIES,
    PROXY_DOMAINS,
    PROXY_REFERENCES,
)

_SNIPPETS = ("/snippet", "/snippets", "-snippet", "-snippets")


def own_objects(owner: PolicyOwner) -> Object:
    """Deny changes of the agent's quotas, limits, NetworkPolicies and bindings to tenants.

    Controllers of Kubernetes delete them with the namespace; administrators may do anything.
    """
    # The request contains neither a generated name nor, for deletecollection, any name.
    name = (
        "(has(request.name) && request.name != '' ? request.name"
        " : oldObject != null ? oldObject.metadata.name"
        " : has(object.metadata.name) ? object.metadata.name : object.metadata.generateName)"
    )
    operations = ("CREATE", "UPDATE", "DELETE")
    rules = [
        *writes("", ("resourcequotas", "limitranges"), *operations),
        *writes("networking.k8s.io", ("networkpolicies",), *operations),
        *writes(RBAC_GROUP, ("roles", "rolebindings"), *operations),
    ]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [
            {
                "name": "an-object-of-the-agent",
                "expression": f"{name}.startsWith('vc-') || {name} in {cel_list(BINDING_NAMES)}",
            },
            {
                "name": "somebody-else",
                "expression": _somebody_else(owner),
            },
        ],
        "validations": [
            {
                "expression": "false",
                "messageExpression": f"{name} + ' belongs to karmada-vc-agent "
                f"{owner.agent}: change the settings of the agent instead'",
            }
        ],
    }


def anchor(owner: PolicyOwner) -> Object:
    """Deny tenants all writes in the namespaces of the agent's own accounts (ADR 40).

    Who has a token of an account there may do all in its virtual cluster; a ClusterRoleBinding of
    a Work holds there, too, since requests about all namespaces are authorized there.
    """
    everything = rule("*", ("*/*",), ("*",), "*") | {"scope": "Namespaced"}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [everything]},
        "matchConditions": [
            {"name": "somebody-else", "expression": _somebody_else(owner)},
            {
                "name": "no-question",
                "expression": "request.resource.group != 'authorization.k8s.io'",
            },
        ],
        "validations": [
            {
                "expression": "false",
                "message": f"the namespace belongs to karmada-vc-agent {owner.agent}: use another",
            }
        ],
    }


def _somebody_else(owner: PolicyOwner) -> str:
    """Return whether the user is neither the agent, a Kubernetes component nor an administrator.

    The API server itself updates the status of quotas.
    """
    user = "request.userInfo.username"
    return (
        f"{user} != {cel_text(owner.user)}"
        f" && !{user}.startsWith('system:serviceaccount:kube-system:')"
        f" && !({user} in ['system:kube-controller-manager', 'system:apiserver'])"
        f" && !({_is_administrator(owner)})"
    )


def _is_administrator(owner: PolicyOwner) -> str:
    """Return whether the user may change these policies, and so is not bound by them.

    Distributions differ in the groups of their administrators; kubeadm's are not system:masters.
    """
    policies = "authorizer.group('admissionregistration.k8s.io')"
    policies += f".resource('validatingadmissionpolicies').name('{owner.claims_policy}')"
    return f"{policies}.check('update').allowed()"


def shared_proxies(owner: PolicyOwner) -> Object:
    """Restrict what tenants write to what their Works may contain; existing values may stay."""
    old, new = "variables.old_annotations", "variables.new_annotations"
    unchanged = f"k in {old} && {old}[k] == {new}[k]"
    writes_proxy = " || ".join(
        (
            *(f"k.endsWith('{end}')" for end in _SNIPPETS),
            *(f"k.startsWith('{start}')" for start in PROXY_CONFIGS),
        )
    )
    names_other = (
        f"{cel_list(OF_ALL_PROXIES)}.exists(e, k.endsWith(e))"
        f" || {cel_list(PROXY_DOMAINS)}.exists(d, k.startsWith(d))"
        f" && {cel_list(PROXY_REFERENCES)}.exists(e, k.endsWith(e))"
    )
    own = f"!{new}[k].contains('/') || {new}[k].startsWith(request.namespace + '/')"
    before = (
        "oldObject != null && has(oldObject.spec) && has(oldObject.spec.externalIPs)"
        " ? oldObject.spec.externalIPs : []"
    )
    is_service = "request.resource.resource == 'services'"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                *writes("", ("services",), "CREATE", "UPDATE"),
                *writes("networking.k8s.io", ("ingresses",), "CREATE", "UPDATE"),
            ]
        },
        "matchConditions": [{"name": "somebody-else", "expression": _somebody_else(owner)}],
        "variables": [
            *metadata_maps(),
            {"name": "before", "expression": before},
            *variables_by_cluster(owner),
        ],
        "validations": [
            {
                "expression": unless_allowed(
                    owner,
                    Guard.EXTERNAL_ADDRESSES,
                    f"!({is_service}) || !has(object.spec.externalIPs)"
                    " || object.spec.externalIPs.all(ip, ip in variables.before)",
                ),
                "message": "spec.externalIPs would take over that address on the whole host: "
                "remove it",
            },
            {
                "expression": unless_allowed(
                    owner,
                    Guard.PROXY_SNIPPETS,
                    f"{new}.all(k, {unchanged} || !({writes_proxy}))",
                ),
                "message": "the annotation changes the configuration of a shared proxy: remove it",
            },
            {
                "expression": f"{new}.all(k, {unchanged} || !({names_other}) || {own})",
                "message": (
                    "the annotation refers to an object in another namespace: use one in this "
                    "namespace"
                ),
            },
            *strict_validations(owner),
        ],
    }


def pod_binding(owner: PolicyOwner) -> Object:
    """Deny others than schedulers to say where a pod runs, or where room is kept for it.

    A scheduler keeps what a nominated pod needs free on that node, whoever nominated it there.
    """
    new, old = (f"{obj}.status.nominatedNodeName" for obj in ("object", "oldObject"))
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                rule("", ("pods/binding", "bindings"), ("CREATE",)),
                rule("", ("pods/status",), ("UPDATE",)),
            ]
        },
        "matchConditions": [_no_scheduler(owner)],
        "validations": [
            {
                "expression": "request.operation != 'CREATE'",
                "message": "only schedulers may bind pods here; to add one, use karmada-vc-agent "
                "join --scheduler",
            },
            {
                "expression": f"request.operation == 'CREATE' || !has({new}) || {new} == ''"
                f" || has({old}) && {old} == {new}",
                "message": "only schedulers may set status.nominatedNodeName: leave it as it is",
            },
        ],
    }


def account_tokens(owner: PolicyOwner) -> Object:
    """Deny Secrets that Kubernetes fills with a token, which no right on tokens is needed for."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "secrets", "CREATE"),
        "matchConditions": [
            {
                "name": "of-an-account",
                "expression": f"has(object.type) && object.type == '{SERVICE_ACCOUNT_TOKEN}'",
            },
            {"name": "somebody-else", "expression": _somebody_else(owner)},
        ],
        "validations": [
            {
                "expression": "false",
                "message": "Kubernetes would write a token of the host into the Secret: mount a "
                "projected token into the pod instead",
            }
        ],
    }


def volume_node(owner: PolicyOwner) -> Object:
    """Deny tenants the choice of a node for a volume, and of a volume that is not their own.

    What Works bring is named after the virtual cluster (rewriting-rules 1.4); a volume of the host
    may be on a node of another branch.
    """
    volume, before = (f"{obj}.spec.volumeName" for obj in ("object", "oldObject"))
    cluster = f"namespaceObject.metadata.labels['{CLUSTER_LABEL}']"
    of_own = (
        f"{volume}.endsWith('{NAME_SEPARATOR}' + c)"
        f" || {volume}.contains('{NAME_SEPARATOR}' + c + '{HASH_MARK}')"
    )
    key = f"'{SELECTED_NODE_ANNOTATION}'"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "persistentvolumeclaims", "CREATE", "UPDATE"),
        "matchConditions": [_no_scheduler(owner)],
        "variables": [*metadata_maps(), {"name": "homes", "expression": homes(owner, cluster)}],
        "validations": [
            {
                "expression": f"!has({volume}) || {volume} == '' || oldObject != null"
                f" && has({before}) && {before} == {volume} || !({_somebody_else(owner)})"
                f" || variables.homes.exists(c, {of_own})",
                "message": "spec.volumeName is not a PersistentVolume of this virtual cluster: "
                "remove it",
            },
            {
                "expression": f"!({key} in variables.new_annotations)"
                f" || {key} in variables.old_annotations"
                f" && variables.old_annotations[{key}] == variables.new_annotations[{key}]",
                "message": f"only schedulers may set annotation {SELECTED_NODE_ANNOTATION}: "
                "remove it",
            },
        ],
    }


def _no_scheduler(owner: PolicyOwner) -> Object:
    return {
        "name": "no-scheduler",
        "expression": f"!(request.userInfo.username in {cel_list(owner.schedulers)})"
        f" && !({_is_administrator(owner)})",
    }


def pod_limits(owner: PolicyOwner) -> Object:
    """Deny system priorities, affinity to pods of others, and what Strict refuses in Pods.

    A pod with anti-affinity to all pods would keep others off its nodes. Whose a namespace is, only
    its label tells: names are truncated and hashed, or adopted.
    """
    selector = "t.namespaceSelector"
    selects_own = (
        f"has({selector}.matchLabels) && '{CLUSTER_LABEL}' in {selector}.matchLabels"
        f" && {selector}.matchLabels['{CLUSTER_LABEL}'] == variables.cluster"
    )
    old, new = (f"{obj}.metadata.annotations" for obj in ("oldObject", "object"))
    annotated = (
        f"oldObject == null || has({new}) && (!has({old}) || {old} != {new})"
        f" && {_somebody_else(owner)}"  # the host's network writes addresses of pods
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "pods", "CREATE", "UPDATE"),
        "matchConditions": [{"name": "annotated-or-new", "expression": annotated}],
        "variables": [
            *metadata_maps(),
            {"name": "cluster", "expression": CLUSTER},
            {"name": "terms", "expression": " + ".join(_affinity_terms())},
        ],
        "validations": [
            {
                "expression": "oldObject != null || !has(object.spec.priorityClassName)"
                " || !object.spec.priorityClassName.startsWith('system-')",
                "message": "priorities system-* are reserved for the host: use another "
                "priorityClassName, or none",
            },
            {
                "expression": "oldObject != null || variables.terms.all(t,"
                " (!has(t.namespaces) || t.namespaces.all(n, n == request.namespace))"
                f" && (!has({selector}) || {selects_own}))",
                "messageExpression": "'pod affinity must stay inside the virtual cluster: leave "
                f"namespaces and namespaceSelector out, or select the label {CLUSTER_LABEL}=' + "
                "variables.cluster",
            },
            *strict_pod_validations(owner),
        ],
    }


def _affinity_terms() -> list[str]:
    terms = []
    for kind in ("podAffinity", "podAntiAffinity"):
        for strength, each in (("required", "t"), ("preferred", "t.podAffinityTerm")):
            there = "object.spec.affinity"
            path = f"{there}.{kind}.{strength}DuringSchedulingIgnoredDuringExecution"
            terms.append(
                f"(has({there}) && has({there}.{kind}) && has({path}) ? {path}.map(t, {each}) : [])"
            )
    return terms
