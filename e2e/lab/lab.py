"""What one test makes on hub and host: everything has names of its own and goes again."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.lab import objects
from e2e.lab.access import LIFETIME_S, Kubeconfigs
from e2e.lab.agent import Agent
from e2e.lab.api import Api, ApiError, Object, collection, path_of
from e2e.lab.wait import BACKED_OFF_S, STARTED_S, THROUGH_HUB_S, eventually, within
from e2e.lab.works import condition, hand_written, works_path
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION

NODES = "/api/v1/nodes"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
AGENT_LABEL = "virtualcluster.kubeedge.io/agent"
_NOT_PROPAGATED = {"namespace.karmada.io/skip-auto-propagation": "true"}
FAST = ("--cluster-status-update-frequency", "2s")
"""The agents of most tests look at the host more often, for tests have no time."""
QUICK_LEASE = (
    *("--leader-elect-lease-duration", "4s"),
    *("--leader-elect-renew-deadline", "3s"),
    *("--leader-elect-retry-period", "500ms"),
)
"""For agents that are killed: nobody waits long for their lead to run out."""


@dataclass(frozen=True, eq=False)
class Group:
    """A virtual cluster of the test and the nodes made for it."""

    name: str
    selector: dict[str, str]
    nodes: list[str] = field(default_factory=list)

    def host_namespace(self, namespace: str) -> str:
        return f"{namespace}-v-{self.name}"

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the entry for the settings file."""
        return {"name": self.name, "nodeSelector": {"matchLabels": self.selector}} | more


NO_BRAKE, BRAKE = {"share": 1}, {"share": 0.3}
"""Stories empty their virtual clusters, as clusters of tests are; those about the brake have its
default."""


