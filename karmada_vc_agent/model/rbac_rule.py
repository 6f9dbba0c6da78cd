"""One RBAC rule: verbs on resources."""

from collections.abc import Mapping
from dataclasses import dataclass

from karmada_vc_agent.model.objects import Object

NAMESPACE_ADMIN = "virtual-cluster-admin"
"""The host's ClusterRole in place of `cluster-admin` inside virtual clusters."""

TENANT_ROLES: Mapping[str, str] = {
    "cluster-admin": NAMESPACE_ADMIN,
    "admin": "vc-admin",
    "edit": "vc-edit",
    "view": "vc-view",
}
"""Built-in ClusterRole that a Work binds -> the one that is bound on the host in its place.

Each is what the host's own grants, cut to what a virtual cluster may have (rbac_rules.cut).
"""
BUILT_INS: Mapping[str, str] = {ours: built_in for built_in, ours in TENANT_ROLES.items()}
"""The reverse."""

CLUSTER_READER = "virtual-cluster-reader"
"""The host's ClusterRole with what callers of the gateway may read of what has no namespace."""


def gateway_role(agent: str) -> str:
    """Return the ClusterRole of an agent's gateway, a prefix of the names of its others."""
    return f"vc-agent:{agent}:gateway"


def gateway_accounts_role(agent: str) -> str:
    """Return the ClusterRole to impersonate the ServiceAccounts of a claimed namespace."""
    return f"{gateway_role(agent)}:accounts"


def gateway_account(agent: str) -> str:
    """Return the ServiceAccount of an agent's gateway."""
    return f"{agent}-gateway"


def namespace_role(agent: str) -> str:
    """Return the ClusterRole with the agent's rights in a claimed namespace."""
    return f"vc-agent:{agent}:namespace"


def account_role(agent: str) -> str:
    """Return the ClusterRole with the rights of the accounts that `join` creates."""
    return f"vc-agent:{agent}:account"


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of API groups; names empty = every object of them."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_object(self) -> Object:
        """Return the entry for `rules` of a Role."""
        rule: Object = {"apiGroups": list(self.groups), "resources": list(self.resources)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule | {"verbs": list(self.verbs)}

    def __str__(self) -> str:
        """Return the rule in a form that can be pasted into a Role."""
        return flow_text(self.as_object())


def flow_text(rule: Object) -> str:
    """Return a rule on one line: `{apiGroups: [apps], resources: [deployments], verbs: [get]}`."""
    fields = (f"{key}: [{', '.join(map(_scalar, values))}]" for key, values in rule.items())
    return f"{{{', '.join(fields)}}}"


def _scalar(text: str) -> str:
    return text if text and text != "*" else f'"{text}"'
