"""Makes the faults that `explain` names: one function each, named as its row of faults.yaml."""

import base64
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection, path_of
from e2e.lab.cleanup import LEASES
from e2e.lab.lab import CLUSTERS, NODES, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import PERIODIC_S, THROUGH_HUB_S, eventually, within
from e2e.lab.webhook_server import VALIDATING, WebhookServer, validating
from e2e.lab.works import condition
from tests.fakes.authority import Authority

HOLD = "virtualcluster.kubeedge.io/hold"
LONG_AGO = "2026-01-01T00:00:00.000000Z"


@dataclass
class Case:
    """A fault in a lab with a running agent, and what `explain` is run with.

    template: what is explained. cluster: after -C, "" = none. kind: as it is written, "" = its own.
    values: of names in the row. ends: what is undone.
    """

    lab: Lab
    directory: Path
    ends: ExitStack
    template: Object = field(default_factory=dict)
    cluster: str = ""
    kind: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hub, self.host = self.lab.hub.kubeconfig, self.lab.host.kubeconfig
        self.namespace = ""

    @property
    def agent(self) -> Agent:
        return self.lab.agents[0]

    def served(self, letter: str = "a", **settings: Any) -> Group:
        """Have a group served; what is explained is in it unless a fault says otherwise."""
        group = self.lab.group(letter)
        self.lab.serve(group.settings(**settings))
        return self._explains(group)

    def _explains(self, group: Group) -> Group:
        self.namespace = self.namespace or self.lab.namespace(is_propagated=False)
        host_namespace = group.host_namespace(self.namespace)
        self.values |= {"cluster": group.name, "host_namespace": host_namespace}
        self.values["namespace"] = self.namespace
        return group

    def served_beside(self, name: str, **settings: Any) -> Group:
        """Have a virtual cluster served that has no nodes of its own."""
        group = Group(f"{self.lab.id}-{name}", {})
        self.lab.clusters.add(group.name)
        self.lab.serve({"name": group.name, **settings})
        return self._explains(group)

    def config_map(self, group: Group, **policy: Any) -> Object:
        """Send a ConfigMap to a group."""
        return self.send(objects.config_map(self.namespace), group, **policy)

    def deployment(self, group: Group, name: str = "web", **spec: Any) -> Object:
        """Send a Deployment of one replica to a group."""
        return self.send(objects.deployment(self.namespace, name, 1, **spec), group)

    def send(self, template: Object, *groups: Group, **policy: Any) -> Object:
        """Create the template that is explained, and a policy for it."""
        made = self.lab.propagate([template], *groups, **policy)
        self.explains(template)
        self.values["policy"] = self.name_of(made)
        return template

    def explains(self, template: Object) -> Object:
        self.template = template
        metadata = template["metadata"]
        self.values["what"] = f"{template['kind']} {metadata['namespace']}/{metadata['name']}"
        return template

    def name_of(self, policy: Object) -> str:
        """Return a policy as `explain` names it."""
        return f"PropagationPolicy {self.namespace}/{policy['metadata']['name']}"


Make = Callable[[Case], None]


# --- the hub -------------------------------------------------------------------------------------


def no_policy_matches(case: Case) -> None:
    case.served()
    case.lab.hub.create(case.explains(objects.deployment(case.namespace)))
    case.kind = "deploy"


def policy_misspells_the_template(case: Case) -> None:
    group = case.served()
    case.send(objects.deployment(case.namespace, "wbe"), group)
    case.lab.hub.create(case.explains(objects.deployment(case.namespace)))


def policy_names_a_wrong_cluster(case: Case) -> None:
    group = case.served()
    case.config_map(group, placement=objects.to_clusters(f"{group.name}x"))


def placed_on_another_cluster(case: Case) -> None:
    other = case.served("b")
    case.cluster = case.served().name
    case.values["other"] = other.name
    case.config_map(other)


def two_policies_claim_one_template(case: Case) -> None:
    first, second = case.served(), case.served("b")
    template = case.config_map(first)
    case.lab.on_host(template, first)
    placement = objects.to_clusters(second.name)
    later = objects.policy(case.namespace, "later", [template], placement)
    case.values["other"] = case.name_of(case.lab.hub.create(later))
    case.cluster = second.name


def misspelt_cluster(case: Case) -> None:
    group = case.served()
    case.lab.on_host(case.config_map(group), group)
    case.cluster = f"{group.name}z"


def misspelt_template(case: Case) -> None:
    template = case.config_map(case.served())
    case.explains({**template, "metadata": {**template["metadata"], "name": "settigns"}})


