"""What Karmada reads of member clusters by itself, of two virtual clusters of one host.

karmada-search, karmada-metrics-adapter and the FederatedHPA controller run in the hub as they are.
The host has a stand-in for a metrics server, since what is simulated by kwok uses nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from control_planes.directory import Directory
from e2e.lab import objects
from e2e.lab.api import Api, Object, path_of
from e2e.lab.gateway import Gateway, Way
from e2e.lab.host_metrics import ROOT, HostMetrics
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import BACKED_OFF_S, THROUGH_HUB_S, within

SEARCH = "/apis/search.karmada.io/v1alpha1"
CACHED_FROM = "resource.karmada.io/cached-from-cluster"
QUERIED_FROM = "resource.karmada.io/query-from-cluster"
CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
NAMESPACE_LABEL = "virtualcluster.kubeedge.io/namespace"
_CACHED = ("api/v1/pods", "api/v1/configmaps", "apis/apps/v1/deployments", "api/v1/events")
LOAD = {"a": 300, "b": 100}
"""Millicores that the pods of a virtual cluster share, however many they are."""
TARGET = 100


class Scene:
    """Two virtual clusters with a Deployment divided over them, and their gateway."""

    def __init__(self, lab: Lab, metrics: HostMetrics) -> None:
        self.lab, self.metrics = lab, metrics
        self.groups = {letter: lab.group(letter) for letter in LOAD}
        self.gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
        agent = lab.serve(*self.groups.values(), gateway=self.gateway.settings)
        self.gateway.start(agent)
        for group in self.groups.values():
            within(THROUGH_HUB_S, self._assert_published, group)
        self.namespace = lab.namespace()
        for letter, group in self.groups.items():
            metrics.load[group.host_namespace(self.namespace)] = LOAD[letter]
        self.template = objects.deployment(self.namespace, "web", 2, cpu="100m")
        lab.propagate([self.template], placement=_divided(*self.groups.values()))
        within(THROUGH_HUB_S, self.assert_pods, 1)

    def _assert_published(self, group: Group) -> None:
        spec = self.lab.cluster(group.name)["spec"]
        assert spec.get("apiEndpoint"), f"{spec}\n{self.gateway.log_tail()}"

    def pods(self, group: Group) -> set[str]:
        """Return the names of the pods that are ready."""
        found = self.lab.pods(group.host_namespace(self.namespace))
        return {each["metadata"]["name"] for each in found if _is_ready(each)}

    def assert_pods(self, count: int) -> None:
        """Each virtual cluster has so many of them."""
        found = {letter: len(self.pods(group)) for letter, group in self.groups.items()}
        assert found == dict.fromkeys(self.groups, count)


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _divided(*groups: Group) -> Object:
    weights = [{"targetCluster": {"clusterNames": [group.name]}, "weight": 1} for group in groups]
    return objects.to_clusters(*(group.name for group in groups)) | {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": weights},
        }
    }


@pytest.fixture(name="scene", scope="module")
def play(hub: Api, host: Api, new_lab: Callable[[], Lab]) -> Iterator[Scene]:
    planes = Path(hub.kubeconfig).parent
    if not Directory(planes).is_ours or not (planes / "access.json").exists():
        pytest.skip("no karmada-search: the hub is not of hack/control-planes up --access")
    lab = new_lab()
    metrics = HostMetrics(host, lab.directory)
    try:
        scene = Scene(lab, metrics)
        yield scene
        scene.gateway.stop()
    finally:
        metrics.close()


def test_what_karmada_reads_by_itself_is_of_each_virtual_cluster_alone(scene: Scene) -> None:
    """One test, since the host has one metrics server: search, then metrics, then FederatedHPA."""
    _search_has_what_is_there(scene)
    _metrics_are_of_each_pod_once(scene)
    _federated_hpa_scales_by_them(scene)


def _search_has_what_is_there(scene: Scene) -> None:
    lab, names = scene.lab, [group.name for group in scene.groups.values()]
    registry: Object = {
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": {"name": lab.id},
        "spec": {
            "targetCluster": {"clusterNames": names},
            "resourceSelectors": [
                {"apiVersion": "v1", "kind": "Pod"},
                {"apiVersion": "v1", "kind": "ConfigMap"},
                {"apiVersion": "apps/v1", "kind": "Deployment"},
                {"apiVersion": "v1", "kind": "Node"},
                {"apiVersion": "v1", "kind": "Event"},
            ],
        },
    }
    path = f"{SEARCH}/resourceregistries"
    lab.hub.post(path, registry)
    try:
        for kinds in _CACHED:
            # Informers that search has for this alone: they begin with backed-off lists.
            within(BACKED_OFF_S, _assert_cached, scene, kinds)
        within(THROUGH_HUB_S, _assert_nodes_cached, scene)
        within(THROUGH_HUB_S, _assert_proxied, scene)
        _assert_written_by_the_proxy(scene)
    finally:
        lab.hub.delete(f"{path}/{lab.id}")


def _assert_cached(scene: Scene, kinds: str) -> None:
    """The cache of search has what the host has in the namespaces of a virtual cluster."""
    cached = scene.lab.hub.get(f"{SEARCH}/search/cache/{kinds}")["items"]
    for group in scene.groups.values():
        spaces = {
            each["metadata"]["name"]: each["metadata"]["labels"][NAMESPACE_LABEL]
            for each in scene.lab.host.list("/api/v1/namespaces", f"{CLUSTER_LABEL}={group.name}")
            if each["metadata"]["labels"][NAMESPACE_LABEL] != "vc-system"
        }
        there = Counter(
            (spaces[each["metadata"]["namespace"]], each["metadata"]["name"])
            for each in scene.lab.host.list(f"/{kinds}")
            if each["metadata"]["namespace"] in spaces
        )
        assert there
        assert _of(cached, group.name) == there


def _of(cached: list[Object], cluster: str) -> Counter[tuple[str, str]]:
    return Counter(
        (each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in cached
        if each["metadata"]["annotations"][CACHED_FROM] == cluster
    )


def _assert_nodes_cached(scene: Scene) -> None:
    cached = scene.lab.hub.get(f"{SEARCH}/search/cache/api/v1/nodes")["items"]
    for group in scene.groups.values():
        assert _of(cached, group.name) == Counter(("", node) for node in group.nodes)


def _proxy(scene: Scene) -> str:
    return f"{SEARCH}/proxying/karmada/proxy/api/v1/namespaces/{scene.namespace}/pods"


def _assert_proxied(scene: Scene) -> None:
    """The proxy of search lists the pods of all, each once."""
    found = scene.lab.hub.get(_proxy(scene))["items"]
    there = [name for group in scene.groups.values() for name in scene.pods(group)]
    assert Counter(each["metadata"]["name"] for each in found) == Counter(there)
    for each in found:
        cluster = each["metadata"]["annotations"][CACHED_FROM]
        (group,) = (group for group in scene.groups.values() if group.name == cluster)
        assert each["metadata"]["name"] in scene.pods(group)


def _assert_written_by_the_proxy(scene: Scene) -> None:
    """What is written through it reaches the pod, in the virtual cluster that has it."""
    group = scene.groups["b"]
    (name,) = scene.pods(group)
    scene.lab.hub.patch(f"{_proxy(scene)}/{name}", {"metadata": {"labels": {"by": "search"}}})
    space = group.host_namespace(scene.namespace)
    pod = scene.lab.host.get(f"/api/v1/namespaces/{space}/pods/{name}")
    assert pod["metadata"]["labels"]["by"] == "search"


def _metrics_are_of_each_pod_once(scene: Scene) -> None:
    within(THROUGH_HUB_S, _assert_pod_metrics, scene)
    within(THROUGH_HUB_S, _assert_node_metrics, scene)


def _assert_node_metrics(scene: Scene) -> None:
    nodes = {
        (each["metadata"]["annotations"][QUERIED_FROM], each["metadata"]["name"]): each["usage"]
        for each in scene.lab.hub.list(f"{ROOT}/nodes")
    }
    for letter, group in scene.groups.items():
        own = {name: usage for (cluster, name), usage in nodes.items() if cluster == group.name}
        assert {name: each["cpu"] for name, each in own.items()} == {
            group.nodes[0]: f"{LOAD[letter]}m"
        }


def _assert_pod_metrics(scene: Scene) -> None:
    found = scene.lab.hub.list(f"{ROOT}/namespaces/{scene.namespace}/pods")
    told = Counter(
        (
            each["metadata"]["annotations"][QUERIED_FROM],
            each["metadata"]["name"],
            each["containers"][0]["usage"]["cpu"],
        )
        for each in found
    )
    assert told == Counter(
        (group.name, name, f"{LOAD[letter]}m")
        for letter, group in scene.groups.items()
        for name in scene.pods(group)
    )


def _federated_hpa_scales_by_them(scene: Scene) -> None:
    """400 millicores by 100 are four replicas; whoever counted pods twice would find others."""
    hpa: Object = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": scene.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "AverageValue", "averageValue": f"{TARGET}m"},
                    },
                }
            ],
        },
    }
    root = f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{scene.namespace}/federatedhpas"
    scene.lab.hub.post(root, hpa)
    replicas = sum(LOAD.values()) // TARGET

    def look() -> None:
        status = scene.lab.hub.get(f"{root}/web").get("status", {})
        seen = (status.get("currentReplicas"), status.get("desiredReplicas"))
        assert seen == (replicas, replicas), status
        (metric,) = status["currentMetrics"]
        assert metric["resource"]["current"]["averageValue"] == f"{TARGET}m"
        assert scene.lab.hub.get(path_of(scene.template))["spec"]["replicas"] == replicas
        scene.assert_pods(replicas // 2)

    within(BACKED_OFF_S, look)  # it looks every 15 s, and once more when it has scaled
    scene.lab.hub.delete(f"{root}/web")
