"""A virtual cluster as users of Karmada see it: through its aggregated API and the gateway."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from control_planes.directory import Directory
from e2e.lab import objects
from e2e.lab.api import Api, ApiError, Object
from e2e.lab.gateway import Gateway, Way
from e2e.lab.karmadactl import User
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import GONE_S, PERIODIC_S, within
from karmada_vc_agent.features.gateway.tokens import sums_of

RBAC = "rbac.authorization.k8s.io"
TOKENS = "/api/v1/namespaces/karmada-cluster/secrets"
MARK = "virtualcluster.kubeedge.io/gateway"


class Scene:
    """Two virtual clusters with a Deployment of the same name in each, and a user of the hub."""

    def __init__(self, lab: Lab, way: Way, user: User) -> None:
        self.lab, self.user = lab, user
        self.a, self.b = lab.group("a"), lab.group("b")
        self.gateway = Gateway(lab, way)
        self.agent = lab.new_agent(self.a, self.b, gateway=self.gateway.settings).start()
        lab.wait_serving(self.agent)
        self.namespace = lab.namespace()
        self.template = objects.deployment(self.namespace, "web")
        lab.propagate([self.template], self.a, self.b)
        for group in (self.a, self.b):
            lab.on_host(self.template, group)

    def serve(self) -> "Scene":
        """Start the gateway, unless it runs, and wait until both Clusters have their endpoint."""
        self.gateway.start(self.agent)
        for group in (self.a, self.b):
            self.published(group)
        return self

    def close(self) -> None:
        self.gateway.stop()

    def published(self, group: Group) -> Object:
        """Wait until a Cluster has its endpoint; return its spec."""

        def look() -> Object:
            spec: Object = self.lab.cluster(group.name)["spec"]
            assert spec.get("apiEndpoint"), f"{spec}\n{self.gateway.log_tail()}"
            return spec

        return within(PERIODIC_S, look)

    def pod(self, group: Group) -> str:
        """Return the name of a pod of a virtual cluster."""
        pods = within(PERIODIC_S, self._pods, group)
        return str(pods[0]["metadata"]["name"])

    def _pods(self, group: Group) -> list[Object]:
        pods = self.lab.pods(group.host_namespace(self.namespace))
        assert pods
        return pods


@pytest.fixture(name="way", params=["direct", "proxy"])
def reach(request: pytest.FixtureRequest, hub: Api) -> Way:
    """How the hub connects: by the proxy only where hack/control-planes up --access runs it."""
    planes = Path(hub.kubeconfig).parent
    if not Directory(planes).is_ours:
        pytest.skip("only a hub of hack/control-planes reaches this machine's loopback")
    try:
        return Way(planes, by_proxy=request.param == "proxy")
    except FileNotFoundError:
        pytest.skip(f"no apiserver-network-proxy: {planes} was not started with --access")


@pytest.fixture(name="new_scene", scope="module")
def set_up(request: pytest.FixtureRequest) -> Callable[[Lab, Way], Scene]:
    """Return what makes a scene, its gateway not yet started."""
    program = request.config.getoption("--kubectl-karmada")

    def make(lab: Lab, way: Way) -> Scene:
        home = lab.directory / "home"
        home.mkdir()
        return Scene(lab, way, User(lab.hub.kubeconfig, home, program))

    return make


@pytest.fixture(name="served_scenes", scope="module")
def keep() -> Iterator[tuple[ExitStack, dict[str, Scene]]]:
    """Return the scenes that tests share, by the URL of the proxy.

    Gateways outlive the labs: what Karmada still asks a Cluster that goes has an answer.
    """
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture(name="scene")
def play(
    way: Way,
    served_scenes: tuple[ExitStack, dict[str, Scene]],
    new_scene: Callable[[Lab, Way], Scene],
    new_lab: Callable[[], Lab],
) -> Scene:
    """Return a scene that is served: one for each way, which tests only add to."""
    stack, scenes = served_scenes
    if way.proxy_url not in scenes:
        scenes[way.proxy_url] = stack.enter_context(closing(new_scene(new_lab(), way)))
    return scenes[way.proxy_url].serve()


@pytest.fixture(name="own_scene")
def play_alone(
    way: Way,
    served_scenes: tuple[ExitStack, dict[str, Scene]],
    new_scene: Callable[[Lab, Way], Scene],
    lab: Lab,
) -> Scene:
    """Return a scene of one test, for what changes it."""
    stack, _ = served_scenes
    return stack.enter_context(closing(new_scene(lab, way)))


def test_endpoint_is_published_once_the_gateway_answers(own_scene: Scene) -> None:
    scene, lab, name = own_scene, own_scene.lab, own_scene.a.name
    before = lab.cluster(name)
    assert before["spec"]["impersonatorSecretRef"]["name"] == f"{name}-impersonator"
    assert not {"apiEndpoint", "secretRef", "proxyURL"} & set(before["spec"])
    impersonator = within(
        PERIODIC_S, lab.host.get, f"/apis/{RBAC}/v1/clusterroles/karmada-impersonator-v-{name}"
    )
    assert impersonator["rules"], "Karmada sent its rules when the Cluster was created"
    scene.serve()
    spec = scene.published(scene.a)
    assert spec["apiEndpoint"] == scene.gateway.endpoint(name)
    assert spec["secretRef"] == {"namespace": "karmada-cluster", "name": name}
    assert spec.get("proxyURL", "") == scene.gateway.settings.get("proxyURL", "")


@pytest.mark.smoke
def test_each_user_sees_the_pod_of_its_virtual_cluster(scene: Scene) -> None:
    for group, other in ((scene.a, scene.b), (scene.b, scene.a)):
        told = scene.user.karmada(
            "get", "pods", "-n", scene.namespace, "-C", group.name, "--operation-scope=members"
        )
        assert scene.pod(group) in told
        assert scene.pod(other) not in told
        wide = scene.user.karmada("get", "pods", "-A", "-C", group.name, "--operation-scope=all")
        assert scene.pod(group) in wide
        assert scene.pod(other) not in wide
        assert "-v-" not in wide


def test_object_has_the_names_of_the_hub(scene: Scene) -> None:
    path = f"apis/apps/v1/namespaces/{scene.namespace}/deployments/web"
    found = json.loads(scene.user.raw(scene.a.name, path))
    assert found["metadata"]["namespace"] == scene.namespace
    nodes = json.loads(scene.user.raw(scene.a.name, "api/v1/nodes"))
    assert [node["metadata"]["name"] for node in nodes["items"]] == scene.a.nodes


def test_namespaces_are_those_that_are_claimed(scene: Scene) -> None:
    selector = f"virtualcluster.kubeedge.io/cluster={scene.a.name}"
    anchor = scene.a.host_namespace("vc-system")

    def look() -> None:
        """Compare: the hub sends namespaces of other tests to all Clusters while this runs."""
        spaces = json.loads(scene.user.raw(scene.a.name, "api/v1/namespaces"))
        claimed = {
            each["metadata"]["name"] for each in scene.lab.host.list("/api/v1/namespaces", selector)
        }
        names = {space["metadata"]["name"] for space in spaces["items"]}
        assert {"default", "kube-system", scene.namespace} <= names
        shown = {scene.a.host_namespace(name) for name in names - {"kube-system"}}
        assert shown | {anchor} == claimed

    within(PERIODIC_S, look)


def test_any_cluster_finds_the_one_with_the_pod(scene: Scene) -> None:
    for group in (scene.a, scene.b):
        path = f"api/v1/namespaces/{scene.namespace}/pods/{scene.pod(group)}"
        found = json.loads(scene.user.raw("*", path))
        assert found["metadata"]["name"] == scene.pod(group)
        assert found["metadata"]["namespace"] == scene.namespace


def test_masters_of_the_hub_write_in_the_virtual_cluster_only(scene: Scene) -> None:
    node = scene.a.nodes[0]
    server = scene.lab.hub.server
    told = scene.user.kubectl(server, scene.a.name, "label", "node", node, "taken=yes", fails=True)
    assert "orbidden" in told
    assert "vc:" not in told
    create = ("create", "configmap", "by-hand", "-n", scene.namespace, "--from-literal=a=b")
    scene.user.kubectl(server, scene.a.name, *create)
    host = scene.a.host_namespace(scene.namespace)
    assert scene.lab.host.get(f"/api/v1/namespaces/{host}/configmaps/by-hand")["data"] == {"a": "b"}


def test_user_of_one_virtual_cluster_is_no_one_in_another(scene: Scene) -> None:
    lab, user = scene.lab, f"{scene.lab.id}-alice"
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{lab.id}-proxy"},
        "rules": [
            {
                "apiGroups": ["cluster.karmada.io"],
                "resources": ["clusters/proxy"],
                "resourceNames": [scene.a.name, scene.b.name],
                "verbs": ["*"],
            }
        ],
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{lab.id}-proxy"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{lab.id}-proxy"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    reader = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "alice", "namespace": scene.namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    lab.hub.create(role)
    lab.hub.create(binding)
    try:
        lab.propagate([reader], scene.a)
        lab.on_host(reader, scene.a)
        path = f"api/v1/namespaces/{scene.namespace}/pods"
        as_alice = lab.hub.acting_as(user)

        def look() -> Object:
            return as_alice.get(f"{CLUSTERS}/{scene.a.name}/proxy/{path}")

        assert within(PERIODIC_S, look)["items"]
        told = within(PERIODIC_S, _refusal, as_alice, f"{CLUSTERS}/{scene.b.name}/proxy/{path}")
        assert "vc:" not in told
        assert "-v-" not in told
    finally:
        lab.hub.delete(f"/apis/{RBAC}/v1/clusterrolebindings/{lab.id}-proxy")
        lab.hub.delete(f"/apis/{RBAC}/v1/clusterroles/{lab.id}-proxy")


def _refusal(user: Api, path: str) -> str:
    """Return how the host refuses a list; until Karmada may impersonate there, it says that."""
    with pytest.raises(ApiError) as refused:
        user.get(path)
    text = str(refused.value)
    assert "cannot list resource" in text
    return text


def test_tokens_are_on_the_hub_and_their_sums_on_the_host(scene: Scene) -> None:
    lab = scene.lab
    path = f"/api/v1/namespaces/{scene.agent.namespace}/secrets/{scene.agent.name}-gateway"
    sums = [each for each in sums_of(lab.host.get(path)) if each.cluster == scene.a.name]
    assert {each.kind for each in sums} == {"access", "impersonator"}
    labels = lab.hub.get(f"{TOKENS}/{scene.a.name}")["metadata"]["labels"]
    assert labels["karmada.io/system"] == "true"


def test_gateway_that_is_turned_off_leaves_nothing(own_scene: Scene) -> None:
    scene, lab, name = own_scene.serve(), own_scene.lab, own_scene.a.name
    scene.agent.terminate()
    scene.gateway.stop()
    scene.agent.settings["gateway"] = {"enabled": False}
    scene.agent.start()

    def look() -> None:
        for group in (scene.a, scene.b):
            assert lab.hub.find(f"{TOKENS}/{group.name}") is None
            assert lab.hub.find(f"{TOKENS}/{group.name}-impersonator") is None
        cluster = lab.cluster(name)
        fields = {"apiEndpoint", "secretRef", "proxyURL", "impersonatorSecretRef"}
        assert not fields & set(cluster["spec"])
        assert MARK not in cluster["metadata"].get("annotations", {})
        assert lab.host.find(f"/api/v1/namespaces/{scene.a.host_namespace('vc-system')}") is None
        space = scene.a.host_namespace("default")
        bindings = lab.host.list(f"/apis/{RBAC}/v1/namespaces/{space}/rolebindings")
        assert not {"vc:admin", "vc:gateway"} & {each["metadata"]["name"] for each in bindings}

    within(GONE_S, look)
    assert (
        lab.host.find(f"/apis/{RBAC}/v1/clusterroles/vc-agent:{scene.agent.name}:gateway") is None
    )
    assert lab.host.find(f"/apis/{RBAC}/v1/clusterroles/vc:gateway-v-{name}") is None
