"""An agent that watches its own Clusters by name: what others change does not come to the site."""

import time
import uuid

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.lab import CLUSTERS, FAST, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, eventually, wait_until_deleted, within

CHANGES, BYTES = 20, 100_000
"""Far more than comes of the namespaces that other stories make meanwhile."""
SETTLES_S = 5.0
"""In which a watch tells what there is; and Leases, statuses and lists are sent, too."""


def test_what_others_change_is_not_sent(lab: Lab, hub_wire: Proxy) -> None:
    """Without the setting all of it is."""
    stranger, group = _stranger(lab), lab.group("a")
    agent = lab.new_agent(group, flags=FAST, hub=hub_wire.kubeconfig, clustersByName=True).start()
    lab.wait_serving(agent)
    hub_wire.count()
    _change(lab, stranger)
    time.sleep(SETTLES_S)
    sent = hub_wire.count()[1]
    assert sent < CHANGES * BYTES / 2, sent
    agent.terminate()
    agent.settings["clustersByName"] = False
    agent.start()
    hub_wire.count()
    within(BACKED_OFF_S, _changes_are_sent, lab, hub_wire, stranger)


def test_its_own_come_change_and_go(lab: Lab) -> None:
    a, b = lab.group("a"), lab.group("b")
    agent = lab.new_agent(a, flags=FAST, clustersByName=True).start()
    lab.wait_serving(agent)
    agent.settings["virtualClusters"].append(b.settings())
    agent.reload()
    lab.wait_ready(b.name)
    template = objects.config_map(lab.namespace(), key="1")
    lab.wait_applied(lab.create_work(b, "settings", template))
    other = [{"key": "example.org/other", "effect": "NoSchedule"}]
    lab.hub.patch(f"{CLUSTERS}/{b.name}", {"spec": {"region": "elsewhere", "taints": other}})
    agent.settings["virtualClusters"][1]["region"] = "south"
    agent.reload()
    eventually(_is_in, lab, b, "south")
    lab.hub.delete(f"{CLUSTERS}/{b.name}")
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{b.name}")
    eventually(_says, agent, "Not registering a Cluster that was deleted on the hub")
    work = lab.create_work(a, "settings", template)
    lab.wait_applied(work)
    assert lab.hub.find(f"{CLUSTERS}/{b.name}") is None


def _stranger(lab: Lab) -> str:
    """Register a Cluster that is no business of the agent; return its path."""
    name = f"{lab.id}-stranger"
    lab.clusters.add(name)
    lab.hub.create(
        {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"id": str(uuid.uuid4()), "syncMode": "Pull"},
        }
    )
    return f"{CLUSTERS}/{name}"


def _change(lab: Lab, cluster: str) -> None:
    for number in range(CHANGES):
        note = {"example.org/note": f"{number:04}" * (BYTES // 4)}
        lab.hub.patch(cluster, {"metadata": {"annotations": note}})


def _changes_are_sent(lab: Lab, wire: Proxy, cluster: str) -> None:
    _change(lab, cluster)
    assert wire.count()[1] > CHANGES * BYTES / 2


def _is_in(lab: Lab, group: Group, region: str) -> None:
    assert lab.cluster(group.name)["spec"]["region"] == region


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