class Lab:
    """Makes nodes, namespaces, policies and agents for one test, and removes them."""

    def __init__(self, hub: Api, host: Api, directory: Path) -> None:
        self.hub = hub
        self.host = host
        self.directory = directory
        self.id = f"e2e-{uuid.uuid4().hex[:6]}"
        self.label = f"{self.id}/group"
        self.disk = f"{self.id}/disk"
        self.agents: list[Agent] = []
        self.logs: list[tuple[str, Callable[[], str]]] = []
        """Whose log, and its end: for the report of a test that fails."""
        self.clusters: set[str] = set()
        self.namespaces: list[str] = []

    # --- the host -----------------------------------------------------------------------

    def group(self, letter: str, nodes: int = 1, cpu: str = "4") -> Group:
        """Make nodes with a label of their own, and return them as a group."""
        group = Group(f"{self.id}-{letter}", {self.label: letter})
        for _ in range(nodes):
            self.add_node(group, cpu)
        self.clusters.add(group.name)
        eventually(self._all_ready, group)
        return group

    def add_node(
        self,
        group: Group,
        cpu: str = "4",
        labels: dict[str, str] | None = None,
        *,
        is_simulated: bool = True,
    ) -> str:
        """Make one more node of a group; its readiness is not waited for."""
        name = f"{group.name}-{len(group.nodes) + 1}"
        marks = {f"{self.id}/node": "", **group.selector, **(labels or {})}
        self.host.create(objects.node(name, marks, cpu, is_simulated=is_simulated))
        group.nodes.append(name)
        return name

    def _all_ready(self, group: Group) -> None:
        for name in group.nodes:
            node = self.host.get(f"{NODES}/{name}")
            assert condition(node, "Ready")["status"] == "True", f"node {name} is not ready"
            assert not node["spec"].get("taints"), f"node {name} is tainted"

    # --- the agent ----------------------------------------------------------------------

    def new_agent(
        self,
        *entries: Group | dict[str, Any],
        flags: tuple[str, ...] = FAST,
        hub: Path | None = None,
        host: Path | None = None,
        is_admin: bool = False,
        own_host: Path | None = None,
        certificate_s: int = LIFETIME_S,
        **settings: Any,
    ) -> Agent:
        """Return an agent with these virtual clusters, not yet started.

        hub, host: by which way it reaches them. is_admin: give it all rights, not its own.
        own_host: another host than that of the lab, for this agent alone.
        certificate_s: for how long its certificate for the hub is asked.
        """
        clusters = [e.settings() if isinstance(e, Group) else e for e in entries]
        self.clusters |= {entry["name"] for entry in clusters}
        number = len(self.agents) + 1
        administrator = Kubeconfigs(self.hub.kubeconfig, own_host or self.host.kubeconfig)
        if is_admin:
            self._make_lease_namespace()
        own = {
            "agentName": self.id,
            "agentNamespace": f"{self.id}-agent",
            "deletionBrake": NO_BRAKE,
        }
        agent = Agent(
            self.directory / f"agent-{number}",
            Kubeconfigs(hub or self.hub.kubeconfig, host or administrator.host),
            own | settings | {"virtualClusters": clusters},
            *flags,
            administrator=None if is_admin else administrator,
            certificate_s=certificate_s,
        )
        self.agents.append(agent)
        self.logs.append((f"agent {agent.name}", agent.log_tail))
        return agent

    def _make_lease_namespace(self) -> None:
        """Make what `join` makes on a hub that never had an agent, and rights alone do not."""
        try:
            self.hub.create(objects.namespace("karmada-cluster"))
        except ApiError as error:
            if error.code != 409:
                raise

    def as_agent(self) -> Api:
        """Return a client of the host that may change claimed namespaces, as the agent does."""
        account = self.agents[0].account
        return self.host.acting_as(account) if account else self.host

    def serve(self, *entries: Group | dict[str, Any], **settings: Any) -> Agent:
        """Start an agent and wait until all of its Clusters are Ready on the hub."""
        agent = self.new_agent(*entries, **settings).start()
        self.wait_serving(agent)
        return agent

    def wait_serving(self, agent: Agent) -> None:
        """Wait until all Clusters of an agent are Ready on the hub."""
        for entry in agent.settings["virtualClusters"]:
            self.wait_ready(entry["name"])

    def wait_says(self, agent: Agent, text: str) -> None:
        """Wait until the log of an agent has a text."""

        def look() -> None:
            assert text in agent.log(), agent.log_tail()

        within(STARTED_S, look)

    # --- the hub ------------------------------------------------------------------------

    def cluster(self, name: str) -> Object:
        return self.hub.get(f"{CLUSTERS}/{name}")

    def wait_ready(self, name: str, status: str = "True") -> Object:
        def look() -> Object:
            cluster = self.cluster(name)
            ready = condition(cluster, "Ready")
            assert ready["status"] == status, f"Cluster {name}: {ready}"
            return cluster

        return within(STARTED_S, look)

    def namespace(self, suffix: str = "", *, is_propagated: bool = True) -> str:
        """Make a namespace on the hub, which Karmada creates in each Cluster, as a user's.

        is_propagated: False for what has many: each is in the Clusters of all other stories, too,
        and their host takes minutes to remove a thousand.
        """
        name = f"{self.id}{suffix}"
        labels = None if is_propagated else _NOT_PROPAGATED
        self.hub.create(objects.namespace(name, labels))
        self.namespaces.append(name)
        return name

    def propagate(self, templates: list[Object], *to: Group, **policy: Any) -> Object:
        """Create templates of one namespace, and one policy that sends them to the groups."""
        for template in templates:
            self.hub.create(template)
        first = templates[0]["metadata"]
        placement = policy.pop("placement", objects.to_clusters(*(group.name for group in to)))
        name = f"{first['name']}-{uuid.uuid4().hex[:4]}"
        return self.hub.create(
            objects.policy(first["namespace"], name, templates, placement, **policy)
        )

    def wait_fully_applied(self, template: Object) -> Object:
        """Wait until the ResourceBinding of a template is FullyApplied; return it."""
        name = f"{template['metadata']['name']}-{template['kind'].lower()}"
        namespace = template["metadata"]["namespace"]
        bindings = collection("work.karmada.io/v1alpha2", "ResourceBinding", namespace)

        def look() -> Object:
            binding = self.hub.get(f"{bindings}/{name}")
            applied = condition(binding, "FullyApplied")
            seen = (applied, binding["status"].get("aggregatedStatus"))
            assert applied["status"] == "True", f"ResourceBinding {name}: {seen}"
            return binding

        return within(THROUGH_HUB_S, look)

    def wait_namespace_sent(self, namespace: str, *groups: Group) -> None:
        """Wait for the Works of a namespace itself, which Karmada may create after all others.

        It backs off from a namespace that any Cluster, as one that is deleted, has no Work of.
        """

        def look() -> None:
            for group in groups:
                found = self.host.get(f"/api/v1/namespaces/{group.host_namespace(namespace)}")
                assert found["metadata"]["annotations"].get(WORK_ANNOTATION), found["metadata"]

        within(BACKED_OFF_S, look)

    def create_work(self, group: Group, name: str, *manifests: Object, **spec: bool) -> str:
        """Write a Work by hand; return its path."""
        work = hand_written(group.name, name, *manifests, **spec)
        within(STARTED_S, self.hub.get, f"/api/v1/namespaces/{work['metadata']['namespace']}")
        return path_of(self.hub.create(work))

    def works(self, group: Group) -> list[Object]:
        return self.hub.list(works_path(group.name))

    def wait_applied(self, work: str, status: str = "True", message: str = "") -> Object:
        """Wait until a Work has the condition Applied so, and with that message if one is given."""

        def look() -> Object:
            found = self.hub.get(work)
            applied = condition(found, "Applied")
            assert applied["status"] == status, f"{work}: {applied}"
            if message:
                assert applied["message"] == message
            return found

        return within(STARTED_S, look)

    # --- both ---------------------------------------------------------------------------

    def on_host(self, template: Object, group: Group) -> Object:
        """Wait until an object of the hub is on the host; return the host's."""
        return within(THROUGH_HUB_S, self.host.get, self.host_path(template, group))

    def host_path(self, template: Object, group: Group) -> str:
        """Return where the host has an object of the hub."""
        return path_of(template, group.host_namespace(template["metadata"]["namespace"]))

    def wait_data(self, config_map: Object, group: Group, **data: str) -> Object:
        """Wait until a ConfigMap on the host has just this content; return it."""

        def look() -> Object:
            live = self.host.get(self.host_path(config_map, group))
            assert live["data"] == data, live["data"]
            return live

        return within(THROUGH_HUB_S, look)

    def wait_status(self, template: Object, **expected: int) -> None:
        """Wait until the hub has these numbers in the status of a template."""

        def look() -> None:
            status = self.hub.get(path_of(template)).get("status") or {}
            assert {key: status.get(key) for key in expected} == expected, status

        within(THROUGH_HUB_S, look)

    def pods(self, namespace: str) -> list[Object]:
        """Return the pods of a host namespace that are to stay."""
        pods = self.host.list(collection("v1", "Pod", namespace))
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]


