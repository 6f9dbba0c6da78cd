"""What a template needs follows it; what an autoscaler decides on the host stays."""

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Lab
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within

RETAIN = "resourcetemplate.karmada.io/retain-replicas"


def test_dependencies_of_pods_follow_their_deployment_and_end_with_it(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    settings = objects.config_map(namespace, "app-settings")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "app-secret", "namespace": namespace},
        "stringData": {"key": "value"},
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "app", "namespace": namespace},
    }
    needed: list[Object] = [settings, secret, account]
    for template in needed:
        lab.hub.create(template)
    deployment = objects.deployment(namespace)
    pod = deployment["spec"]["template"]["spec"]
    pod["serviceAccountName"] = "app"
    sources = [{"configMapRef": {"name": "app-settings"}}, {"secretRef": {"name": "app-secret"}}]
    pod["containers"][0]["envFrom"] = sources
    lab.propagate([deployment], group, propagateDeps=True)
    for template in needed:
        lab.on_host(template, group)
    lab.wait_fully_applied(deployment)

    lab.hub.delete(path_of(deployment))
    for template in (settings, secret):
        wait_until_deleted(lab.host, lab.host_path(template, group))
        assert lab.hub.find(path_of(template)) is not None


def test_replicas_that_an_autoscaler_set_on_the_host_are_kept(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    deployment = objects.deployment(namespace, replicas=1)
    deployment["metadata"]["labels"][RETAIN] = "true"
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "minReplicas": 3,
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        },
    }
    lab.propagate([deployment, autoscaler], group)
    live = lab.on_host(autoscaler, group)
    assert live["spec"]["scaleTargetRef"]["name"] == "web"
    # The host's own autoscaler raises them to its minimum.
    within(BACKED_OFF_S, _assert_replicas, lab, lab.host_path(deployment, group), 3)
    change = {"spec": {"template": {"metadata": {"labels": {"round": "two"}}}}}
    lab.hub.patch(path_of(deployment), change)

    def look() -> None:
        live = lab.host.get(lab.host_path(deployment, group))
        assert live["spec"]["template"]["metadata"]["labels"]["round"] == "two"
        assert live["spec"]["replicas"] == 3

    within(BACKED_OFF_S, look)


def _assert_replicas(lab: Lab, path: str, count: int) -> None:
    assert lab.host.get(path)["spec"]["replicas"] == count
