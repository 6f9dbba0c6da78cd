"""Kinds of the core and their neighbours that have no pods."""

import base64

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case, propagated, reported, written
from e2e.differential.scene import Play, Scene
from e2e.lab import objects
from e2e.lab.api import Object

_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_DOCKER = '{"auths":{"registry.example":{"auth":"YTpi"}}}'


# --- ConfigMap, Secret ----------------------------------------------------------------------

propagated("config-map", shapes.config_map)
written(
    "config-map-binary",
    lambda scene: shapes.manifest(
        scene, "v1", "ConfigMap", binaryData={"blob": base64.b64encode(b"\0\xff").decode()}
    ),
)
written("config-map-empty", lambda scene: shapes.manifest(scene, "v1", "ConfigMap"))
written("secret-opaque", shapes.secret)
written(
    "secret-of-registry",
    lambda scene: shapes.secret(
        scene, "kubernetes.io/dockerconfigjson", **{".dockerconfigjson": _DOCKER}
    ),
)
written(
    "secret-of-basic-auth",
    lambda scene: shapes.secret(scene, "kubernetes.io/basic-auth", username="u", password="p"),
)
written(
    "secret-of-ssh",
    lambda scene: shapes.secret(scene, "kubernetes.io/ssh-auth", **{"ssh-privatekey": "k"}),
)


@case
def config_map_updated(scene: Scene) -> Play:
    template = shapes.config_map(scene, one="1", two="2")
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"data": {"one": None, "three": "3"}})
    yield scene.on_host(template, lambda live: live["data"] == {"two": "2", "three": "3"})


@case
def config_map_changed_on_host(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    scene.propagate(template)
    yield scene.applied(template)
    scene.patch_host(template, {"data": {"key": "other", "more": "x"}})
    yield scene.on_host(template, lambda live: live["data"] == {"key": "value"})


@case
def config_map_immutable(scene: Scene) -> Play:
    """An update that the host refuses, after one that it took."""
    manifest = shapes.config_map(scene) | {"immutable": True}
    work = scene.work(manifest)
    yield scene.work_applied(work)
    changed = scene.lane.hub.get(scene.path(work))["spec"]["workload"]["manifests"][0]
    changed["data"] = {"key": "other"}
    scene.update(work, {"spec": {"workload": {"manifests": [changed]}}})
    yield scene.work_applied(work, "False")


@case
def config_map_template_deleted(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    scene.propagate(template)
    yield scene.applied(template)
    scene.remove(template)
    yield scene.not_on_host(template)


def _account_token(scene: Scene) -> tuple[Object, Object]:
    annotations = {"kubernetes.io/service-account.name": scene.name}
    secret = shapes.manifest(scene, "v1", "Secret", type=_ACCOUNT_TOKEN)
    secret["metadata"]["annotations"] = annotations
    return shapes.service_account(scene), secret


@case
def secret_of_account(scene: Scene) -> Play:
    """The token that the host made is retained through an update."""
    account, secret = _account_token(scene)
    scene.propagate(account)
    yield scene.applied(account)
    work = scene.work(secret)
    yield scene.on_host(secret, lambda live: "token" in (live.get("data") or {}))
    changed = scene.lane.hub.get(scene.path(work))["spec"]["workload"]["manifests"][0]
    changed["metadata"]["labels"]["stage"] = "two"
    scene.update(work, {"spec": {"workload": {"manifests": [changed]}}})
    yield scene.on_host(secret, lambda live: live["metadata"]["labels"].get("stage") == "two")
    found = scene.lane.find_on_host(secret)
    assert found is not None
    assert "token" in found["data"], "the token is lost"


# --- ServiceAccount, RBAC -------------------------------------------------------------------

propagated("service-account", shapes.service_account)
written("role", shapes.role)


@case
def service_account_secrets_retained(scene: Scene) -> Play:
    template = shapes.service_account(
        scene, secrets=[{"name": "mine"}], imagePullSecrets=[{"name": "pull"}]
    )
    scene.propagate(template)
    yield scene.applied(template)
    names = [{"name": "mine"}, {"name": "theirs"}]
    scene.patch_host(template, {"secrets": names, "imagePullSecrets": [{"name": "other"}]})
    yield scene.on_host(template, lambda live: len(live["imagePullSecrets"]) == 2)
    yield scene.on_host(template, lambda live: len(live["secrets"]) == 2)


@case
def role_binding_to_account(scene: Scene) -> Play:
    subject = {"kind": "ServiceAccount", "name": "app", "namespace": scene.namespace}
    yield from _role_binding(scene, subject)


@case
def role_binding_to_user(scene: Scene) -> Play:
    subject = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    yield from _role_binding(scene, subject)


def _role_binding(scene: Scene, subject: Object) -> Play:
    template = shapes.manifest(
        scene,
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        subjects=[subject],
        roleRef={"kind": "Role", "name": scene.name, "apiGroup": "rbac.authorization.k8s.io"},
    )
    scene.propagate(template)
    yield scene.applied(template)


# --- storage, limits, budgets ----------------------------------------------------------------

propagated("volume-claim-pending", shapes.volume_claim)
reported("volume-claim-bound", shapes.volume_claim, phase="Bound", capacity={"storage": "1Gi"})
reported("volume-claim-lost", shapes.volume_claim, phase="Lost")


@case
def volume_claim_volume_retained(scene: Scene) -> Play:
    template = shapes.volume_claim(scene)
    scene.propagate(template)
    yield scene.applied(template)
    scene.patch_host(template, {"spec": {"volumeName": "bound-by-hand"}})
    yield scene.on_host(template, lambda live: live["spec"].get("volumeName") == "bound-by-hand")
    scene.update(template, {"metadata": {"labels": {"stage": "two"}}})
    yield scene.on_host(
        template, lambda live: (live["metadata"].get("labels") or {}).get("stage") == "two"
    )


def _limit_range(scene: Scene) -> Object:
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "10Ti"}}
    return shapes.manifest(scene, "v1", "LimitRange", spec={"limits": [limit]})


