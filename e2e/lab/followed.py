"""One Work whose content an agent follows, through whatever is done to its connections."""

from pathlib import Path
from typing import Any

import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import collection
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import within
from e2e.lab.works import condition

BEGINS, ENDS = "Waiting for API server", "API server answers again"
RECOVERS_S = 180.0
REPAIRED_S = 30.0
LEASES = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")


class Followed:
    """One agent, and a Work whose content follows."""

    def __init__(self, lab: Lab, group: Group, agent: Agent) -> None:
        self.lab, self.group, self.agent = lab, group, agent
        self.settings = objects.config_map(lab.namespace(), key="1")
        self.work = lab.create_work(group, "settings", self.settings)
        lab.wait_applied(self.work)
        self.on_host = lab.host_path(self.settings, group)
        self.process = agent.process_id

    def drifts_and_is_repaired(self, expected: str) -> None:
        self.lab.host.patch(self.on_host, {"data": {"key": "by hand"}})
        within(REPAIRED_S, self.has, expected)

    def change(self, value: str) -> None:
        path = "/spec/workload/manifests/0/data/key"
        self.lab.hub.patch_json(self.work, {"op": "replace", "path": path, "value": value})

    def has(self, value: str) -> None:
        assert self.lab.host.get(self.on_host)["data"]["key"] == value

    def renewed_at(self) -> str:
        return str(self.lab.hub.get(f"{LEASES}/{self.group.name}")["spec"]["renewTime"])

    def recovers(self, value: str) -> None:
        """Wait until changes arrive, statuses are written and the Lease is renewed."""
        before = self.renewed_at()
        self.change(value)
        within(RECOVERS_S, self.has, value)
        within(RECOVERS_S, self._is_renewed_since, before)
        within(RECOVERS_S, self._is_applied_of_now)
        assert self.agent.process_id == self.process
        assert self.agent.is_running()
        assert "Traceback" not in self.agent.log()

    def _is_renewed_since(self, before: str) -> None:
        assert self.renewed_at() > before

    def _is_applied_of_now(self) -> None:
        assert condition(self.lab.hub.get(self.work), "Applied")["status"] == "True"


def follow(lab: Lab, hub: Path, *flags: str) -> Followed:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=(*FAST, *flags), hub=hub).start()
    lab.wait_serving(agent)
    return Followed(lab, group, agent)


def point(kubeconfig: Path, server: str) -> None:
    content: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    for entry in content["clusters"]:
        entry["cluster"]["server"] = server
    kubeconfig.write_text(yaml.safe_dump(content))


def says(agent: Agent, text: str) -> None:
    assert text in agent.log()
