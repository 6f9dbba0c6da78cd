"""Whom the gateway impersonates on the host, for callers of a virtual cluster.

Users and groups of the hub get the prefix of their virtual cluster, as subjects of RBAC objects do
(rewriting-rules 5.2), so that no name of the hub means anything on the host. One ClusterRole for
each virtual cluster lists these names; the gateway may impersonate no one else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from karmada_vc_agent.model import service_accounts
from karmada_vc_agent.model.domain import CLUSTER_LABEL, GATEWAY_LABEL
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.rbac_rule import Rule
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.translation import rbac
from karmada_vc_agent.translation.kind_policy import IMPERSONATOR
from karmada_vc_agent.translation.names import Names, ToHost, host_name
from karmada_vc_agent.translation.refusal import RefusedError

KARMADA_USER = "karmada"
"""The user, before the prefix, of a caller with a token of kind access."""
OPERATOR_USER = "operator"
"""The user, before the prefix, of all operators of the site: a role cannot name each of them."""
ACCESS_GROUP = "karmada-access"
MASTERS_GROUP = "system:masters"
ADMIN_GROUPS = (MASTERS_GROUP, ACCESS_GROUP)
"""Groups, before the prefix, with all rights in their virtual cluster."""

_IDENTITIES = "vc:gateway"
_ALL_ACCOUNTS = "system:serviceaccounts"


class _Caller(ToHost):
    """Maps names of callers: one of a missing namespace is no one, not a refusal."""

    def namespace(self, value: str, _path: str) -> str:
        return self.selected_namespace(value)


@dataclass(frozen=True, slots=True)
class Callers:
    """Maps the callers of one virtual cluster to identities on the host.

    cluster: its name, which is the prefix; names: of which renamed objects have the name on the
    host.
    """

    cluster: str
    names: Names

    def user(self, name: str) -> str:
        """Return the user on the host for one of the hub. Raises RefusedError."""
        return rbac.host_subject_name("User", name, self.cluster, _Caller(self.names))

    def group(self, name: str) -> str:
        """Return the group on the host for one of the hub. Raises RefusedError."""
        if name == _ALL_ACCOUNTS:
            return name
        return rbac.host_subject_name("Group", name, self.cluster, _Caller(self.names))

    @property
    def everyone(self) -> str:
        """The group that each identity of the virtual cluster has."""
        return rbac.everyone(self.cluster)

    def role(self, agent: str, absorbed: Object | None) -> Object:
        """Return the ClusterRole that lists whom the gateway may impersonate.

        absorbed: the stored role of Karmada, None = none. agent: the label by which the role is
        aggregated into the gateway's. A rule without resourceNames, which Karmada never sends,
        allows no one here. Accounts of the virtual cluster's namespaces are granted there.
        """
        users, groups = _allowed(absorbed, "users"), _allowed(absorbed, "groups")
        host_users = {self.user(KARMADA_USER), self.user(OPERATOR_USER), *_each(self.user, users)}
        host_groups = {self.everyone, self.group(ACCESS_GROUP), *_each(self.group, groups)}
        allowed = (("users", host_users), ("groups", host_groups))
        rules = [
            Rule(("",), (resource,), ("impersonate",), tuple(sorted(each))).as_object()
            for resource, each in allowed
        ]
        metadata = {
            "name": identities_name(self.names.cluster),
            "labels": {CLUSTER_LABEL: self.cluster, GATEWAY_LABEL: agent},
        }
        return {
            "apiVersion": RBAC_API,
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": rules,
        }


def admin_groups(cluster: str) -> tuple[str, ...]:
    """Return the groups on the host with all rights in a virtual cluster."""
    return tuple(rbac.identity_prefix(cluster) + group for group in ADMIN_GROUPS)


def identities_name(name_on_host: str) -> str:
    """Return the ClusterRole with the identities of a virtual cluster."""
    return host_name(_IDENTITIES, name_on_host)


def absorbed_name(name_on_host: str) -> str:
    """Return the host ClusterRole that Karmada's rules for a virtual cluster are stored in."""
    return host_name(IMPERSONATOR, name_on_host)


def _each(mapping: Callable[[str], str], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name.startswith(service_accounts.PREFIX):
            continue
        try:
            yield mapping(name)
        except RefusedError:
            continue  # of a namespace whose host name another one has


def _allowed(role: Object | None, resource: str) -> set[str]:
    """Return the resourceNames of a role's rules that allow to impersonate a kind of identity."""
    return {
        str(name)
        for rule in dig(role, "rules") or ()
        if isinstance(rule, Mapping)
        and "impersonate" in (rule.get("verbs") or ())
        and resource in (rule.get("resources") or ())
        for name in rule.get("resourceNames") or ()
    }
