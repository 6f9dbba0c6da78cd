"""What clients of the host may try: tenants with rights in a namespace, operators, others."""

from collections.abc import Callable

import pytest

from e2e.escapes.attempt import (
    DOMAIN,
    POD_CIDR,
    Attempt,
    Scene,
    all_alike,
    answer,
    kubelet,
    refused_by_policy,
    refused_by_rbac,
    refused_to_node,
)
from e2e.escapes.by_profile import ANY_HOST, OF_OTHERS
from e2e.escapes.by_work import on_node, pod
from e2e.lab import accounts, objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.host_events import warning
from e2e.lab.lab import NODES
from e2e.lab.wait import eventually
from karmada_vc_agent.access.admission import bare_pod

ADVICE = "pod must select the nodes of its virtual cluster: add nodeSelector"
_POLICIES = collection("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")


# --- pods -------------------------------------------------------------------------------


def _pod(**spec: object) -> Callable[[Scene], str]:
    """Try a pod; `{foreign}` stands for a node of another branch, `{own}` for the own selector."""

    def act(scene: Scene) -> str:
        values = {"{foreign}": scene.theirs.nodes[0], "{own}": scene.mine.selector}
        filled = {key: values.get(str(value), value) for key, value in spec.items()}
        tried = pod(scene.home, "escape", **filled)
        outcome = answer(refused_by_policy, scene.tenant.create, tried)
        return outcome if outcome != "done" else _where_it_is(scene, tried)

    return act


def _where_it_is(scene: Scene, made: Object) -> str:
    """Remove a pod; return whether it had to stay on the nodes of its own branch."""
    selector = scene.lab.host.get(path_of(made))["spec"].get("nodeSelector") or {}
    scene.lab.host.delete(path_of(made), force=True)
    return _PLACED if scene.mine.selector.items() <= selector.items() else "done"


_PLACED = "kept on its own nodes"


def _pod_by_affinity(scene: Scene) -> str:
    affinity = on_node(scene.theirs.nodes[0])
    return _pod(affinity=affinity, tolerations=[{"operator": "Exists"}])(scene)


def _bind(scene: Scene) -> str:
    own = pod(scene.home, "bound", nodeSelector=scene.mine.selector, schedulerName="nobody")
    made = scene.tenant.create(own)
    target = {"apiVersion": "v1", "kind": "Node", "name": scene.theirs.nodes[0]}
    metadata = {key: made["metadata"][key] for key in ("name", "namespace")}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        path = f"{path_of(made)}/binding"
        return answer(refused_by_policy, scene.tenant.post, path, binding)
    finally:
        scene.tenant.delete(path_of(made), force=True)


def _nominates(scene: Scene) -> str:
    """Have room kept for a pod on a node of another branch, by the pod's status."""
    own = pod(scene.home, "nominated", nodeSelector=scene.mine.selector, schedulerName="nobody")
    path = path_of(scene.tenant.create(own))
    try:
        change = {"status": {"nominatedNodeName": scene.theirs.nodes[0]}}
        return answer(refused_by_policy, scene.tenant.patch, f"{path}/status", change)
    finally:
        scene.tenant.delete(path, force=True)


def _blocks_others(scene: Scene) -> str:
    """Try anti-affinity to all pods of all namespaces: nothing could run beside that pod."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    foreign = scene.theirs.host_namespace("default")
    label = f"{DOMAIN}/cluster"
    wide: tuple[Object, ...] = (
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {label: scene.theirs.name}}},
        {"namespaces": [foreign]},
        # Such a namespace is another branch's, whose name begins as ours does, or nobody's.
        {"namespaces": [f"shop-v-{scene.mine.name}nother--0123456789ab"]},
        {"namespaces": [f"shop-v-{scene.mine.name}"]},
    )
    return all_alike(
        _pod(
            nodeSelector="{own}",
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term | reach]
                }
            },
        )(scene)
        for reach in wide
    )


def _takes_own_objects(scene: Scene) -> str:
    """Try to make a limit under a name of the agent, and to take the agent's rights away."""
    limits: Object = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "vc-limits", "namespace": scene.home},
        "spec": {"limits": []},
    }
    bindings = collection("rbac.authorization.k8s.io/v1", "RoleBinding", scene.home)
    agent = f"{bindings}/vc-agent:{scene.lab.id}"
    return all_alike(
        (
            answer(refused_by_policy, scene.tenant.create, limits),
            answer(refused_by_policy, scene.tenant.delete, agent),
        )
    )


