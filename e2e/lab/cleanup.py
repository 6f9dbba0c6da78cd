"""Remove what a test made, whatever state it left things in."""

from e2e.lab.api import Api, ApiError, collection
from e2e.lab.lab import AGENT_LABEL, CLUSTERS, NODES, Lab
from e2e.lab.wait import within
from e2e.lab.works import execution_namespace

NAMESPACES = "/api/v1/namespaces"
LEASES = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
POLICIES = [
    collection("admissionregistration.k8s.io/v1", f"ValidatingAdmissionPolicy{kind}")
    for kind in ("Binding", "")
]
"""What `join` installed; claimed namespaces are protected while it is there."""
UNPROTECTED_S = 60.0
"""A server goes by a policy for about a second after it was deleted, a busy one for longer."""
GONE_S = 180.0
"""The hub looks at a Cluster that goes every 10 s, and has several things to wait for."""
_NOT_READY = {
    "type": "Ready",
    "status": "False",
    "reason": "TestEnded",
    "message": "the test ended",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def clean_up(lab: Lab) -> None:
    """End the processes and start all deletions; `wait_until_deleted` waits for their end."""
    for agent in lab.agents:
        agent.kill()
    for namespace in lab.namespaces:
        lab.hub.delete(f"{NAMESPACES}/{namespace}")
    for cluster in lab.clusters:
        remove_cluster(lab.hub, cluster)
    for policies in POLICIES:
        for name in {agent.name for agent in lab.agents}:
            for policy in lab.host.list(policies, f"{AGENT_LABEL}={name}"):
                lab.host.delete(f"{policies}/{policy['metadata']['name']}")
    for namespace in _host_namespaces(lab):
        lab.host.delete(f"{NAMESPACES}/{namespace}/pods", force=True)
        within(UNPROTECTED_S, _delete_namespace, lab, f"{NAMESPACES}/{namespace}")
    _take_rights(lab)
    for node in lab.host.list(NODES, f"{lab.id}/node"):
        lab.host.delete(f"{NODES}/{node['metadata']['name']}")


def wait_until_deleted(lab: Lab) -> None:
    """Wait until nothing of a test is left on hub and host."""

    def look() -> None:
        for cluster in lab.clusters:
            found = lab.hub.find(f"{CLUSTERS}/{cluster}")
            assert found is None, f"Cluster {cluster} is still on the hub"
        assert not _host_namespaces(lab), "host namespaces are left"

    within(GONE_S, look)


def _delete_namespace(lab: Lab, path: str) -> None:
    """Delete a namespace as its agent, who need not wait; its rights may be gone."""
    try:
        lab.as_agent().delete(path)
    except ApiError:
        lab.host.delete(path)


def remove_cluster(hub: Api, name: str) -> None:
    """Delete a Cluster without an agent: the hub itself finalises Works of one not Ready."""
    path = f"{CLUSTERS}/{name}"
    try:
        hub.patch(f"{path}/status", {"status": {"conditions": [_NOT_READY]}})
    except ApiError as error:
        if error.code != 404:
            raise
        return
    hub.delete(path)
    hub.delete(f"{LEASES}/{name}")


def _take_rights(lab: Lab) -> None:
    """Remove what agents were given; what is in an execution namespace goes with it."""
    for name in {agent.name for agent in lab.agents}:
        role = f"vc-agent:{name}"
        for api in (lab.hub, lab.host):
            for kind in ("clusterroles", "clusterrolebindings"):
                for suffix in ("", ":works", ":namespace", ":account"):
                    api.delete(f"{RBAC}/{kind}/{role}{suffix}")
        for kind in ("roles", "rolebindings"):
            lab.hub.delete(f"{RBAC}/namespaces/karmada-cluster/{kind}/{role}")
            for namespace in ("default", "kube-system"):
                lab.host.delete(f"{RBAC}/namespaces/{namespace}/{kind}/{role}")
        for request in lab.hub.list(REQUESTS):
            if request["metadata"]["name"].startswith(f"{name}-"):
                lab.hub.delete(f"{REQUESTS}/{request['metadata']['name']}")
    for cluster in lab.clusters:
        lab.hub.delete(f"{NAMESPACES}/{execution_namespace(cluster)}")


def _host_namespaces(lab: Lab) -> list[str]:
    """Return what is left of the agents' namespaces; agents are named after the test."""
    left = {agent.namespace for agent in lab.agents}
    for agent in {agent.name for agent in lab.agents}:
        claimed = lab.host.list(NAMESPACES, f"{AGENT_LABEL}={agent}")
        left |= {item["metadata"]["name"] for item in claimed}
    return [name for name in sorted(left) if lab.host.find(f"{NAMESPACES}/{name}")]