class SharedLab(Lab):
    """A lab whose stories come one after the other and share one agent, with usual settings.

    Each story has namespaces of its own; groups of the same size are the same ones.
    """

    def __init__(self, hub: Api, host: Api, directory: Path) -> None:
        super().__init__(hub, host, directory)
        self._groups: dict[tuple[str, int, str], Group] = {}

    def group(self, letter: str, nodes: int = 1, cpu: str = "4") -> Group:
        """Return the group of this size; only those of one node are known by their letter."""
        key = (letter, nodes, cpu)
        if key not in self._groups:
            is_usual = (nodes, cpu) == (1, "4")
            self._groups[key] = super().group(
                letter if is_usual else f"{letter}-{nodes}-{cpu}", nodes, cpu
            )
        return self._groups[key]

    def serve(self, *entries: Group | dict[str, Any], **settings: Any) -> Agent:
        """Have the agent serve these, too, and wait until they are Ready."""
        assert not settings, "a story with settings of its own needs an agent of its own"
        if not self.agents:
            return super().serve(*entries)
        (agent,) = self.agents
        served = agent.settings["virtualClusters"]
        new = [e.settings() if isinstance(e, Group) else e for e in entries]
        if added := [entry for entry in new if entry not in served]:
            served += added
            agent.reload()
        for entry in new:
            self.wait_ready(entry["name"])
        return agent

    def namespace(self, suffix: str = "", *, is_propagated: bool = True) -> str:
        """Make a namespace on the hub that no other story has."""
        own = f"-{len(self.namespaces) + 1}{suffix}"
        return super().namespace(own, is_propagated=is_propagated)