def _takes_many_own_objects(scene: Scene) -> str:
    """Try to delete them as a collection: such a request has no name."""
    wanted = (
        (collection("v1", "ResourceQuota", scene.home), "vc-quota"),
        (
            collection("rbac.authorization.k8s.io/v1", "RoleBinding", scene.home),
            f"vc-agent:{scene.lab.id}",
        ),
    )
    for path, name in wanted:
        eventually(scene.lab.host.get, f"{path}/{name}")
    outcome = all_alike(
        answer(refused_by_policy, scene.tenant.delete, f"{path}?fieldSelector=metadata.name={name}")
        for path, name in wanted
    )
    for path, name in wanted:
        scene.lab.host.get(f"{path}/{name}")
    return outcome


def _frees_its_quota(scene: Scene) -> str:
    """Try to write that nothing is used; the API server must count all the same."""
    path = f"{collection('v1', 'ResourceQuota', scene.home)}/vc-quota"
    hard = eventually(_hard, scene, path)
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    outcome = answer(refused_by_policy, scene.tenant.patch, f"{path}/status", status)
    made = scene.tenant.create(pod(scene.home, "counted", nodeSelector=scene.mine.selector))
    try:
        eventually(_counts, scene, path)
    finally:
        scene.tenant.delete(path_of(made), force=True)
    return outcome


def _hard(scene: Scene, path: str) -> Object:
    found: Object = scene.lab.host.get(path)["status"]["hard"]
    return found


def _counts(scene: Scene, path: str) -> None:
    assert scene.lab.host.get(path)["status"]["used"]["pods"] != "0"


def _external_ip(scene: Scene) -> str:
    service = objects.service(scene.home, "escape")
    service["spec"]["externalIPs"] = ["192.0.2.53"]
    return answer(refused_by_policy, scene.tenant.create, service)


def _proxy(scene: Scene) -> str:
    """Try to write a proxy's configuration, and to name Secrets of another branch."""
    backend: Object = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    foreign = f"{scene.theirs.host_namespace('default')}/secret"
    ingress: Object = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "escape", "namespace": scene.home},
        "spec": {"rules": [{"host": f"{scene.lab.id}.example.com", "http": {"paths": paths}}]},
    }
    wide = ingress | {"metadata": {"name": "wide", "namespace": scene.home}}
    outcomes = []
    for path in ('/"; } location /x {', OF_OTHERS):
        ending = {"path": path, "pathType": "ImplementationSpecific"}
        rule = {"host": f"{scene.lab.id}.example.com", "http": {"paths": [paths[0] | ending]}}
        made = wide | {"spec": {"rules": [rule]}}
        outcomes.append(answer(refused_by_policy, scene.tenant.create, made))
    service = objects.service(scene.home, "escape")
    paths_made = [path_of(scene.tenant.create(each)) for each in (ingress, service)]
    try:
        by_keys = (
            answer(
                refused_by_policy,
                scene.tenant.patch,
                path + part,
                {"metadata": {"annotations": {key: value}}},
            )
            for path in paths_made
            for part in ("", "/status")
            for key, value in (
                ("nginx.ingress.kubernetes.io/server-snippet", "x;"),
                ("nginx.ingress.kubernetes.io/rewrite-target", "/; } location /x {"),
                ("haproxy.org/backend-config-snippet", "x"),
                ("haproxy-ingress.github.io/config-backend", "x"),
                ("ingress.kubernetes.io/config-backend", "x"),
                ("zalando.org/skipper-routes", "x"),
                ("getambassador.io/config", "x"),
                ("traefik.ingress.kubernetes.io/router.pathmatcher", ANY_HOST),
                ("haproxy.org/server-crt", foreign),
                ("nginx.ingress.kubernetes.io/auth-secret", foreign),
            )
        )
        return all_alike((*outcomes, *by_keys))
    finally:
        for path in paths_made:
            scene.tenant.delete(path)


def _chooses_node_of_volume(scene: Scene) -> str:
    return all_alike(
        _claims_on_node(scene, f"volume.{version}kubernetes.io/selected-node")
        for version in ("", "alpha.")
    )


