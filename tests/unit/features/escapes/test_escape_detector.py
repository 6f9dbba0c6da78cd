"""EscapeDetector: who is a suspect, who has escaped, and whom it tells."""

from collections.abc import Callable
from typing import Any

import pytest

from karmada_vc_agent.features.escapes import feature as escapes
from karmada_vc_agent.features.escapes.feature import EscapeDetector, PodKey
from karmada_vc_agent.kube.controller import Enqueues
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION
from tests.fakes import objects
from tests.fakes.served import Served
from tests.fakes.world import World

NAMESPACE = "edge-v-branch-a"
KEY = (NAMESPACE, "web-x")
WORK = "karmada-es-branch-a/web-1"
TEXT = (
    'pod edge/web-x runs on a node outside of virtual cluster "branch-a"; the agent leaves it '
    "alone: delete the pod, or return its node to the group"
)


class Setting:
    """A detector with its world: node n1 is of branch-a, n2 of branch-b."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.suspects: list[PodKey] = []
        self.escaped = world.parts.common.part(EscapeDetector).escapes
        self.detector = world.spec(escapes.setup_detector)
        of_pods, of_nodes, self.of_namespaces, _ = self.detector.sources
        for source in (of_pods, of_nodes):
            assert isinstance(source, Enqueues)
            source.subscribe(self._suspecting(source))

    def _suspecting(self, source: Enqueues[PodKey]) -> Callable[..., None]:
        return lambda *change: self.suspects.extend(source.keys(*change))

    def look(self) -> list[PodKey]:
        """Let the stores tell what changed; return who became a suspect."""
        self.suspects.clear()
        self.world.look()
        return self.suspects

    async def events(self) -> list[tuple[str, str, str]]:
        return await self.world.events()


@pytest.fixture
async def setting(world: World) -> Setting:
    world.register()
    world.hub.seed(objects.work(objects.deployment()))
    world.host.storage.served.append(Served("apps/v1", "replicasets", "ReplicaSet"))
    world.host.seed(
        objects.node("n1", {"branch": "a"}),
        objects.node("n2", {"branch": "b"}),
        objects.namespace("kube-system"),
        objects.claimed(),
    )
    world.look()
    return Setting(world)


def owner(kind: str, name: str, uid: str) -> list[Object]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}
    return [{**reference, "controller": True}]


def seed_owned(world: World, work: str = WORK, **changed: Any) -> None:
    """Put a Deployment of a Work there, its ReplicaSet, and a pod of that on a foreign node."""
    made = objects.deployment(ns=NAMESPACE)
    made["metadata"]["annotations"] = {WORK_ANNOTATION: work}
    deployment = world.host.seed(made)
    metadata: Object = {"name": "web", "namespace": NAMESPACE}
    metadata["ownerReferences"] = owner("Deployment", "web", deployment["metadata"]["uid"])
    replica_set = world.host.seed(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {}}
    )
    pod = objects.pod("web-x", NAMESPACE, "n2")
    uid = changed.get("uid") or replica_set["metadata"]["uid"]
    pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web", uid)
    world.host.seed(pod)


# --- suspects ---------------------------------------------------------------------------


def test_a_pod_on_a_foreign_node_is_a_suspect(setting: Setting) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    assert setting.look() == [KEY]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(objects.pod("web-x", NAMESPACE, "n1"), id="on-its-own-node"),
        pytest.param(objects.pod("web-x", NAMESPACE), id="not-placed-yet"),
        pytest.param(objects.pod("web-x", NAMESPACE, "n2", "Failed"), id="rejected-by-the-kubelet"),
        pytest.param(objects.pod("web-x", "kube-system", "n2"), id="of-no-virtual-cluster"),
    ],
)
def test_others_are_none(setting: Setting, pod: Object) -> None:
    setting.world.host.seed(pod)
    assert setting.look() == []


def test_a_pod_of_another_agent_or_of_a_cluster_that_is_not_served_is_none(
    setting: Setting,
) -> None:
    setting.world.host.seed(
        objects.claimed(host="theirs", agent="another"),
        objects.claimed("branch-z", host="unserved"),
    )
    setting.world.look()
    setting.world.host.seed(
        objects.pod("p", "theirs", "n2"),
        objects.pod("p", "unserved", "n2"),
    )
    assert setting.look() == []


def test_a_change_of_anything_else_is_not_looked_at(setting: Setting) -> None:
    stored = setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    setting.look()
    setting.world.host.seed({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})
    assert setting.look() == []


def test_pods_of_a_node_that_changes_its_group_are_suspects(setting: Setting) -> None:
    setting.world.host.seed(
        objects.pod("web-x", NAMESPACE, "n1"), objects.pod("p", "kube-system", "n1")
    )
    assert setting.look() == []
    setting.world.host.seed(objects.node("n1", {"branch": "b"}))
    assert setting.look() == [KEY]


def test_pods_of_a_node_that_only_reports_are_not_looked_at(setting: Setting) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    setting.look()
    setting.world.host.seed(objects.node("n2", {"branch": "b"}, status="False"))
    assert setting.look() == []


def test_all_pods_are_checked_once_everything_is_synced(setting: Setting) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    setting.look()
    assert list(setting.detector.initial_keys()) == [KEY]


def test_pods_of_an_adopted_namespace_are_looked_at(setting: Setting) -> None:
    setting.world.host.seed(
        objects.namespace("old"), objects.pod("p", "old", "n2"), objects.pod("p", NAMESPACE, "n2")
    )
    setting.look()
    before = setting.world.namespace_store.get("", "old")
    setting.world.host.seed(objects.claimed(virtual="old", host="old"))
    setting.look()
    after = setting.world.namespace_store.get("", "old")
    assert isinstance(setting.of_namespaces, Enqueues)
    assert list(setting.of_namespaces.keys(before, after)) == [("old", "p")]
    assert list(setting.of_namespaces.keys(None, after)) == []
    assert list(setting.of_namespaces.keys(after, after)) == []


# --- reports ----------------------------------------------------------------------------


async def test_work_and_template_of_the_pod_are_reported_with_virtual_names(
    setting: Setting,
) -> None:
    seed_owned(setting.world)
    setting.look()
    await setting.detector.reconcile(KEY)
    told = [("Work", "PodEscaped", TEXT), ("Deployment", "PodEscaped", TEXT)]
    assert await setting.events() == told
    assert [cluster for cluster, _, _ in setting.escaped.values()] == ["branch-a"]


async def test_escape_is_reported_once_for_a_pod_and_its_node(setting: Setting) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    setting.look()
    await setting.detector.reconcile(KEY)
    await setting.detector.reconcile(KEY)
    assert len(await setting.events()) == 1
    setting.world.host.seed(objects.node("n3", {}), objects.pod("web-x", NAMESPACE, "n3"))
    setting.look()
    await setting.detector.reconcile(KEY)
    assert setting.escaped[KEY][2] == "n3"
    assert [cluster for cluster, _, _ in setting.escaped.values()] == ["branch-a"]


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(
            lambda world: world.host.seed(objects.pod("web-x", NAMESPACE, "n2")), id="no-owner"
        ),
        pytest.param(lambda world: seed_owned(world, uid="another"), id="owner-was-replaced"),
        pytest.param(
            lambda world: seed_owned(world, "karmada-es-branch-b/web-1"),
            id="claims-a-work-of-another-cluster",
        ),
        pytest.param(
            lambda world: seed_owned(world, "karmada-es-branch-a/gone"), id="work-is-gone"
        ),
        pytest.param(lambda world: seed_owned(world, "nonsense"), id="no-name-of-a-work"),
    ],
)
async def test_event_is_on_the_cluster_when_there_is_no_work(setting: Setting, seed: Any) -> None:
    seed(setting.world)
    setting.look()
    await setting.detector.reconcile(KEY)
    assert await setting.events() == [("Cluster", "PodEscaped", TEXT)]


async def test_an_owner_that_may_not_be_read_hides_nothing(setting: Setting) -> None:
    seed_owned(setting.world)
    setting.look()
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/web"
    setting.world.host.fail(403, "Forbidden", path=path)
    await setting.detector.reconcile(KEY)
    assert [kind for kind, _, _ in await setting.events()] == ["Cluster"]


async def test_owners_that_own_each_other_come_to_an_end(setting: Setting) -> None:
    seed_owned(setting.world)
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/web"
    live = setting.world.host.live(path)
    uid = live["metadata"]["uid"]
    metadata = {**live["metadata"], "ownerReferences": owner("ReplicaSet", "web", uid)}
    setting.world.host.seed({**live, "metadata": metadata})
    setting.look()
    await setting.detector.reconcile(KEY)
    assert [kind for kind, _, _ in await setting.events()] == ["Cluster"]


async def test_a_pod_that_settled_is_not_reported(setting: Setting) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    setting.look()
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2", "Failed"))
    setting.look()
    await setting.detector.reconcile(KEY)
    assert await setting.events() == []


async def test_a_pod_that_is_going_is_not_reported(setting: Setting) -> None:
    pod = objects.pod("web-x", NAMESPACE, "n2")
    pod["metadata"] |= {"deletionTimestamp": objects.SINCE, "finalizers": ["a.b/c"]}
    setting.world.host.seed(pod)
    setting.look()
    await setting.detector.reconcile(KEY)
    assert await setting.events() == []


async def test_deleted_node_runs_nothing(setting: Setting) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "gone"))
    assert setting.look() == [KEY]
    await setting.detector.reconcile(KEY)
    assert await setting.events() == []


@pytest.mark.parametrize("ending", ["pod gone", "node back", "pod finished"])
async def test_an_escape_ends(setting: Setting, ending: str) -> None:
    setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2"))
    setting.look()
    await setting.detector.reconcile(KEY)
    match ending:
        case "pod gone":
            setting.world.host.remove(f"/api/v1/namespaces/{NAMESPACE}/pods/web-x")
        case "node back":
            setting.world.host.seed(objects.node("n2", {"branch": "a"}))
        case _:
            setting.world.host.seed(objects.pod("web-x", NAMESPACE, "n2", "Succeeded"))
    assert setting.look() == [KEY]
    await setting.detector.reconcile(KEY)
    assert setting.escaped == {}
