"""Admission policies that enforce placement of pods and protect claims.

`karmada-vc-agent join` installs them, together with those of admission_guards.py. Three are here,
each with its bindings; a policy without a binding has no effect:

    pod-placement        ValidatingAdmissionPolicy   refuses pods that do not select the nodes
    pod-node-selector    MutatingAdmissionPolicy     adds what pods do not select themselves
    namespace-claims     ValidatingAdmissionPolicy   refuses changes of claims by anybody else, and
                         of what else claimed namespaces carry by tenants

The required selector is read from an annotation of the namespace, so nothing here depends on a
virtual cluster. The two about pods have a second binding for one name in the agent's own
namespace: a dry run with it tells whether the server acts on the policy yet, and no quota, limit
or account of a virtual cluster can get in its way. It is made last, and servers read bindings in
order: where it holds, the other holds. The third is asked by a claim on the agent's own namespace,
which even the agent may not claim.
Source: rewriting-rules 3.5; expressions run on kube-apiserver 1.34.4.
"""

from karmada_vc_agent.features.policies.objects import (
    MUTATING,
    VALIDATING,
    PolicyOwner,
    binding,
    claimed_selector,
    exempt_user,
    metadata_maps,
    on,
    policy_object,
    quoted,
    same_field,
)
from karmada_vc_agent.model.domain import (
    AGENT_LABEL,
    CLUSTER_LABEL,
    DOMAIN,
    HOLD_ANNOTATION,
    NODE_SELECTOR_ANNOTATION,
)
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL

UNPLACED_LABEL = f"{DOMAIN}/unplaced"
"""A label that no node has; pods select it if their namespace does not specify its nodes."""

_ANNOTATION = f"'{NODE_SELECTOR_ANNOTATION}'"
_ANNOTATIONS = "namespaceObject.metadata.annotations"
_IS_PLACED = f"has({_ANNOTATIONS}) && {_ANNOTATION} in {_ANNOTATIONS}"
_HAS_SELECTOR = "has(object.spec.nodeSelector)"


def probe_pod(owner: PolicyOwner, policy: str) -> Object:
    """Return a pod for a dry run that shows whether a policy about pods is in effect.

    policy: its name. The validating policy denies the pod; the mutating one adds UNPLACED_LABEL.
    """
    return bare_pod(_probe_name(policy), owner.namespace)


def probe_claim(owner: PolicyOwner) -> Object:
    """Return a merge patch of the agent's own namespace that the policy about claims denies."""
    return {"metadata": {"labels": {CLUSTER_LABEL: "probe", AGENT_LABEL: owner.agent}}}


def protected_user(policy: Object) -> str:
    """Return the user who may change claims according to a live policy, "" if unreadable."""
    for condition in dig(policy, "spec", "matchConditions") or ():
        if condition.get("name") == _NOT_THE_AGENT:
            return exempt_user(condition.get("expression") or "")
    return ""