def _claims_on_node(scene: Scene, key: str) -> str:
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"placed-{len(key)}",
            "namespace": scene.home,
            "annotations": {key: scene.theirs.nodes[0]},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    outcomes = [answer(refused_by_policy, scene.tenant.create, claim)]
    change = {"metadata": {"annotations": claim["metadata"].pop("annotations")}}
    path = path_of(scene.tenant.create(claim))
    try:
        outcomes += [
            answer(refused_by_policy, scene.tenant.patch, path + part, change)
            for part in ("", "/status")
        ]
    finally:
        scene.tenant.delete(path)
    return all_alike(outcomes)


def _account_in_the_anchor(scene: Scene) -> str:
    """Have all rights of the host's `cluster-admin` there: an account would be an operator's."""
    home = scene.mine.host_namespace("vc-system")
    mine = accounts.subject(scene.home, "tenant")
    scene.lab.host.create(accounts.role_binding(home, "cluster-admin", mine))
    account = collection("v1", "ServiceAccount", home)
    eventually(scene.tenant.get, f"{account}/default")
    made: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    made["metadata"] = {"name": "taken", "namespace": home}
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return all_alike(
        (
            answer(refused_by_policy, scene.tenant.create, made),
            *(
                answer(refused_by_policy, scene.tenant.post, f"{account}/{name}/token", token)
                for name in ("default", "operator")
            ),
            answer(
                refused_by_policy, scene.tenant.create, accounts.role_binding(home, "view", mine)
            ),
        )
    )


def _node_labels_itself(scene: Scene) -> str:
    """Act as a kubelet: it may write its Node, and NodeRestriction lets it label it."""
    name = scene.theirs.nodes[0]
    node, path = kubelet(scene, name), f"{NODES}/{name}"
    node.patch(path, {"metadata": {"labels": {f"{scene.lab.id}/k": "v"}}})
    label = {"metadata": {"labels": scene.mine.selector}}
    return all_alike(
        answer(refused_by_policy, node.patch, where, label) for where in (path, f"{path}/status")
    )


def _node_chooses_pod_cidr(scene: Scene) -> str:
    """Act as a kubelet: take addresses of pods, which networks would lead to this node."""
    own, fresh = scene.mine.nodes[0], f"{scene.lab.id}-fresh"
    taken: Object = {"spec": {"podCIDR": POD_CIDR, "podCIDRs": [POD_CIDR]}}
    registered: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": fresh}}
    outcomes = [answer(refused_by_policy, kubelet(scene, own).patch, f"{NODES}/{own}", taken)]
    outcomes += [
        answer(refused_by_policy, kubelet(scene, fresh).create, registered | spec)
        for spec in (taken, {"spec": {"podCIDR": POD_CIDR}})
    ]
    kubelet(scene, fresh).create(registered)
    scene.lab.host.delete(f"{NODES}/{fresh}")
    return all_alike(outcomes)


def _node_becomes_another(scene: Scene) -> str:
    """Act as a kubelet: take the machine, the host name or the network of another node."""
    own, other = scene.mine.nodes[0], scene.theirs.nodes[0]
    node, path = kubelet(scene, own), f"{NODES}/{own}"
    node.patch(path, {"metadata": {"labels": {"kubernetes.io/hostname": own}}})
    outcomes = [
        answer(refused_by_policy, node.patch, path + part, {"metadata": change})
        for change in (
            {"labels": {"kubernetes.io/hostname": other}},
            {"annotations": {"kube-router.io/pod-cidr": POD_CIDR}},
            {"annotations": {"fabedge.io/subnets": POD_CIDR}},
            {"labels": {"svccontroller.k3s.cattle.io/enablelb": "true"}},
            {"labels": {"k8s.ovn.org/egress-assignable": ""}},
            {"finalizers": [f"{scene.lab.id}/never"]},
        )
        for part in ("", "/status")
    ]
    machine = {"spec": {"providerID": f"cloud://{other}"}}
    return all_alike([*outcomes, answer(refused_by_policy, node.patch, path, machine)])


