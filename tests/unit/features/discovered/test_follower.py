"""Follower: what is found is served; what is gone stays for a while, and goes only if it may."""

import pytest
from msgspec import structs

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.registration import LiveSettings, Origin
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.discovered import feature
from karmada_vc_agent.features.discovered.discovery import DiscoveryStart
from karmada_vc_agent.features.discovered.feature import RECHECK_S, STEP_S, SYNC_S
from karmada_vc_agent.features.discovered.records import (
    MOST_NODES,
    Discovered,
    DiscoveredRecord,
    NodeGroupSettings,
    made_of_record,
)
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ApiError, UnreachableError
from karmada_vc_agent.model.virtual_cluster import NO_NODES, VirtualCluster
from karmada_vc_agent.model.vocabulary import MEMBERSHIP_LABEL
from tests.fakes import objects
from tests.fakes.world import World
from tests.unit.features.discovered.conftest import GRACE_S, Following

CLUSTER = f"{CLUSTERS_PATH}/branch-a"
DEFAULT = "/api/v1/namespaces/default-v-branch-a"


async def test_group_is_served_and_its_nodes_are_followed(following: Following) -> None:
    assert await following.find("n1") is None
    assert following.world.vc().node_names == ("n1",)
    assert following.origins.of("branch-a") == Origin("NodeGroup of-branch-a")
    await following.find("n1", "n2")
    assert following.world.vc().node_names == ("n1", "n2")
    await following.find(branch="a")
    assert following.world.vc().node_selector.match_labels == {"branch": "a"}
    assert following.world.vc().node_names == ()


async def test_group_without_nodes_has_none(following: Following) -> None:
    await following.find("n1")
    await following.find()
    vc = following.world.vc()
    assert not vc.selects("n1", {"any": ""})
    assert vc.required_selector == {MEMBERSHIP_LABEL: "branch-a"}, "its pods run nowhere else"
    assert vc.node_selector == NO_NODES


async def test_bad_name_is_reported_once_and_not_shortened(following: Following) -> None:
    for _ in range(2):
        assert await following.find("n1", name="branch.a") == RECHECK_S
    assert following.served == set()
    ((about, text),) = following.warned
    assert about == "of-branch.a"
    assert '"branch.a" is not a valid Cluster name' in text
    assert [source for source, _ in following.origins.refused] == ["nodeGroups"]
    assert await following.lose("branch.a") is None
    assert following.origins.refused == {}


async def test_mistake_in_what_is_served_changes_nothing(following: Following) -> None:
    await following.find("n1")
    before = following.world.vc()
    await following.find("N 1")
    assert following.world.vc() == before
    assert '"N 1" is not a valid node name' in next(iter(following.origins.refused.values()))
    await following.find("n2")
    assert following.origins.refused == {}


async def test_what_the_hub_forbids_is_served_once_it_does_not(following: Following) -> None:
    following.problem = "the agent has no rights"
    assert await following.find("n1") == RECHECK_S
    assert following.served == set()
    following.problem = ""
    assert await following.reconcile() is None
    assert following.served == {"branch-a"}


async def test_limit_is_for_new_ones_only(world: World) -> None:
    following = await Following(world, limit=1).begin()
    await following.find("n1", name="a")
    assert await following.find("n2", name="b") == RECHECK_S
    assert following.served == {"a"}
    assert "limit of 1 virtual clusters" in following.warned[0][1]
    await following.find("n3", name="a")
    assert following.world.vc("a").node_names == ("n3",)


async def test_one_that_is_written_down_wins_and_gives_the_name_back(following: Following) -> None:
    await following.find("n1")
    written = objects.virtual_cluster("branch-a", provider="file")
    following.file.replace_all([written])
    assert await following.reconcile() == RECHECK_S
    assert following.world.vc() == written
    assert (
        "the settings file already defines a virtual cluster of this name"
        in (following.warned[0][1])
    )
    assert following.record() is None
    assert following.origins.of("branch-a") is None
    following.file.replace_all([])
    assert following.world.vc().node_names == ("n1",), "at once"
    assert await following.reconcile() is None
    assert following.record()


async def test_group_replaced_by_another_served_one_removes_nothing(
    draining: Following,
) -> None:
    await draining.find("n1")
    draining.world.register()
    draining.file.replace_all([objects.virtual_cluster("branch-a")])
    assert await draining.lose() is None
    draining.now += 2 * GRACE_S
    assert await draining.reconcile() is None
    assert draining.served == {"branch-a"}
    assert draining.record() is None
    assert not draining.world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")


async def test_missing_one_stays_as_it_is_for_a_while(following: Following) -> None:
    await following.find("n1")
    following.world.register()
    before = following.world.vc()
    assert await following.lose() == RECHECK_S
    assert following.world.vc() == before
    text = following.absence()
    assert (
        "nothing changes until 1970-01-01T00:17:40Z (1m), then the virtual cluster stays registered"
        in text
    )
    following.now += GRACE_S - 5
    assert await following.reconcile() == pytest.approx(5)
    await following.find("n1")
    assert following.absence() == ""
    record = following.record()
    assert record
    assert record.gone_at is None


