"""What clients of the host may try: tenants with rights in a namespace, operators, others."""

import copy
from collections.abc import Callable

from e2e.escapes.attempt import (
    DOMAIN,
    SELECTOR,
    Attempt,
    Scene,
    all_alike,
    answer,
    refused_by_policy,
    refused_by_rbac,
    unchanged,
)
from e2e.escapes.by_work import NAMESPACES, on_node, pod
from e2e.lab import accounts, objects
from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.lab import AGENT_LABEL, NODES
from e2e.lab.wait import eventually, within

REPORTED_S = 6.0
"""5 s as promised, and one more, for events tell whole seconds."""
ADVICE = "pod must select the nodes of its virtual cluster: add nodeSelector"
_POLICIES = collection("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")


# --- pods -------------------------------------------------------------------------------


def _pod(**spec: object) -> Callable[[Scene], str]:
    """Try a pod; `{foreign}` stands for a node of another branch, `{own}` for the own selector."""

    def act(scene: Scene) -> str:
        values = {"{foreign}": scene.theirs.nodes[0], "{own}": scene.mine.selector}
        filled = {key: values.get(str(value), value) for key, value in spec.items()}
        return answer(refused_by_policy, scene.tenant.create, pod(scene.home, "escape", **filled))

    return act


def _pod_by_affinity(scene: Scene) -> str:
    affinity = on_node(scene.theirs.nodes[0])
    return _pod(affinity=affinity, tolerations=[{"operator": "Exists"}])(scene)


def _bind(scene: Scene) -> str:
    own = pod(scene.home, "bound", nodeSelector=scene.mine.selector, schedulerName="nobody")
    made = scene.tenant.create(own)
    target = {"apiVersion": "v1", "kind": "Node", "name": scene.theirs.nodes[0]}
    metadata = {key: made["metadata"][key] for key in ("name", "namespace")}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    scene.tenant.post(f"{path_of(made)}/binding", binding)

    def look() -> None:
        events = scene.lab.hub.list(collection("v1", "Event", "default"))
        assert [
            event
            for event in events
            if event["reason"] == "PodEscaped"
            and event["involvedObject"]["name"] == scene.mine.name
            and "default/bound" in event["message"]
        ]

    within(REPORTED_S, look)
    scene.tenant.delete(path_of(made), force=True)
    return "bound, and reported within 5 s: `PodEscaped`"


def _operator(scene: Scene) -> str:
    makers = (
        objects.deployment(scene.home, "operated") | {"kind": "ReplicaSet"},
        objects.stateful_set(scene.home, "operated"),
        objects.daemon_set(scene.home, "operated"),
        objects.job(scene.home, "operated"),
    )
    for maker in makers:
        scene.lab.host.create(maker)
        eventually(_is_told, scene, maker)
        scene.lab.host.delete(path_of(maker))
    return "no pod; an event tells it which nodeSelector to add"


def _is_told(scene: Scene, maker: Object) -> None:
    path = collection("v1", "Event", scene.home)
    messages = [
        event["message"]
        for event in scene.lab.host.list(path)
        if event["reason"] == "FailedCreate" and event["involvedObject"]["kind"] == maker["kind"]
    ]
    assert any(f"{ADVICE} {scene.lab.label}=a" in message for message in messages), messages
    pods = [found["metadata"]["name"] for found in scene.lab.pods(scene.home)]
    assert not [name for name in pods if name.startswith("operated")]


# --- claims -----------------------------------------------------------------------------


def _metadata(**metadata: object) -> Callable[[Api, str, Object], object]:
    return lambda tenant, path, _: tenant.patch(path, {"metadata": metadata})


def _through(subresource: str) -> Callable[[Api, str, Object], object]:
    def act(tenant: Api, path: str, live: Object) -> object:
        live["metadata"]["labels"][f"{DOMAIN}/cluster"] = "another"
        return tenant.replace(f"{path}/{subresource}", live)

    return act