def _node_publishes_devices(scene: Scene) -> str:
    """Act as a kubelet: devices that a scheduler takes for those of the other node."""
    if scene.lab.host.find("/apis/resource.k8s.io/v1") is None:
        pytest.skip("the host serves no resource.k8s.io/v1, as all before 1.34")
    own, other = scene.mine.nodes[0], scene.theirs.nodes[0]
    node, outcomes = kubelet(scene, own), []
    for pool in (own, f"{own}/{other}", other, f"{own}-1", f"{other}/{own}"):
        slice_: Object = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{scene.lab.id}-devices"},
            "spec": {
                "driver": "device.example.com",
                "nodeName": own,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "one"}],
            },
        }
        outcomes.append(answer(refused_by_policy, node.create, slice_))
        if outcomes[-1] == "done":
            scene.lab.host.delete(path_of(slice_))
    assert outcomes[:2] == ["done", "done"], outcomes
    return all_alike(outcomes[2:])


def _node_restricted(scene: Scene) -> str:
    """Act as a kubelet: label another Node, and its own by what it may not write."""
    mine, theirs = scene.mine.nodes[0], scene.theirs.nodes[0]
    isolating = {"node-restriction.kubernetes.io/branch": "a"}
    return all_alike(
        answer(
            refused_to_node,
            kubelet(scene, theirs).patch,
            f"{NODES}/{name}{part}",
            {"metadata": {"labels": labels}},
        )
        for name, labels in ((mine, {f"{scene.lab.id}/k": "v"}), (theirs, isolating))
        for part in ("", "/status")
    )


def _node_reports(scene: Scene) -> str:
    """Act as a kubelet of the other branch: Kubernetes lets nodes write Events everywhere."""
    if scene.lab.host.get("/version")["minor"] in ("30", "31"):
        pytest.skip("the node authorizer of this host does not look at nodes of pods")
    node = kubelet(scene, scene.theirs.nodes[0])
    made = scene.lab.host.create(pod(scene.home, "reported", nodeSelector=scene.mine.selector))
    try:
        return answer(refused_by_policy, node.create, warning(made, "Failed", "no such image"))
    finally:
        scene.lab.host.delete(path_of(made), force=True)


def _node_writes_of_others(scene: Scene) -> str:
    """Act as a kubelet: a Lease or CSINode of another node would end or move its pods."""
    node = kubelet(scene, scene.mine.nodes[0])
    change = {"metadata": {"annotations": {f"{scene.lab.id}/k": "v"}}}
    return all_alike(
        answer(refused_by_rbac, node.patch, f"{path}/{scene.theirs.nodes[0]}", change)
        for path in (
            collection("coordination.k8s.io/v1", "Lease", "kube-node-lease"),
            collection("storage.k8s.io/v1", "CSINode"),
        )
    )


def _mirror(scene: Scene, name: str, namespace: str) -> Object:
    """Return the mirror pod of a static pod, as the kubelet of a node makes it."""
    live = scene.lab.host.get(f"{NODES}/{name}")["metadata"]
    node = {key: live[key] for key in ("name", "uid")}
    mirror = bare_pod(f"mirror-{name}", namespace)  # as strict as Pod Security may be there
    mirror["spec"]["nodeName"] = name
    mirror["metadata"] |= {
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "controller": True, **node}],
    }
    return mirror


def _node_makes_endpoints(scene: Scene) -> str:
    """Act as a kubelet: a mirror pod in the agent's namespace would serve for its gateway."""
    name = scene.mine.nodes[0]
    mirror = _mirror(scene, name, scene.lab.agents[0].namespace)
    return answer(refused_by_policy, kubelet(scene, name).create, mirror)


def _static_pods(scene: Scene) -> str:
    """Act as a kubelet: mirror pods in namespaces of the host, with labels of its Services.

    Those of control planes stay possible.
    """
    name, namespace = scene.mine.nodes[0], "kube-system"
    mirror = _mirror(scene, name, namespace)
    mirror["metadata"] |= {"name": f"{scene.lab.id}-{name}", "labels": {"component": "etcd"}}
    node = kubelet(scene, name)
    node.create(mirror)
    scene.lab.host.delete(path_of(mirror), force=True)
    outcomes = []
    for labels in ({"k8s-app": "kube-dns"}, {"component": "etcd", "k8s-app": "kube-dns"}):
        mirror["metadata"]["labels"] = labels
        outcomes.append(answer(refused_by_policy, node.create, mirror))
    return all_alike(outcomes)


