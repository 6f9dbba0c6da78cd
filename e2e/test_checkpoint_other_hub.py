"""The hub that answers again is not as it was: restored from a backup, or another one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Api, Object
from e2e.lab.checkpoint import KEPT, manifest_saved
from e2e.lab.cleanup import clean_up
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.restorable import Restorable
from e2e.lab.wait import BACKED_OFF_S, within

FLAGS = (*FAST, *QUICK_LEASE)


@pytest.fixture
def own(own_hub: Api, host: Api, tmp_path: Path) -> Iterator[Lab]:
    """Return a lab with a hub of its own."""
    lab = Lab(own_hub, host, tmp_path)
    yield lab
    clean_up(lab)


def test_a_hub_that_was_restored_to_before_counts_once_it_is_back(own: Lab, tmp_path: Path) -> None:
    backup = Restorable(tmp_path / "own-hub")
    with Proxy(own.hub.kubeconfig, tmp_path / "wire") as wire:
        group = own.group("a")
        agent = own.new_agent(group, flags=FLAGS, hub=wire.kubeconfig, checkpoint=KEPT).start()
        own.wait_ready(group.name)
        namespace = own.namespace()
        changed, later = (objects.config_map(namespace, n, key="1") for n in ("changed", "later"))
        work = own.create_work(group, "changed", changed)
        own.wait_applied(work)
        backup.back_up()
        own.wait_ready(group.name)
        manifest = own.hub.get(work)["spec"]["workload"]["manifests"][0] | {"data": {"key": "2"}}
        own.hub.patch(work, {"spec": {"workload": {"manifests": [manifest]}}})
        own.create_work(group, "later", later)
        for template, value in ((changed, "2"), (later, "1")):
            within(BACKED_OFF_S, _is_kept, own, agent, group, template, value)
        wire.cut()
        agent.kill()
        for template in (changed, later):
            own.host.delete(own.host_path(template, group))

        agent.start()
        for template, value in ((changed, "2"), (later, "1")):
            within(BACKED_OFF_S, _has, own, group, template, value)
        before = own.on_host(later, group)["metadata"]["uid"]
        backup.restore()
        wire.restore()
        within(BACKED_OFF_S, _has, own, group, changed, "1")
        own.wait_applied(work)
        own.wait_ready(group.name)
        # Its Work is missing, but nobody deleted it.
        assert own.on_host(later, group)["metadata"]["uid"] == before
        agent.terminate()


def test_another_hub_at_the_same_address_is_not_served_what_the_first_one_said(
    lab: Lab, own: Lab, tmp_path: Path
) -> None:
    with Proxy(lab.hub.kubeconfig, tmp_path / "wire") as wire:
        group = lab.group("a")
        agent = lab.new_agent(group, flags=FLAGS, hub=wire.kubeconfig, checkpoint=KEPT).start()
        lab.wait_ready(group.name)
        template = objects.config_map(lab.namespace(), "kept", key="1")
        lab.create_work(group, "kept", template)
        within(BACKED_OFF_S, _is_kept, lab, agent, group, template, "1")
        wire.cut()
        agent.kill()
        lab.host.delete(lab.host_path(template, group))

        own.id = lab.id  # the same agent of the same host
        moved = own.new_agent(
            group, flags=FLAGS, hub=wire.lead_to(own.hub.kubeconfig), checkpoint=KEPT
        ).start()
        within(BACKED_OFF_S, _has, lab, group, template, "1")
        uid = lab.on_host(template, group)["metadata"]["uid"]
        wire.restore()
        within(BACKED_OFF_S, _says, moved, "The hub listed its Clusters")
        own.wait_ready(group.name)
        assert lab.on_host(template, group)["metadata"]["uid"] == uid
        assert own.works(group) == []

        moved.kill()
        lab.host.delete(lab.host_path(template, group))
        moved.start()
        marker = objects.config_map(own.namespace(), "marker", key="1")
        own.wait_applied(own.create_work(group, "marker", marker))
        assert lab.host.find(lab.host_path(template, group)) is None
        moved.terminate()


def _is_kept(lab: Lab, agent: Agent, group: Group, manifest: Object, value: str) -> None:
    found = manifest_saved(lab.host, agent, group.name, manifest)
    assert found is not None, "it is not in the checkpoint"
    assert found["data"] == {"key": value}


def _has(lab: Lab, group: Group, template: Object, value: str) -> None:
    assert lab.on_host(template, group)["data"] == {"key": value}


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
