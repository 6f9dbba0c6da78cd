"""Hub or host goes back to a backup under a running agent, which must notice and put all right."""

from pathlib import Path

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Api, path_of
from e2e.lab.cleanup import clean_up
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.lone_server import lone_api_server
from e2e.lab.restorable import Restorable
from e2e.lab.wait import BACKED_OFF_S, within

SHORT = (
    *FAST,
    *("--cluster-failure-threshold", "1s"),
    *("--cluster-success-threshold", "1s"),
    *("--cluster-lease-renew-interval-fraction", "0.1"),
)
WENT_BACK = "An API server went back in time"


def test_a_hub_restored_from_a_backup_is_served_again(
    own_hub: Api, host: Api, tmp_path: Path
) -> None:
    lab = Lab(own_hub, host, tmp_path)
    backup = Restorable(tmp_path / "own-hub")
    try:
        kept, later = lab.group("kept"), lab.group("later")
        # With all rights: those it was given for `later` go back in time, too.
        agent = lab.serve(kept, flags=SHORT, is_admin=True)
        namespace = lab.namespace()
        old = objects.config_map(namespace, "old", key="old")
        lab.propagate([old], kept)
        lab.wait_fully_applied(old)
        backup.back_up()
        lab.wait_ready(kept.name)

        agent.terminate()
        agent.settings["virtualClusters"] = [kept.settings(), later.settings()]
        agent.start()
        lab.wait_serving(agent)
        lab.hub.patch(path_of(old), {"data": {"key": "new"}})
        lost = objects.config_map(namespace, "lost")
        lab.propagate([lost], kept, later)
        lab.wait_fully_applied(lost)
        lab.wait_data(old, kept, key="new")
        before = [lab.on_host(each, kept)["metadata"]["uid"] for each in (old, lost)]

        backup.restore()
        within(BACKED_OFF_S, lab.wait_data, old, kept, key="old")
        new = objects.config_map(namespace, "new")
        lab.propagate([new], kept)
        within(BACKED_OFF_S, lab.wait_fully_applied, new)
        lab.on_host(new, kept)
        lab.wait_ready(kept.name)
        lab.wait_ready(later.name)  # vanished without being deleted: registered again
        assert WENT_BACK in agent.log()
        assert [lab.on_host(each, kept)["metadata"]["uid"] for each in (old, lost)] == before
        lab.propagate([lost], kept, later)
        lab.wait_fully_applied(lost)
        assert agent.is_running()
        agent.terminate()
    finally:
        clean_up(lab)


def test_a_host_restored_from_a_backup_is_put_right(hub: Api, tmp_path: Path) -> None:
    root = tmp_path / "own-host"
    with lone_api_server(root) as host:
        lab = Lab(hub, host, tmp_path)
        backup = Restorable(root)
        try:
            group = _unplayed_group(lab)
            agent = lab.new_agent(group, flags=SHORT).start()
            lab.wait_ready(group.name)
            namespace = lab.namespace()
            old = objects.config_map(namespace, "old", key="1")
            lab.propagate([old], group)
            lab.wait_fully_applied(old)
            backup.back_up()
            lab.wait_ready(group.name)

            lab.hub.patch(path_of(old), {"data": {"key": "2"}})
            lab.wait_data(old, group, key="2")
            lost = objects.config_map(namespace, "lost")
            other = objects.config_map(lab.namespace("-other"), "lost")
            for template in (lost, other):
                lab.propagate([template], group)
                lab.wait_fully_applied(template)

            backup.restore()
            within(BACKED_OFF_S, lab.wait_data, old, group, key="2")
            for template in (lost, other):
                within(BACKED_OFF_S, lab.on_host, template, group)
            within(BACKED_OFF_S, _notices, agent)
            lab.wait_ready(group.name)
            lab.host.delete(lab.host_path(lost, group))
            lab.on_host(lost, group)
            assert agent.is_running()
            agent.terminate()
        finally:
            clean_up(lab)


def _unplayed_group(lab: Lab) -> Group:
    """Return a group with a node that nobody simulates: this host has an API server and no more."""
    group = Group(f"{lab.id}-a", {lab.label: "a"})
    lab.add_node(group, is_simulated=False)
    lab.clusters.add(group.name)
    return group


def _notices(agent: Agent) -> None:
    assert WENT_BACK in agent.log(), agent.log_tail()