def _takes_name_of_pod(scene: Scene) -> str:
    """Act as a kubelet: a mirror pod by the name of one that a StatefulSet will need."""
    name = scene.mine.nodes[0]
    mirror = _mirror(scene, name, "kube-system")
    outcomes = []
    for fields in ({"name": "database-0"}, {"name": "", "generateName": "database-"}):
        mirror["metadata"] |= fields
        outcomes.append(answer(refused_by_policy, kubelet(scene, name).create, mirror))
    return all_alike(outcomes)


def _volume_of_another(scene: Scene) -> str:
    """Claim a volume by name: of the host, or of another branch, also one that looks alike."""
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "of-another", "namespace": scene.home},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    outcomes = []
    ours = scene.mine.name
    for name in (
        "local-disk",
        f"data-v-{scene.theirs.name}",
        f"data-v-x-v-{ours}",
        f"data-v-x-v-{ours}--0123456789ab",
    ):
        claim["spec"]["volumeName"] = name
        outcomes.append(answer(refused_by_policy, scene.tenant.create, claim))
    claim["spec"]["volumeName"] = f"data-v-{ours}"
    claim["metadata"]["name"] = "of-ours"
    scene.tenant.create(claim)
    scene.tenant.delete(path_of(claim))
    claim["metadata"]["name"] = "unbound"  # the other one is removed once nothing uses it
    del claim["spec"]["volumeName"]
    path = path_of(scene.tenant.create(claim))
    change = {"spec": {"volumeName": "local-disk"}}
    outcomes.append(answer(refused_by_policy, scene.tenant.patch, path, change))
    scene.tenant.delete(path)
    return all_alike(outcomes)


