"""Default accounts (`applyAs`) of virtual clusters."""

from msgspec.structs import replace

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.rbac_rule import account_role
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.virtual_cluster import DefaultAccount


def with_default_accounts(config: AgentConfig, namespace: str) -> AgentConfig:
    """Return the settings with `applyAs` for each virtual cluster, where the profile requires it.

    namespace: the agent's on the host. With `tenancy: Strict` each virtual cluster has an account
    of its own, so that the host's API server knows which one an object is from.
    """
    if config.tenancy != STRICT:
        return config
    changed = (
        replace(vc, apply_as=vc.apply_as or default_account(config, namespace, vc.name))
        for vc in config.virtual_clusters
    )
    return replace(config, virtual_clusters=tuple(changed))


def default_account(config: AgentConfig, namespace: str, cluster: str) -> DefaultAccount:
    """Return the account of a virtual cluster by its name."""
    # With a dot: names of agents have none, and the agent's own account is there, too.
    name = f"{cluster}.{config.agent_name}"
    return DefaultAccount(namespace, name, account_role(config.agent_name))
