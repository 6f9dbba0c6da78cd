"""Admission policies that hold the agent's own account, node identities, and tenants.

`karmada-vc-agent join` installs them beside those of admission_policies.py:

    agent-confines   what the agent itself may write: the second line behind its roles
    group-labels     node identities leave alone the labels that make groups
    own-objects      `vc-*` objects in claimed namespaces are the agent's
    shared-proxies   no `externalIPs`, no configuration of shared proxies, no Secrets elsewhere
    pod-binding      only schedulers say on which node a pod runs
    pod-limits       no `system-*` priority, no affinity to pods of others
    volume-node      only schedulers choose the node of a volume

RBAC grants by kind and namespace; who owns an object, and what of it changes, only a policy
sees. Expressions run on kube-apiserver 1.34.4.
"""

from karmada_vc_agent.model.domain import (
    ADOPTED_ANNOTATION,
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    CREATED_BY_AGENT_ANNOTATION,
    DOMAIN,
    MEMBERSHIP_LABEL,
    NAMESPACE_LABEL,
    SHARED_LABEL,
)
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.admission_objects import (
    PARAMETERS_ANNOTATION,
    VALIDATING,
    PolicyOwner,
    binding,
    cel_list,
    cel_text,
    claimed_selector,
    metadata_maps,
    on,
    policy_object,
    rule,
)
from karmada_vc_agent.translation.guards import PROXY_CONFIG
from karmada_vc_agent.translation.kind_policy import IMPERSONATOR
from karmada_vc_agent.translation.names import host_name
from karmada_vc_agent.translation.namespace_defaults import APPLY_AS_NAME
from karmada_vc_agent.translation.rbac import VIRTUAL_CLUSTER_ADMIN
from karmada_vc_agent.translation.references import (
    OF_ALL_PROXIES,
    PROXY_DOMAINS,
    PROXY_REFERENCES,
)

PROBE_LABEL = f"{DOMAIN}/probe"
PROBED_NAMESPACE = "kube-system"

_CLOUD_CORE = "system:serviceaccount:kubeedge:cloudcore"
"""Writes Nodes for all KubeEdge edges, with what these ask for."""
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_ADMINISTRATOR = "!(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups)"
_RBAC_KEYS = "rbac.authorization.k8s.io/"
_SNIPPETS = ("/snippet", "/snippets", "-snippet", "-snippets")
_WHOLE_NAME_LENGTH = 20
"""Host names keep at least so much of a long name (names.py)."""


def guard_policies(owner: PolicyOwner) -> list[Object]:
    """Return these policies, each before its binding."""
    claimed = {"namespaceSelector": claimed_selector(owner)}
    wanted: tuple[tuple[str, Object, Object], ...] = (
        ("agent-confines", _confines(owner), {}),
        ("group-labels", _group_labels(owner), {}),
        ("own-objects", _own_objects(owner), claimed),
        ("pod-binding", _pod_binding(owner), claimed),
        ("pod-limits", _pod_limits(owner), claimed),
        ("shared-proxies", _shared_proxies(owner), claimed),
        ("volume-node", _volume_node(owner), claimed),
    )
    made = [
        obj
        for policy, spec, match in wanted
        for obj in (
            policy_object(owner, VALIDATING, "v1", owner.name(policy), spec),
            binding(owner, VALIDATING, "v1", owner.name(policy), match),
        )
    ]
    made[0]["metadata"]["annotations"] = {PARAMETERS_ANNOTATION: owner.parameters()}
    return made


def group_labels(vc: VirtualCluster) -> set[str]:
    """Return the keys of Node labels that decide who belongs to a group."""
    expressions = {each.key for each in vc.node_selector.match_expressions}
    return {*vc.node_selector.match_labels, *expressions} - {MEMBERSHIP_LABEL}


def is_about_placement(policy: str) -> bool:
    """Whether a policy or binding, by its name, holds pods on their nodes or claims."""
    return policy.removeprefix("probe.").startswith(
        ("pod-placement.", "pod-node-selector.", "namespace-claims.")
    )