def _volume_by_controller(scene: Scene) -> str:
    """Have Kubernetes make a claim on a volume of the host: by a StatefulSet, and for a pod."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": "local-disk",
    }
    maker = objects.stateful_set(scene.home, "claims")
    maker["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    maker["spec"]["template"]["spec"]["nodeSelector"] = scene.mine.selector
    ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    bare = pod(scene.home, "claims", nodeSelector=scene.mine.selector, volumes=[ephemeral])
    for made in (maker, bare):
        scene.tenant.create(made)
        try:
            eventually(_is_refused_by, scene, "claims", "volume-node")
        finally:
            scene.tenant.delete(path_of(made))
    found = scene.lab.host.list(collection("v1", "PersistentVolumeClaim", scene.home))
    assert not [claim for claim in found if claim["spec"].get("volumeName") == "local-disk"]
    return "no claim; an event names `volume-node`"


def _is_refused_by(scene: Scene, name: str, policy: str) -> None:
    found = scene.lab.host.list(collection("v1", "Event", scene.home))
    about = [each for each in found if each["involvedObject"]["name"] == name]
    assert any(f"'{policy}." in each["message"] for each in about), about


def _token_by_secret(scene: Scene) -> str:
    metadata = {
        "name": "token",
        "namespace": scene.home,
        "annotations": {"kubernetes.io/service-account.name": "default"},
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    secret["type"] = "kubernetes.io/service-account-token"
    return answer(refused_by_policy, scene.tenant.create, secret)


def _operator(scene: Scene) -> str:
    makers = (
        objects.deployment(scene.home, "operated") | {"kind": "ReplicaSet"},
        objects.stateful_set(scene.home, "operated"),
        objects.daemon_set(scene.home, "operated"),
        objects.job(scene.home, "operated"),
    )
    for maker in makers:
        scene.lab.host.create(maker)
        eventually(_is_placed if scene.places else _has_been_reported, scene, maker)
        scene.lab.host.delete(path_of(maker))
    if scene.places:
        return _PLACED
    return "no pod; an event tells it which nodeSelector to add"


def _has_been_reported(scene: Scene, maker: Object) -> None:
    path = collection("v1", "Event", scene.home)
    messages = [
        event["message"]
        for event in scene.lab.host.list(path)
        if event["reason"] == "FailedCreate" and event["involvedObject"]["kind"] == maker["kind"]
    ]
    assert any(f"{ADVICE} {scene.lab.label}=a" in message for message in messages), messages
    pods = [found["metadata"]["name"] for found in scene.lab.pods(scene.home)]
    assert not [name for name in pods if name.startswith("operated")]


def _is_placed(scene: Scene, maker: Object) -> None:
    pods = [
        pod
        for pod in scene.lab.pods(scene.home)
        if pod["metadata"]["name"].startswith("operated")
        and pod["metadata"]["ownerReferences"][0]["kind"] == maker["kind"]
    ]
    assert pods, maker["kind"]
    own = scene.mine.selector.items()
    assert all(own <= pod["spec"]["nodeSelector"].items() for pod in pods)


# --- rights -----------------------------------------------------------------------------


def _forbidden(*acts: Callable[[Scene], object]) -> Callable[[Scene], str]:
    def act(scene: Scene) -> str:
        return all_alike(answer(refused_by_rbac, one, scene) for one in acts)

    return act


def _list_foreign(kind: str) -> Callable[[Scene], object]:
    def act(scene: Scene) -> object:
        return scene.tenant.get(collection("v1", kind, scene.theirs.host_namespace("default")))

    return act


def _pod_elsewhere(scene: Scene) -> object:
    foreign = scene.theirs.host_namespace("default")
    return scene.tenant.create(pod(foreign, "escape", nodeSelector=scene.theirs.selector))


def _pod_in_kube_system(scene: Scene) -> object:
    return scene.tenant.create(pod("kube-system", f"{scene.lab.id}-escape"))


def _become_administrator(scene: Scene) -> object:
    binding = accounts.cluster_role_binding("cluster-admin", accounts.subject(scene.home, "tenant"))
    binding["metadata"]["name"] = f"{scene.lab.id}-escape"
    return scene.tenant.create(binding)


def _webhook(scene: Scene) -> object:
    return scene.tenant.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": f"{scene.lab.id}-escape"},
            "webhooks": [],
        }
    )


def _weaken_policy(scene: Scene) -> object:
    path = f"{_POLICIES}/pod-placement.{scene.lab.id}.{DOMAIN}"
    return scene.tenant.patch(path, {"spec": {"failurePolicy": "Ignore"}})


def _take_node(scene: Scene) -> object:
    return scene.tenant.patch(
        f"{NODES}/{scene.theirs.nodes[0]}", {"metadata": {"labels": scene.mine.selector}}
    )


_MANY_LABELS = {f"k{number}": "v" for number in range(2000)}
"""The agent would keep them in memory for each pod."""
_BY_PLACEMENT = "refused (422) by `pod-placement`"
_NO_RIGHT = "forbidden (403), no right"

ATTEMPTS = (
    Attempt(
        "Host: a pod that selects no nodes, or others",
        _BY_PLACEMENT,
        lambda scene: all_alike((_pod()(scene), _pod(nodeSelector={"disk": "ssd"})(scene))),
        placed=_PLACED,
    ),
    Attempt(
        "Host: a pod with `nodeName` of a foreign node", _BY_PLACEMENT, _pod(nodeName="{foreign}")
    ),
    Attempt(
        "Host: the same with the own selector",
        _BY_PLACEMENT,
        _pod(nodeName="{foreign}", nodeSelector="{own}"),
    ),
    Attempt(
        "Host: a pod that selects its nodes by thousands of labels",
        _BY_PLACEMENT,
        lambda scene: _pod(nodeSelector=_MANY_LABELS | scene.mine.selector)(scene),
    ),
    Attempt(
        "Host: a pod with affinity to a foreign node and all tolerations",
        _BY_PLACEMENT,
        _pod_by_affinity,
        placed=_PLACED,
    ),
    Attempt(
        "Host: ReplicaSet, StatefulSet, DaemonSet, Job of an operator, no nodes selected",
        "no pod; an event tells it which nodeSelector to add",
        _operator,
        placed=_PLACED,
    ),
    Attempt(
        "Tenant: binds its pod to a foreign node (`pods/binding`)",
        "refused (422) by `pod-binding`",
        _bind,
    ),
    Attempt(
        "Tenant: has room kept for its pod on a foreign node (`nominatedNodeName`)",
        "refused (422) by `pod-binding`",
        _nominates,
    ),
    Attempt(
        "Tenant: a pod with priority `system-node-critical`",
        "refused (422) by `pod-limits`",
        _pod(nodeSelector="{own}", priorityClassName="system-node-critical"),
    ),
    Attempt(
        "Tenant: a pod that no pod of others may run beside (anti-affinity)",
        "refused (422) by `pod-limits`",
        _blocks_others,
    ),
    Attempt(
        "Tenant: chooses the node of a volume (`selected-node`)",
        "refused (422) by `volume-node`",
        _chooses_node_of_volume,
    ),
    Attempt(
        "Tenant: writes `vc-*` objects, or takes the agent's rights in its namespace",
        "refused (422) by `own-objects`",
        _takes_own_objects,
    ),
    Attempt(
        "Tenant: deletes them as a collection, by field selector",
        "refused (422) by `own-objects`",
        _takes_many_own_objects,
    ),
    Attempt(
        "Tenant: writes the status of its quota, so that nothing is used",
        "refused (422) by `own-objects`",
        _frees_its_quota,
    ),
    Attempt(
        "Tenant: a Service with `externalIPs`",
        "refused (422) by `shared-proxies`",
        _external_ip,
    ),
    Attempt(
        "Tenant: an Ingress that writes the proxy's configuration, or names Secrets of others",
        "refused (422) by `shared-proxies`",
        _proxy,
    ),
    Attempt(
        "Tenant: an account, a token or a binding in the namespace of the agent's accounts "
        "(`vc-system`)",
        "refused (422) by `anchor-objects`",
        _account_in_the_anchor,
    ),
    Attempt(
        "Host: a node labels itself into another branch",
        "refused (422) by `group-labels`",
        _node_labels_itself,
    ),
    Attempt(
        "Host: a node chooses its addresses of pods (`podCIDR`), also as it registers",
        "refused (422) by `group-labels`",
        _node_chooses_pod_cidr,
    ),
    Attempt(
        "Host: a node takes the machine (`providerID`), the host name or the network of another",
        "refused (422) by `group-labels`",
        _node_becomes_another,
    ),
    Attempt(
        "Host: a node publishes devices in the pool of another node",
        "refused (422) by `node-devices`",
        _node_publishes_devices,
    ),
    Attempt(
        "Tenant: a claim on a volume of the host, or of another branch (`volumeName`)",
        "refused (422) by `volume-node`",
        _volume_of_another,
    ),
    Attempt(
        "Tenant: a StatefulSet or a pod with a claim on a volume of the host",
        "no claim; an event names `volume-node`",
        _volume_by_controller,
    ),
    Attempt(
        "Tenant: a Secret that Kubernetes fills with a token",
        "refused (422) by `account-tokens`",
        _token_by_secret,
    ),
    Attempt(
        "Host: a node makes a mirror pod in the namespace of the agent",
        "refused (422) by `node-pods`",
        _node_makes_endpoints,
    ),
    Attempt(
        "Host: a node makes a mirror pod with labels of a Service in `kube-system`",
        "refused (422) by `node-pods`",
        _static_pods,
    ),
    Attempt(
        "Host: a node makes a mirror pod by the name of a pod of the host",
        "refused (422) by `node-pods`",
        _takes_name_of_pod,
    ),
    Attempt(
        "Host: a node reports on a pod of another branch",
        "refused (422) by `node-events`",
        _node_reports,
    ),
    Attempt(
        "Host: a node labels another Node, or its own by `node-restriction.kubernetes.io/`",
        "forbidden (403) by NodeRestriction",
        _node_restricted,
    ),
    Attempt(
        "Host: a node writes the Lease or CSINode of another node",
        _NO_RIGHT,
        _node_writes_of_others,
    ),
    Attempt(
        "Tenant: reads Secrets or pods of another branch",
        _NO_RIGHT,
        _forbidden(_list_foreign("Secret"), _list_foreign("Pod")),
    ),
    Attempt(
        "Tenant: a pod in a namespace of another branch, or in `kube-system`",
        _NO_RIGHT,
        _forbidden(_pod_elsewhere, _pod_in_kube_system),
    ),
    Attempt(
        "Tenant: ClusterRoleBinding to `cluster-admin`, webhook configuration, weaker policy, "
        "label of a foreign Node",
        _NO_RIGHT,
        _forbidden(_become_administrator, _webhook, _weaken_policy, _take_node),
    ),
)
