"""A hub and a host on which Deployment edge/web runs in branch-a, and nothing is broken."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, cluster_id
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis.explain import Explainer, target_of
from karmada_vc_agent.diagnosis.report import Report
from karmada_vc_agent.diagnosis.servers import Server
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import (
    AGENT_ANNOTATION,
    CLUSTER_LABEL,
    POLICY_NAME_ANNOTATION,
    POLICY_NAMESPACE_ANNOTATION,
    TEMPLATE_GENERATION_ANNOTATION,
    WORK_ANNOTATION,
    work_name,
)
from tests.fakes import objects, served
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer
from tests.fakes.served import Served

POLICY = "policy.karmada.io/v1alpha1"
BINDING = "work.karmada.io/v1alpha2"
HUB = (
    *served.HUB,
    Served(POLICY, "propagationpolicies", "PropagationPolicy"),
    Served(POLICY, "clusterpropagationpolicies", "ClusterPropagationPolicy", namespaced=False),
    Served(BINDING, "resourcebindings", "ResourceBinding", has_status=True),
    Served(BINDING, "clusterresourcebindings", "ClusterResourceBinding", namespaced=False),
)
WORK = work_name("Deployment", "web", "edge")
WORK_PATH = f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/{WORK}"
TEMPLATE_PATH = "/apis/apps/v1/namespaces/edge/deployments/web"
POLICY_PATH = f"/apis/{POLICY}/namespaces/edge/propagationpolicies/web"
BINDING_PATH = f"/apis/{BINDING}/namespaces/edge/resourcebindings/web-deployment"
CLUSTER_PATH = f"{CLUSTERS_PATH}/branch-a"
LIVE_PATH = "/apis/apps/v1/namespaces/edge-v-branch-a/deployments/web"
POD_PATH = "/api/v1/namespaces/edge-v-branch-a/pods/web-1"
NODE_PATH = "/api/v1/nodes/a1"
NAMESPACE_PATH = "/api/v1/namespaces/edge-v-branch-a"
LEASE_PATH = f"{LEASES_PATH}/branch-a"


def template() -> Object:
    made = objects.deployment(replicas=1)
    made["metadata"]["annotations"] |= {
        POLICY_NAME_ANNOTATION: "web",
        POLICY_NAMESPACE_ANNOTATION: "edge",
    }
    return made


def policy(
    called: str = "web", /, clusters: tuple[str, ...] = ("branch-a",), **selector: Any
) -> Object:
    given = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"} | selector
    placement = {"clusterAffinity": {"clusterNames": list(clusters)}}
    return {
        "apiVersion": POLICY,
        "kind": "PropagationPolicy",
        "metadata": {"name": called, "namespace": "edge"},
        "spec": {"resourceSelectors": [given], "placement": placement},
    }


def binding(*clusters: str, scheduled: str = "True", message: str = "it is", **spec: Any) -> Object:
    placed = [{"name": name, "replicas": 1} for name in clusters]
    condition = objects.condition("Scheduled", scheduled, "Success", message)
    return {
        "apiVersion": BINDING,
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "edge"},
        "spec": {"clusters": placed, **spec},
        "status": {"conditions": [condition]},
    }


def work(*conditions: Object, **spec: Any) -> Object:
    manifest = objects.deployment(replicas=1)
    manifest["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION] = "1"
    made = objects.work(manifest, name=WORK, spec=spec)
    given = conditions or (objects.condition("Applied", "True", "AppliedSuccessful", "it is"),)
    made["status"] = {"conditions": list(given)}
    return made


def not_applied(message: str) -> Object:
    return work(objects.condition("Applied", "False", "AppliedFailed", message))


def pod(waiting: str = "", message: str = "", *, unscheduled: str = "") -> Object:
    made = objects.pod("web-1", "edge-v-branch-a", "" if unscheduled else "a1")
    made["metadata"]["labels"] = {"app": "web"}
    made["status"] = {"phase": "Pending" if waiting or unscheduled else "Running"}
    if waiting:
        state = {"waiting": {"reason": waiting, "message": message}}
        made["status"]["containerStatuses"] = [{"name": "c", "state": state}]
    if unscheduled:
        condition = objects.condition("PodScheduled", "False", "Unschedulable", unscheduled)
        made["status"]["conditions"] = [condition]
    return made


def live(ready: int = 1, *conditions: Object) -> Object:
    made = objects.deployment(replicas=1)
    made["metadata"]["namespace"] = "edge-v-branch-a"
    made["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
    made["metadata"]["annotations"][WORK_ANNOTATION] = f"karmada-es-branch-a/{WORK}"
    made["spec"]["template"]["spec"]["nodeSelector"] = {"branch": "a"}
    made["status"] = {"readyReplicas": ready, "conditions": list(conditions)}
    return made


def lease(renewed: datetime) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "branch-a", "namespace": "karmada-cluster"},
        "spec": {"renewTime": renewed.isoformat(), "leaseDurationSeconds": 40},
    }


@dataclass
class Chain:
    """Both servers, and what `explain` says of them."""

    hub: FakeApiServer
    host: FakeApiServer
    config: AgentConfig | None = field(
        default_factory=lambda: CONFIG(virtual_clusters=(objects.virtual_cluster(),))
    )

    def seed(self) -> None:
        cluster = objects.cluster(
            "branch-a", cluster_id(KUBE_SYSTEM_UID, "branch-a"), conditions=[objects.ready()]
        )
        cluster["metadata"]["annotations"] = {AGENT_ANNOTATION: "agents/karmada-vc-agent"}
        cluster["status"]["nodeSummary"] = {"totalNum": 1, "readyNum": 1}
        self.hub.seed(template(), policy(), binding("branch-a"), cluster, work())
        self.hub.seed(lease(datetime.now(UTC)))
        self.host.seed(objects.namespace("kube-system", uid=KUBE_SYSTEM_UID), objects.claimed())
        self.host.seed(objects.node("a1", {"branch": "a"}), live(), pod())

    async def servers(self) -> tuple[Server, Server]:
        hub, host = Server("hub", self.hub.client("hub")), Server("host", self.host.client("host"))
        for each in (hub, host):
            await each.connect()
        return hub, host

    async def report(self, what: str = "edge/deployment/web", cluster: str = "") -> Report:
        hub, host = await self.servers()
        explainer = Explainer(hub, host, CONFIG, self.config, ("karmada-vc-agent", "agents"))
        return await explainer.explain(target_of(what), cluster)


@pytest.fixture
async def chain() -> AsyncIterator[Chain]:
    async with FakeApiServer(HUB) as hub, FakeApiServer(served.HOST) as host:
        made = Chain(hub, host)
        made.seed()
        yield made
