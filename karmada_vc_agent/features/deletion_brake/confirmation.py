"""Where held deletions are confirmed: an annotation of the agent's state."""

from karmada_vc_agent.model.domain import DOMAIN

CONFIRM_PREFIX = f"confirm-deletions.{DOMAIN}/"
"""On the ConfigMap with the agent's state, then a virtual cluster: digest of what is confirmed."""


def path_of(namespace: str, agent: str) -> str:
    """Return the path of the ConfigMap."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{agent}-state"