def _claim(*acts: Callable[[Api, str, Object], object]) -> Callable[[Scene], str]:
    """Try changes of the tenant's own Namespace: for RBAC it lies in itself."""

    def act(scene: Scene) -> str:
        path = f"{NAMESPACES}/{scene.home}"
        live = scene.lab.host.get(path)
        with unchanged(scene.lab.host, path):
            return all_alike(
                answer(refused_by_policy, one, scene.tenant, path, copy.deepcopy(live))
                for one in acts
            )

    return act


def _looks_claimed(scene: Scene) -> str:
    """Make a namespace with a claim, by an account that may make namespaces."""
    name = f"{scene.lab.id}-creator"
    creator = accounts.service_account(scene.lab.host, scene.home, name, scene.lab.directory)
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}
    role = accounts.cluster_role(name, rule)
    binding = accounts.cluster_role_binding(name, accounts.subject(scene.home, name))
    for right in (role, binding):
        scene.lab.host.create(right)
    try:
        eventually(creator.post, f"{NAMESPACES}?dryRun=All", objects.namespace(name))
        claim = {f"{DOMAIN}/cluster": scene.theirs.name, f"{DOMAIN}/namespace": "x"}
        return all_alike(
            answer(refused_by_policy, creator.create, _labelled(name, labels))
            for labels in (claim, claim | {AGENT_LABEL: scene.lab.id})
        )
    finally:
        for right in (binding, role):
            scene.lab.host.delete(path_of(right))


def _labelled(name: str, labels: dict[str, str]) -> Object:
    made = objects.namespace(name)
    made["metadata"]["labels"] = labels
    return made


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


_BY_PLACEMENT = "refused (422) by `pod-placement`"
_BY_CLAIMS = "refused (422) by `namespace-claims`"
_NO_RIGHT = "forbidden (403), no right"

ATTEMPTS = (
    Attempt(
        "Host: a pod that selects no nodes, or others",
        _BY_PLACEMENT,
        lambda scene: all_alike((_pod()(scene), _pod(nodeSelector={"disk": "ssd"})(scene))),
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
        "Host: a pod with affinity to a foreign node and all tolerations",
        _BY_PLACEMENT,
        _pod_by_affinity,
    ),
    Attempt(
        "Host: ReplicaSet, StatefulSet, DaemonSet, Job of an operator, no nodes selected",
        "no pod; an event tells it which nodeSelector to add",
        _operator,
    ),
    Attempt(
        "Tenant: binds its pod to a foreign node (`pods/binding`)",
        "bound, and reported within 5 s: `PodEscaped`",
        _bind,
    ),
    Attempt(
        "Tenant: gives its Namespace to another branch or agent, or drops the labels",
        _BY_CLAIMS,
        _claim(
            _metadata(labels={f"{DOMAIN}/cluster": "another"}),
            _metadata(labels={AGENT_LABEL: "another"}),
            _metadata(labels=None),
        ),
    ),
    Attempt(
        "Tenant: changes or drops the node selector of its Namespace",
        _BY_CLAIMS,
        _claim(
            _metadata(annotations={SELECTOR: "kubernetes.io/os=linux"}),
            _metadata(annotations={SELECTOR: None}),
        ),
    ),
    Attempt(
        "Tenant: marks its Namespace as adopted, so that it would be kept",
        _BY_CLAIMS,
        _claim(_metadata(annotations={f"{DOMAIN}/adopted": "true"})),
    ),
    Attempt(
        "Tenant: the same through `status` and `finalize`",
        _BY_CLAIMS,
        _claim(_through("status"), _through("finalize")),
    ),
    Attempt(
        "Tenant: deletes its Namespace", _BY_CLAIMS, _claim(lambda api, path, _: api.delete(path))
    ),
    Attempt("Host: makes a namespace that looks claimed", _BY_CLAIMS, _looks_claimed),
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
