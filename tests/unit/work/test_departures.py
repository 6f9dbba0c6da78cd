"""DeparturesController: whose votes on shared objects are withdrawn, and whose never are."""

import json

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, ClusterRecord
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import ApiError, UnauthorizedError
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.vocabulary import MEMBERSHIP_LABEL, OWNERS_ANNOTATION
from karmada_vc_agent.runner import controllers
from tests.fakes import objects
from tests.fakes.world import AGENT_NAMESPACE, World

URGENT = "/apis/scheduling.k8s.io/v1/priorityclasses/urgent"


def priority_class(value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": objects.managed("urgent"),
        "value": value,
    }


class Setting:
    """Two virtual clusters that share an object, after a start of the agent."""

    def __init__(self, world: World) -> None:
        self.world, self.state = world, world.parts.common.state
        self.controller = world.spec(controllers.departures)

    def unset(self, name: str) -> None:
        """Take a virtual cluster out of the settings."""
        vcs = self.world.virtual_clusters
        vcs.replace_all([vc for vc in vcs.values() if vc.name != name])

    def lose(self, name: str) -> None:
        """Let the Cluster go while no agent runs."""
        self.world.hub.remove(f"{CLUSTERS_PATH}/{name}")
        self.world.look()

    def votes(self) -> set[str]:
        live = self.world.host.live(URGENT)
        return set(json.loads(annotations_of(live)[OWNERS_ANNOTATION]))


@pytest.fixture
async def setting(world: World) -> Setting:
    world.host.seed(objects.namespace(AGENT_NAMESPACE))
    state = world.parts.common.state
    await state.load()
    for name in ("branch-a", "branch-b"):
        world.register(name)
        world.hub.seed(objects.work(priority_class(1000), vc=name))
        world.look()
        await world.execution.reconcile((name, "web-1"))
        await state.remember(name, ClusterRecord("uid", "settings"))
    made = Setting(world)
    assert made.votes() == {"branch-a", "branch-b"}
    return made


async def test_vote_of_a_cluster_deleted_unseen_is_withdrawn_with_its_record(
    setting: Setting,
) -> None:
    setting.unset("branch-a")
    setting.lose("branch-a")
    await setting.controller.reconcile("branch-a")
    assert setting.votes() == {"branch-b"}
    assert setting.state.cluster("branch-a") is None


@pytest.mark.parametrize("has_namespace", [False, True])
async def test_nodes_keep_the_label_of_a_cluster_deleted_unseen_with_namespaces(
    setting: Setting, *, has_namespace: bool
) -> None:
    world, old, others = setting.world, "branch-old", "another-agents"
    await setting.state.remember_label(old, "branch-a")
    for label in ("branch-a", old, "branch-b", others):
        world.host.seed(objects.node(f"of-{label}", {MEMBERSHIP_LABEL: label}))
    if has_namespace:
        world.host.seed(objects.claimed())
    setting.unset("branch-a")
    setting.lose("branch-a")
    await setting.controller.reconcile("branch-a")
    nodes = world.host.listed("/api/v1/nodes")
    left = {labels_of(node).get(MEMBERSHIP_LABEL) for node in nodes} - {None}
    assert left == {"branch-b", others} | ({"branch-a", old} if has_namespace else set())


async def test_withheld_change_is_applied_with_the_withdrawn_vote(setting: Setting) -> None:
    world = setting.world
    work = objects.work(priority_class(2000), vc="branch-b")
    world.hub.change(
        "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-b/works/web-1",
        spec=work["spec"],
    )
    world.look()
    await world.execution.reconcile(("branch-b", "web-1"))
    assert world.host.live(URGENT)["value"] == 1000
    setting.unset("branch-a")
    setting.lose("branch-a")
    await setting.controller.reconcile("branch-a")
    world.look()
    await world.execution.reconcile(("branch-b", "web-1"))
    assert world.host.live(URGENT)["value"] == 2000


async def test_vote_of_one_that_stays_away_is_withdrawn_and_its_record_kept(
    setting: Setting,
) -> None:
    await setting.state.remember("branch-a", ClusterRecord("uid", "settings", has_left=True))
    setting.lose("branch-a")
    await setting.controller.reconcile("branch-a")
    assert setting.votes() == {"branch-b"}
    assert setting.state.cluster("branch-a") is not None


