"""The host objects besides roles: accounts, the agent and its gateway."""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from karmada_vc_agent.access.templates import objects
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.virtual_cluster import Requirement, VirtualCluster
from karmada_vc_agent.model.vocabulary import DOMAIN, EDGE_LABEL, MEMBERSHIP_LABEL, NAME_FIELD

_NEGATED = {"NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
_COMMON_DOMAINS = ("kubernetes.io/", "k8s.io/")


def pod_affinity(
    virtual_clusters: Iterable[VirtualCluster] = (), group_labels: Iterable[str] = ()
) -> Object:
    """Return the affinity of the agent's Pods: no edge nodes, no nodes of virtual clusters.

    group_labels: keys of labels that nodes of further ones have. Nodes that match only a part of a
    selector are avoided, too: requirements of one term must all hold.
    """
    not_in: dict[str, set[str]] = defaultdict(set)
    others: dict[tuple[str, str, tuple[str, ...]], None] = {
        (key, "DoesNotExist", ()): None for key in (EDGE_LABEL, MEMBERSHIP_LABEL)
    }
    names: dict[str, None] = {}
    for vc in virtual_clusters:
        names |= dict.fromkeys(vc.node_names)
        equal = [each for each in vc.node_selector.requirements() if each.operator == "In"]
        if each := min(equal or vc.node_selector.requirements(), key=_how_common, default=None):
            if each.operator == "In":
                not_in[each.key] |= each.values
            else:
                others[each.key, _NEGATED[each.operator], tuple(sorted(each.values))] = None
    requirements = (
        *others,
        *((key, "NotIn", tuple(sorted(values))) for key, values in sorted(not_in.items())),
        *((key, "DoesNotExist", ()) for key in group_labels),
    )
    term: Object = {
        "matchExpressions": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            for key, operator, values in requirements
        ]
    }
    if names:
        term["matchFields"] = [
            {"key": NAME_FIELD, "operator": "NotIn", "values": [name]} for name in names
        ]
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _how_common(requirement: Requirement) -> tuple[bool, str]:
    """Sort key: labels that many nodes share are last."""
    domain = requirement.key.rpartition("/")[0] + "/"
    return domain.endswith(_COMMON_DOMAINS), requirement.key


TokenKind = Literal["access", "impersonator"]
TOKEN_KINDS: tuple[TokenKind, ...] = ("access", "impersonator")
TOKENS, DEFINITIONS = "token.", "cluster."
"""What the data keys on the host begin with: of sums of tokens, of virtual clusters."""


def secret_name(agent: str) -> str:
    """Return the name of the Secret in the agent's namespace."""
    return f"{agent}-gateway"


def hub_secret_name(cluster: str, kind: TokenKind) -> str:
    """Return the name of the Secret in `karmada-cluster` with the token of a kind."""
    return cluster if kind == "access" else f"{cluster}-impersonator"


def token_prefix(cluster: str) -> str:
    """Return what the data keys of all sums of a virtual cluster begin with."""
    return f"{TOKENS}{cluster}."


def definition_key(cluster: str) -> str:
    """Return the data key of a virtual cluster that is not in the settings file."""
    return f"{DEFINITIONS}{cluster}"


def token_keys(secret: Object | None, cluster: str) -> tuple[str, ...]:
    """Return the data keys of all sums of a virtual cluster, readable or not."""
    return tuple(key for key in secret_data(secret) if key.startswith(token_prefix(cluster)))


def secret_data(secret: Object | None) -> dict[str, Any]:
    """Return the data of a Secret, {} where it has none."""
    data = dig(secret, "data")
    return data if isinstance(data, dict) else {}


MEMORY_REQUEST, MEMORY_LIMIT = "128Mi", "512Mi"
"""Measured (docs/performance.md, "What to request"): what 100 virtual clusters take at rest, and
above what two take at most that fill all their bounds at once (ADR 68).
"""
_SETTINGS_DIGEST_ANNOTATION = f"{DOMAIN}/settings-digest"
_CERTIFICATES = "/etc/karmada-vc-agent-gateway"
_POD_SECURITY = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}


@dataclass(frozen=True, slots=True)
class HostInstall:
    """What differs between the installations of agents on hosts.

    settings: content of the settings file; empty = the user creates the ConfigMap. kubeconfig: the
    agent's, for the hub; empty = the user creates the Secret. accounts: (namespace, name) of
    further accounts to create. affinity: of the agent's Pods. is_elsewhere: the agent runs outside
    the host. gateway_port: of its gateway, 0 = off.
    """

    agent: str
    namespace: str
    image: str
    settings: str = ""
    kubeconfig: str = ""
    accounts: tuple[tuple[str, str], ...] = ()
    affinity: Object = field(default_factory=pod_affinity)
    is_elsewhere: bool = False
    gateway_port: int = 0


def base_objects(install: HostInstall) -> list[Object]:
    """Return namespaces and accounts in the order to apply them."""
    accounts = ((install.namespace, install.agent), *install.accounts)
    others = dict.fromkeys(name for name, _ in accounts if name != install.namespace)
    own = {"name": install.namespace, "labels": dict(_POD_SECURITY)}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": own},
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in others),
        *(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace},
            }
            for namespace, name in accounts
        ),
        *(gateway_base_objects(install.agent, install.namespace) if install.gateway_port else ()),
    ]


def gateway_base_objects(agent: str, namespace: str) -> list[Object]:
    """Return the account and the Secret that the agent fills; both are applied before the roles."""
    return objects("access/install/gateway-account.yaml", {"agent": agent, "namespace": namespace})


def workload_objects(install: HostInstall) -> list[Object]:
    """Return the agent's Deployment and what it needs, in the order to apply them."""
    values = _values(install)
    made = objects("access/install/settings.yaml", values)
    if install.is_elsewhere:
        return made
    agent = objects("access/install/agent.yaml", values)
    if install.settings:
        # Of what changes, the agent takes virtual clusters only: the rest needs new Pods.
        digest = hashlib.sha256(install.settings.encode()).hexdigest()[:16]
        metadata = agent[-1]["spec"]["template"]["metadata"]
        metadata["annotations"] = {_SETTINGS_DIGEST_ANNOTATION: digest}
    gateway = objects("access/install/gateway.yaml", values) if install.gateway_port else ()
    return [*made, *agent, *gateway]


def certificates_name(agent: str) -> str:
    """Return the name of the Secret with the gateway's certificate and the authorities."""
    return f"{agent}-gateway-tls"


def metrics_certificate(agent: str) -> str:
    """Return the name of the Secret with tls.crt, tls.key and ca.crt, which may be missing."""
    return f"{agent}-metrics-tls"


def _values(install: HostInstall) -> Mapping[str, Any]:
    has_gateway = bool(install.gateway_port)
    return {
        "affinity": install.affinity,
        "agent": install.agent,
        "authorities": certificates_name(install.agent) if has_gateway else None,
        "authorities_path": _CERTIFICATES if has_gateway else None,
        "certificates": certificates_name(install.agent),
        "confined_pods": {"matchLabels": {"app": install.agent}} if has_gateway else {},
        "gateway_port": install.gateway_port,
        "image": install.image,
        "kubeconfig": base64.b64encode(install.kubeconfig.encode()).decode() or None,
        "memory_limit": MEMORY_LIMIT,
        "memory_request": MEMORY_REQUEST,
        "metrics_certificate": metrics_certificate(install.agent),
        "namespace": install.namespace,
        "settings": install.settings or None,
        "version": versions.OWN,
    }