def probe_foreign() -> Object:
    """Return a merge patch of PROBED_NAMESPACE that `agent-confines` refuses to the agent."""
    return {"metadata": {"labels": {PROBE_LABEL: "true"}}}


# --- the agent --------------------------------------------------------------------------


def _confines(owner: PolicyOwner) -> Object:
    """Let the agent write what it owns by its marks, and nothing else.

    Reviews of tokens and rights are questions, though they are asked by POST.
    """
    everything = rule("*", ("*/*",), ("*",), "*")
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [everything]},
        "matchConditions": [
            {
                "name": "the-agent",
                "expression": f"request.userInfo.username == {cel_text(owner.user)}",
            },
            {
                "name": "no-question",
                "expression": "!(request.resource.group in "
                "['authentication.k8s.io', 'authorization.k8s.io'])",
            },
        ],
        "variables": [*_request_variables(), *metadata_maps(), *_ownership_variables(owner)],
        "validations": [
            _only(owner, expression, may)
            for expression, may in (
                ("variables.sub == '' && request.operation != 'CONNECT'", "use no subresources"),
                (_namespaced(owner), "write only in namespaces with its own claim"),
                (_namespace(owner), "write only namespaces that it claims or may adopt"),
                (_node(owner), f"change nothing of a Node but its label {MEMBERSHIP_LABEL}"),
                (_cluster_scoped(), "write only cluster-scoped objects with its own marks"),
                (_cluster_role(owner), "write no ClusterRole that reaches beyond namespaces"),
            )
        ],
    }


def _only(owner: PolicyOwner, expression: str, may: str) -> Object:
    return {"expression": expression, "message": f"karmada-vc-agent {owner.agent} may {may}"}


def _request_variables() -> list[Object]:
    """Return variables kind (`<group>/<plural>`), sub, ns, name, dry; texts are never missing."""
    optional = {"sub": "subResource", "ns": "namespace", "name": "name"}
    return [
        {
            "name": "kind",
            "expression": "request.resource.group + '/' + request.resource.resource",
        },
        *(
            {"name": name, "expression": f"has(request.{field}) ? request.{field} : ''"}
            for name, field in optional.items()
        ),
        {"name": "dry", "expression": "has(request.dryRun) && request.dryRun"},
    ]


def _ownership_variables(owner: PolicyOwner) -> list[Object]:
    """Return variables old_claim, new_claim, old_mark, new_mark: whether the agent's are there."""
    clusters = cel_list(owner.clusters)
    variables = []
    for age in ("old", "new"):
        labels = f"variables.{age}_labels"
        of_cluster = f"'{CLUSTER_LABEL}' in {labels} && {labels}['{CLUSTER_LABEL}'] in {clusters}"
        claim = (
            f"{of_cluster} && '{AGENT_LABEL}' in {labels}"
            f" && {labels}['{AGENT_LABEL}'] == {cel_text(owner.agent)}"
        )
        variables += [
            {"name": f"{age}_claim", "expression": claim},
            {"name": f"{age}_mark", "expression": f"{of_cluster} || '{SHARED_LABEL}' in {labels}"},
        ]
    return variables


def _namespaced(owner: PolicyOwner) -> str:
    labels = "namespaceObject.metadata.labels"
    claimed = (
        f"namespaceObject != null && has({labels})"
        f" && '{AGENT_LABEL}' in {labels}"
        f" && {labels}['{AGENT_LABEL}'] == {cel_text(owner.agent)}"
        f" && '{CLUSTER_LABEL}' in {labels}"
        f" && {labels}['{CLUSTER_LABEL}'] in {cel_list(owner.clusters)}"
    )
    # Pods are tried there, never made: one would run with the agent's own account.
    at_home = (
        f"variables.ns == {cel_text(owner.namespace)} && (variables.kind != '/pods'"
        " || variables.dry)"
    )
    single = (
        "variables.ns + '/' + request.resource.resource + '/' + variables.name in "
        f"{cel_list(owner.elsewhere)}"
    )
    return (
        "variables.ns == '' || variables.kind == '/namespaces' || "
        f"({claimed}) || ({at_home}) || ({single})"
    )


