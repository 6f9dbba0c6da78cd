"""Objects of dry runs that show whether admission policies are in effect."""

from karmada_vc_agent.access.policy_owner import PolicyOwner
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL, DOMAIN
from karmada_vc_agent.model.objects import Object

UNPLACED_LABEL = f"{DOMAIN}/unplaced"
"""A label that no node has; pods select it if their namespace does not specify its nodes."""
PROBED_NAMESPACE = "kube-system"


def probe_pod(owner: PolicyOwner, policy: str) -> Object:
    """Return a pod for a dry run that shows whether a policy about pods is in effect.

    policy: its name. The validating policy denies the pod; the mutating one adds UNPLACED_LABEL.
    """
    return bare_pod(f"probe.{policy}", owner.namespace)


def probe_claim(owner: PolicyOwner) -> Object:
    """Return a merge patch of the agent's own namespace that the policy about claims denies."""
    return {"metadata": {"labels": {CLUSTER_LABEL: "probe", AGENT_LABEL: owner.agent}}}


def probe_foreign() -> Object:
    """Return a merge patch of PROBED_NAMESPACE that `agent-confines` denies to the agent."""
    return {"metadata": {"labels": {f"{DOMAIN}/probe": "true"}}}


def bare_pod(name: str, namespace: str, node_selector: dict[str, str] | None = None) -> Object:
    """Return a pod that even the strictest Pod Security level allows."""
    container = {
        "name": "probe",
        "image": "probe",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec: Object = {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    if node_selector:
        spec["nodeSelector"] = node_selector
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
