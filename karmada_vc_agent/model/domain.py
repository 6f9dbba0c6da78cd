"""Our own labels and annotations: everything under the domain D."""

DOMAIN = "virtualcluster.kubeedge.io"
CONFIG_API_VERSION = f"config.{DOMAIN}/v1alpha1"

CLUSTER_LABEL = f"{DOMAIN}/cluster"
NAMESPACE_LABEL = f"{DOMAIN}/namespace"
AGENT_LABEL = f"{DOMAIN}/agent"
GATEWAY_LABEL = f"{DOMAIN}/gateway"
"""On a ClusterRole whose rules the gateway of an agent has: that agent."""
BY_GATEWAY_ANNOTATION = f"{DOMAIN}/by-gateway"
"""On a claimed namespace that was created through the gateway: `true` (ADR 52)."""

CREATED_BY_AGENT_ANNOTATION = f"{DOMAIN}/created-by-agent"
ADOPTED_ANNOTATION = f"{DOMAIN}/adopted"
ALLOW_ADOPTION_ANNOTATION = f"{DOMAIN}/allow-adoption"
KEPT_PLACEMENT_ANNOTATION = f"{DOMAIN}/keeps-placement"
"""On an adopted workload: its pods keep their earlier placement, for now (ADR 35)."""
WORK_ANNOTATION = f"{DOMAIN}/work"
NAME_ANNOTATION = f"{DOMAIN}/name"
"""On a renamed cluster-scoped object: its virtual name (rewriting-rules 1.4)."""
SHARED_LABEL = f"{DOMAIN}/shared"
"""On a cluster-scoped object that virtual clusters share; a label, so that it can be watched."""
OWNERS_ANNOTATION = f"{DOMAIN}/owners"
"""On a shared object: JSON map, virtual cluster -> hash of its desired content."""
STAND_IN_ANNOTATION = f"{DOMAIN}/stand-in"
"""On an empty role that is there only while a RoleBinding to it is written."""
LEASE_HOLDER_ANNOTATION = f"{DOMAIN}/held-by"
"""On the Lease of a Cluster: the agent process that renewed it last."""
AGENT_ANNOTATION = f"{DOMAIN}/served-by"
"""On a Cluster: the agent of its host that serves it, `<namespace>/<name>`."""
CHECKPOINT_ANNOTATION = f"{DOMAIN}/checkpoint-kept"
"""On the agent's Lease: number of the last lead that kept a checkpoint (ADR 42)."""
LACKS_HUB_ANNOTATION = f"{DOMAIN}/lacks-hub"
"""On the agent's Lease: the leader, while it does not reach the hub."""
OFFERS_HUB_ANNOTATION = f"{DOMAIN}/offers-hub"
"""On the agent's Lease: a standby that reaches the hub, unlike the leader."""
PRESERVE_ANNOTATION = f"{DOMAIN}/preserve-resources"
"""On a Cluster that leaves: `true` = what its Works made stays, whatever these say."""
HOST_ANNOTATION = f"{DOMAIN}/host"
"""On the roles of an agent on the hub: its host, so that two hosts never share them."""
HOST_LABEL = f"{DOMAIN}/host"
"""On a Cluster: its host, with which it fails."""
NODE_PORTS_ANNOTATION = f"{DOMAIN}/node-ports"
"""On a Service: JSON map of the fixed node ports that it requested and others have (4.3)."""
APPLIED_ANNOTATION = f"{DOMAIN}/applied"
"""On an object of a virtual cluster that has windows: digest of its manifest (ADR 43)."""
WRITTEN_ANNOTATION = f"{DOMAIN}/written"
"""On an object with a generation: digest of what was written, and its generation (ADR 49)."""
OBSERVED_AT_ANNOTATION = f"{DOMAIN}/observed-at"
"""On a Cluster: when its host was observed for its status (ADR 44)."""
HUB_CONTACT_ANNOTATION = f"{DOMAIN}/hub-contact"
"""On a Cluster: when the hub had last been reached before that."""
HOLD_ANNOTATION = f"{DOMAIN}/hold"
"""On a host namespace, by an administrator, with a reason: the agent writes nothing there."""
REWRITE_DNS_ANNOTATION = f"{DOMAIN}/rewrite-dns"
RELEASING_ANNOTATION = f"{DOMAIN}/releasing"
"""On a claimed namespace that stays: `true` = what the agent made there is being removed."""

POD_SECURITY_ANNOTATION = f"{DOMAIN}/pod-security"
"""On a claimed namespace: the Pod Security level that we set (rewriting-rules 6)."""

MEMBERSHIP_LABEL = "node-restriction.kubernetes.io/virtual-cluster"
"""On the nodes of virtual clusters selected by expressions or names (rewriting-rules 3.1)."""

NODE_SELECTOR_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
"""On every claimed namespace (rewriting-rules 3.5)."""


MARKS = frozenset(
    text
    for text in list(globals().values())
    if isinstance(text, str) and text.startswith(f"{DOMAIN}/")
) | {MEMBERSHIP_LABEL, NODE_SELECTOR_ANNOTATION}
"""All of the above."""

_PREFIX = f"{DOMAIN}/"


def is_ours(key: str) -> bool:
    """Return True for a label or annotation key of our domain."""
    return key.startswith(_PREFIX)


CHECKPOINT_SECRETS = 32


def secret_names(agent: str) -> tuple[str, ...]:
    """Return the names of all Secrets that the checkpoint of an agent may use."""
    return tuple(f"{agent}-checkpoint-{number}" for number in range(CHECKPOINT_SECRETS))