def _namespace(owner: PolicyOwner) -> str:
    old, new = "variables.old_labels", "variables.new_labels"
    marks = "variables.old_annotations"
    probe = f"variables.dry && variables.name == {cel_text(owner.namespace)}"
    deletable = (
        f"variables.old_claim && '{CREATED_BY_AGENT_ANNOTATION}' in {marks}"
        f" && !('{ADOPTED_ANNOTATION}' in {marks})"
    )
    kept = " && ".join(
        f"'{key}' in {old} && '{key}' in {new} && {old}['{key}'] == {new}['{key}']"
        for key in (CLUSTER_LABEL, NAMESPACE_LABEL)
    )
    freed = f"!('{CLUSTER_LABEL}' in {new}) && !('{AGENT_LABEL}' in {new})"
    invited = (
        f"!('{CLUSTER_LABEL}' in {old}) && '{ALLOW_ADOPTION_ANNOTATION}' in {marks}"
        f" && variables.new_claim"
        f" && {marks}['{ALLOW_ADOPTION_ANNOTATION}'] == {new}['{CLUSTER_LABEL}']"
    )
    updatable = f"variables.old_claim && (variables.new_claim && {kept} || {freed}) || ({invited})"
    return (
        f"variables.kind != '/namespaces' || ({probe}) || "
        "(request.operation == 'CREATE' ? variables.new_claim : "
        f"request.operation == 'DELETE' ? ({deletable}) : ({updatable}))"
    )


def _node(owner: PolicyOwner) -> str:
    old, new, label = "variables.old_labels", "variables.new_labels", f"'{MEMBERSHIP_LABEL}'"
    same_labels = (
        f"{new}.all(k, k == {label} || k in {old} && {old}[k] == {new}[k])"
        f" && {old}.all(k, k == {label} || k in {new})"
    )
    same_fields = " && ".join(
        f"has(object.{path}) == has(oldObject.{path})"
        f" && (!has(object.{path}) || object.{path} == oldObject.{path})"
        for path in ("spec", "metadata.finalizers", "metadata.ownerReferences")
    )
    return (
        "variables.kind != '/nodes' || request.operation == 'UPDATE'"
        f" && variables.new_annotations == variables.old_annotations && {same_labels}"
        f" && {same_fields} && (!({label} in {new})"
        f" || {label} in {old} && {old}[{label}] == {new}[{label}]"
        f" || {new}[{label}] in {cel_list(owner.clusters)})"
    )


def _cluster_scoped() -> str:
    managed = "'app.kubernetes.io/managed-by' in variables.old_labels"
    admin_role = (
        f"variables.kind == '{_RBAC_KEYS}clusterroles' && variables.name == "
        f"'{VIRTUAL_CLUSTER_ADMIN}' && (request.operation == 'CREATE'"
        f" || request.operation == 'UPDATE' && {managed})"
    )
    return (
        "variables.ns != '' || variables.kind in ['/namespaces', '/nodes'] || "
        "(request.operation == 'CREATE' ? variables.new_mark : variables.old_mark)"
        f" || ({admin_role})"
    )


def _cluster_role(owner: PolicyOwner) -> str:
    """Nobody but RoleBindings in claimed namespaces can bind what the agent writes.

    Karmada's own role to impersonate is kept bound to nobody (rewriting-rules 5.4).
    """
    kept = cel_list(host_name(IMPERSONATOR, cluster) for cluster in owner.clusters)
    impersonator = f"variables.name in {kept} && r.verbs == ['impersonate']"
    plain = (
        "!has(r.nonResourceURLs) && r.verbs.all(v, "
        "!(v in ['escalate', 'bind', 'impersonate', '*']))"
        " && (!has(r.resources) || !('serviceaccounts/token' in r.resources))"
    )
    return (
        f"variables.kind != '{_RBAC_KEYS}clusterroles' || request.operation == 'DELETE'"
        " || !has(object.aggregationRule)"
        f" && variables.new_labels.all(k, !k.startsWith('{_RBAC_KEYS}'))"
        f" && (!has(object.rules) || object.rules.all(r, {plain} || {impersonator}))"
    )


