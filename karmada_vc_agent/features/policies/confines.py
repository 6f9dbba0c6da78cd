"""Policy `agent-confines`: what the agent's own account may write."""

from karmada_vc_agent.features.policies.objects import (
    ANY_CLUSTER,
    PolicyOwner,
    cel_list,
    cel_text,
    metadata_maps,
    rule,
    same_field,
)
from karmada_vc_agent.model.domain import (
    ADOPTED_ANNOTATION,
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    CREATED_BY_AGENT_ANNOTATION,
    DOMAIN,
    GATEWAY_LABEL,
    MEMBERSHIP_LABEL,
    NAMESPACE_LABEL,
    SHARED_LABEL,
)
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import TENANT_ROLES
from karmada_vc_agent.model.well_known import RBAC_GROUP
from karmada_vc_agent.translation.kind_policy import IMPERSONATOR
from karmada_vc_agent.translation.names import host_name

PROBE_LABEL = f"{DOMAIN}/probe"
PROBED_NAMESPACE = "kube-system"

_OBJECTS = f"'{DOMAIN}/virtualclusters'"
_RBAC_KEYS = f"{RBAC_GROUP}/"


def probe_foreign() -> Object:
    """Return a merge patch of PROBED_NAMESPACE that `agent-confines` denies to the agent."""
    return {"metadata": {"labels": {PROBE_LABEL: "true"}}}


def confines(owner: PolicyOwner) -> Object:
    """Let the agent write objects with its own labels only.

    Reviews of tokens and rights are queries, although they are sent by POST.
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
                (_subresource(), "use no subresources but to evict pods"),
                (_namespaced(owner), "write only in namespaces with its own claim"),
                (_namespace(owner), "write only namespaces that it claims or may adopt"),
                (_node(owner), f"change only label {MEMBERSHIP_LABEL} of a Node"),
                (_cluster_scoped(), "write only cluster-scoped objects with its own labels"),
                (_cluster_role(owner), "write no ClusterRole with cluster-wide rules"),
            )
        ],
    }


def _only(owner: PolicyOwner, expression: str, may: str) -> Object:
    return {"expression": expression, "message": f'agent "{owner.agent}" may {may}'}


def _request_variables() -> list[Object]:
    """Return variables kind (`<group>/<plural>`), sub, ns, name, dry; strings are "" if unset."""
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
    """Return variables {old,new}_{claim,mark}: whether the agent's labels are set."""
    variables = []
    for age in ("old", "new"):
        labels = f"variables.{age}_labels"
        is_own = _is_own(owner, f"{labels}['{CLUSTER_LABEL}']")
        of_cluster = f"'{CLUSTER_LABEL}' in {labels} && {is_own}"
        claim = (
            f"{of_cluster} && '{AGENT_LABEL}' in {labels}"
            f" && {labels}['{AGENT_LABEL}'] == {cel_text(owner.agent)}"
        )
        variables += [
            {"name": f"{age}_claim", "expression": claim},
            {"name": f"{age}_mark", "expression": f"{of_cluster} || '{SHARED_LABEL}' in {labels}"},
        ]
    return variables


def _subresource() -> str:
    """Allow two: the status of our objects, and evictions, which ask for less than a deletion."""
    status = f"variables.kind == {_OBJECTS} && variables.sub == 'status'"
    eviction = (
        "variables.kind == '/pods' && variables.sub == 'eviction' && request.operation == 'CREATE'"
    )
    own = f"variables.sub == '' || {status} || {eviction}"
    return f"({own}) && request.operation != 'CONNECT'"


def _is_own(owner: PolicyOwner, name: str) -> str:
    """Return whether a name is one of the agent's virtual clusters."""
    if ANY_CLUSTER in owner.clusters:
        return f"{name} != ''"
    return f"{name} in {cel_list(owner.clusters)}"


def _is_impersonator(owner: PolicyOwner) -> str:
    if ANY_CLUSTER in owner.clusters:
        return f"variables.name.startsWith({cel_text(host_name(IMPERSONATOR, ''))})"
    kept = cel_list(host_name(IMPERSONATOR, cluster) for cluster in owner.clusters)
    return f"variables.name in {kept}"


def _namespaced(owner: PolicyOwner) -> str:
    labels = "namespaceObject.metadata.labels"
    claimant = f"{labels}['{CLUSTER_LABEL}']"
    claimed = (
        f"namespaceObject != null && has({labels})"
        f" && '{AGENT_LABEL}' in {labels}"
        f" && {labels}['{AGENT_LABEL}'] == {cel_text(owner.agent)}"
        f" && '{CLUSTER_LABEL}' in {labels}"
        f" && {_is_own(owner, claimant)}"
    )
    # Pods are created there by dry run only: a real one would run with the agent's account.
    # Secrets only those of its checkpoint: RBAC cannot confine `create` by name.
    kept = (
        f"variables.name.startsWith({cel_text(f'{owner.agent}-checkpoint-')})"
        " && object.type == 'Opaque'"
    )
    at_home = (
        f"variables.ns == {cel_text(owner.namespace)}"
        " && (variables.kind != '/pods' || variables.dry)"
        f" && (variables.kind != '/secrets' || request.operation != 'CREATE' || {kept})"
    )
    single = (
        "variables.ns + '/' + request.resource.resource + '/' + variables.name in "
        f"{cel_list(owner.elsewhere)}"
    )
    return (
        "variables.ns == '' || variables.kind == '/namespaces' || "
        f"({claimed}) || ({at_home}) || ({single}) || ({_event(owner)})"
    )


