"""The Cluster itself and its Lease, with equal nodes and equal pods on both hosts."""

from collections.abc import Callable

from e2e.differential.cases.registry import case
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object
from e2e.lab.cleanup import LEASES
from e2e.lab.lab import CLUSTERS


def _cluster(scene: Scene, test: Callable[[Object], bool]) -> Callable[[], None]:
    def look() -> None:
        found = scene.lane.hub.get(f"{CLUSTERS}/{scene.lane.cluster}")
        assert test(found["status"]), found["status"]

    return look


@case
def cluster_conditions(scene: Scene) -> Play:
    scene.cluster_parts.append("status.conditions")
    yield _cluster(scene, lambda status: len(status["conditions"]) >= 2)


@case
def cluster_version_and_apis(scene: Scene) -> Play:
    scene.cluster_parts += ["status.kubernetesVersion", "status.apiEnablements"]
    yield _cluster(scene, lambda status: bool(status["apiEnablements"]))


@case
def cluster_nodes(scene: Scene) -> Play:
    scene.cluster_parts.append("status.nodeSummary")
    yield _cluster(scene, lambda status: bool(status["nodeSummary"]["readyNum"] == 2))


@case
def cluster_resources(scene: Scene) -> Play:
    scene.cluster_parts += ["spec.resourceModels", "status.resourceSummary"]
    yield _cluster(scene, lambda status: bool(status["resourceSummary"]))


@case
def cluster_rest(scene: Scene) -> Play:
    """Whatever else there may be."""
    scene.cluster_parts += [
        *("metadata.finalizers", "metadata.labels", "metadata.annotations"),
        *("spec.syncMode", "spec.provider", "spec.region", "spec.zones", "spec.taints"),
        *("spec.apiEndpoint", "spec.secretRef", "spec.impersonatorSecretRef"),
        "status.remedyActions",
    ]
    yield _cluster(scene, bool)


@case
def cluster_lease(scene: Scene) -> Play:
    scene.watches_lease = True

    def look() -> None:
        assert scene.lane.hub.get(f"{LEASES}/{scene.lane.cluster}")["spec"]["renewTime"]

    yield look