# --- nodes ------------------------------------------------------------------------------


def _group_labels(owner: PolicyOwner) -> Object:
    """Keep nodes from labelling themselves into another group, whose Secrets they would get."""
    keys = cel_list(dict.fromkeys((*owner.group_labels, MEMBERSHIP_LABEL)))
    old, new = "variables.old_labels", "variables.new_labels"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "nodes", "UPDATE", also=("status",)),
        "matchConditions": [
            {
                "name": "a-node",
                "expression": "request.userInfo.username.startsWith('system:node:')"
                " || has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups"
                f" || request.userInfo.username == '{_CLOUD_CORE}'",
            }
        ],
        "variables": metadata_maps(),
        "validations": [
            {
                "expression": f"{keys}.all(k, (k in {old}) == (k in {new})"
                f" && (!(k in {old}) || {old}[k] == {new}[k]))",
                "message": "a node may not change the labels that say to which virtual cluster it "
                "belongs: an administrator does",
            }
        ],
    }


# --- claimed namespaces -----------------------------------------------------------------


def _own_objects(owner: PolicyOwner) -> Object:
    """Keep quotas, limits, NetworkPolicies and bindings of the agent from whoever has rights there.

    Controllers of Kubernetes remove them with the namespace; an administrator may do all.
    """
    # Neither a name that the server makes up nor a deletion of many is in the request.
    name = (
        "(has(request.name) && request.name != '' ? request.name"
        " : oldObject != null ? oldObject.metadata.name"
        " : has(object.metadata.name) ? object.metadata.name : object.metadata.generateName)"
    )
    writes = ("CREATE", "UPDATE", "DELETE")
    rules = [
        rule("", ("resourcequotas", "resourcequotas/status", "limitranges"), writes),
        rule("networking.k8s.io", ("networkpolicies",), writes),
        rule("rbac.authorization.k8s.io", ("roles", "rolebindings"), writes),
    ]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [
            {
                "name": "an-object-of-the-agent",
                "expression": f"{name}.startsWith('vc-') || {name} == '{APPLY_AS_NAME}'",
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
                f"{owner.agent}: it is changed through the settings of the agent'",
            }
        ],
    }


def _somebody_else(owner: PolicyOwner) -> str:
    """Return whether neither the agent asks nor a part of Kubernetes, nor an administrator.

    The API server itself counts what quotas hold.
    """
    user = "request.userInfo.username"
    return (
        f"{user} != {cel_text(owner.user)}"
        f" && !{user}.startsWith('system:serviceaccount:kube-system:')"
        f" && !({user} in ['system:kube-controller-manager', 'system:apiserver'])"
        f" && {_NO_ADMINISTRATOR}"
    )


def _shared_proxies(owner: PolicyOwner) -> Object:
    """Hold what tenants write themselves to what their Works may; old values may stay."""
    old, new = "variables.old_annotations", "variables.new_annotations"
    unchanged = f"k in {old} && {old}[k] == {new}[k]"
    writes_proxy = " || ".join(
        (
            *(f"k.endsWith('{end}')" for end in _SNIPPETS),
            f"k.startsWith('{PROXY_CONFIG}')",
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
                rule("", ("services",), ("CREATE", "UPDATE")),
                rule("networking.k8s.io", ("ingresses",), ("CREATE", "UPDATE")),
            ]
        },
        "matchConditions": [{"name": "somebody-else", "expression": _somebody_else(owner)}],
        "variables": [*metadata_maps(), {"name": "before", "expression": before}],
        "validations": [
            {
                "expression": f"!({is_service}) || !has(object.spec.externalIPs)"
                " || object.spec.externalIPs.all(ip, ip in variables.before)",
                "message": "spec.externalIPs would take that address from everybody on the host: "
                "leave it out",
            },
            {
                "expression": f"{is_service} || {new}.all(k, {unchanged} || !({writes_proxy}))",
                "message": "an annotation writes the configuration of a proxy that all share: "
                "leave it out",
            },
            {
                "expression": f"{is_service}"
                f" || {new}.all(k, {unchanged} || !({names_other}) || {own})",
                "message": "an annotation names an object of another namespace: name one here",
            },
        ],
    }