def tainted_cluster(case: Case) -> None:
    group = case.served("tainted")
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    case.lab.hub.patch(f"{CLUSTERS}/{group.name}", {"spec": {"taints": [taint]}})
    case.config_map(group)


def suspended_work(case: Case) -> None:
    case.config_map(case.served(), suspension={"dispatching": True})
    case.values["policy"] = case.values["policy"].rpartition("/")[2]


def missing_crd_on_the_host(case: Case) -> None:
    group, api_group = case.served(), f"{case.lab.id}.example.com"
    definition = case.lab.hub.create(objects.custom_definition(api_group))
    case.ends.callback(case.lab.hub.delete, path_of(definition))
    version = f"{api_group}/v1"
    metadata = {"name": "web", "namespace": case.namespace}
    widget = {"apiVersion": version, "kind": "Widget", "metadata": metadata}
    eventually(case.lab.hub.list, collection(version, "Widget", case.namespace))
    case.send(widget, group)


# --- the agent -----------------------------------------------------------------------------------


def selector_of_another_group(case: Case) -> None:
    group = case.served()
    case.values |= {"label": case.lab.label, "group": group.selector[case.lab.label]}
    case.deployment(group, node_selector={case.lab.label: "another"})


def foreign_namespace(case: Case) -> None:
    group = case.served()
    # It is made on the hub last, so that the agent does not have it first.
    name = f"{case.lab.id}-{len(case.lab.namespaces) + 1}-taken"
    foreign = case.lab.host.create(objects.namespace(group.host_namespace(name)))
    case.ends.callback(case.lab.host.delete, path_of(foreign))
    case.namespace = case.lab.namespace("-taken", is_propagated=False)
    assert case.namespace == name
    case.config_map(group)


def overlapping_groups(case: Case) -> None:
    case.config_map(case.served_beside("twin", nodeNames=case.served("shared").nodes))


def closed_window(case: Case) -> None:
    group = case.served("closed")
    template = case.config_map(group)
    case.lab.wait_fully_applied(template)
    start = datetime.now(UTC) + timedelta(hours=12)
    window = f"{start:%H:%M}-{start + timedelta(hours=2):%H:%M} UTC"
    entries = case.agent.settings["virtualClusters"]
    next(each for each in entries if each["name"] == group.name)["window"] = window
    case.agent.reload()

    def is_closed() -> None:
        assert condition(case.lab.cluster(group.name), "TakesChanges")["status"] == "False"

    within(PERIODIC_S, is_closed)
    case.lab.hub.patch(path_of(template), {"data": {"key": "new"}})


def paused(case: Case) -> None:
    case.config_map(case.served("paused", paused=True))


def dead_agent(case: Case) -> None:
    group = case.served("dead")
    case.lab.on_host(case.config_map(group), group)
    case.agent.kill()
    case.ends.callback(case.agent.start)
    path = f"{LEASES}/{group.name}"
    lease = case.lab.hub.get(path)
    lease["spec"]["renewTime"] = LONG_AGO
    case.lab.hub.replace(path, lease)


# --- the host ------------------------------------------------------------------------------------


def held_namespace(case: Case) -> None:
    group = case.served()
    case.lab.wait_fully_applied(case.config_map(group))
    held = f"/api/v1/namespaces/{case.values['host_namespace']}"
    case.lab.host.patch(held, {"metadata": {"annotations": {HOLD: "belt stopped"}}})


def terminating_namespace(case: Case) -> None:
    group = case.served()
    case.lab.wait_fully_applied(case.config_map(group))
    holds = objects.config_map(case.values["host_namespace"], "holds")
    holds["metadata"]["finalizers"] = ["example.com/holds"]
    path = path_of(case.lab.host.create(holds))
    case.ends.callback(case.lab.host.patch, path, {"metadata": {"finalizers": None}})
    case.lab.as_agent().delete(f"/api/v1/namespaces/{case.values['host_namespace']}")


def webhook_denies(case: Case) -> None:
    group = case.served()
    answer = {"allowed": False, "status": {"message": "no widgets today"}}
    server = WebhookServer(case.directory, lambda _: answer)
    case.ends.callback(server.close)
    name = f"{case.lab.id}-denies"
    case.lab.host.create(validating(name, case.values["host_namespace"], server))
    case.ends.callback(case.lab.host.delete, f"{VALIDATING}/{name}")
    case.config_map(group)