def bare_pod(name: str, namespace: str, node_selector: dict[str, str] | None = None) -> Object:
    """Return a pod that even the strictest Pod Security level allows."""
    container = {
        "name": "probe",
        "image": "probe",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec: Object = {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    if node_selector:
        spec["nodeSelector"] = node_selector
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def policies_about_pods(owner: PolicyOwner) -> list[Object]:
    """Return the policies that deny pods on foreign nodes, in the order to write them."""
    return [
        policy_object(owner, VALIDATING, "v1", owner.placement_policy, _placement()),
        *_pod_bindings(owner, VALIDATING, "v1", owner.placement_policy),
    ]


def policies_about_claims(owner: PolicyOwner) -> list[Object]:
    """Return the policies that protect claims, in the order to write them."""
    return [
        policy_object(owner, VALIDATING, "v1", owner.claims_policy, _claims(owner)),
        binding(owner, VALIDATING, "v1", owner.claims_policy, {}),
    ]


def mutating_policies(owner: PolicyOwner, version: str) -> list[Object]:
    """Return the mutating policy for pods with its bindings; version: a served one."""
    name = owner.selector_policy
    return [
        policy_object(owner, MUTATING, version, name, _selector()),
        *_pod_bindings(owner, MUTATING, version, name),
    ]


# --- content ----------------------------------------------------------------------------


def _placement() -> Object:
    """Deny pods that do not select the nodes of their virtual cluster.

    An update that keeps the selector passes: otherwise nobody could remove a finalizer of a pod
    that is older than the selector, or than the claim on its namespace.
    """
    old, new = (f"has({o}.spec.nodeSelector) ? {o}.spec.nodeSelector : {{}}" for o in _OLD_AND_NEW)
    selects = (
        "variables.pairs.all(p, p.split('=')[0] in object.spec.nodeSelector"
        " && object.spec.nodeSelector[p.split('=')[0]] == p.split('=')[1])"
    )
    advice = "'add nodeSelector ' + variables.pairs.join(',') + ' to the pod or to its template'"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "pods", "CREATE", "UPDATE"),
        "variables": [
            {"name": "pairs", "expression": f"{_IS_PLACED} ? {_pairs()} : []"},
            {"name": "same", "expression": f"request.operation == 'UPDATE' && ({new}) == ({old})"},
        ],
        "validations": [
            {
                "expression": "variables.same || variables.pairs.size() > 0",
                "message": "the namespace does not specify its nodes: it lacks the annotation "
                f"{NODE_SELECTOR_ANNOTATION}, which karmada-vc-agent sets",
            },
            {
                "expression": f"variables.same || {_HAS_SELECTOR} && {selects}",
                "messageExpression": "'pod must select the nodes of its virtual cluster: ' + "
                + advice,
            },
            {
                "expression": "request.operation != 'CREATE' || !has(object.spec.nodeName)"
                " || object.spec.nodeName == ''",
                "message": "spec.nodeName must not be set: select the node by nodeSelector or "
                "affinity",
            },
        ],
    }


