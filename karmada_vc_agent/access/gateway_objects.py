"""The host objects of an agent's gateway besides roles: account, Secret, Deployment, Service."""

from dataclasses import dataclass

from karmada_vc_agent.access.agent_nodes import OffGroups
from karmada_vc_agent.access.gateway_secret import secret_name
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import gateway_account

CERTIFICATES = "/etc/karmada-vc-agent-gateway"
"""Where the Secret of certificates is mounted, in the gateway and in the agent."""
_CONFIG = "/etc/karmada-vc-agent"
_HEALTH_PORT = 10358


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
        {"ports": [{"port": port, "protocol": "TCP"}]} for port in (install.port, _HEALTH_PORT)
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
                "template": {"metadata": {"labels": labels}, "spec": _pod_spec(install, labels)},
            },
        },
    ]


def _pod_spec(install: GatewayInstall, labels: dict[str, str]) -> Object:
    return {
        "serviceAccountName": install.name,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        # Who has a node of a group would have the gateway's token, and so all groups.
        "affinity": install.off_groups.affinity(),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "containers": [
            {
                "name": "gateway",
                "image": install.image,
                "args": [
                    "gateway",
                    f"--config={_CONFIG}/{install.settings_key}",
                    f"--bind-address=:{install.port}",
                    f"--health-probe-bind-address=:{_HEALTH_PORT}",
                    f"--cert-file={CERTIFICATES}/tls.crt",
                    f"--private-key-file={CERTIFICATES}/tls.key",
                ],
                "ports": [
                    {"name": "https", "containerPort": install.port},
                    {"name": "health", "containerPort": _HEALTH_PORT},
                ],
                "livenessProbe": {
                    "httpGet": {"path": "/healthz", "port": _HEALTH_PORT},
                    "initialDelaySeconds": 15,
                    "periodSeconds": 15,
                    "timeoutSeconds": 5,
                },
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": _HEALTH_PORT},
                    "periodSeconds": 10,
                },
                "resources": {
                    "requests": {"cpu": "50m", "memory": "96Mi"},
                    "limits": {"memory": "512Mi"},
                },
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "settings", "mountPath": _CONFIG, "readOnly": True},
                    {"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
                ],
            }
        ],
        "volumes": [
            {"name": "settings", "configMap": {"name": install.agent}},
            {"name": "certificates", "secret": {"secretName": install.certificates}},
            {"name": "tmp", "emptyDir": {"medium": "Memory"}},
        ],
    }
