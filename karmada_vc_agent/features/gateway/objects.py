"""The host objects of an agent's gateway besides roles: account, Secret, Deployment, Service."""

from dataclasses import dataclass

from karmada_vc_agent.access.agent_nodes import OffGroups
from karmada_vc_agent.access.pod_specs import HEALTH_PORT_NAME, Program, pod_spec
from karmada_vc_agent.features.gateway.secret import secret_name
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import gateway_account

CERTIFICATES = "/etc/karmada-vc-agent-gateway"
"""Where the Secret of certificates is mounted, in the gateway and in the agent."""
_CONFIG = "/etc/karmada-vc-agent"
_HEALTH_PORT, _METRICS_PORT = 10358, 10359


@dataclass(frozen=True, slots=True)
class GatewayInstall:
    """What to install of a gateway.

    namespace, agent: of the agent. settings_key: key of its ConfigMap with the settings. port: that
    the hub connects to.
    """

    agent: str
    namespace: str
    image: str
    settings_key: str
    port: int
    off_groups: OffGroups

    @property
    def name(self) -> str:
        """Name of the Deployment, the Service and the account."""
        return gateway_account(self.agent)

    @property
    def certificates(self) -> str:
        """Name of the Secret with tls.crt, tls.key and ca.crt, which an administrator creates."""
        return certificates_name(self.agent)


def certificates_name(agent: str) -> str:
    """Return the name of the Secret with the gateway's certificate and the authorities."""
    return f"{agent}-gateway-tls"


def gateway_base_objects(agent: str, namespace: str) -> list[Object]:
    """Return the account and the Secret that the agent fills; both come before the roles."""
    labels = {AGENT_LABEL: agent}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": gateway_account(agent), "namespace": namespace, "labels": labels},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret_name(agent), "namespace": namespace, "labels": labels},
            "type": "Opaque",
        },
    ]


def gateway_workload(install: GatewayInstall) -> list[Object]:
    """Return the Deployment of the gateway and what it needs, in the order to apply them."""
    labels = {"app": install.name}
    metadata: Object = {"name": install.name, "namespace": install.namespace, "labels": labels}
    ingress = [
        {"ports": [{"port": port, "protocol": "TCP"}]}
        for port in (install.port, _HEALTH_PORT, _METRICS_PORT)
    ]
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": {
                "podSelector": {"matchLabels": labels},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "selector": labels,
                "ports": [{"name": "https", "port": install.port, "targetPort": "https"}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": pod_spec(_program(install, labels)),
                },
            },
        },
    ]


def _program(install: GatewayInstall, labels: dict[str, str]) -> Program:
    return Program(
        name="gateway",
        account=install.name,
        image=install.image,
        args=[
            "gateway",
            f"--config={_CONFIG}/{install.settings_key}",
            f"--bind-address=:{install.port}",
            f"--health-probe-bind-address=:{_HEALTH_PORT}",
            f"--metrics-bind-address=:{_METRICS_PORT}",
            f"--cert-file={CERTIFICATES}/tls.crt",
            f"--private-key-file={CERTIFICATES}/tls.key",
        ],
        labels=labels,
        ports={
            "https": install.port,
            HEALTH_PORT_NAME: _HEALTH_PORT,
            "metrics": _METRICS_PORT,
        },
        mounts=[("settings", _CONFIG), ("certificates", CERTIFICATES)],
        volumes=[
            {"name": "settings", "configMap": {"name": install.agent}},
            {"name": "certificates", "secret": {"secretName": install.certificates}},
        ],
        off_groups=install.off_groups,
    )