def _event(owner: PolicyOwner) -> str:
    """Allow events of its own about nodes and their groups, which lie in no namespace."""
    source = f"has({{0}}.source.component) && {{0}}.source.component == {cel_text(owner.agent)}"
    return (
        "variables.ns == 'default' && variables.kind == '/events'"
        " && request.operation in ['CREATE', 'UPDATE']"
        f" && {source.format('object')}"
        " && object.involvedObject.kind in ['Node', 'NodeGroup']"
        f" && (request.operation == 'CREATE' || {source.format('oldObject')})"
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
    pair = f"({old}['{CLUSTER_LABEL}'] + '/' + {new}['{CLUSTER_LABEL}'])"
    is_any = ANY_CLUSTER in owner.clusters
    passes_on = "true" if is_any else f"{pair} in {cel_list(owner.renames)}"
    renamed = (
        f"variables.new_claim && '{NAMESPACE_LABEL}' in {old} && '{NAMESPACE_LABEL}' in {new}"
        f" && {old}['{NAMESPACE_LABEL}'] == {new}['{NAMESPACE_LABEL}'] && {passes_on}"
    )
    freed = f"!('{CLUSTER_LABEL}' in {new}) && !('{AGENT_LABEL}' in {new})"
    invited = (
        f"!('{CLUSTER_LABEL}' in {old}) && '{ALLOW_ADOPTION_ANNOTATION}' in {marks}"
        f" && variables.new_claim"
        f" && {marks}['{ALLOW_ADOPTION_ANNOTATION}'] == {new}['{CLUSTER_LABEL}']"
    )
    updatable = (
        f"variables.old_claim && (variables.new_claim && {kept} || {freed} || {renamed})"
        f" || ({invited})"
    )
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
        same_field(path) for path in ("spec", "metadata.finalizers", "metadata.ownerReferences")
    )
    return (
        "variables.kind != '/nodes' || request.operation == 'UPDATE'"
        f" && variables.new_annotations == variables.old_annotations && {same_labels}"
        f" && {same_fields} && (!({label} in {new})"
        f" || {label} in {old} && {old}[{label}] == {new}[{label}]"
        f" || {_is_own(owner, f'{new}[{label}]')})"
    )


def _cluster_scoped() -> str:
    managed = "'app.kubernetes.io/managed-by' in variables.old_labels"
    admin_role = (
        f"variables.kind == '{_RBAC_KEYS}clusterroles' && variables.name in "
        f"{cel_list(TENANT_ROLES.values())} && (request.operation == 'CREATE'"
        f" || request.operation == 'UPDATE' && {managed})"
    )
    return (
        "variables.ns != '' || variables.kind in ['/namespaces', '/nodes'] || "
        "(request.operation == 'CREATE' ? variables.new_mark : variables.old_mark)"
        f" || ({admin_role}) || ({_definition()})"
    )


def _definition() -> str:
    """Allow to hold VirtualCluster objects and to report their status, not to change them."""
    return (
        f"variables.kind == {_OBJECTS} && request.operation == 'UPDATE'"
        " && object.spec == oldObject.spec"
        " && variables.new_labels == variables.old_labels"
        " && variables.new_annotations == variables.old_annotations"
    )


def _cluster_role(owner: PolicyOwner) -> str:
    """Allow only rules that take effect through RoleBindings in claimed namespaces.

    Karmada's own impersonation role is kept without a binding (rewriting-rules 5.4).
    """
    impersonator = f"{_is_impersonator(owner)} && r.verbs == ['impersonate']"
    of_gateway = f"'{GATEWAY_LABEL}' in variables.new_labels"
    plain = (
        "!has(r.nonResourceURLs) && r.verbs.all(v, "
        "!(v in ['escalate', 'bind', 'impersonate', '*']))"
        " && (!has(r.resources) || !('serviceaccounts/token' in r.resources))"
    )
    return (
        f"variables.kind != '{_RBAC_KEYS}clusterroles' || request.operation == 'DELETE'"
        " || !has(object.aggregationRule)"
        f" && variables.new_labels.all(k, !k.startsWith('{_RBAC_KEYS}'))"
        f" && (!has(object.rules) || ({of_gateway} ? object.rules.all(r, {_identities()})"
        f" : object.rules.all(r, {plain} || {impersonator})))"
    )


def _identities() -> str:
    """Return whether a rule lets the gateway be callers of the role's virtual cluster only.

    The gateway has what is in roles with its label, in the whole cluster.
    """
    cluster = f"variables.new_labels['{CLUSTER_LABEL}']"
    own = f"n == 'vc:' + {cluster} || n.startsWith('vc:' + {cluster} + ':')"
    accounts = (
        "r.resources == ['groups'] && (n == 'system:serviceaccounts'"
        " || n.startsWith('system:serviceaccounts:')"
        " && !n.startsWith('system:serviceaccounts:kube-'))"
    )
    return (
        "r.verbs == ['impersonate'] && has(r.apiGroups) && r.apiGroups == ['']"
        " && has(r.resources) && r.resources in [['users'], ['groups']]"
        " && has(r.resourceNames) && r.resourceNames.size() > 0"
        f" && r.resourceNames.all(n, {own} || {accounts})"
    )
