"""What the hub deletes at once waits on the host until an administrator of the site decides."""

from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.api import Api, Object, path_of
from e2e.lab.cleanup import clean_up
from e2e.lab.deletions import confirm_deletions
from e2e.lab.lab import BRAKE, CLUSTERS, FAST, QUICK_LEASE, Lab
from e2e.lab.page_front import Fault, PageFront
from e2e.lab.restorable import Restorable
from e2e.lab.wait import GONE_S, THROUGH_HUB_S, wait_until_deleted, within
from e2e.lab.works import condition, execution_namespace
from tests.fakes.pages import PAGES

QUICK = (*FAST, *QUICK_LEASE)
MAPS = 20
DELETED_AT_MOST = 9
"""Where deletions arrive one by one: fewer than 10 are never held, and these are above 30 %."""
LOOKED_AT_S = 60.0
"""The agent looks every 5 s, and a Work that waits is retried after 10 s at most, if not later."""


class Site:
    """A virtual cluster with as many ConfigMaps as the brake needs, each of a Work of its own."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.group = lab, lab.group("a")
        self.namespace = lab.namespace()
        self.maps = [objects.config_map(self.namespace, f"map-{n}") for n in range(MAPS)]
        self.works: list[str] = []

    def create_works(self) -> None:
        """Write the Works by hand, and wait until they are applied."""
        self.works = [
            self.lab.create_work(self.group, each["metadata"]["name"], each) for each in self.maps
        ]
        for work in self.works:
            self.lab.wait_applied(work)

    def propagate(self) -> Object:
        """Have Karmada make the Works; return the policy."""
        policy = self.lab.propagate(self.maps, self.group)
        for each in self.maps:
            self.lab.wait_fully_applied(each)
        return policy

    def delete_works(self) -> None:
        for work in self.works:
            self.lab.hub.delete(work)

    def uids(self) -> list[str]:
        """Return the UIDs of the ConfigMaps that are on the host."""
        found = (self.lab.host.find(self.lab.host_path(each, self.group)) for each in self.maps)
        return [each["metadata"]["uid"] for each in found if each is not None]

    def is_held(self) -> None:
        cluster = self.lab.cluster(self.group.name)
        held = condition(cluster, "DeletionsHeld")
        assert (held["status"], held["reason"]) == ("True", "TooManyDeletions"), held
        assert f"confirm-deletions {self.group.name}" in held["message"]

    def is_released(self) -> None:
        held = condition(self.lab.cluster(self.group.name), "DeletionsHeld")
        assert held["status"] == "False", held

    def holds(self, before: list[str], *, all_of_them: bool) -> list[str]:
        """Wait until deletions are held; return what is left on the host."""
        within(THROUGH_HUB_S, self.is_held)
        left = self.uids()
        assert set(left) <= set(before)
        assert len(left) >= (MAPS if all_of_them else MAPS - DELETED_AT_MOST)
        return left

    def confirm(self, *flags: str) -> str:
        """Run `confirm-deletions` as an administrator of the site; return what it prints."""
        return confirm_deletions(self.lab, self.group.name, *flags)

    def holds_all_that_is_left(self) -> None:
        """Assert that no deletion is under way any more."""
        self.shows(len(self.uids()))

    def shows(self, held: int) -> None:
        """Assert how many deletions are held, by the condition."""
        self.is_held()
        message = condition(self.lab.cluster(self.group.name), "DeletionsHeld")["message"]
        assert f"holds {held} deletions" in message

    def has_event(self) -> None:
        space = execution_namespace(self.group.name)
        events = self.lab.hub.list(f"/api/v1/namespaces/{space}/events")
        held = {e["involvedObject"]["name"] for e in events if e["reason"] == "DeletionHeld"}
        assert held, "no event"

    def is_empty(self) -> None:
        assert self.uids() == []


@pytest.fixture
def site(lab: Lab) -> Site:
    return Site(lab)


def test_confirmed_deletions_are_carried_out_after_a_restart_as_well(site: Site) -> None:
    agent = site.lab.serve(site.group, flags=QUICK, deletionBrake=BRAKE)
    site.create_works()
    before = site.uids()
    agent.kill()
    site.delete_works()
    agent.start()
    site.holds(before, all_of_them=True)
    agent.kill()
    agent.start()
    site.lab.wait_serving(agent)
    assert site.holds(before, all_of_them=True) == before
    shown = site.confirm()
    assert f"the hub deletes {MAPS} of" in shown
    assert f"the agent holds {MAPS} deletions" in shown
    for work in site.works:
        wait_until_deleted(site.lab.hub, work)
    within(LOOKED_AT_S, site.is_empty)
    within(THROUGH_HUB_S, site.is_released)
    assert site.confirm() == f"{site.group.name}: no deletion waits for a confirmation\n"


def test_kept_objects_belong_to_works_that_are_created_again(site: Site) -> None:
    agent = site.lab.serve(site.group, flags=QUICK, deletionBrake=BRAKE)
    site.create_works()
    before = site.uids()
    agent.kill()
    site.delete_works()
    agent.start()
    site.holds(before, all_of_them=True)
    assert f"{site.group.name}: the hub" in confirm_deletions(site.lab, "--all", "--keep")
    for work in site.works:
        wait_until_deleted(site.lab.hub, work)
    within(THROUGH_HUB_S, site.is_released)
    site.create_works()
    assert site.uids() == before


def test_list_that_grew_is_confirmed_again(site: Site) -> None:
    agent = site.lab.serve(site.group, flags=QUICK, deletionBrake=BRAKE)
    site.create_works()
    late = objects.config_map(site.namespace, "late")
    work = site.lab.create_work(site.group, "late", late)
    site.lab.wait_applied(work)
    agent.kill()
    site.delete_works()
    agent.start()
    site.holds(site.uids(), all_of_them=True)
    before = site.uids()
    agent.kill()  # so that what is confirmed has grown before the agent looks
    site.confirm()
    site.lab.hub.delete(work)
    agent.start()
    site.lab.wait_serving(agent)
    within(LOOKED_AT_S, site.shows, MAPS + 1)
    assert site.uids() == before
    assert site.lab.on_host(late, site.group)
    site.confirm()
    wait_until_deleted(site.lab.hub, work)
    within(LOOKED_AT_S, site.is_empty)


def test_held_works_have_an_event_and_the_rest_is_served(site: Site) -> None:
    agent = site.lab.serve(site.group, flags=QUICK, deletionBrake=BRAKE)
    site.create_works()
    before = site.uids()
    agent.kill()
    site.delete_works()
    agent.start()
    site.holds(before, all_of_them=True)
    within(THROUGH_HUB_S, site.has_event)
    other = objects.config_map(site.namespace, "other")
    site.lab.wait_applied(site.lab.create_work(site.group, "other", other))
    assert site.lab.on_host(other, site.group)
    assert site.uids() == before


def test_templates_deleted_with_their_namespace_are_held(site: Site) -> None:
    site.lab.serve(site.group, deletionBrake=BRAKE)
    site.propagate()
    before = site.uids()
    site.lab.hub.delete(f"/api/v1/namespaces/{site.namespace}")
    site.holds(before, all_of_them=False)
    within(THROUGH_HUB_S, site.holds_all_that_is_left)
    site.confirm()
    within(GONE_S, site.is_empty)


def test_policy_that_sends_everything_elsewhere_is_held(site: Site) -> None:
    other = site.lab.group("b")
    site.lab.serve(site.group, other, deletionBrake=BRAKE)
    policy = site.propagate()
    before = site.uids()
    site.lab.hub.patch(path_of(policy), {"spec": {"placement": objects.to_clusters(other.name)}})
    site.holds(before, all_of_them=False)
    within(THROUGH_HUB_S, site.holds_all_that_is_left)
    left = site.uids()
    for each in site.maps:
        within(THROUGH_HUB_S, site.lab.on_host, each, other)
    assert site.uids() == left


def test_cluster_deleted_by_mistake_is_held_until_it_is_confirmed(site: Site) -> None:
    site.lab.serve(site.group, deletionBrake=BRAKE)
    site.create_works()
    before = site.uids()
    path = f"{CLUSTERS}/{site.group.name}"
    site.lab.hub.delete(path)
    site.holds(before, all_of_them=True)
    assert site.lab.hub.find(path) is not None
    site.confirm()
    within(GONE_S, site.is_empty)
    wait_until_deleted(site.lab.hub, path)


def test_execution_namespace_deleted_by_mistake_is_held(site: Site) -> None:
    site.lab.serve(site.group, deletionBrake=BRAKE)
    site.create_works()
    before = site.uids()
    site.lab.hub.delete(f"/api/v1/namespaces/{execution_namespace(site.group.name)}")
    site.holds(before, all_of_them=False)


def test_what_was_deleted_while_the_hub_was_a_page_is_held(site: Site, tmp_path: Path) -> None:
    agent = site.lab.new_agent(site.group, flags=QUICK, deletionBrake=BRAKE)
    agent.join()
    with PageFront(agent.hub_kubeconfig, tmp_path / "front") as front:
        agent.start(keeps_rights=True)
        site.lab.wait_serving(agent)
        site.create_works()
        before = site.uids()
        front.begin(Fault(PAGES["404 plain"]))
        site.delete_works()
        front.end()
        site.holds(before, all_of_them=False)
        agent.kill()  # it would wait for the front


def test_hub_restored_to_when_it_deleted_everything_is_held(
    own_hub: Api, host: Api, tmp_path: Path
) -> None:
    lab = Lab(own_hub, host, tmp_path)
    backup = Restorable(tmp_path / "own-hub")
    try:
        site = Site(lab)
        agent = lab.serve(site.group, is_admin=True, deletionBrake=BRAKE)
        site.create_works()
        before = site.uids()
        agent.terminate()
        site.delete_works()  # they stay, with their marks, while no agent runs
        backup.back_up()
        for work in site.works:
            lab.hub.patch(work, {"metadata": {"finalizers": None}})
        for work in site.works:
            wait_until_deleted(lab.hub, work)
        agent.start()
        lab.wait_serving(agent)
        site.create_works()
        assert site.uids() == before
        backup.restore()
        site.holds(before, all_of_them=True)
        assert agent.is_running()
        agent.terminate()
    finally:
        clean_up(lab)
