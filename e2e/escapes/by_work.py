"""What a branch may try through its own Works."""

from e2e.escapes.attempt import DOMAIN, SELECTOR, Attempt, Scene, all_alike, by_work
from e2e.lab import objects
from e2e.lab.accounts import Who, may
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import NODES
from e2e.lab.wait import PERIODIC_S, eventually, within

RBAC = "rbac.authorization.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
_FORBIDDEN_KINDS = {
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
    "FlowSchema": "flowcontrol.apiserver.k8s.io/v1",
    "Node": "v1",
}


def pod(namespace: str, name: str, **spec: object) -> Object:
    """Return a pod as somebody writes it who knows of no groups."""
    containers = [{"name": "app", "image": objects.IMAGE}]
    return _object("v1", "Pod", name, namespace) | {"spec": {"containers": containers} | spec}


def on_node(node: str) -> Object:
    """Return the affinity that asks for one node by its name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _bare_pod(scene: Scene) -> str:
    template = pod(scene.namespace, "bare")
    by_work(scene, template)

    def look() -> str:
        return str(scene.lab.on_host(template, scene.mine)["spec"]["nodeName"])

    node = eventually(look)
    return "runs on a node of its own" if node in scene.mine.nodes else f"runs on {node}"


def _foreign_node(scene: Scene) -> str:
    return by_work(scene, pod(scene.namespace, "named", nodeName=scene.theirs.nodes[0]))


def _foreign_selector(scene: Scene) -> str:
    selector = scene.theirs.selector
    return by_work(scene, objects.deployment(scene.namespace, "escape", node_selector=selector))


def _foreign_affinity(scene: Scene) -> str:
    affinity = on_node(scene.theirs.nodes[0])
    return by_work(scene, pod(scene.namespace, "affine", affinity=affinity))


def _pod_in_kube_system(scene: Scene) -> str:
    return by_work(scene, pod("kube-system", f"{scene.lab.id}-pod"))


def _kinds_of_the_host(scene: Scene) -> str:
    manifests = [
        _object(api_version, kind, f"{scene.lab.id}-escape")
        for kind, api_version in _FORBIDDEN_KINDS.items()
    ]
    outcome = by_work(scene, *manifests)
    assert not any(scene.lab.host.find(path_of(manifest)) for manifest in manifests)
    return outcome


def _priority(scene: Scene) -> str:
    head = _object("scheduling.k8s.io/v1", "PriorityClass", f"{scene.lab.id}-escape")
    return all_alike(
        by_work(scene, head | more)
        for more in ({"value": 1_000_000_001}, {"value": 1, "globalDefault": True})
    )


def _cluster_admin(scene: Scene) -> str:
    name = f"{scene.lab.id}-admins"
    subject = {"kind": "ServiceAccount", "name": "bot", "namespace": scene.namespace}
    api_group = RBAC.partition("/")[0]
    role = {"apiGroup": api_group, "kind": "ClusterRole", "name": "cluster-admin"}
    head = _object(RBAC, "ClusterRoleBinding", name)
    by_work(scene, head | {"subjects": [subject], "roleRef": role})
    own = f"{collection(RBAC, 'RoleBinding', scene.home)}/vc:crb:{name}"
    assert eventually(scene.lab.host.get, own)["roleRef"]["name"] == "virtual-cluster-admin"
    before = _claimed(scene)  # namespaces of other stories are added and removed meanwhile
    found = scene.lab.host.list(collection(RBAC, "RoleBinding"))
    homes = {b["metadata"]["namespace"] for b in found if b["metadata"]["name"] == f"vc:crb:{name}"}
    assert homes <= before | _claimed(scene)
    everywhere = scene.lab.host.list(collection(RBAC, "ClusterRoleBinding"))
    assert not [b for b in everywhere if b["metadata"]["name"].startswith(name)]
    return "`virtual-cluster-admin`, bound in each namespace of its own only"


def _claimed(scene: Scene) -> set[str]:
    namespaces = scene.lab.host.list(NAMESPACES, f"{DOMAIN}/cluster={scene.mine.name}")
    return {namespace["metadata"]["name"] for namespace in namespaces}


def _built_in_roles(scene: Scene) -> str:
    """Bind the host's own roles, which give tokens of accounts, their identities and proxies."""
    home = scene.mine.host_namespace(scene.namespace)
    for name in ("admin", "edit", "view"):
        account = f"{name}-bot"
        subject = {"kind": "ServiceAccount", "name": account, "namespace": scene.namespace}
        ref = {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": name}
        binding = _object(RBAC, "RoleBinding", account, scene.namespace)
        by_work(scene, binding | {"subjects": [subject], "roleRef": ref})
        path = f"{collection(RBAC, 'RoleBinding', home)}/{account}"
        assert eventually(scene.lab.host.get, path)["roleRef"]["name"] == f"vc-{name}"
        who = Who(f"system:serviceaccount:{home}:{account}")
        within(PERIODIC_S, _may_list, scene, who, home)
        for verb, resource in (
            ("create", "serviceaccounts/token"),
            ("impersonate", "serviceaccounts"),
            ("get", "pods/proxy"),
            ("create", "services/proxy"),
            ("patch", "namespaces"),
            ("create", "pods/binding"),
        ):
            assert not may(scene.lab.host, who, verb, resource, home), (name, verb, resource)
        assert may(scene.lab.host, who, "create", "pods", home) == (name != "view")
    return "`vc-admin`, `vc-edit`, `vc-view` in their place, without these"


def _may_list(scene: Scene, who: Who, home: str) -> None:
    assert may(scene.lab.host, who, "list", "pods", home)


def _role_that_escalates(scene: Scene) -> str:
    roles = [
        _object(RBAC, "Role", verb, scene.namespace)
        | {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": [verb]}]}
        for verb in ("escalate", "bind", "impersonate")
    ]
    return by_work(scene, *roles)


def _role_of_the_host(scene: Scene) -> str:
    """Bind roles that an administrator made: one that the agent may not bind, one that it could."""
    rules = {
        "tokens": {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        "quotas": {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["delete"]},
        "nobody": {"apiGroups": ["nobody.example.org"], "resources": ["x"], "verbs": ["create"]},
    }
    head = {"kind": "ServiceAccount", "name": "bot", "namespace": scene.namespace}
    home = scene.mine.host_namespace(scene.namespace)
    for name, rule in rules.items():
        wide = f"{scene.lab.id}-{name}"
        roles = [
            _object(RBAC, "Role", name, home) | {"rules": [rule]},
            _object(RBAC, "ClusterRole", f"{wide}-v-{scene.mine.name}") | {"rules": [rule]},
        ]
        for role in roles:
            scene.lab.host.create(role)
        try:
            for kind, target in (("Role", name), ("ClusterRole", wide)):
                ref = {"apiGroup": RBAC.partition("/")[0], "kind": kind, "name": target}
                binding = _object(RBAC, "RoleBinding", f"{name}-{kind.lower()}", scene.namespace)
                said = by_work(scene, binding | {"subjects": [head], "roleRef": ref})
                assert "not currently held" in said or "no virtual cluster may" in said, said
                assert scene.lab.host.find(scene.lab.host_path(binding, scene.mine)) is None
        finally:
            for role in roles:
                scene.lab.host.delete(path_of(role))
    return "not bound; the Work says so"


def _same_name(scene: Scene) -> str:
    theirs = objects.config_map(scene.namespace, "common", of="theirs")
    scene.lab.wait_applied(scene.lab.create_work(scene.theirs, "common", theirs))
    by_work(scene, objects.config_map(scene.namespace, "common", of="mine"))
    scene.lab.wait_data(theirs, scene.mine, of="mine")
    scene.lab.wait_data(theirs, scene.theirs, of="theirs")
    return "each branch has its own object"


def _name_of_a_host_namespace(scene: Scene) -> str:
    foreign = scene.theirs.host_namespace("default")
    by_work(scene, objects.config_map(foreign, "settings"))
    labels = f"{DOMAIN}/cluster={scene.mine.name},{DOMAIN}/namespace={foreign}"

    def look() -> Object:
        [found] = scene.lab.host.list("/api/v1/configmaps", labels)
        return found

    home = eventually(look)["metadata"]["namespace"]
    assert home != foreign
    assert (
        scene.lab.host.get(f"{NAMESPACES}/{home}")["metadata"]["labels"].items()
        >= {f"{DOMAIN}/cluster": scene.mine.name}.items()
    )
    return "lands in a namespace of its own"


def _markers(scene: Scene) -> str:
    manifest = objects.config_map(scene.namespace, "marked")
    manifest["metadata"] |= _claim_of(scene.theirs.name)
    by_work(scene, manifest)
    metadata = scene.lab.on_host(manifest, scene.mine)["metadata"]
    assert metadata["labels"][f"{DOMAIN}/cluster"] == scene.mine.name
    assert f"{DOMAIN}/owners" not in metadata["annotations"]
    return "dropped"


def _markers_of_a_namespace(scene: Scene) -> str:
    name = f"{scene.lab.id}-marked"
    manifest = objects.namespace(name)
    manifest["metadata"] |= _claim_of(scene.theirs.name)
    manifest["metadata"]["annotations"][SELECTOR] = f"{scene.lab.label}=b"
    by_work(scene, manifest)
    path = f"{NAMESPACES}/{scene.mine.host_namespace(name)}"
    metadata = eventually(scene.lab.host.get, path)["metadata"]
    assert metadata["labels"][f"{DOMAIN}/cluster"] == scene.mine.name
    assert metadata["annotations"][SELECTOR] == f"{scene.lab.label}=a"
    assert f"{DOMAIN}/owners" not in metadata["annotations"]
    return "dropped; its own claim and nodes stand there"


def _path_as_name(scene: Scene) -> str:
    return by_work(scene, objects.config_map(scene.namespace, "../../../nodes"))


def _node_of_another_branch(scene: Scene) -> str:
    node = f"{NODES}/{scene.theirs.nodes[0]}"
    before = scene.lab.host.get(node)["metadata"]["labels"]
    manifest = _object("v1", "Node", scene.theirs.nodes[0])
    manifest["metadata"]["labels"] = scene.mine.selector
    outcome = by_work(scene, manifest)
    assert scene.lab.host.get(node)["metadata"]["labels"] == before
    return outcome


def _claim_of(cluster: str) -> Object:
    labels = {f"{DOMAIN}/cluster": cluster, f"{DOMAIN}/namespace": "default"}
    return {"labels": labels, "annotations": {f"{DOMAIN}/owners": f'{{"{cluster}": "x"}}'}}


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


_KIND_FORBIDDEN = "refused, `KindForbidden`"

ATTEMPTS = (
    Attempt("Work: a pod that selects no nodes", "runs on a node of its own", _bare_pod),
    Attempt("Work: `nodeName` of a foreign node", "refused, `NodeNameForbidden`", _foreign_node),
    Attempt(
        "Work: node selector of another branch",
        "refused, `NodeSelectorConflict`",
        _foreign_selector,
    ),
    Attempt(
        "Work: node affinity to a foreign node",
        "refused, `NodeAffinityConflict`",
        _foreign_affinity,
    ),
    Attempt("Work: a pod in `kube-system`", "refused, `NamespaceForbidden`", _pod_in_kube_system),
    Attempt(
        "Work: webhook configurations, admission policies, APIService, FlowSchema, Node",
        _KIND_FORBIDDEN,
        _kinds_of_the_host,
    ),
    Attempt("Work: a foreign Node with its own label", _KIND_FORBIDDEN, _node_of_another_branch),
    Attempt("Work: a priority above all others, or for all pods", _KIND_FORBIDDEN, _priority),
    Attempt(
        "Work: ClusterRoleBinding to `cluster-admin`",
        "`virtual-cluster-admin`, bound in each namespace of its own only",
        _cluster_admin,
    ),
    Attempt(
        "Work: RoleBinding to the host's `admin`, `edit`, `view`, for tokens, identities, proxies",
        "`vc-admin`, `vc-edit`, `vc-view` in their place, without these",
        _built_in_roles,
    ),
    Attempt(
        "Work: Role with `escalate`, `bind` or `impersonate`",
        "refused, `RuleForbidden`",
        _role_that_escalates,
    ),
    Attempt(
        "Work: RoleBinding to a Role or ClusterRole of the host that holds more than tenants may",
        "not bound; the Work says so",
        _role_of_the_host,
    ),
    Attempt(
        "Work: an object named as another branch's", "each branch has its own object", _same_name
    ),
    Attempt(
        "Work: an object in the host namespace of another branch",
        "lands in a namespace of its own",
        _name_of_a_host_namespace,
    ),
    Attempt(f"Work: labels and annotations `{DOMAIN}/*`", "dropped", _markers),
    Attempt(
        "Work: a Namespace with these, and with foreign nodes",
        "dropped; its own claim and nodes stand there",
        _markers_of_a_namespace,
    ),
    Attempt(
        "Work: a path as a name (`../../../nodes`)", "refused, `ManifestInvalid`", _path_as_name
    ),
)