async def test_missing_one_stays_registered_where_drain_is_off(following: Following) -> None:
    await following.find("n1")
    following.world.register()
    await following.lose()
    following.now += GRACE_S
    assert await following.reconcile() == RECHECK_S
    assert following.served == {"branch-a"}
    assert "stays registered, because nodeGroups.drain is off" in following.absence()
    following.away.add("branch-a")  # somebody took it away
    assert await following.reconcile() is None
    assert following.served == set()
    assert following.record() is None


async def test_missing_one_that_has_nothing_anywhere_is_forgotten(following: Following) -> None:
    await following.find("n1")
    await following.lose()
    following.now += GRACE_S
    assert await following.reconcile() is None
    assert following.served == set()
    assert following.record() is None


async def test_missing_one_is_removed_where_drain_is_on(draining: Following) -> None:
    await draining.find("n1")
    draining.world.register(finalizers=["karmada.io/cluster-controller"])
    draining.world.look()
    await draining.world.namespaces.reconcile(("branch-a", "default"))
    assert draining.world.host.find(DEFAULT)
    draining.world.look()
    await draining.lose()
    draining.now += GRACE_S
    assert await draining.reconcile() == STEP_S
    assert draining.world.hub.live(CLUSTER)["metadata"]["deletionTimestamp"]
    assert "waiting for the hub to remove Cluster branch-a" in draining.absence()
    draining.world.hub.remove(CLUSTER)
    draining.world.look()
    assert await draining.reconcile() == STEP_S
    assert draining.world.host.find(DEFAULT) is None
    assert await draining.reconcile() is None
    assert draining.served == set()
    assert draining.record() is None
    assert draining.origins.of("branch-a") is None


async def test_begun_removal_ends_before_it_is_served_again(draining: Following) -> None:
    await draining.find("n1")
    draining.world.register(finalizers=["karmada.io/cluster-controller"])
    await draining.lose()
    draining.now += GRACE_S
    await draining.reconcile()
    assert await draining.find("n1") == STEP_S
    draining.world.hub.remove(CLUSTER)
    draining.world.look()
    assert await draining.reconcile() == 0.0
    assert draining.served == set()
    assert await draining.reconcile() is None
    assert draining.served == {"branch-a"}


async def test_removal_not_yet_begun_ends_where_it_is_discovered_again(draining: Following) -> None:
    await draining.find("n1")
    draining.world.register()
    await draining.lose()
    draining.now += GRACE_S
    draining.world.hub.fail(500, method="DELETE", path=CLUSTER, times=5)
    with pytest.raises(ApiError, match="as the test wants"):
        await draining.follower.reconcile("branch-a")
    record = draining.record()
    assert record
    assert record.is_draining
    assert await draining.find("n1") == 0.0
    assert await draining.reconcile() is None
    record = draining.record()
    assert record
    assert not record.is_draining
    assert not draining.world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")


async def test_nothing_is_removed_unless_the_host_confirms_the_deletion(
    draining: Following,
) -> None:
    await draining.find("n1")
    draining.world.register()
    draining.findings.is_absent = False
    await draining.lose()
    draining.now += 2 * GRACE_S
    assert await draining.reconcile() == RECHECK_S
    record = draining.record()
    assert record
    assert record.gone_at is None
    assert draining.served == {"branch-a"}


async def test_what_cannot_be_remembered_is_not_served(following: Following) -> None:
    with following.world.host.down(), pytest.raises(UnreachableError):
        await following.find("n1")
    assert following.served == set()


async def test_start_restores_what_was_served_before_any_watch(
    following: Following,
) -> None:
    await following.find("n1", name="named")
    await following.find(name="labelled", branch="a")
    record = following.record("labelled")
    assert record
    assert record.labels == {"branch": "a"}
    live = LiveSettings(structs.replace(CONFIG(), node_groups=NodeGroupSettings(enabled=True)))
    found = DiscoveryStart(following.source, following.source_of_labels)
    following.source.replace_all([])
    await found.read(following.world.host_client, live, following.state)
    assert following.world.vc("labelled").required_selector == {"branch": "a"}
    named = following.world.vc("named")
    assert named.required_selector == {MEMBERSHIP_LABEL: "named"}, "as when it was there"
    assert named.selects("n1", {})
    assert not named.selects("any", {MEMBERSHIP_LABEL: "named"}), "a node cannot join by a label"


async def test_too_many_names_are_remembered_by_the_label_that_nodes_were_given(
    following: Following,
) -> None:
    names = [f"n{number}" for number in range(MOST_NODES + 1)]
    await following.find(*names[1:], zone="a")
    record = following.record()
    assert record is not None
    assert (record.labels, record.nodes) == ({"zone": "a"}, tuple(names[1:]))
    await following.find(*names, zone="a")
    record = following.record()
    assert record is not None
    assert (record.labels, record.nodes) == ({}, ()), "not by a part of what selects them"
    config = AgentConfig(agent_namespace="agents")
    vc = made_of_record(config, NodeGroupSettings(), "branch-a", record)
    assert vc.selects("any", {MEMBERSHIP_LABEL: "branch-a"})


