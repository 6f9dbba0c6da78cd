"""The host objects besides roles: namespace, accounts, and the agent itself."""

import base64
import hashlib
from dataclasses import dataclass, field

from karmada_vc_agent.access.agent_nodes import OffGroups
from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.pod_specs import HEALTH_PORT_NAME, Program, pod_spec
from karmada_vc_agent.features.gateway.objects import (
    CERTIFICATES,
    GatewayInstall,
    certificates_name,
    gateway_base_objects,
    gateway_workload,
)
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.objects import Object

SETTINGS_KEY = "agent.yaml"
_SETTINGS_DIGEST_ANNOTATION = f"{DOMAIN}/settings-digest"
_HEALTH_PORT, _METRICS_PORT = 10357, 8080
_METRICS_CERTIFICATE = "/etc/karmada-vc-agent-metrics"
_POD_SECURITY = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}
_NODE_NAME: Object = {
    "name": "NODE_NAME",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
}
"""With the server's default: a reference is one field, and without it managers would conflict."""


@dataclass(frozen=True, slots=True)
class HostInstall:
    """What to install on the host.

    settings: content of the settings file; empty = the user creates the ConfigMap. kubeconfig: the
    agent's, for the hub; empty = the user creates the Secret. accounts: (namespace, name) of
    further accounts to create. off_groups: requirements that keep the agent's Pods off the nodes of
    virtual clusters. is_elsewhere: the agent runs outside the host. gateway_port: of its gateway, 0
    = off.
    """

    agent: str
    namespace: str
    image: str
    settings: str = ""
    kubeconfig: str = ""
    accounts: tuple[tuple[str, str], ...] = ()
    off_groups: OffGroups = field(default_factory=OffGroups)
    is_elsewhere: bool = False
    gateway_port: int = 0


def base_objects(install: HostInstall) -> list[Object]:
    """Return namespaces and accounts in the order to apply them."""
    others = dict.fromkeys(
        namespace for namespace, _ in install.accounts if namespace != install.namespace
    )
    return [
        _namespace(install.namespace, _POD_SECURITY),
        *(_namespace(name, {}) for name in others),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(install)},
        *(_account(namespace, name) for namespace, name in install.accounts),
        *(gateway_base_objects(install.agent, install.namespace) if install.gateway_port else ()),
    ]


def workload_objects(install: HostInstall) -> list[Object]:
    """Return the agent's Deployment and what it needs, in the order to apply them."""
    made: list[Object] = []
    if install.settings:
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": _metadata(install),
                "data": {SETTINGS_KEY: install.settings},
            }
        )
    if install.kubeconfig:
        content = base64.b64encode(install.kubeconfig.encode()).decode()
        made.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": HUB_SECRET, "namespace": install.namespace},
                "type": "Opaque",
                "data": {HUB_SECRET: content},
            }
        )
    if not install.is_elsewhere:
        made += [
            _network_policy(install),
            _disruption_budget(install),
            _service(install),
            _deployment(install),
        ]
        if install.gateway_port:
            made += gateway_workload(
                GatewayInstall(
                    install.agent,
                    install.namespace,
                    install.image,
                    SETTINGS_KEY,
                    install.gateway_port,
                    install.off_groups,
                )
            )
    return made


def _namespace(name: str, labels: dict[str, str]) -> Object:
    metadata = {"name": name} | ({"labels": dict(labels)} if labels else {})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _account(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _network_policy(install: HostInstall) -> Object:
    """Allow ingress for metrics and probes only.

    Egress goes to API servers and webhooks, whose addresses are unknown here.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(install),
        "spec": {
            "podSelector": {"matchLabels": _labels(install)} if install.gateway_port else {},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "ports": [
                        {"port": port, "protocol": "TCP"} for port in (_METRICS_PORT, _HEALTH_PORT)
                    ]
                }
            ],
        },
    }


def _disruption_budget(install: HostInstall) -> Object:
    """Let drains of nodes take one replica at a time; a single one holds up no drain."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(install),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(install)}},
    }


def _service(install: HostInstall) -> Object:
    port = {"name": "metrics", "port": _METRICS_PORT, "targetPort": "metrics"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(install),
        "spec": {"selector": _labels(install), "ports": [port]},
    }


def _labels(install: HostInstall) -> dict[str, str]:
    return {"app": install.agent}


def _metadata(install: HostInstall) -> Object:
    return {"name": install.agent, "namespace": install.namespace}


def _authorities(install: HostInstall) -> Object:
    """Return the volume with the authorities of the gateway, without its key."""
    items = [{"key": "ca.crt", "path": "ca.crt"}]
    secret = {"secretName": certificates_name(install.agent), "items": items, "optional": True}
    return {"name": "authorities", "secret": secret}


def metrics_certificate(agent: str) -> str:
    """Return the name of the Secret with tls.crt, tls.key and ca.crt, which may be missing."""
    return f"{agent}-metrics-tls"


def _deployment(install: HostInstall) -> Object:
    labels = _labels(install)
    template: Object = {"metadata": {"labels": labels}, "spec": pod_spec(_program(install))}
    if install.settings:
        # Of what changes, the agent takes virtual clusters only: the rest needs new Pods.
        digest = hashlib.sha256(install.settings.encode()).hexdigest()[:16]
        template["metadata"]["annotations"] = {_SETTINGS_DIGEST_ANNOTATION: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(install) | {"labels": labels},
        "spec": {
            "replicas": 2,  # one leads, the other stands by
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def _program(install: HostInstall) -> Program:
    mounts = [
        ("settings", "/etc/karmada-vc-agent"),
        ("hub", "/etc/kubeconfig"),
        ("metrics", _METRICS_CERTIFICATE),
    ]
    certificate = {"secretName": metrics_certificate(install.agent), "optional": True}
    volumes: list[Object] = [
        {"name": "settings", "configMap": {"name": install.agent}},
        {"name": "hub", "secret": {"secretName": HUB_SECRET}},
        {"name": "metrics", "secret": certificate},
    ]
    if install.gateway_port:
        mounts.append(("authorities", CERTIFICATES))
        volumes.append(_authorities(install))
    return Program(
        name="agent",
        account=install.agent,
        image=install.image,
        args=[
            "run",
            f"--config=/etc/karmada-vc-agent/{SETTINGS_KEY}",
            f"--karmada-kubeconfig=/etc/kubeconfig/{HUB_SECRET}",
            f"--agent-name={install.agent}",
            "--log-format=json",
            f"--metrics-bind-address=:{_METRICS_PORT}",
            "--metrics-secure",
            f"--metrics-cert-dir={_METRICS_CERTIFICATE}",
        ],
        labels=_labels(install),
        ports={"metrics": _METRICS_PORT, HEALTH_PORT_NAME: _HEALTH_PORT},
        mounts=mounts,
        volumes=volumes,
        off_groups=install.off_groups,
        env=(_NODE_NAME,),
    )