def _selector() -> Object:
    """Add the missing parts of the required selector; a conflicting one is denied later."""
    unplaced = f"['{UNPLACED_LABEL}=true']"
    pairs = f"{_IS_PLACED} ? {_pairs()} : {unplaced}"
    expression = (
        f"({_HAS_SELECTOR} ? [] : "
        "[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: Object.spec.nodeSelector{}}])"
        f" + variables.pairs.filter(p, !{_HAS_SELECTOR}"
        " || !(p.split('=')[0] in object.spec.nodeSelector))"
        ".map(p, JSONPatch{op: 'add', "
        "path: '/spec/nodeSelector/' + jsonpatch.escapeKey(p.split('=')[0]), "
        "value: p.split('=')[1]})"
    )
    return {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": on("", "pods", "CREATE"),
        "variables": [{"name": "pairs", "expression": pairs}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }


def _claims(owner: PolicyOwner) -> Object:
    """Let the agent alone set, change or remove a claim of its own, and delete what is claimed.

    Its own namespace is never claimed, so that it can see by a dry run that this is in effect.
    No selector picks the namespaces: for an update a server asks it of the new labels only, and
    whoever takes the labels off would not be seen.

    Labels and annotations decide for the host (Pod Security, policy engines, meshes), finalizers
    and owners when the namespace ends. Who may write all namespaces may change them: a tenant has
    rights in its own, and RBAC asks those of a Namespace, too. Kubernetes itself writes only the
    conditions and `spec.finalizers` of a namespace that goes: the latter are for who finalizes
    all, for without them a namespace would go before the objects in it.
    """
    kept = ("labels", "annotations")
    ours = (
        f"'{CLUSTER_LABEL}' in m"
        f" && (!('{AGENT_LABEL}' in m) || m['{AGENT_LABEL}'] == '{owner.agent}')"
    )
    claimed = f"[variables.old_labels, variables.new_labels].exists(m, {ours})"
    same = " && ".join(
        f"variables.new_{field}.all(k, !({_is_ours('k')})"
        f" || k in variables.old_{field} && variables.old_{field}[k] == variables.new_{field}[k])"
        f" && variables.old_{field}.all(k, !({_is_ours('k')}) || k in variables.new_{field})"
        for field in kept
    )
    same_metadata = " && ".join(
        (
            *(f"variables.old_{field} == variables.new_{field}" for field in kept),
            *(same_field(f"metadata.{field}") for field in ("finalizers", "ownerReferences")),
        )
    )
    all_namespaces = "authorizer.group('').resource('namespaces')"
    is_hosts = " || ".join(
        f"{all_namespaces}.check('{verb}').allowed()" for verb in ("update", "patch")
    )
    finalizes = f"{all_namespaces}.subresource('finalize').check('update').allowed()"
    message = (
        f"'the claim on namespace ' + request.name + ' belongs to karmada-vc-agent {owner.agent}: "
        "delete the namespace on the hub, run karmada-vc-agent leave, or first remove "
        f"ValidatingAdmissionPolicy {owner.claims_policy}'"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "namespaces", "CREATE", "UPDATE", "DELETE"),
        "matchConditions": [
            {
                "name": _NOT_THE_AGENT,
                "expression": f"request.userInfo.username != '{quoted(owner.user)}'"
                f" || request.name == '{owner.namespace}'",
            },
            *_not_the_gateway(owner),
        ],
        "variables": [
            *metadata_maps(),
            {"name": "claimed", "expression": claimed},
            {"name": "same_metadata", "expression": same_metadata},
            {"name": "is_hosts", "expression": is_hosts},
            {"name": "finalizes", "expression": finalizes},
        ],
        "validations": [
            {
                "expression": f"!variables.claimed || request.operation != 'DELETE' && {same}",
                "messageExpression": message,
            },
            {
                "expression": "!variables.claimed || request.operation != 'UPDATE'"
                " || variables.same_metadata || variables.is_hosts",
                "message": "labels, annotations, finalizers and owners of a claimed namespace are "
                "for who may update all namespaces: write them in the Namespace on the hub",
            },
            {
                "expression": "!variables.claimed || request.operation != 'UPDATE'"
                f" || {same_field('spec')} || variables.finalizes",
                "message": "spec.finalizers of a claimed namespace are for who finalizes all "
                "namespaces, as Kubernetes does",
            },
        ],
    }


def _not_the_gateway(owner: PolicyOwner) -> list[Object]:
    """Leave to gateway-confines what the gateway creates and deletes for tenants (ADR 52)."""
    if not owner.gateway:
        return []
    expression = (
        f"request.userInfo.username != '{quoted(owner.gateway)}'"
        " || !(request.operation in ['CREATE', 'DELETE'])"
    )
    return [{"name": "not-the-gateway", "expression": expression}]


_OLD_AND_NEW = ("oldObject", "object")
_NOT_THE_AGENT = "not-the-agent"


def _pairs() -> str:
    return f"{_ANNOTATIONS}[{_ANNOTATION}].split(',')"


def _is_ours(key: str) -> str:
    """Return whether a key is the agent's alone; a hold is the administrator's (ADR 43)."""
    own = f"{key}.startsWith('{DOMAIN}/') && {key} != '{HOLD_ANNOTATION}'"
    return f"{own} || {key} == {_ANNOTATION}"


# --- bindings ---------------------------------------------------------------------------


def _pod_bindings(owner: PolicyOwner, kind: str, version: str, policy: str) -> list[Object]:
    own = {"matchLabels": {NAMESPACE_NAME_LABEL: owner.namespace}}
    probes = on("", "pods", "CREATE")["resourceRules"]
    probes[0]["resourceNames"] = [_probe_name(policy)]
    return [
        binding(owner, kind, version, policy, {"namespaceSelector": claimed_selector(owner)}),
        binding(
            owner,
            kind,
            version,
            policy,
            {"namespaceSelector": own, "resourceRules": probes},
            name=f"probe.{policy}",
        ),
    ]


def _probe_name(policy: str) -> str:
    return f"probe.{policy}"
