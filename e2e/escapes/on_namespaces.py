"""What tenants and others may try with a Namespace: for RBAC it lies in itself."""

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
    unchanged,
)
from e2e.escapes.by_work import NAMESPACES
from e2e.lab import accounts, objects
from e2e.lab.api import Api, Object, path_of
from e2e.lab.lab import AGENT_LABEL
from e2e.lab.wait import eventually

_ENFORCE = "pod-security.kubernetes.io/enforce"
_GONE = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}


def _metadata(**metadata: object) -> Callable[[Api, str, Object], object]:
    return lambda tenant, path, _: tenant.patch(path, {"metadata": metadata})


def _through(
    subresource: str, label: str = f"{DOMAIN}/cluster", value: str = "another"
) -> Callable[[Api, str, Object], object]:
    def act(tenant: Api, path: str, live: Object) -> object:
        live["metadata"]["labels"][label] = value
        return tenant.replace(f"{path}/{subresource}", live)

    return act


def _without_its_end(tenant: Api, path: str, live: Object) -> object:
    """Take off what makes Kubernetes remove the objects in it before it goes."""
    return tenant.replace(f"{path}/finalize", {**live, "spec": {}})


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


_BY_CLAIMS = "refused (422) by `namespace-claims`"

ATTEMPTS = (
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
        "Tenant: its Namespace for privileged pods, or out of reach of policy engines and meshes",
        _BY_CLAIMS,
        _claim(
            _metadata(labels={_ENFORCE: "privileged"}),
            _metadata(labels={_ENFORCE: None}),
            _metadata(labels={"admission.gatekeeper.sh/ignore": "x"}),
            _metadata(annotations={"team": "x"}),
            _through("status", _ENFORCE, "privileged"),
            _through("finalize", _ENFORCE, "privileged"),
        ),
    ),
    Attempt(
        "Tenant: a finalizer or an owner of its Namespace, so that it never goes, or at once",
        _BY_CLAIMS,
        _claim(
            _without_its_end,
            _metadata(finalizers=["example.com/never"]),
            _metadata(ownerReferences=[_GONE]),
        ),
    ),
    Attempt(
        "Tenant: deletes its Namespace", _BY_CLAIMS, _claim(lambda api, path, _: api.delete(path))
    ),
    Attempt("Host: makes a namespace that looks claimed", _BY_CLAIMS, _looks_claimed),
)
