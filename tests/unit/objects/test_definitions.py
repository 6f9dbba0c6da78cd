"""Definitions: what of an object is served, and what a mistake costs."""

import pytest

from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.objects.definitions import DELETED
from tests.fakes import objects
from tests.unit.objects.conftest import BRANCH_A, Served, virtual_cluster

BAD: dict[str, dict[str, str]] = {"nodeSelector": {}}


async def test_object_is_served_and_changes_live(served: Served) -> None:
    await served.apply(virtual_cluster())
    assert served.world.vc().region == ""
    await served.apply(virtual_cluster(spec=BRANCH_A | {"region": "north"}))
    assert served.world.vc().region == "north"
    assert served.due == ["branch-a"] * 2


async def test_same_object_again_is_nothing_new(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    await served.definitions.seen(None, body)
    await served.definitions.seen("MODIFIED", body | {"status": {"phase": "Active"}})
    assert served.due == ["branch-a"]
    known = served.definitions.of("branch-a")
    assert known is not None
    assert known.status == {"phase": "Active"}


async def test_status_of_an_object_is_not_read_as_what_it_says(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    first = served.definitions.of("branch-a")
    await served.definitions.seen("MODIFIED", body | {"status": {"phase": "Active"}})
    again = served.definitions.of("branch-a")
    assert first is not None
    assert again is not None
    assert again.virtual_cluster is first.virtual_cluster, "it was read anew"


async def test_mistake_is_not_served(served: Served) -> None:
    await served.apply(virtual_cluster(spec=BAD))
    assert "branch-a" not in served.world.virtual_clusters
    assert "selects no nodes" in served.definitions.problem("branch-a")


async def test_mistake_in_what_is_served_changes_nothing(served: Served) -> None:
    await served.apply(virtual_cluster())
    before = served.world.vc()
    await served.apply(virtual_cluster(spec=BAD))
    assert served.world.vc() == before
    assert served.definitions.problem("branch-a")
    await served.apply(virtual_cluster(spec=BRANCH_A | {"region": "north"}))
    assert served.definitions.problem("branch-a") == ""


async def test_what_hub_or_host_forbid_is_taken_once_they_do_not(served: Served) -> None:
    served.problem = "the agent has no rights for it on the hub"
    await served.apply(virtual_cluster())
    assert "branch-a" not in served.world.virtual_clusters
    assert served.definitions.problem("branch-a") == served.problem
    served.problem = ""
    await served.definitions.take("branch-a")
    assert "branch-a" in served.world.virtual_clusters
    assert served.definitions.problem("branch-a") == ""


async def test_server_that_cannot_be_asked_is_asked_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(_: VirtualCluster) -> None:
        raise UnreachableError("no answer")

    monkeypatch.setattr(served.definitions, "_check", check)
    await served.apply(virtual_cluster())
    assert "cannot be checked: no answer" in served.definitions.problem("branch-a")


async def test_object_that_is_gone_is_served_no_more(served: Served) -> None:
    body = await served.apply(virtual_cluster())
    await served.definitions.seen(DELETED, body | {"metadata": {**body["metadata"], "uid": "old"}})
    assert "branch-a" in served.world.virtual_clusters
    await served.definitions.seen(DELETED, body)
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
    await served.definitions.seen("MODIFIED", body | {"metadata": metadata})
    assert "branch-a" not in served.world.virtual_clusters
