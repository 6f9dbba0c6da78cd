"""Defaults of a virtual cluster by profile: its account (`applyAs`), its Pod Security."""

from typing import cast

from msgspec.structs import replace

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.rbac_rule import account_role
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.virtual_cluster import DefaultAccount, DefaultPodSecurity, PodSecurity

STRICT_PODS = cast(PodSecurity, DefaultPodSecurity("baseline"))
"""No privileged pods, namespaces and paths of the node, nor its ports and network."""


def with_profile_defaults(config: AgentConfig, namespace: str) -> AgentConfig:
    """Return the settings with what `tenancy: Strict` requires of each virtual cluster.

    namespace: the agent's on the host. Each has an account of its own, so that the host's API
    server sees which one an object is from. Each has pods that Pod Security confines to
    themselves: who breaks out of one has the node's identity.
    """
    if config.tenancy != STRICT:
        return config
    changed = (
        replace(
            vc,
            apply_as=vc.apply_as or default_account(config, namespace, vc.name),
            pod_security=vc.pod_security or STRICT_PODS,
        )
        for vc in config.virtual_clusters
    )
    return replace(config, virtual_clusters=tuple(changed))


def default_account(config: AgentConfig, namespace: str, cluster: str) -> DefaultAccount:
    """Return the account of a virtual cluster by its name."""
    # With a dot: names of agents have none, and the agent's own account is there, too.
    name = f"{cluster}.{config.agent_name}"
    return DefaultAccount(namespace, name, account_role(config.agent_name))
