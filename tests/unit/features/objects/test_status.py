"""Facts and StatusWriter: what the status of an object says, and how often it is written."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, LEASE, STATUS
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.features.objects.definitions import PATH
from karmada_vc_agent.features.objects.status import CHECK_S, PAUSE_S
from karmada_vc_agent.kube.controller import Requeue
from tests.fakes import objects
from tests.unit.features.objects.conftest import BRANCH_A, Served, virtual_cluster

READY = Condition(type="Ready", status="True", reason="ClusterReady", message="well")


@pytest.fixture
async def registered(served: Served) -> Served:
    """Return one whose Cluster is on the hub and Ready, with one of two nodes Ready."""
    served.world.register()
    served.world.host.seed(objects.node("a1", {"branch": "a"}))
    served.world.host.seed(objects.node("a2", {"branch": "a"}, "False"))
    await served.apply(virtual_cluster())
    served.world.look()
    served.judgements.judge("branch-a", READY)
    served.contact.accepted("branch-a", LEASE)
    return served


async def test_registered_one_shows_its_full_status(registered: Served) -> None:
    status = await registered.status()
    assert (status["observedGeneration"], status["phase"]) == (1, "Active")
    assert status["nodes"] == {"total": 2, "ready": 1, "summary": "1/2"}
    assert status["works"] == {"applied": 0, "failed": 0, "pending": 0}
    assert status["lastHubContact"] == "2026-01-01T00:00:00Z"
    assert await registered.conditions() == {
        "Registered": ("True", "Registered"),
        "Ready": ("True", "ClusterReady"),
        "NodesReachable": ("True", "NodesReady"),
        "NodeOverlap": ("False", "NodesDisjoint"),
        "HubReachable": ("True", "Accepted"),
        "WorksApplied": ("True", "NoWorks"),
    }


async def test_works_are_counted(registered: Served) -> None:
    work = objects.work(objects.config_map(), name="one")
    work["status"] = {"conditions": [objects.condition("Applied", "False", "x", "y")]}
    registered.world.hub.seed(work, objects.work(objects.config_map(), name="two"))
    registered.world.look()
    assert (await registered.status())["works"] == {"applied": 0, "failed": 1, "pending": 1}


async def test_nothing_is_written_where_nothing_changed(registered: Served) -> None:
    await registered.status()
    registered.world.forget_requests()
    registered.clock.advance(300.0)
    registered.contact.accepted("branch-a", LEASE)
    assert await registered.writer.reconcile("branch-a") == Requeue(CHECK_S)
    assert registered.world.host.writes() == []


async def test_two_writes_are_seconds_apart(registered: Served) -> None:
    await registered.status()
    registered.world.forget_requests()
    registered.scopes.end("branch-a")
    registered.clock.advance(PAUSE_S - 1)
    assert await registered.writer.reconcile("branch-a") == Requeue(1.0)
    assert registered.world.host.writes() == []
    registered.clock.advance(1.0)
    await registered.writer.reconcile("branch-a")
    assert len(registered.world.host.writes()) == 1
    assert (await registered.conditions())["Ready"] == ("Unknown", "NotJudged")


async def test_hub_that_accepts_nothing_is_reported_with_the_last_contact(
    registered: Served,
) -> None:
    await registered.status()
    registered.contact.accepted("branch-a", STATUS)
    registered.clock.advance(50.0)
    status = await registered.status()
    assert (await registered.conditions())["HubReachable"] == ("False", "NotAccepted")
    assert status["lastHubContact"] == "2025-12-31T23:59:10Z"
    registered.clock.advance(60.0)
    assert await registered.status() == status, "as long as it lasts nothing is new"


async def test_object_without_a_cluster_waits(served: Served) -> None:
    await served.apply(virtual_cluster())
    assert (await served.status())["phase"] == "Pending"
    assert (await served.conditions())["Registered"] == ("False", "NotRegistered")
    assert (await served.conditions())["NodesReachable"] == ("False", "NoNodes")
    served.registrations.troubles["branch-a"] = "the cluster name has been registered"
    served.clock.advance(PAUSE_S)
    (first, *_) = (await served.status())["conditions"]
    assert first["message"] == "the cluster name has been registered"


async def test_refused_one_says_why_and_no_more(served: Served) -> None:
    await served.apply(virtual_cluster(spec={}))
    status = await served.status()
    assert status["phase"] == "Refused"
    (condition,) = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Registered", "Refused")
    assert "selects no nodes" in condition["message"]


async def test_change_that_is_refused_says_that_the_old_stays(registered: Served) -> None:
    await registered.apply(virtual_cluster(spec={}))
    status = await registered.status()
    assert status["conditions"][0]["message"].endswith("; the previous settings stay in use")
    assert status["nodes"]["total"] == 2


async def test_refusal_is_looked_at_again(served: Served) -> None:
    served.problem = "the agent has no rights for it on the hub"
    await served.apply(virtual_cluster())
    await served.status()
    served.problem = ""
    served.clock.advance(PAUSE_S)
    assert (await served.status())["phase"] == "Pending"
    assert "branch-a" in served.world.virtual_clusters


async def test_pause_is_a_phase(registered: Served) -> None:
    await registered.apply(virtual_cluster(spec=BRANCH_A | {"paused": True}))
    assert (await registered.status())["phase"] == "Paused"


async def test_cluster_being_deleted_on_the_hub_is_reported(registered: Served) -> None:
    path = f"{CLUSTERS_PATH}/branch-a"
    registered.world.hub.change(
        path, metadata={**registered.world.hub.live(path)["metadata"], "finalizers": ["x"]}
    )
    registered.world.hub.mark_deleted(path)
    registered.world.look()
    assert (await registered.conditions())["Registered"] == ("False", "ClusterDeleting")


async def test_object_that_vanished_is_forgotten(registered: Served) -> None:
    registered.world.host.remove(f"{PATH}/branch-a")
    assert await registered.writer.reconcile("branch-a") is None
    assert "branch-a" not in registered.world.virtual_clusters


async def test_worst_condition_is_the_message_and_each_transition_an_event(
    registered: Served,
) -> None:
    assert (await registered.status())["message"] == ""
    assert registered.events == []
    registered.judgements.judge(
        "branch-a", Condition(type="Ready", status="False", reason="Away", message="no answer")
    )
    registered.clock.advance(PAUSE_S)
    assert (await registered.status())["message"] == "Away: no answer"
    assert registered.events == [("Warning", "Away", "Ready: no answer")]
    registered.judgements.judge("branch-a", READY)
    registered.clock.advance(PAUSE_S)
    assert (await registered.status())["message"] == ""
    assert registered.events[1:] == [("Normal", "ClusterReady", "Ready: well")]
