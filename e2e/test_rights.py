"""What the rights that `join` gives allow, asked of the real API servers: this and no more."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from e2e.lab.access import Kubeconfigs
from e2e.lab.api import Api, ApiError, Object, collection_of, path_of
from e2e.lab.checkpoint import KEPT
from e2e.lab.lab import FAST, Lab
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.works import condition

ANY = "anything"
DOMAIN = "virtualcluster.kubeedge.io"
SAFE_POD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "x",
            "image": "x",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}


class Ask(NamedTuple):
    """One question; {own}, {other} stand for virtual clusters of this and of another agent."""

    allowed: bool
    verbs: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


CLUSTERS, WORKS, RBAC = "cluster.karmada.io", "work.karmada.io", "rbac.authorization.k8s.io"
SPACE, FOREIGN = "karmada-es-{own}", "karmada-es-{other}"
ADMISSION = "admissionregistration.k8s.io"
ALL_VERBS = "get list watch create update patch delete deletecollection"

HUB = (
    Ask(True, "create list watch", CLUSTERS, "clusters"),
    Ask(True, "get patch", CLUSTERS, "clusters", name="{own}"),
    Ask(False, "get update patch delete", CLUSTERS, "clusters", name="{other}"),
    Ask(False, "update delete", CLUSTERS, "clusters", name="{own}"),
    Ask(False, "deletecollection", CLUSTERS, "clusters"),
    Ask(True, "patch", CLUSTERS, "clusters/status", name="{own}"),
    Ask(False, "update patch", CLUSTERS, "clusters/status", name="{other}"),
    Ask(False, "get create update", CLUSTERS, "clusters/proxy", name="{own}"),
    Ask(True, "get list watch create update patch delete", WORKS, "works", SPACE, ANY),
    Ask(False, "deletecollection", WORKS, "works", SPACE),
    Ask(True, "update", WORKS, "works/status", SPACE, ANY),
    Ask(False, ALL_VERBS, WORKS, "works", FOREIGN, ANY),
    Ask(False, "update patch", WORKS, "works/status", FOREIGN, ANY),
    Ask(False, ALL_VERBS, WORKS, "works"),
    Ask(False, ALL_VERBS, WORKS, "resourcebindings", ANY),
    Ask(False, ALL_VERBS, "policy.karmada.io", "propagationpolicies", ANY),
    Ask(True, "create", "coordination.k8s.io", "leases", "karmada-cluster"),
    Ask(True, "get update", "coordination.k8s.io", "leases", "karmada-cluster", "{own}"),
    Ask(False, "get update delete", "coordination.k8s.io", "leases", "karmada-cluster", "{other}"),
    Ask(False, ALL_VERBS, "coordination.k8s.io", "leases", "karmada-system", ANY),
    Ask(True, "create patch", "", "events", ANY),
    Ask(False, "get list delete", "", "events", ANY),
    Ask(True, "list watch", "", "services"),
    Ask(False, "create update patch delete", "", "services", ANY),
    Ask(True, "get list watch", "config.karmada.io", "resourceinterpretercustomizations"),
    Ask(True, "get list watch", "config.karmada.io", "resourceinterpreterwebhookconfigurations"),
    Ask(False, "create update patch", "config.karmada.io", "resourceinterpretercustomizations"),
    Ask(True, "create get", "certificates.k8s.io", "certificatesigningrequests"),
    Ask(False, "update", "certificates.k8s.io", "certificatesigningrequests/approval"),
    Ask(False, "approve sign", "certificates.k8s.io", "signers"),
    Ask(False, "create", "certificates.k8s.io", "certificatesigningrequests/clusteragent"),
    Ask(False, ALL_VERBS, "", "secrets", "karmada-cluster", "{own}"),
    Ask(False, ALL_VERBS, "", "secrets", "kube-system", ANY),
    Ask(False, ALL_VERBS, "", "secrets", SPACE, ANY),
    Ask(False, ALL_VERBS, "", "secrets"),
    Ask(False, ALL_VERBS, "", "configmaps", ANY),
    Ask(False, ALL_VERBS, "", "namespaces"),
    Ask(False, ALL_VERBS, "apps", "deployments", ANY),
    Ask(False, ALL_VERBS, RBAC, "clusterroles"),
    Ask(False, ALL_VERBS, RBAC, "rolebindings", SPACE),
    Ask(False, "escalate bind", RBAC, "clusterroles"),
    Ask(False, "escalate bind", RBAC, "roles", SPACE),
    Ask(False, "impersonate", "", "users"),
    Ask(False, "impersonate", "", "groups"),
    Ask(False, "impersonate", "", "serviceaccounts", "kube-system"),
    Ask(False, "create", "", "serviceaccounts/token", "kube-system", "default"),
    Ask(False, "*", "*", "*"),
)

CLAIMED, SHARED_SPACE = "default-v-{own}", "default-v-{other}"
STORAGE, EXTENSIONS = "storage.k8s.io", "apiextensions.k8s.io"
HOST = (
    # what it needs everywhere
    Ask(True, "get list watch create update patch delete", "", "namespaces", name=ANY),
    Ask(True, "get list watch patch", "", "nodes", name=ANY),
    Ask(False, "create update delete", "", "nodes", name=ANY),
    Ask(False, "update patch", "", "nodes/status", name=ANY),
    Ask(False, "get", "", "nodes/proxy", name=ANY),
    Ask(True, "list watch", "", "pods"),
    Ask(True, "list watch", "apps", "deployments"),
    Ask(True, "list watch", "", "configmaps"),
    Ask(True, "get list watch create update patch delete", STORAGE, "storageclasses", name=ANY),
    Ask(True, "get create update delete", EXTENSIONS, "customresourcedefinitions", name=ANY),
    Ask(True, "get list watch", ADMISSION, "validatingadmissionpolicies"),
    Ask(True, "get list watch", ADMISSION, "validatingadmissionpolicybindings"),
    # Secrets, accounts, tokens
    Ask(False, ALL_VERBS, "", "secrets"),
    Ask(False, ALL_VERBS, "", "secrets", "kube-system", ANY),
    Ask(False, ALL_VERBS, "", "secrets", "default", ANY),
    Ask(True, "get update patch", "", "secrets", "{home}", "karmada-kubeconfig"),
    Ask(True, "get patch", "", "secrets", "{home}", "{agent}-checkpoint-0"),
    Ask(False, "get patch", "", "secrets", "{home}", ANY),
    Ask(False, "list watch delete", "", "secrets", "{home}"),
    Ask(False, "create", "", "serviceaccounts/token", "kube-system", "default"),
    Ask(False, "create", "", "serviceaccounts/token", "{home}", "{agent}"),
    Ask(False, "create", "", "serviceaccounts/token", CLAIMED, "default"),
    Ask(False, "create update patch delete", "", "serviceaccounts", "kube-system", ANY),
    Ask(False, "impersonate", "", "users"),
    Ask(False, "impersonate", "", "groups"),
    Ask(False, "impersonate", "", "serviceaccounts", "kube-system"),
    Ask(False, "approve sign", "certificates.k8s.io", "signers"),
    Ask(False, ALL_VERBS, "certificates.k8s.io", "certificatesigningrequests"),
    # foreign namespaces
    Ask(False, "get create update patch delete", "", "configmaps", "kube-system", ANY),
    Ask(False, "get create update patch delete", "", "configmaps", SHARED_SPACE, ANY),
    Ask(False, "create update patch delete", "", "pods", "kube-system", ANY),
    Ask(False, "create", "", "pods/exec", "kube-system", ANY),
    Ask(False, "create", "", "pods/eviction", "kube-system", ANY),
    Ask(False, "create update patch delete", "apps", "deployments", SHARED_SPACE, ANY),
    Ask(False, "create update patch delete", "apps", "daemonsets", "kube-system", ANY),
    Ask(False, "create update patch delete", "example.org", "widgets", ANY, ANY),
    Ask(False, "get create update", "coordination.k8s.io", "leases", "kube-system", ANY),
    # roles and policies
    Ask(False, "update patch delete", RBAC, "roles", "kube-system", ANY),
    Ask(False, "patch delete", RBAC, "rolebindings", "kube-system", ANY),
    Ask(False, ALL_VERBS.replace("list watch ", ""), RBAC, "clusterrolebindings", name=ANY),
    Ask(False, "bind", RBAC, "clusterroles"),
    Ask(False, "bind", RBAC, "clusterroles", name="cluster-admin"),
    Ask(True, "bind", RBAC, "clusterroles", name="vc-agent:{agent}:namespace"),
    Ask(True, "bind", RBAC, "clusterroles", name="vc-view"),
    Ask(False, "escalate bind", RBAC, "roles", "kube-system"),
    Ask(False, "escalate bind", RBAC, "roles", CLAIMED),
    Ask(False, "escalate bind", RBAC, "roles", CLAIMED, ANY),
    Ask(False, "bind", RBAC, "clusterroles", CLAIMED, ANY),
    Ask(False, "create update patch delete", ADMISSION, "validatingadmissionpolicies"),
    Ask(False, "create update patch delete", ADMISSION, "validatingadmissionpolicybindings"),
    Ask(False, ALL_VERBS, ADMISSION, "validatingwebhookconfigurations"),
    Ask(False, ALL_VERBS, "apiregistration.k8s.io", "apiservices"),
    # its own namespace, and those that it claims
    Ask(True, "get update", "coordination.k8s.io", "leases", "{home}", "{agent}"),
    Ask(False, "get update", "coordination.k8s.io", "leases", "{home}", ANY),
    Ask(True, "get update patch", "", "configmaps", "{home}", "{agent}-state"),
    Ask(False, "create update patch delete", "apps", "deployments", "{home}", "{agent}"),
    Ask(True, ALL_VERBS, "", "secrets", CLAIMED, ANY),
    Ask(True, ALL_VERBS, "apps", "deployments", CLAIMED, ANY),
    Ask(True, "create", "", "pods/eviction", CLAIMED, ANY),
    Ask(False, "create", "", "pods/eviction", SHARED_SPACE, ANY),
    Ask(True, ALL_VERBS, "", "resourcequotas", CLAIMED, ANY),
    Ask(True, "create update delete", RBAC, "roles", CLAIMED, ANY),
    Ask(True, "create update delete", RBAC, "rolebindings", CLAIMED, ANY),
    Ask(False, "impersonate", "", "serviceaccounts", CLAIMED),
    Ask(False, "*", "*", "*"),
    Ask(False, "*", "*", "*", CLAIMED),
)


@dataclass(frozen=True)
class Write:
    """A write tried by dry run as the agent. refused_by: a policy, "" = RBAC, None = allowed.

    or_by: another policy that refuses it as well; which one a server names is not settled.
    """

    title: str
    refused_by: str | None
    act: Callable[[Api, dict[str, str]], object]
    or_by: str = ""


def _patch(path: str, **metadata: object) -> Callable[[Api, dict[str, str]], object]:
    return lambda api, names: api.patch(
        f"{path.format(**names)}?dryRun=All", {"metadata": _filled(metadata, names)}
    )


def _create(obj: Object) -> Callable[[Api, dict[str, str]], object]:
    def act(api: Api, names: dict[str, str]) -> object:
        filled = _filled(obj, names)
        return api.post(f"{collection_of(filled)}?dryRun=All", filled)

    return act


def _delete(path: str) -> Callable[[Api, dict[str, str]], object]:
    return lambda api, names: api.delete(f"{path.format(**names)}?dryRun=All")


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_filled(key, names): _filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    return value.format(**names) if isinstance(value, str) else value


def _object(kind: str, api_version: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def _bound_role(namespace: str, role: str, kind: str = "ClusterRole") -> Object:
    ref = {"apiGroup": RBAC, "kind": kind, "name": role}
    return _object("RoleBinding", f"{RBAC}/v1", "{agent}-x", namespace, roleRef=ref, subjects=[])


def _marked(obj: Object, **labels: str) -> Object:
    marks = {f"{DOMAIN}/{key}": value for key, value in labels.items()}
    return {**obj, "metadata": {**obj["metadata"], "labels": marks}}


def _token_secret(name: str, namespace: str, account: str) -> Object:
    kind = "kubernetes.io/service-account-token"
    made = _object("Secret", "v1", name, namespace, type=kind)
    made["metadata"]["annotations"] = {"kubernetes.io/service-account.name": account}
    return made


NS = "/api/v1/namespaces"
NAMESPACE_ROLE = "vc-agent:{agent}:namespace"
STORAGE_CLASS = _object("StorageClass", f"{STORAGE}/v1", "{agent}-x", provisioner="example.org/x")
CLUSTER_ROLE = _object("ClusterRole", f"{RBAC}/v1", "{agent}-x-v-{own}", rules=[])
STRONG_ROLE, STRONG_CLUSTER_ROLE = "{agent}-strong", "{agent}-strong-v-{own}"
MINTING = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]}
GET_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ESCALATING = {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["escalate"]}
AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-view"
CONFINES = "agent-confines"
CLAIMS = "namespace-claims"
WRITES = (
    Write(
        "a ConfigMap in a claimed namespace",
        None,
        _create(_object("ConfigMap", "v1", "x", CLAIMED)),
    ),
    Write("a Secret in a claimed namespace", None, _create(_object("Secret", "v1", "x", CLAIMED))),
    Write(
        "a ConfigMap in kube-system", "", _create(_object("ConfigMap", "v1", "x", "kube-system"))
    ),
    Write(
        "a Secret of another agent's cluster",
        "",
        _create(_object("Secret", "v1", "x", SHARED_SPACE)),
    ),
    Write(
        "its rights in kube-system", CONFINES, _create(_bound_role("kube-system", NAMESPACE_ROLE))
    ),
    Write(
        "its rights in another agent's namespace",
        CONFINES,
        _create(_bound_role(SHARED_SPACE, NAMESPACE_ROLE)),
    ),
    Write("its rights in a claimed namespace", None, _create(_bound_role(CLAIMED, NAMESPACE_ROLE))),
    Write(
        "cluster-admin in a claimed namespace", "", _create(_bound_role(CLAIMED, "cluster-admin"))
    ),
    Write(
        "a Role of the host that holds more than it does, in a claimed namespace",
        "",
        _create(_bound_role(CLAIMED, STRONG_ROLE, "Role")),
    ),
    Write(
        "a ClusterRole named as its cluster's that holds more than it does",
        "",
        _create(_bound_role(CLAIMED, STRONG_CLUSTER_ROLE)),
    ),
    Write(
        "an empty Role in a claimed namespace",
        None,
        _create(_object("Role", f"{RBAC}/v1", "x", CLAIMED, rules=[])),
    ),
    Write(
        "a Role in a claimed namespace that holds more than it does",
        "",
        _create(_object("Role", f"{RBAC}/v1", "x", CLAIMED, rules=[MINTING])),
    ),
    Write(
        "kube-system claimed",
        CONFINES,
        _patch(
            f"{NS}/kube-system", labels={f"{DOMAIN}/cluster": "{own}", f"{DOMAIN}/agent": "{agent}"}
        ),
    ),
    Write("a label of kube-system", CONFINES, _patch(f"{NS}/kube-system", labels={"x": "y"})),
    Write(
        "a foreign namespace marked for adoption",
        CONFINES,
        _patch(f"{NS}/default", annotations={f"{DOMAIN}/allow-adoption": "{own}"}),
    ),
    Write(
        "a claim of another agent",
        CONFINES,
        _patch(f"{NS}/{SHARED_SPACE}", labels={f"{DOMAIN}/agent": "{agent}"}),
        CLAIMS,
    ),
    Write(
        "the end of another agent's namespace", CONFINES, _delete(f"{NS}/{SHARED_SPACE}"), CLAIMS
    ),
    Write("the end of default", CONFINES, _delete(f"{NS}/{{away}}")),
    Write(
        "a namespace without a claim", CONFINES, _create(_object("Namespace", "v1", "{agent}-x"))
    ),
    Write(
        "a claimed namespace",
        None,
        _create(
            _marked(
                _object("Namespace", "v1", "{agent}-x"),
                cluster="{own}",
                namespace="x",
                agent="{agent}",
            )
        ),
    ),
    Write(
        "a namespace for a foreign cluster",
        CONFINES,
        _create(
            _marked(
                _object("Namespace", "v1", "{agent}-x"),
                cluster="{other}",
                namespace="x",
                agent="{agent}",
            )
        ),
    ),
    Write(
        "the claim handed to another cluster",
        CONFINES,
        _patch(f"{NS}/{CLAIMED}", labels={f"{DOMAIN}/cluster": "{other}"}),
    ),
    Write(
        "the claim given up",
        None,
        _patch(
            f"{NS}/{CLAIMED}",
            labels={
                f"{DOMAIN}/cluster": None,
                f"{DOMAIN}/namespace": None,
                f"{DOMAIN}/agent": None,
            },
        ),
    ),
    Write("a label of a Node", CONFINES, _patch("/api/v1/nodes/{node}", labels={"x": "y"})),
    Write(
        "an annotation of a Node", CONFINES, _patch("/api/v1/nodes/{node}", annotations={"x": "y"})
    ),
    Write(
        "its own label of a Node",
        None,
        _patch(
            "/api/v1/nodes/{node}",
            labels={"node-restriction.kubernetes.io/virtual-cluster": "{own}"},
        ),
    ),
    Write(
        "that label for a foreign cluster",
        CONFINES,
        _patch(
            "/api/v1/nodes/{node}",
            labels={"node-restriction.kubernetes.io/virtual-cluster": "{other}"},
        ),
    ),
    Write(
        "a taint of a Node",
        CONFINES,
        lambda api, names: api.patch(
            f"/api/v1/nodes/{names['node']}?dryRun=All", {"spec": {"unschedulable": True}}
        ),
    ),
    Write("a StorageClass without marks", CONFINES, _create(STORAGE_CLASS)),
    Write("a shared StorageClass", None, _create(_marked(STORAGE_CLASS, shared="true"))),
    Write("a ClusterRole without marks", CONFINES, _create({**CLUSTER_ROLE, "rules": [GET_PODS]})),
    Write(
        "a ClusterRole of its cluster",
        None,
        _create({**_marked(CLUSTER_ROLE, cluster="{own}"), "rules": [GET_PODS]}),
    ),
    Write(
        "a ClusterRole that escalates",
        CONFINES,
        _create({**_marked(CLUSTER_ROLE, cluster="{own}"), "rules": [ESCALATING]}),
    ),
    Write(
        "a ClusterRole that aggregates",
        CONFINES,
        _create(
            _marked(CLUSTER_ROLE, cluster="{own}")
            | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}}
        ),
    ),
    Write(
        "its own ClusterRole",
        CONFINES,
        lambda api, names: api.patch(
            f"/apis/{RBAC}/v1/clusterroles/vc-agent:{names['agent']}?dryRun=All",
            {"rules": [ESCALATING]},
        ),
    ),
    Write(
        "the host's ClusterRole view",
        CONFINES,
        lambda api, _: api.patch(
            f"/apis/{RBAC}/v1/clusterroles/view?dryRun=All", {"metadata": {"labels": {"x": "y"}}}
        ),
    ),
    Write(
        "a ClusterRoleBinding",
        "",
        _create(
            _object(
                "ClusterRoleBinding",
                f"{RBAC}/v1",
                "{agent}-x",
                roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
            )
        ),
    ),
    Write(
        "a pod with its own account",
        CONFINES,
        lambda api, names: api.post(
            f"{NS}/{names['home']}/pods",
            _filled(_object("Pod", "v1", "x", "{home}", spec=SAFE_POD), names),
        ),
    ),
    Write(
        "a Secret of its checkpoint",
        None,
        _create(_object("Secret", "v1", "{agent}-checkpoint-new", "{home}")),
    ),
    Write(
        "another Secret beside itself",
        CONFINES,
        _create(_object("Secret", "v1", "{agent}-new", "{home}")),
    ),
    Write(
        "a Secret of its checkpoint that would be given a token",
        CONFINES,
        _create(_token_secret("{agent}-checkpoint-new", "{home}", "{agent}")),
    ),
    Write(
        "a weaker policy",
        "",
        _patch(
            f"/apis/{ADMISSION}/v1/validatingadmissionpolicies/agent-confines.{{agent}}.{DOMAIN}",
            labels={"x": "y"},
        ),
    ),
    Write(
        "a token of an account in a claimed namespace",
        "",
        lambda api, names: api.post(
            f"{NS}/{CLAIMED}/serviceaccounts/default/token".format(**names),
            _object("TokenRequest", "authentication.k8s.io/v1", "", spec={}),
        ),
    ),
    Write(
        "a token of its own account",
        "",
        lambda api, names: api.post(
            "{0}/{home}/serviceaccounts/{agent}/token".format(NS, **names),
            _object("TokenRequest", "authentication.k8s.io/v1", "", spec={}),
        ),
    ),
    Write(
        "a pod bound to a node",
        "",
        lambda api, names: api.post(
            f"{NS}/{CLAIMED}/pods/x/binding?dryRun=All".format(**names),
            _object("Binding", "v1", "x", target={"kind": "Node", "name": names["node"]}),
        ),
    ),
)
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([\w-]+)\.")


def test_what_the_agent_may_write_is_what_it_owns(lab: Lab) -> None:
    """Dry runs as the agent, on a host with another agent; RBAC and agent-confines together."""
    mine, theirs = lab.group("own"), lab.group("other")
    other = lab.new_agent(theirs, agentName=f"{lab.id}-2").start()
    agent = lab.serve(mine, checkpoint=KEPT)
    lab.wait_serving(other)
    names = {"own": mine.name, "other": theirs.name, "agent": lab.id, "home": agent.namespace}
    names |= {"node": mine.nodes[0], "away": f"{lab.id}-away"}
    for group in (mine, theirs):
        within(PERIODIC_S, lab.host.get, f"{NS}/{group.host_namespace('default')}")
    made = [
        _object("Namespace", "v1", names["away"]),
        *(
            _filled(_object(kind, f"{RBAC}/v1", name, namespace, rules=[MINTING]), names)
            for kind, name, namespace in (
                ("Role", STRONG_ROLE, CLAIMED),
                ("ClusterRole", STRONG_CLUSTER_ROLE, ""),
            )
        ),
    ]
    for obj in made:
        lab.host.create(obj)
    within(PERIODIC_S, _assert_confined, lab, mine.name)
    _wait_bound(lab, mine.host_namespace("default"))
    try:
        # A server acts on new roles and bindings a moment later.
        within(PERIODIC_S, _assert_writes, Api(agent.host_kubeconfig), names)
    finally:
        for obj in made:
            lab.host.delete(path_of(obj))


def _assert_writes(account: Api, names: dict[str, str]) -> None:
    wrong = [line for write in WRITES if (line := _outcome(account, write, names))]
    if allowed := [line for line in wrong if line.endswith(": allowed")]:
        pytest.fail("\n".join(allowed))  # at no time
    assert not wrong, "\n".join(wrong)


def _assert_confined(lab: Lab, cluster: str) -> None:
    assert condition(lab.cluster(cluster), "RightsConfined")["status"] == "True"


def _outcome(api: Api, write: Write, names: dict[str, str]) -> str:
    """Return what is wrong with the outcome of a write, or ""."""
    try:
        write.act(api, names)
    except ApiError as error:
        found = _POLICY.search(str(error))
        by = found[1] if found else ("" if error.code == 403 else str(error))
        return (
            ""
            if by in (write.refused_by, write.or_by or write.refused_by)
            else f"{write.title}: {error}"
        )
    return "" if write.refused_by is None else f"{write.title}: allowed"


@pytest.mark.parametrize("side", ["hub", "host"])
def test_rights_allow_what_is_needed_and_no_more(lab: Lab, side: str) -> None:
    if side == "host":
        lab.clusters |= {f"{lab.id}-own", f"{lab.id}-other"}
        lab.group("own")
        used = _joined(lab, start=True)
    else:
        used = _joined(lab)
    names = {"own": f"{lab.id}-own", "other": f"{lab.id}-other", "agent": lab.id}
    names["home"] = f"{lab.id}-agent"
    table, kubeconfig = (HUB, used.hub) if side == "hub" else (HOST, used.host)
    api = Api(kubeconfig)

    def look() -> None:
        """Ask everything; API servers see new roles a moment later."""
        wrong = [
            f"{verb} {ask}: {'refused' if ask.allowed else 'allowed'}"
            for ask, verb in _each(table)
            if _may(api, ask, verb, names) is not ask.allowed
        ]
        assert not wrong, "\n".join(wrong)

    within(PERIODIC_S, look)


def test_one_watch_for_all_works_opens_reading_only(lab: Lab) -> None:
    used = _joined(lab, "--works-cluster-wide")
    api, names = Api(used.hub), {"own": f"{lab.id}-own", "other": f"{lab.id}-other"}

    def look() -> None:
        for verb, allowed in (("list", True), ("watch", True), ("get", False), ("patch", False)):
            ask = Ask(allowed, verb, WORKS, "works", FOREIGN, "" if allowed else ANY)
            assert _may(api, ask, verb, names) is allowed, ask

    within(PERIODIC_S, look)


def _joined(lab: Lab, *flags: str, start: bool = False) -> Kubeconfigs:
    """Give an agent of one virtual cluster its rights, while another agent has another one.

    start: run it, until it has its rights in a namespace that it claims.
    """
    other = {"name": f"{lab.id}-other", "nodeSelector": {"matchLabels": {lab.label: "other"}}}
    own = {"name": f"{lab.id}-own", "nodeSelector": {"matchLabels": {lab.label: "own"}}}
    lab.new_agent(other, agentName=f"{lab.id}-2").join()
    agent = lab.new_agent(own, flags=flags or FAST, checkpoint=KEPT)
    if not start:
        return agent.join()
    agent.start()
    lab.wait_serving(agent)
    _wait_bound(lab, f"default-v-{lab.id}-own")
    return Kubeconfigs(agent.hub_kubeconfig, agent.host_kubeconfig)


def _wait_bound(lab: Lab, namespace: str) -> None:
    """Wait until the agent has its rights in a namespace that it claims."""
    bindings = f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings"
    within(PERIODIC_S, lab.host.get, f"{bindings}/vc-agent:{lab.id}")


def _each(table: tuple[Ask, ...]) -> Iterator[tuple[Ask, str]]:
    for ask in table:
        for verb in ask.verbs.split():
            yield ask, verb


def _may(api: Api, ask: Ask, verb: str, names: dict[str, str]) -> bool:
    resource, _, subresource = ask.resource.partition("/")
    attributes = {
        "verb": verb,
        "group": ask.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": ask.namespace.format(**names),
        "name": ask.name.format(**names),
    }
    answer = api.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": attributes},
        }
    )
    return bool(answer["status"]["allowed"])
