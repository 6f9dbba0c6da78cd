"""Admission policies that hold the agent's own account, node identities, and tenants.

`karmada-vc-agent join` installs them beside those of admission_policies.py:

    agent-confines   what the agent itself may write: the second line behind its roles
    account-tokens   no Secrets with tokens of accounts
    anchor-objects   nobody else writes in the namespaces of the agent's own accounts
    group-labels     node identities leave alone the labels that make groups
    node-events      node identities write Events about what they run, and nothing else
    node-pods        node identities make no pods in the agent's namespace
    own-objects      `vc-*` objects in claimed namespaces are the agent's
    shared-proxies   no `externalIPs`, no configuration of shared proxies, no Secrets elsewhere;
                     in Strict none of what admission_strict.py lists
    pod-binding      only schedulers say on which node a pod runs
    pod-limits       no `system-*` priority, no affinity to pods of others; in Strict neither
                     storage, addresses nor names that may be those of others
    volume-node      only schedulers choose the node of a volume; only own volumes are chosen
    gateway-confines what the account of the agent's gateway may write, where there is one

The first stands in admission_confines.py, the last in admission_gateway.py, those about tenants in
admission_tenants.py. RBAC grants by kind and namespace; who owns an object, and what of it changes,
only a policy sees.
Expressions run on kube-apiserver 1.34.4.
"""

from karmada_vc_agent.features.policies.confines import confines
from karmada_vc_agent.features.policies.gateway import gateway_confines
from karmada_vc_agent.features.policies.objects import (
    PARAMETERS_ANNOTATION,
    VALIDATING,
    PolicyOwner,
    binding,
    cel_list,
    claimed_selector,
    metadata_maps,
    on,
    policy_object,
)
from karmada_vc_agent.features.policies.tenants import (
    account_tokens,
    anchor,
    own_objects,
    pod_binding,
    pod_limits,
    shared_proxies,
    volume_node,
)
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation.names import ANCHOR_NAMESPACE

_CLOUD_CORE = "system:serviceaccount:kubeedge:cloudcore"
"""Writes Nodes on behalf of all KubeEdge edges, with the content they request."""
_NODE = (
    "request.userInfo.username.startsWith('system:node:')"
    " || has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups"
)


def guard_policies(owner: PolicyOwner) -> list[Object]:
    """Return these policies, each before its binding."""
    claimed = {"namespaceSelector": claimed_selector(owner)}
    own = {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: owner.namespace}}}
    anchors = {"namespaceSelector": claimed_selector(owner, ANCHOR_NAMESPACE)}
    wanted: tuple[tuple[str, Object, Object], ...] = (
        ("agent-confines", confines(owner), {}),
        ("account-tokens", account_tokens(owner), claimed),
        ("anchor-objects", anchor(owner), anchors),
        ("group-labels", _group_labels(owner), {}),
        ("node-events", _node_events(), claimed),
        ("node-pods", _node_pods(), own),
        ("own-objects", own_objects(owner), claimed),
        ("pod-binding", pod_binding(owner), claimed),
        ("pod-limits", pod_limits(owner), claimed),
        ("shared-proxies", shared_proxies(owner), claimed),
        ("volume-node", volume_node(owner), claimed),
        *((("gateway-confines", gateway_confines(owner), {}),) if owner.gateway else ()),
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
    """Return the keys of Node labels that decide which nodes belong to a group."""
    expressions = {each.key for each in vc.node_selector.match_expressions}
    return {*vc.node_selector.match_labels, *expressions} - {MEMBERSHIP_LABEL}


def renames_of(vc: VirtualCluster) -> set[str]:
    """Return the claims that a virtual cluster may take over: `<former name>/<name>`."""
    return {f"{former}/{vc.name}" for former in vc.former_names if former != vc.name}


def is_about_placement(policy: str) -> bool:
    """Whether a policy or binding, by its name, enforces placement or claims."""
    return policy.removeprefix("probe.").startswith(
        ("pod-placement.", "pod-node-selector.", "namespace-claims.")
    )


def _group_labels(owner: PolicyOwner) -> Object:
    """Deny nodes to label themselves into another group, whose Secrets they would get."""
    keys = cel_list(dict.fromkeys((*owner.group_labels, MEMBERSHIP_LABEL)))
    old, new = "variables.old_labels", "variables.new_labels"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "nodes", "UPDATE"),
        "matchConditions": [
            {
                "name": "a-node",
                "expression": f"{_NODE} || request.userInfo.username == '{_CLOUD_CORE}'",
            }
        ],
        "variables": metadata_maps(),
        "validations": [
            {
                "expression": f"{keys}.all(k, (k in {old}) == (k in {new})"
                f" && (!(k in {old}) || {old}[k] == {new}[k]))",
                "message": "nodes may not change the labels that assign them to a virtual "
                "cluster; only administrators may",
            }
        ],
    }


def _node_events() -> Object:
    """Deny nodes to report on what others run: who reads Events takes them for a kubelet's word.

    The Node authorizer (Kubernetes 1.32) knows what a node runs; it lets nodes write all Events.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "events", "CREATE", "UPDATE"),
        "matchConditions": [{"name": "a-node", "expression": _NODE}],
        "validations": [
            {
                "expression": f"{_is_run_there('object')}"
                f" && (request.operation == 'CREATE' || {_is_run_there('oldObject')})",
                "message": "nodes may report only on the pods that they run, and their volumes",
            }
        ],
    }


def _node_pods() -> Object:
    """Deny nodes pods in the agent's namespace: they would be endpoints of its Services."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": on("", "pods", "CREATE"),
        "matchConditions": [{"name": "a-node", "expression": _NODE}],
        "validations": [
            {
                "expression": "false",
                "message": "nodes make no pods in the namespace of karmada-vc-agent: remove the "
                "static pod",
            }
        ],
    }


def _is_run_there(event: str) -> str:
    """Return whether the node that asks may read what an Event is about."""
    involved = f"{event}.involvedObject"
    plural = f"{involved}.kind == 'Pod' ? 'pods' : 'persistentvolumeclaims'"
    there = f"authorizer.group('').resource({plural}).namespace(request.namespace)"
    return (
        f"(has({involved}.apiVersion) && {involved}.apiVersion == 'v1' && has({involved}.kind)"
        f" && {involved}.kind in ['Pod', 'PersistentVolumeClaim']"
        f" && has({involved}.name) && {involved}.name != ''"
        f" && {there}.name({involved}.name).check('get').allowed())"
    )
