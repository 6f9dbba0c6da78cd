"""Definitions: what of an object is served, and what a mistake costs."""

import pytest

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.definitions import DELETED, ObjectsStart
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import MEMBERSHIP_LABEL
from tests.fakes import objects
from tests.unit.features.objects.conftest import BRANCH_A, Served, virtual_cluster

BAD: dict[str, object] = {"nodeSelector": {}}


async def test_object_is_served_and_changes_live(served: Served) -> None:
    await served.apply(virtual_cluster())
    assert served.world.vc().region == ""
    await served.apply(virtual_cluster(spec=BRANCH_A | {"region": "north"}))
    assert served.world.vc().region == "north"
    assert served.due == ["branch-a"] * 2


async def test_same_object_again_is_nothing_new(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    await served.see(None, body)
    await served.see("MODIFIED", body | {"status": {"phase": "Active"}})
    assert served.due == ["branch-a"]
    known = served.definitions.of("branch-a")
    assert known is not None
    assert known.status == {"phase": "Active"}


async def test_status_of_an_object_is_not_read_as_what_it_says(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    first = served.definitions.of("branch-a")
    await served.see("MODIFIED", body | {"status": {"phase": "Active"}})
    again = served.definitions.of("branch-a")
    assert first is not None
    assert again is not None
    assert again.virtual_cluster is first.virtual_cluster, "it was read anew"


async def test_mistake_is_not_served(served: Served) -> None:
    await served.apply(virtual_cluster(spec=BAD))
    assert "branch-a" not in served.world.virtual_clusters
    assert "selects no nodes" in served.refusal()


async def test_mistake_in_what_is_served_changes_nothing(served: Served) -> None:
    await served.apply(virtual_cluster())
    before = served.world.vc()
    await served.apply(virtual_cluster(spec=BAD))
    assert served.world.vc() == before
    assert served.refusal()
    await served.apply(virtual_cluster(spec=BRANCH_A | {"region": "north"}))
    assert served.refusal() == ""


async def test_what_hub_or_host_forbid_is_taken_once_they_do_not(served: Served) -> None:
    served.problem = "the agent has no rights for it on the hub"
    await served.apply(virtual_cluster())
    assert "branch-a" not in served.world.virtual_clusters
    assert served.refusal() == served.problem
    served.problem = ""
    await served.definitions.take("branch-a")
    assert "branch-a" in served.world.virtual_clusters
    assert served.refusal() == ""


async def test_server_that_cannot_be_reached_is_queried_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(_: VirtualCluster) -> None:
        raise UnreachableError("no answer")

    monkeypatch.setattr(served.definitions, "check", check)
    await served.apply(virtual_cluster())
    assert "cannot be checked: no answer" in served.refusal()


async def test_deleted_object_is_served_no_more(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    await served.see(DELETED, body | {"metadata": {**body["metadata"], "uid": "old"}})
    assert "branch-a" in served.world.virtual_clusters
    await served.see(DELETED, body)
    assert "branch-a" not in served.world.virtual_clusters
    assert list(served.definitions) == []


async def test_file_has_a_name_before_an_object(served: Served) -> None:
    of_file = objects.virtual_cluster("branch-a", provider="file")
    served.file.replace_all([of_file])
    await served.apply(virtual_cluster())
    assert served.world.vc() == of_file
    assert (await served.conditions())["Registered"] == ("False", "NameTaken")
    served.file.replace_all([])
    assert served.world.vc().provider == ""


async def test_object_of_another_agent_is_not_served(served: Served) -> None:
    label = "virtualcluster.kubeedge.io/agent"
    body = await served.apply(virtual_cluster(labels={label: "karmada-vc-agent"}))
    assert "branch-a" in served.world.virtual_clusters
    metadata = {**body["metadata"], "labels": {label: "another"}}
    await served.see("MODIFIED", body | {"metadata": metadata})
    assert "branch-a" not in served.world.virtual_clusters


async def test_changed_settings_lie_under_objects_one_after_another(served: Served) -> None:
    for name in ("branch-a", "branch-b"):
        await served.apply(virtual_cluster(name))
    served.due.clear()
    served.checked.clear()
    served.live.use(AgentConfig(agent_namespace="agents", cluster_region="south"))
    assert served.due == ["branch-a", "branch-b"]
    assert served.world.vc().region == "", "none was read yet"
    await served.status("branch-a")
    assert served.world.vc().region == "south"
    assert served.checked == [], "rights do not depend on what describes a Cluster"
    await served.status("branch-b")
    assert served.world.vc("branch-b").region == "south"
    await served.apply(virtual_cluster(spec=BRANCH_A | {"region": "own"}, generation=2))
    assert served.world.vc().region == "own"


async def test_object_that_changed_settings_make_wrong_stays_as_it_was(served: Served) -> None:
    named_first = BRANCH_A | {"serviceNames": "VirtualFirst"}
    served.live.use(AgentConfig(agent_namespace="agents", cluster_dns=("10.0.0.10",)))
    await served.apply(virtual_cluster(spec=named_first))
    before = served.world.vc()
    served.live.use(AgentConfig(agent_namespace="agents"))
    await served.status()
    assert "needs clusterDNS" in served.refusal()
    assert served.world.vc() == before
    served.live.use(AgentConfig(agent_namespace="agents", cluster_dns=("10.0.0.10",)))
    await served.status()
    assert served.refusal() == ""


async def test_change_first_seen_in_a_response_is_taken(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    changed = body | {"spec": BRANCH_A | {"region": "north"}}
    changed["metadata"] = body["metadata"] | {"generation": 2}
    served.definitions.observe(changed)  # the answer to a write of the status
    await served.see("MODIFIED", changed)
    assert served.world.vc().region == "north"


async def test_what_another_process_serves_counts_here_and_is_not_checked(served: Served) -> None:
    served.problem = "the agent has no rights"
    served.definitions.source.serves = lambda name: False  # noqa: ARG005
    await served.apply(virtual_cluster())
    assert served.world.vc().node_selector.match_labels == {"branch": "a"}
    assert served.checked == []
    await served.apply(virtual_cluster(spec=BAD))
    assert served.world.vc().node_selector.match_labels == {"branch": "a"}, (
        "it may serve it as it was"
    )
    assert await served.status() == {}
    assert served.world.host.writes() == []


async def test_what_another_process_may_serve_as_it_was_keeps_names_and_labelled_nodes(
    served: Served,
) -> None:
    served.definitions.source.serves = lambda name: False  # noqa: ARG005
    bad = BAD | {"formerNames": ["earlier"]}
    served.world.host.seed(virtual_cluster(spec=bad, uid="1"))
    start = ObjectsStart(served.definitions.source)
    await start.read(served.world.host_client, served.live, served.state)
    vc = served.world.vc()
    assert vc.name_on_host == "earlier"
    assert vc.selects("any", {MEMBERSHIP_LABEL: "earlier"})
    assert not vc.selects("any", {MEMBERSHIP_LABEL: "branch-a", "branch": "a"})