def _pod_binding(owner: PolicyOwner) -> Object:
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule("", ("pods/binding", "bindings"), ("CREATE",))]
        },
        "matchConditions": [_no_scheduler(owner)],
        "validations": [
            {
                "expression": "false",
                "message": "only a scheduler may bind pods here: "
                "karmada-vc-agent join --scheduler names another one",
            }
        ],
    }


def _volume_node(owner: PolicyOwner) -> Object:
    key = f"'{_SELECTED_NODE}'"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "persistentvolumeclaims", "CREATE", "UPDATE"),
        "matchConditions": [_no_scheduler(owner)],
        "variables": metadata_maps(),
        "validations": [
            {
                "expression": f"!({key} in variables.new_annotations)"
                f" || {key} in variables.old_annotations"
                f" && variables.old_annotations[{key}] == variables.new_annotations[{key}]",
                "message": f"only a scheduler may set annotation {_SELECTED_NODE}: leave it out",
            }
        ],
    }


def _no_scheduler(owner: PolicyOwner) -> Object:
    return {
        "name": "no-scheduler",
        "expression": f"!(request.userInfo.username in {cel_list(owner.schedulers)})"
        f" && {_NO_ADMINISTRATOR}",
    }


def _pod_limits(owner: PolicyOwner) -> Object:
    """One pod with anti-affinity to pods everywhere kept all others from its nodes."""
    cluster = f"namespaceObject.metadata.labels['{CLUSTER_LABEL}']"
    selector = "t.namespaceSelector"
    selects_own = (
        f"has({selector}.matchLabels) && '{CLUSTER_LABEL}' in {selector}.matchLabels"
        f" && {selector}.matchLabels['{CLUSTER_LABEL}'] == variables.cluster"
    )
    names_own = f"n == request.namespace || {_is_of_cluster(owner)}"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "pods", "CREATE"),
        "variables": [
            {"name": "cluster", "expression": cluster},
            {"name": "terms", "expression": " + ".join(_affinity_terms())},
        ],
        "validations": [
            {
                "expression": "!has(object.spec.priorityClassName)"
                " || !object.spec.priorityClassName.startsWith('system-')",
                "message": "priorities system-* are the host's: "
                "use another priorityClassName, or none",
            },
            {
                "expression": "variables.terms.all(t,"
                f" (!has(t.namespaces) || t.namespaces.all(n, {names_own}))"
                f" && (!has({selector}) || {selects_own}))",
                "messageExpression": "'pod affinity must stay inside the virtual cluster: leave "
                f"namespaces and namespaceSelector out, or select the label {CLUSTER_LABEL}=' + "
                "variables.cluster",
            },
        ],
    }


def _is_of_cluster(owner: PolicyOwner) -> str:
    """Return whether the name `n` is that of a host namespace of the cluster (names.py)."""
    separator, cluster = cel_text(owner.separator), "variables.cluster"
    piece = (
        f"({cluster}.size() > {_WHOLE_NAME_LENGTH}"
        f" ? {cluster}.substring(0, {_WHOLE_NAME_LENGTH}) : {cluster})"
    )
    if owner.cluster_first:
        whole = f"n.startsWith({cluster} + {separator})"
        hashed = f"n.startsWith({piece})"
    else:
        whole = f"n.endsWith({separator} + {cluster})"
        hashed = f"n.contains({separator} + {piece})"
    return f"{whole} || n.contains('--') && {hashed}"


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
