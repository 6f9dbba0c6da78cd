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
    role = account_role(config.agent_name)
    # With a dot: names of agents have none, and the agent's own account is there, too.
    accounts = (
        DefaultAccount(namespace, f"{vc.name}.{config.agent_name}", role)
        for vc in config.virtual_clusters
    )
    changed = (
        replace(vc, apply_as=vc.apply_as or account)
        for vc, account in zip(config.virtual_clusters, accounts, strict=True)
    )
    return replace(config, virtual_clusters=tuple(changed))