async def test_last_vote_leaves_the_object_where_it_is(setting: Setting) -> None:
    for name in ("branch-a", "branch-b"):
        setting.unset(name)
        setting.lose(name)
        await setting.controller.reconcile(name)
    assert setting.votes() == set()


@pytest.mark.parametrize("reason", ["exists", "served", "unknown", "hidden"])
async def test_vote_of_one_that_is_not_departed_is_never_dropped(
    setting: Setting, reason: str
) -> None:
    world = setting.world
    if reason == "exists":  # not in the settings, not served, but there
        setting.unset("branch-a")
    elif reason == "served":  # it is about to be registered again
        setting.lose("branch-a")
    elif reason == "unknown":  # of another agent
        setting.unset("branch-a")
        setting.lose("branch-a")
        await setting.state.forget("branch-a")
    else:  # the watch does not show it, the hub has it all the same
        setting.unset("branch-a")
        world.clusters.store.replace_all([], "999")
    await setting.controller.reconcile("branch-a")
    assert setting.votes() == {"branch-a", "branch-b"}


@pytest.mark.parametrize("side", ["hub", "host"])
async def test_vote_waits_for_the_second_check_of_a_rolled_back_server(
    setting: Setting, side: str
) -> None:
    world = setting.world
    setting.unset("branch-a")
    setting.lose("branch-a")
    {"hub": world.hub_client, "host": world.host_client}[side].history.notice("restored")
    with pytest.raises(NotReadyError):
        await setting.controller.reconcile("branch-a")
    assert setting.votes() == {"branch-a", "branch-b"}


async def test_record_is_kept_until_the_votes_are_withdrawn(setting: Setting) -> None:
    setting.unset("branch-a")
    setting.lose("branch-a")
    setting.world.host.fail(500, method="PUT", path=URGENT)
    with pytest.raises(ApiError):
        await setting.controller.reconcile("branch-a")
    assert setting.state.cluster("branch-a") is not None
    await setting.controller.reconcile("branch-a")
    assert setting.votes() == {"branch-b"}


@pytest.mark.parametrize("code", [410, 500])
async def test_record_is_kept_where_a_kind_could_not_be_listed(setting: Setting, code: int) -> None:
    setting.unset("branch-a")
    setting.lose("branch-a")
    path = URGENT.rpartition("/")[0]
    setting.world.host.fail(code, method="GET", path=path)
    with pytest.raises(ApiError):
        await setting.controller.reconcile("branch-a")
    assert setting.state.cluster("branch-a") is not None
    await setting.controller.reconcile("branch-a")
    assert setting.votes() == {"branch-b"}


async def test_right_that_leave_took_keeps_no_record(setting: Setting) -> None:
    setting.unset("branch-a")
    setting.lose("branch-a")
    setting.world.hub.fail(403, "Forbidden", path=f"{CLUSTERS_PATH}/branch-a")
    await setting.controller.reconcile("branch-a")
    assert setting.state.cluster("branch-a") is None
    assert setting.votes() == {"branch-b"}


async def test_only_kinds_that_are_shared_are_listed(setting: Setting) -> None:
    """The agent may not list all of the others, Secrets above all."""
    setting.unset("branch-a")
    setting.lose("branch-a")
    setting.world.host.requests.clear()
    await setting.controller.reconcile("branch-a")
    listed = {r.path for r in setting.world.host.requests if "labelSelector" in r.query}
    assert {path.rpartition("/")[2] for path in listed} == {
        "customresourcedefinitions",
        "nodes",
        "priorityclasses",
    }


async def test_credential_that_the_hub_does_not_know_says_nothing(setting: Setting) -> None:
    setting.unset("branch-a")
    await setting.state.remember("branch-a", ClusterRecord("uid", "settings", has_left=True))
    setting.lose("branch-a")
    setting.world.hub.fail(401, "Unauthorized", path=CLUSTERS_PATH)
    with pytest.raises(UnauthorizedError):
        await setting.controller.reconcile("branch-a")
    assert setting.state.cluster("branch-a") is not None
