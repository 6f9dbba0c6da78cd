"""The objects on the host: namespace, account and rights of the agent, and the agent itself."""

import base64
import hashlib
from dataclasses import dataclass

from karmada_vc_agent.access.hub_objects import RBAC_API, RBAC_GROUP, Reasons
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac import Rule

HUB_SECRET = "karmada-kubeconfig"  # noqa: S105 - a name
"""Secret with the hub's kubeconfig, under a key of the same name, as Karmada's agent has it."""
SETTINGS_KEY = "agent.yaml"
_SETTINGS_DIGEST_ANNOTATION = f"{DOMAIN}/settings-digest"
_HEALTH_PORT, _METRICS_PORT = 10357, 8080

_EVERY_KIND = Rule(("*",), ("*",), ("get", "list", "watch", "create", "update", "patch", "delete"))
_EVERY_ROLE = Rule((RBAC_GROUP,), ("roles", "clusterroles"), ("escalate", "bind"))
_PROBES: Object = {"nonResourceURLs": ["/readyz", "/healthz", "/version"], "verbs": ["get"]}

HOST_RIGHTS: tuple[tuple[Object, str], ...] = (
    (
        _EVERY_KIND.as_object(),
        "Works may hold every namespaced kind, custom ones too; as strong as an administrator",
    ),
    (_EVERY_ROLE.as_object(), "Works may bring Roles that grant what no rule above names"),
    (_PROBES, "probe the host and read its version"),
)
"""What the agent may do on the host, and why."""


@dataclass(frozen=True, slots=True)
class HostInstall:
    """What to install. settings: content of the settings file; empty = brought by the user.

    kubeconfig: of the hub, as the agent; empty = the Secret is brought by the user.
    """

    agent: str
    namespace: str
    image: str
    settings: str = ""
    kubeconfig: str = ""

    @property
    def role(self) -> str:
        """Name of the ClusterRole and its binding."""
        return f"vc-agent:{self.agent}"


def host_rights(install: HostInstall) -> list[Object]:
    """Return namespace, account and rights, in an order in which they can be applied."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": install.namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(install)},
        {
            "apiVersion": RBAC_API,
            "kind": "ClusterRole",
            "metadata": {"name": install.role},
            "rules": [rule for rule, _ in HOST_RIGHTS],
        },
        {
            "apiVersion": RBAC_API,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": install.role},
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": install.role},
            "subjects": [
                {"kind": "ServiceAccount", "name": install.agent, "namespace": install.namespace}
            ],
        },
    ]


def host_objects(install: HostInstall) -> list[Object]:
    """Return everything that goes onto the host, in an order in which it can be applied."""
    made = host_rights(install)
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
    made.append(_deployment(install))
    return made


def host_reasons(install: HostInstall) -> Reasons:
    """Return why each rule of the ClusterRole is there."""
    return {f"ClusterRole {install.role}": [why for _, why in HOST_RIGHTS]}


def _metadata(install: HostInstall) -> Object:
    return {"name": install.agent, "namespace": install.namespace}


def _deployment(install: HostInstall) -> Object:
    labels = {"app": install.agent}
    template: Object = {"metadata": {"labels": labels}, "spec": _pod_spec(install)}
    if install.settings:
        # The agent reads its settings once: changed ones must bring new Pods.
        digest = hashlib.sha256(install.settings.encode()).hexdigest()[:16]
        template["metadata"]["annotations"] = {_SETTINGS_DIGEST_ANNOTATION: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(install) | {"labels": labels},
        "spec": {
            "replicas": 2,  # one leads, the other takes over
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def _pod_spec(install: HostInstall) -> Object:
    return {
        "serviceAccountName": install.agent,
        "containers": [
            {
                "name": "agent",
                "image": install.image,
                "args": [
                    "run",
                    f"--config=/etc/karmada-vc-agent/{SETTINGS_KEY}",
                    f"--karmada-kubeconfig=/etc/kubeconfig/{HUB_SECRET}",
                    f"--agent-name={install.agent}",
                    "--log-format=json",
                ],
                "ports": [
                    {"name": "metrics", "containerPort": _METRICS_PORT},
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
                    "requests": {"cpu": "50m", "memory": "80Mi"},
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
                    {"name": "settings", "mountPath": "/etc/karmada-vc-agent", "readOnly": True},
                    {"name": "hub", "mountPath": "/etc/kubeconfig", "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
                ],
            }
        ],
        "volumes": [
            {"name": "settings", "configMap": {"name": install.agent}},
            {"name": "hub", "secret": {"secretName": HUB_SECRET}},
            {"name": "tmp", "emptyDir": {"medium": "Memory"}},
        ],
    }