def exceeded_quota(case: Case) -> None:
    group = case.served()
    case.lab.hub.create(objects.federated_quota(case.namespace, {group.name: "1"}))
    path = collection("v1", "ResourceQuota", case.values["host_namespace"]) + "/shared"

    def is_enforced() -> None:
        assert case.lab.host.get(path)["status"]["hard"]

    eventually(is_enforced)
    case.send(objects.deployment(case.namespace), group)


def no_nodes_in_the_group(case: Case) -> None:
    selector = {"matchLabels": {case.lab.label: "nothing"}}
    case.deployment(case.served_beside("none", nodeSelector=selector))


def pods_that_fit_nowhere(case: Case) -> None:
    case.cluster = case.served().name
    case.deployment(case.lab.group("a"), cpu="64")


def full_node(case: Case) -> None:
    group = case.served("full")
    first = case.deployment(group, "first", cpu="4")
    case.lab.wait_status(first, readyReplicas=1)
    case.deployment(group, cpu="4")


def cordoned_node(case: Case) -> None:
    group = case.served("cordoned")
    (case.values["nodes"],) = group.nodes
    path = f"{NODES}/{group.nodes[0]}"
    case.lab.host.patch(path, {"spec": {"unschedulable": True}})

    def is_tainted() -> None:
        assert case.lab.host.get(path)["spec"]["taints"]

    eventually(is_tainted)
    case.deployment(group)


def image_that_never_starts(case: Case) -> None:
    _wait_with(case, "ImagePullBackOff", 'Back-off pulling image "nowhere"')


def container_that_crashes(case: Case) -> None:
    _wait_with(case, "CrashLoopBackOff", "back-off 10s restarting failed container")


def _wait_with(case: Case, reason: str, message: str) -> None:
    """Have the container of a pod wait as a kubelet reports it; no node takes that pod."""
    group = case.served()
    case.deployment(group, cpu="64")

    def pod() -> Object:
        pods = case.lab.pods(case.values["host_namespace"])
        assert pods
        assert condition(pods[0], "PodScheduled")["status"] == "False"
        return {"apiVersion": "v1", "kind": "Pod", **pods[0]}

    made = within(THROUGH_HUB_S, pod)
    case.values["pod"] = made["metadata"]["name"]
    state: Object = {"name": "app", "state": {"waiting": {"reason": reason, "message": message}}}
    state |= {"ready": False, "restartCount": 0, "image": "nowhere", "imageID": ""}
    case.lab.host.patch(f"{path_of(made)}/status", {"status": {"containerStatuses": [state]}})


# --- connections ---------------------------------------------------------------------------------


def _applied(case: Case) -> None:
    group = case.served()
    case.cluster = group.name
    case.lab.wait_fully_applied(case.config_map(group))


def _cut(case: Case, kubeconfig: Path) -> Path:
    wire = case.ends.enter_context(Proxy(kubeconfig, case.directory))
    wire.cut()
    return wire.kubeconfig


def hub_down(case: Case) -> None:
    _applied(case)
    case.hub = _cut(case, case.hub)


def host_down(case: Case) -> None:
    _applied(case)
    case.host = _cut(case, case.host)


def swapped_kubeconfigs(case: Case) -> None:
    _applied(case)
    case.hub, case.host = case.host, case.hub


def http_for_https(case: Case) -> None:
    _applied(case)
    case.hub = with_changes(case, lambda cluster, _: cluster.update(_plain(cluster["server"])))


def _plain(server: str) -> dict[str, str]:
    return {"server": server.replace("https:", "http:")}


def expired_certificate(case: Case) -> None:
    _applied(case)
    case.hub = with_changes(case, lambda _, user: user.update(ended_certificate()))


def ended_certificate() -> dict[str, str]:
    """Return the entries of a user in a kubeconfig whose certificate is not valid any more."""
    pair = Authority().pair(start=datetime(2025, 1, 1, tzinfo=UTC))
    names = ("client-certificate-data", "client-key-data")
    return {name: base64.b64encode(pem).decode() for name, pem in zip(names, pair, strict=True)}


def with_changes(case: Case, change: Callable[[Object, Object], None]) -> Path:
    """Return a copy of the hub's kubeconfig with another cluster or user."""
    content = yaml.safe_load(case.hub.read_text())
    change(content["clusters"][0]["cluster"], content["users"][0]["user"])
    path = case.directory / "changed.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    case.values["file"] = str(path)
    return path


def missing_right(case: Case) -> None:
    _applied(case)
    case.hub = case.agent.hub_kubeconfig