def test_general_settings_are_defaults_of_discovered_ones() -> None:
    config = AgentConfig(agent_namespace="agents", cluster_region="south")
    record = DiscoveredRecord("", "a", {"branch": "a"})
    assert made_of_record(config, NodeGroupSettings(), "a", record).region == "south"


async def test_switched_off_discovery_serves_no_more_and_removes_nothing(
    draining: Following,
) -> None:
    await draining.find("n1")
    draining.world.register()
    draining.is_on = False
    assert await draining.lose() is None
    draining.now += 2 * GRACE_S
    assert await draining.reconcile() is None
    assert draining.served == set()
    assert draining.origins.of("branch-a") is None
    assert draining.record(), "it may be switched on again"
    assert not draining.world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")
    draining.is_on = True
    await draining.find("n1")
    assert draining.served == {"branch-a"}


async def test_one_missing_while_switched_off_is_removed_once_it_is_on(
    draining: Following,
) -> None:
    await draining.find("n1")
    draining.world.register()
    draining.is_on = False
    await draining.lose()
    assert draining.served == set()
    draining.is_on = True
    await draining.reconcile()
    assert draining.served == {"branch-a"}, "as after a start"
    draining.now += GRACE_S
    assert await draining.reconcile() == STEP_S
    assert draining.world.hub.live(CLUSTER)["metadata"]["deletionTimestamp"]


async def test_one_removed_while_off_that_cannot_be_served_stays(
    draining: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> VirtualCluster:
        raise ValueError("no such profile")

    await draining.find("n1")
    draining.world.register()
    draining.is_on = False
    await draining.lose()
    draining.is_on = True
    monkeypatch.setattr(feature, "made_of_record", fail)
    with pytest.raises(RetryError, match="no such profile"):
        await draining.reconcile()
    assert draining.served == set()
    assert "the virtual cluster cannot be served: no such profile" in draining.absence()


async def test_removal_that_has_begun_ends_though_it_is_switched_off(draining: Following) -> None:
    await draining.find("n1")
    draining.world.register()
    await draining.lose()
    draining.now += GRACE_S
    await draining.reconcile()
    draining.world.hub.remove(CLUSTER)
    draining.world.look()
    draining.is_on = False
    live = LiveSettings(AgentConfig(agent_namespace="agents"))
    found = DiscoveryStart(draining.source, draining.source_of_labels)
    draining.source.replace_all([])
    await found.read(draining.world.host_client, live, draining.state)  # and it was restarted
    assert draining.served == {"branch-a"}
    for _ in range(3):
        await draining.reconcile()
    assert draining.served == set()
    assert draining.record() is None


async def test_nothing_is_missing_before_all_are_listed(following: Following) -> None:
    await following.find("n1")
    following.findings.is_synced = False
    assert await following.lose() == SYNC_S
    record = following.record()
    assert record
    assert record.gone_at is None


async def test_changed_grace_time_applies_to_those_already_missing(draining: Following) -> None:
    await draining.find("n1")
    draining.world.register()
    await draining.lose()
    draining.now += GRACE_S
    draining.drains = False
    assert await draining.reconcile() == RECHECK_S
    assert "drain is off" in draining.absence()
    draining.drains = True
    assert await draining.reconcile() == STEP_S
    assert "drain is off" not in draining.absence()


async def test_group_of_another_process_counts_until_that_one_has_removed_its_cluster(
    following: Following,
) -> None:
    following.problem = "the agent has no rights"
    following.source.serves = lambda name: False  # noqa: ARG005
    before = len(following.world.host.writes())
    assert await following.find("n1") is None
    assert following.world.vc().node_names == ("n1",)
    await following.find("N 1")
    assert following.world.vc().node_names == ("n1",), "it may be served as it was"
    following.world.register()
    following.world.look()
    assert await following.lose() == RECHECK_S
    assert following.served == {"branch-a"}
    following.world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    following.world.look()
    assert await following.reconcile() is None
    assert following.served == set()
    assert following.warned == []
    assert len(following.world.host.writes()) == before


async def test_start_serves_of_other_processes_what_they_recorded(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listed(*_: object) -> list[Discovered]:
        return [Discovered(name, name, None, ("n2",)) for name in ("branch-a", "new")]

    monkeypatch.setattr("karmada_vc_agent.features.discovered.discovery.groups_of_host", listed)
    await following.find("n1")
    live = LiveSettings(structs.replace(CONFIG(), node_groups=NodeGroupSettings(enabled=True)))
    following.source.serves = lambda name: False  # noqa: ARG005
    await DiscoveryStart(following.source, following.source_of_labels).read(
        following.world.host_client, live, following.state
    )
    assert following.world.vc().node_names == ("n1",)
    assert following.world.vc("new").node_names == ("n2",)