def _quota(scene: Scene) -> Object:
    return shapes.manifest(scene, "v1", "ResourceQuota", spec={"hard": {"count/leases": "500"}})


def _lease(scene: Scene) -> Object:
    return shapes.manifest(
        scene, "coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "somebody"}
    )


written("limit-range", _limit_range)
propagated("resource-quota", _quota)
written("lease", _lease)
propagated("disruption-budget", shapes.disruption_budget)
propagated("autoscaler", shapes.autoscaler)
reported("autoscaler-active", shapes.autoscaler, currentReplicas=2, desiredReplicas=3)
written(
    "controller-revision",
    lambda scene: shapes.manifest(
        scene, "apps/v1", "ControllerRevision", revision=1, data={"any": "thing"}
    ),
)
written(
    "pod-template",
    lambda scene: shapes.manifest(
        scene, "v1", "PodTemplate", template=objects.pod_template(scene.name)
    ),
)
written(
    "replication-controller",
    lambda scene: shapes.manifest(
        scene,
        "v1",
        "ReplicationController",
        spec={
            "replicas": 0,
            "selector": {"app": scene.name},
            "template": objects.pod_template(scene.name),
        },
    ),
)


@case
def federated_quota(scene: Scene) -> Play:
    assignment = {"clusterName": scene.lane.cluster, "hard": {"count/jobs.batch": "400"}}
    quota = shapes.manifest(
        scene,
        "policy.karmada.io/v1alpha1",
        "FederatedResourceQuota",
        spec={"overall": {"count/jobs.batch": "400"}, "staticAssignments": [assignment]},
    )
    scene.lane.hub.create(quota)
    written_quota = {**quota, "apiVersion": "v1", "kind": "ResourceQuota"}
    scene.compare(written_quota)
    yield scene.applied(written_quota)
    yield scene.reported(written_quota, lambda entry: bool(entry["status"].get("hard")))
